//! JSON as OTLP writes it: whole numbers of 64 bits are texts or numbers, floats may be named (`"NaN"`), and what is `null` is
//! as if it were not there.

use std::marker::PhantomData;
use std::str::FromStr;

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE};
use serde::de::{self, DeserializeOwned, Deserializer, Visitor};
use serde::{Deserialize, de::Unexpected};

use crate::messages::{AnyValue, AnyValueKind, ArrayValue, KeyValueList};

/// Also from `null`.
pub fn or_default<'de, D: Deserializer<'de>, T: DeserializeOwned + Default>(given: D) -> Result<T, D::Error> {
    Ok(Option::deserialize(given)?.unwrap_or_default())
}

pub fn whole<'de, D: Deserializer<'de>, T: WholeNumber + Default>(given: D) -> Result<T, D::Error> {
    Ok(maybe(given)?.unwrap_or_default())
}

pub fn maybe<'de, D: Deserializer<'de>, T: WholeNumber>(given: D) -> Result<Option<T>, D::Error> {
    Ok(Option::<Whole<T>>::deserialize(given)?.map(|whole| whole.0))
}

/// The number of an enum's word.
pub fn int<'de, D: Deserializer<'de>>(given: D) -> Result<i32, D::Error> {
    or_default(given)
}

pub fn double<'de, D: Deserializer<'de>>(given: D) -> Result<f64, D::Error> {
    Ok(maybe_double(given)?.unwrap_or_default())
}

pub fn maybe_double<'de, D: Deserializer<'de>>(given: D) -> Result<Option<f64>, D::Error> {
    Ok(Option::<Double>::deserialize(given)?.map(|double| double.0))
}

pub mod numbers {
    //! Lists of numbers.
    use super::{Deserialize, Deserializer, Double, Whole};

    pub fn whole<'de, D: Deserializer<'de>>(given: D) -> Result<Vec<u64>, D::Error> {
        let all = Option::<Vec<Whole<u64>>>::deserialize(given)?.unwrap_or_default();
        Ok(all.into_iter().map(|whole| whole.0).collect())
    }

    pub fn double<'de, D: Deserializer<'de>>(given: D) -> Result<Vec<f64>, D::Error> {
        let all = Option::<Vec<Double>>::deserialize(given)?.unwrap_or_default();
        Ok(all.into_iter().map(|double| double.0).collect())
    }
}

pub trait WholeNumber: FromStr + TryFrom<i64> + TryFrom<u64> {}

impl<T: FromStr + TryFrom<i64> + TryFrom<u64>> WholeNumber for T {}

struct Whole<T>(T);

impl<'de, T: WholeNumber> Deserialize<'de> for Whole<T> {
    fn deserialize<D: Deserializer<'de>>(given: D) -> Result<Self, D::Error> {
        given.deserialize_any(WholeVisitor(PhantomData)).map(Whole)
    }
}

struct WholeVisitor<T>(PhantomData<T>);

impl<T: WholeNumber> Visitor<'_> for WholeVisitor<T> {
    type Value = T;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a whole number in its range, or a text of one")
    }

    fn visit_u64<E: de::Error>(self, number: u64) -> Result<T, E> {
        T::try_from(number).map_err(|_| E::invalid_value(Unexpected::Unsigned(number), &self))
    }

    fn visit_i64<E: de::Error>(self, number: i64) -> Result<T, E> {
        T::try_from(number).map_err(|_| E::invalid_value(Unexpected::Signed(number), &self))
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<T, E> {
        text.parse().map_err(|_| E::invalid_value(Unexpected::Str(text), &self))
    }
}

struct Double(f64);

impl<'de> Deserialize<'de> for Double {
    fn deserialize<D: Deserializer<'de>>(given: D) -> Result<Self, D::Error> {
        given.deserialize_any(DoubleVisitor).map(Double)
    }
}

struct DoubleVisitor;

impl Visitor<'_> for DoubleVisitor {
    type Value = f64;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a number, or a text of one, `NaN`, `Infinity` or `-Infinity`")
    }

    fn visit_f64<E: de::Error>(self, number: f64) -> Result<f64, E> {
        Ok(number)
    }

    fn visit_u64<E: de::Error>(self, number: u64) -> Result<f64, E> {
        Ok(number as f64)
    }

    fn visit_i64<E: de::Error>(self, number: i64) -> Result<f64, E> {
        Ok(number as f64)
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<f64, E> {
        text.parse().map_err(|_| E::invalid_value(Unexpected::Str(text), &self))
    }
}

/// A value of an attribute, of which one member is there.
#[derive(Deserialize, Default)]
#[serde(default, rename_all = "camelCase")]
pub struct AnyValueJson {
    string_value: Option<String>,
    bool_value: Option<bool>,
    #[serde(deserialize_with = "maybe")]
    int_value: Option<i64>,
    #[serde(deserialize_with = "maybe_double")]
    double_value: Option<f64>,
    array_value: Option<ArrayValue>,
    kvlist_value: Option<KeyValueList>,
    bytes_value: Option<String>,
}

impl TryFrom<AnyValueJson> for AnyValue {
    type Error = String;

    fn try_from(given: AnyValueJson) -> Result<Self, String> {
        let bytes = given.bytes_value.map(|text| {
            let bytes = STANDARD.decode(&text).or_else(|_| URL_SAFE.decode(&text));
            bytes.map_err(|_| "`bytesValue` is no base64; expected bytes in base64".to_owned())
        });
        let value = (given.string_value.map(AnyValueKind::Text))
            .or(given.bool_value.map(AnyValueKind::Bool))
            .or(given.int_value.map(AnyValueKind::Int))
            .or(given.double_value.map(AnyValueKind::Double))
            .or(given.array_value.map(AnyValueKind::Array))
            .or(given.kvlist_value.map(AnyValueKind::Members))
            .or(bytes.transpose()?.map(AnyValueKind::Bytes));
        Ok(AnyValue { value })
    }
}

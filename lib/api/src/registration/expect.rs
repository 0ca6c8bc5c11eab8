//! The values that a registration expects: their shape, their range, their unit.
//!
//! A plugin may change its output from one run to the next. A value that is not as expected is kept from readers, and
//! the reason names the place in the value, its content and the expected one. `schema` says which places must be
//! there; `range` and `unit` check only content, so a place that is absent or null passes them.

use std::cmp::Ordering;

use serde_json::{Map, Number, Value, json};

use crate::fields::Fields;
use crate::json::kind_of;
use crate::pointer::Pointer;
use crate::problem::{FieldError, shorten};

mod described;
mod number;
mod schema;
#[cfg(test)]
mod tests;

pub use described::{ValueRange, ValueSchema, ValueUnit};
pub(super) use schema::Schema;

/// The most places that `range`, and that `unit`, may name.
const MAX_PLACES: usize = 128;
/// The longest unit, in characters.
const MAX_UNIT_CHARS: usize = 64;

/// The expectations of values; most registrations have none.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Expectations {
    pub(super) schema: Option<Schema>,
    pub(super) range: Option<Ranges>,
    pub(super) unit: Option<Units>,
}

/// Bounds of numbers by where they stand.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Ranges(At<Range>);

/// Units of numbers by where they stand.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Units(At<String>);

/// Something about the value itself, or about places in it, in the order in which they were given.
#[derive(Debug, Clone, PartialEq)]
enum At<T> {
    Top(T),
    Places(Vec<(Pointer, T)>),
}

/// Bounds of a number; both belong to it.
#[derive(Debug, Clone, PartialEq)]
struct Range {
    min: Option<Number>,
    max: Option<Number>,
}

impl Expectations {
    pub fn is_empty(&self) -> bool {
        self.schema.is_none() && self.range.is_none() && self.unit.is_none()
    }

    /// The units that are declared, each with the place of its numbers; the place of a value itself is empty.
    pub fn units(&self) -> Vec<(&str, &str)> {
        match &self.unit {
            None => Vec::new(),
            Some(Units(At::Top(unit))) => vec![("", unit)],
            Some(Units(At::Places(places))) => {
                places.iter().map(|(place, unit)| (place.as_str(), unit.as_str())).collect()
            }
        }
    }

    /// Checks that a value, as JSON text, is as expected; the error is the reason.
    pub fn check(&self, json: &str) -> Result<(), String> {
        if self.is_empty() {
            return Ok(());
        }
        let value: Value = serde_json::from_str(json).map_err(|e| format!("the value is not JSON: {e}"))?;
        if let Some(schema) = &self.schema {
            schema.check(&value)?;
        }
        if let Some(Ranges(ranges)) = &self.range {
            ranges.each(&value, |place, found, range| range.check(place, found))?;
        }
        if let Some(Units(units)) = &self.unit {
            units.each(&value, |place, _, unit| check_unit(&value, place, unit))?;
        }
        Ok(())
    }
}

impl<T> At<T> {
    /// Reads an object that has a rule for each pointer.
    fn places(
        field: &str,
        map: &Map<String, Value>,
        read: impl Fn(&str, &Value) -> Result<T, Vec<FieldError>>,
    ) -> Result<Self, Vec<FieldError>> {
        if map.is_empty() || map.len() > MAX_PLACES {
            let message = if map.is_empty() { "is empty" } else { "names too many places" };
            let expected = format!("1 to {MAX_PLACES} JSON pointers and what holds there");
            return Err(vec![FieldError::new(field, message).expected(expected)]);
        }
        let (mut places, mut errors) = (Vec::new(), Vec::new());
        for (key, value) in map {
            match (Pointer::parse(key), read(&format!("{field}.{}", shorten(key)), value)) {
                (Ok(pointer), Ok(said)) => places.push((pointer, said)),
                (Err(error), _) => errors.push(error.at(field)),
                (_, Err(wrong)) => errors.extend(wrong),
            }
        }
        if errors.is_empty() { Ok(At::Places(places)) } else { Err(errors) }
    }

    fn to_json(&self, show: impl Fn(&T) -> Value) -> Value {
        match self {
            At::Top(said) => show(said),
            At::Places(places) => {
                let shown = places.iter().map(|(pointer, said)| (pointer.to_string(), show(said)));
                Value::Object(shown.collect())
            }
        }
    }

    /// Checks each place that is there and not null against its rule.
    fn each(
        &self,
        value: &Value,
        check: impl Fn(&str, &Value, &T) -> Result<(), String>,
    ) -> Result<(), String> {
        let check = |place: &str, said: &T| match value.pointer(place) {
            None | Some(Value::Null) => Ok(()),
            Some(found) => check(place, found, said),
        };
        match self {
            At::Top(said) => check("", said),
            At::Places(places) => places.iter().try_for_each(|(pointer, said)| check(pointer.as_str(), said)),
        }
    }
}

impl Ranges {
    pub(super) fn to_json(&self) -> Value {
        self.0.to_json(Range::to_json)
    }

    /// Reads `{"min": 0, "max": 1}`, or an object of pointer to such.
    pub(super) fn from_json(value: &Value) -> Result<Self, Vec<FieldError>> {
        let Value::Object(map) = value else {
            let error = FieldError::new("range", format!("is {}, not an object", kind_of(value)));
            let expected = "{\"min\": 0, \"max\": 1}, or {\"/load1\": {\"min\": 0}}";
            return Err(vec![error.given(value).expected(expected)]);
        };
        match map.keys().any(|key| key.starts_with('/')) {
            true => At::places("range", map, Range::from_json).map(Ranges),
            false => Range::from_json("range", value).map(|range| Ranges(At::Top(range))),
        }
    }
}

impl Range {
    fn from_json(place: &str, value: &Value) -> Result<Self, Vec<FieldError>> {
        let Value::Object(map) = value else {
            let error = FieldError::new(place, format!("is {}, not an object", kind_of(value)));
            return Err(vec![error.given(value).expected("an object of min, max or both")]);
        };
        let mut fields = Fields::nested(place, map.clone());
        let min = fields.optional("min", "a number", number::read);
        let max = fields.optional("max", "a number", number::read);
        if map.values().all(Value::is_null) {
            fields.error("min", "or `max` is missing: a range needs a bound");
        }
        if let (Some(min), Some(max)) = (&min, &max)
            && number::compare(min, max) == Ordering::Greater
        {
            fields.error("max", "is less than `min`");
        }
        match fields.end() {
            errors if errors.is_empty() => Ok(Range { min, max }),
            errors => Err(errors),
        }
    }

    fn to_json(&self) -> Value {
        let bounds = [("min", &self.min), ("max", &self.max)];
        let given =
            bounds.into_iter().filter_map(|(name, bound)| Some((name.to_owned(), json!(bound.as_ref()?))));
        Value::Object(given.collect())
    }

    fn check(&self, place: &str, found: &Value) -> Result<(), String> {
        let Value::Number(number) = found else {
            let range = shown(&self.to_json().to_string());
            let (there, kind) = (shown(&found.to_string()), kind_of(found));
            return Err(format!(
                "{}: {there} is {kind}; the registration gives the range {range}",
                at(place)
            ));
        };
        number::within(place, number, self.min.as_ref(), self.max.as_ref())
    }
}

impl Units {
    pub(super) fn to_json(&self) -> Value {
        self.0.to_json(|unit| json!(unit))
    }

    /// Reads a unit, or an object of pointer to such.
    pub(super) fn from_json(value: &Value) -> Result<Self, Vec<FieldError>> {
        match value {
            Value::Object(map) => At::places("unit", map, |place, value| unit(place, value, 0)).map(Units),
            _ => unit("unit", value, 1).map(|unit| Units(At::Top(unit))),
        }
    }
}

/// Reads a unit. At a place it may be empty: there is a unit member then, and it must stay empty.
fn unit(place: &str, value: &Value, least: usize) -> Result<String, Vec<FieldError>> {
    let fits = |text: &&str| {
        (least..=MAX_UNIT_CHARS).contains(&text.chars().count()) && !text.contains(char::is_control)
    };
    value.as_str().filter(fits).map(str::to_owned).ok_or_else(|| {
        let expected = match place {
            "unit" => "a text of 1 to 64 characters, or {\"/load1\": \"s\"}",
            _ => "a text of at most 64 characters",
        };
        vec![FieldError::new(place, "is not a unit").given(value).expected(expected)]
    })
}

/// Checks the unit that a value tells of a place: the text `unit` (or `units`, as Netdata says) at the place, or the
/// nearest one around it. Where none is told there is nothing to compare.
fn check_unit(value: &Value, place: &str, expected: &str) -> Result<(), String> {
    let mut around = place;
    loop {
        let here = value.pointer(around).and_then(Value::as_object);
        let told = here.and_then(|map| ["unit", "units"].iter().find_map(|name| map.get(*name)?.as_str()));
        match told {
            Some(told) if told == expected => return Ok(()),
            Some(told) => {
                let (told, expected) = (shown(&json!(told).to_string()), json!(expected));
                let wanted = format!("the registration says {expected}");
                return Err(format!("{}: the unit is {told}; {wanted}", at(place)));
            }
            None => match around.rsplit_once('/') {
                Some((parent, _)) => around = parent,
                None => return Ok(()),
            },
        }
    }
}

/// A value or a schema as a reason repeats it: not too much, and on one line.
fn shown(text: &str) -> String {
    shorten(text).chars().map(|char| if char.is_control() { '\u{fffd}' } else { char }).collect()
}

/// The beginning of a reason that is about a place.
fn at(place: &str) -> String {
    match place {
        "" => "the value".to_owned(),
        _ => format!("at {}", shown(place)),
    }
}

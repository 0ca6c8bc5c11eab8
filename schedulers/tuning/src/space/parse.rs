//! The JSON form of a space: `{"parameters": [...]}`, as people write it.
//!
//! | type | further fields | meaning |
//! | --- | --- | --- |
//! | `integer` | `low`, `high`, `step`, `log` | whole numbers |
//! | `float` | `low`, `high`, `step`, `log` | numbers |
//! | `choice` | `values`, `ordered` | one of them; `ordered` for numbers of which neighbours are alike |
//! | `bound` | `value`: two bounds | the paper's: whole numbers if both bounds are written so, else numbers |
//! | `number` | `value`: numbers | the paper's: one of them, neighbours are alike |
//!
//! `when` is an object of one other parameter and the values for which this one is there:
//! `"when": {"optimizer": ["sgd"]}`. A comma before a closing bracket, as in the paper, is forgiven.

use std::borrow::Cow;

use estimand_api::fields::{Fields, string, truth, word};
use estimand_api::json::{kind_of, parse_object};
use estimand_api::problem::{FieldError, Problem};
use serde_json::{Map, Value};

use super::{Condition, Domain, Parameter, Scalar, Space};

/// A remark about a comma that JSON does not allow.
const COMMA: &str =
    "a comma before a closing bracket is no JSON: it is left out here, other readers refuse it";

/// Reads a space, and says what was forgiven in its text.
pub fn parse(text: &str) -> Result<(Space, Option<&'static str>), Problem> {
    let strict = without_trailing_commas(text);
    let hint = matches!(strict, Cow::Owned(_)).then_some(COMMA);
    let mut fields = Fields::new(parse_object(strict.as_bytes())?);
    let parameters = fields.required("parameters", "a list of parameters", |value| {
        value.as_array().cloned().ok_or_else(|| format!("is {}, not an array", kind_of(value)))
    });
    let mut read = Vec::new();
    for (index, value) in parameters.unwrap_or_default().into_iter().enumerate() {
        let place = format!("parameters[{index}]");
        match value {
            Value::Object(map) => match parameter(&place, map) {
                Ok(parameter) => read.push(parameter),
                Err(errors) => fields.extend(errors),
            },
            other => {
                let message = format!("is {}, not an object", kind_of(&other));
                fields.extend(vec![FieldError::new(place, message)]);
            }
        }
    }
    fields.end_body()?;
    let wrong =
        |error: super::SpaceError| Problem::invalid_field(FieldError::new("parameters", error.to_string()));
    Ok((Space::new(read).map_err(wrong)?, hint))
}

#[derive(Clone, Copy)]
enum Kind {
    Integer,
    Float,
    Choice,
    Bound,
    Number,
}

const KINDS: &[(&str, Kind)] = &[
    ("integer", Kind::Integer),
    ("float", Kind::Float),
    ("choice", Kind::Choice),
    ("bound", Kind::Bound),
    ("number", Kind::Number),
];

fn parameter(place: &str, map: Map<String, Value>) -> Result<Parameter, Vec<FieldError>> {
    let mut fields = Fields::within(format!("{place}."), map);
    let name = fields.required("name", "a name", |value| string(value).map(str::to_owned));
    let kind = fields.required("type", "integer, float, choice, bound or number", |value| word(value, KINDS));
    let when = fields.optional("when", "one parameter and a list of its values", condition);
    let domain = kind.and_then(|kind| match kind {
        Kind::Integer => integer(&mut fields),
        Kind::Float => float(&mut fields),
        Kind::Choice => choice(&mut fields),
        Kind::Bound => fields.required("value", "two bounds", bound),
        Kind::Number => {
            fields.required("value", "a list of numbers", |value| scalars(value).and_then(ordered))
        }
    });
    // Fields of an unknown type are not judged.
    let errors = if kind.is_some() { fields.end() } else { fields.end().into_iter().take(1).collect() };
    match (name, domain) {
        (Some(name), Some(domain)) if errors.is_empty() => Ok(Parameter { name, domain, when }),
        _ => Err(errors),
    }
}

fn integer(fields: &mut Fields) -> Option<Domain> {
    let low = fields.required("low", "a whole number", whole);
    let high = fields.required("high", "a whole number", whole);
    let step = fields.optional("step", "a whole number", whole).unwrap_or(1);
    let log = fields.optional("log", "true or false", truth).unwrap_or(false);
    Some(Domain::Integer { low: low?, high: high?, step, log })
}

fn float(fields: &mut Fields) -> Option<Domain> {
    let low = fields.required("low", "a number", estimand_api::fields::number);
    let high = fields.required("high", "a number", estimand_api::fields::number);
    let step = fields.optional("step", "a number", estimand_api::fields::number);
    let log = fields.optional("log", "true or false", truth).unwrap_or(false);
    Some(Domain::Float { low: low?, high: high?, step, log })
}

fn choice(fields: &mut Fields) -> Option<Domain> {
    let values = fields.required("values", "a list of values", scalars);
    let is_ordered = fields.optional("ordered", "true or false", truth).unwrap_or(false);
    let values = values?;
    if !is_ordered {
        return Some(Domain::Choice(values));
    }
    match ordered(values) {
        Ok(domain) => Some(domain),
        Err(message) => {
            fields.error("values", message);
            None
        }
    }
}

fn whole(value: &Value) -> Result<i64, String> {
    let float = || value.as_f64().filter(|number| number.fract() == 0.0 && number.abs() < 9e15);
    let read = value.as_i64().or_else(|| float().map(|number| number as i64));
    read.ok_or_else(|| "is not a whole number".to_owned())
}

fn scalars(value: &Value) -> Result<Vec<Scalar>, String> {
    let list = value.as_array().ok_or_else(|| format!("is {}, not an array", kind_of(value)))?;
    list.iter().map(scalar).collect()
}

fn scalar(value: &Value) -> Result<Scalar, String> {
    match value {
        Value::Bool(flag) => Ok(Scalar::Flag(*flag)),
        Value::String(text) => Ok(Scalar::Text(text.clone())),
        Value::Number(number) => match (number.as_i64(), number.as_f64()) {
            (Some(whole), _) => Ok(Scalar::Integer(whole)),
            (None, Some(float)) => Ok(Scalar::Float(float)),
            (None, None) => Err(format!("has {number}, which is no number that is kept exactly")),
        },
        other => Err(format!("has {}, and values are numbers, texts, true or false", kind_of(other))),
    }
}

/// Numbers, sorted.
fn ordered(mut values: Vec<Scalar>) -> Result<Domain, String> {
    if let Some(other) = values.iter().find(|value| value.number().is_none()) {
        return Err(format!("has {other}, which is no number"));
    }
    let number = |value: &Scalar| value.number().unwrap_or(f64::NAN);
    values.sort_by(|one, two| number(one).total_cmp(&number(two)));
    Ok(Domain::Ordered(values))
}

fn bound(value: &Value) -> Result<Domain, String> {
    match scalars(value)?.as_slice() {
        [Scalar::Integer(low), Scalar::Integer(high)] => {
            Ok(Domain::Integer { low: *low, high: *high, step: 1, log: false })
        }
        [one, two] => match (one.number(), two.number()) {
            (Some(low), Some(high)) => Ok(Domain::Float { low, high, step: None, log: false }),
            _ => Err("bounds are numbers".to_owned()),
        },
        list => Err(format!("has {} elements, and bounds are two", list.len())),
    }
}

fn condition(value: &Value) -> Result<Condition, String> {
    let map = value.as_object().ok_or_else(|| format!("is {}, not an object", kind_of(value)))?;
    let mut entries = map.iter();
    let (Some((parameter, values)), None) = (entries.next(), entries.next()) else {
        return Err(format!("names {} parameters, and a condition is on one", map.len()));
    };
    let values = if values.is_array() { scalars(values)? } else { vec![scalar(values)?] };
    Ok(Condition { parameter: parameter.clone(), values })
}

/// The text without commas that only white space separates from a closing bracket. Strings are left alone.
fn without_trailing_commas(text: &str) -> Cow<'_, str> {
    let mut is_in_string = false;
    let mut is_escaped = false;
    let mut commas = Vec::new();
    let mut pending = None;
    for (at, letter) in text.char_indices() {
        if is_in_string {
            is_in_string = is_escaped || letter != '"';
            is_escaped = !is_escaped && letter == '\\';
            continue;
        }
        match letter {
            ',' => pending = Some(at),
            '}' | ']' => commas.extend(pending.take()),
            _ if letter.is_ascii_whitespace() => {}
            _ => pending = None,
        }
        is_in_string = letter == '"';
    }
    if commas.is_empty() {
        return Cow::Borrowed(text);
    }
    let kept = text.char_indices().filter(|(at, _)| commas.binary_search(at).is_err());
    Cow::Owned(kept.map(|(_, letter)| letter).collect())
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn commas_are_forgiven_outside_of_strings_only() {
        for (given, expected) in [
            ("[1, 2, ]", "[1, 2 ]"),
            ("{\"a\": [1,],\n}", "{\"a\": [1]\n}"),
            ("[\",]\", \"\\\",}\"]", "[\",]\", \"\\\",}\"]"),
        ] {
            assert_eq!(without_trailing_commas(given), expected);
        }
    }
}

//! The order in which values are asked for: by the number or text at one place of each.

use std::cmp::Ordering;
use std::fmt;
use std::str::FromStr;

use serde_json::Value;

use crate::pointer::Pointer;
use crate::problem::FieldError;
use crate::schema;

/// Stands for the whole value, where it is no object.
pub(crate) const WHOLE: &str = "value";

/// The order of values. Numbers come before texts, and values that are neither, or have no such place, come last.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ValueOrder {
    /// None: the value itself.
    pub field: Option<Pointer>,
    pub descending: bool,
}

/// A text that is no such order.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{}` is not an order; expected {}", crate::problem::shorten(.0), ValueOrder::EXPECTED)]
pub struct OrderError(String);

impl OrderError {
    /// The same as an error of the field in which the order stood.
    pub fn at(&self, field: &str) -> FieldError {
        FieldError::new(field, "is not an order").given(&self.0).expected(ValueOrder::EXPECTED)
    }
}

crate::described!(ValueOrder, [], schema::text(ValueOrder::EXPECTED, "^-?(value|/[^\\x00]*)$", "-/one"));

impl ValueOrder {
    /// The form of an order, for messages.
    pub const EXPECTED: &'static str = "a JSON pointer such as `/one`, or `value` for the value itself; with `-` before it the greatest come first";

    pub fn parse(text: &str) -> Result<Self, OrderError> {
        let (descending, place) = match text.strip_prefix('-') {
            Some(place) => (true, place),
            None => (false, text),
        };
        let field = match place {
            WHOLE => None,
            pointer => Some(Pointer::parse(pointer).map_err(|_| OrderError(text.to_owned()))?),
        };
        Ok(ValueOrder { field, descending })
    }

    /// The rank of a value, given its JSON text.
    pub fn rank(&self, json: &str) -> Rank {
        let part = match &self.field {
            None => Some(json),
            Some(field) => field.find(json),
        };
        match part.and_then(|part| serde_json::from_str(part).ok()) {
            Some(Value::Number(number)) => number.as_f64().map_or(Rank::Neither, Rank::Number),
            Some(Value::String(text)) => Rank::Text(text),
            _ => Rank::Neither,
        }
    }

    /// Compares two ranks in this order.
    pub fn compare(&self, one: &Rank, other: &Rank) -> Ordering {
        let (kind, place) = one.compare(other);
        kind.then(if self.descending { place.reverse() } else { place })
    }
}

/// That of a value by which it is ordered.
#[derive(Debug, Clone, PartialEq)]
pub enum Rank {
    Number(f64),
    Text(String),
    Neither,
}

impl Rank {
    /// Compares the kinds, and the values of one kind.
    fn compare(&self, other: &Rank) -> (Ordering, Ordering) {
        let kind = |rank: &Rank| match rank {
            Rank::Number(_) => 0,
            Rank::Text(_) => 1,
            Rank::Neither => 2,
        };
        let within = match (self, other) {
            (Rank::Number(one), Rank::Number(other)) => one.total_cmp(other),
            (Rank::Text(one), Rank::Text(other)) => one.cmp(other),
            _ => Ordering::Equal,
        };
        (kind(self).cmp(&kind(other)), within)
    }
}

impl FromStr for ValueOrder {
    type Err = OrderError;
    fn from_str(text: &str) -> Result<Self, OrderError> {
        Self::parse(text)
    }
}

impl fmt::Display for ValueOrder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = if self.descending { "-" } else { "" };
        write!(f, "{sign}{}", self.field.as_ref().map_or(WHOLE, Pointer::as_str))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn values_are_ordered_by_a_place_in_them() {
        let check = |order: &str, values: &[&str], expected: &[&str]| {
            let order = ValueOrder::parse(order).unwrap();
            let mut sorted = values.to_vec();
            sorted.sort_by(|one, other| order.compare(&order.rank(one), &order.rank(other)));
            assert_eq!(sorted, expected, "{order}");
        };
        check("value", &["10", "9", "-1", "1e1"], &["-1", "9", "10", "1e1"]);
        check("-value", &["10", "9", "-1"], &["10", "9", "-1"]);
        let objects = [r#"{"a":"x"}"#, r#"{"b":1}"#, r#"{"a":2}"#, "7", r#"{"a":10}"#];
        check("/a", &objects, &[r#"{"a":2}"#, r#"{"a":10}"#, r#"{"a":"x"}"#, r#"{"b":1}"#, "7"]);
        check("-/a", &objects, &[r#"{"a":10}"#, r#"{"a":2}"#, r#"{"a":"x"}"#, r#"{"b":1}"#, "7"]);
    }

    #[test]
    fn an_order_is_shown_as_it_is_read() {
        for text in ["value", "-value", "/a/0", "-/a"] {
            assert_eq!(ValueOrder::parse(text).unwrap().to_string(), text);
        }
        for wrong in ["", "-", "a", "--/a", "values"] {
            assert_eq!(ValueOrder::parse(wrong), Err(OrderError(wrong.to_owned())));
        }
    }
}

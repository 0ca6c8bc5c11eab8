//! Figures as JSON: their digits, and the part of a long list that fits into a value.
//!
//! A value may be 64 KiB. A node with thousands of interfaces or mounts still has a value, so the least important
//! entries are left out and counted.

use std::cmp::Reverse;

use serde_json::{Map, Value};

/// The most bytes of the entries of one list, as text.
const MOST_BYTES: usize = 48 << 10;
/// Entries that fit whatever they are.
const FEW: usize = 24;

/// A fraction, temperature or the like to six digits behind the point; absent is null.
pub(crate) fn fraction(value: Option<f64>) -> Value {
    rounded(value, 1e6)
}

/// Something a second to three digits behind the point; absent is null.
pub(crate) fn rate(value: Option<f64>) -> Value {
    rounded(value, 1e3)
}

fn rounded(value: Option<f64>, by: f64) -> Value {
    let Some(value) = value else { return Value::Null };
    let rounded = (value * by).round() / by;
    // A number too large to be rounded has no digits behind the point.
    Value::from(if rounded.is_finite() { rounded } else { value })
}

/// One entry of a list.
#[derive(Debug)]
pub(crate) struct Entry {
    pub name: String,
    /// Of entries that don't all fit, those with the most stay.
    pub weight: u64,
    pub value: Value,
}

/// The entries as an object in the order in which they came, and how many had to be left out.
pub(crate) fn object(mut entries: Vec<Entry>) -> (Map<String, Value>, usize) {
    let all = entries.len();
    if all > FEW {
        entries = fitting(entries);
    }
    let left_out = all - entries.len();
    (entries.into_iter().map(|entry| (entry.name, entry.value)).collect(), left_out)
}

fn fitting(entries: Vec<Entry>) -> Vec<Entry> {
    let mut ranked: Vec<(usize, Entry)> = entries.into_iter().enumerate().collect();
    ranked.sort_by_key(|(_, entry)| Reverse(entry.weight));
    let mut room = MOST_BYTES;
    ranked.retain(|(_, entry)| {
        let size = entry.name.len() + entry.value.to_string().len() + 8;
        let fits = size <= room;
        // After the first that does not fit, lighter ones stay out too: what is shown is what matters most.
        room = if fits { room - size } else { 0 };
        fits
    });
    ranked.sort_by_key(|(position, _)| *position);
    ranked.into_iter().map(|(_, entry)| entry).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn digits_that_mean_nothing_go() {
        assert_eq!(fraction(Some(1.0 / 3.0)), json!(0.333333));
        assert_eq!(rate(Some(1234.56789)), json!(1234.568));
        assert_eq!(rate(Some(f64::MAX)), json!(f64::MAX));
        assert_eq!(rate(None), Value::Null);
    }

    #[test]
    fn the_heaviest_of_too_many_stay_in_their_order() {
        let entry = |n: u64| Entry { name: format!("e{n}"), weight: n % 100, value: json!("x".repeat(1000)) };
        let (object, left_out) = object((0..100).map(entry).collect());
        assert!(serde_json::to_string(&object).is_ok_and(|text| text.len() <= MOST_BYTES));
        assert_eq!(object.len() + left_out, 100);
        assert!(object.len() > 40 && object.contains_key("e99") && !object.contains_key("e0"));
        let numbers: Vec<u64> = object.keys().filter_map(|name| name[1..].parse().ok()).collect();
        assert!(numbers.is_sorted());
    }
}

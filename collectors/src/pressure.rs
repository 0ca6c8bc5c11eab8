//! Pressure stall information: the part of the time in which work waited for a resource (`/proc/pressure`).
//!
//! The kernel has it from 4.20 on, unless it was built or started without. Where it has none, collectors leave the
//! field out.

use serde_json::{Map, Value};

use crate::{Roots, figures, files};

/// The pressure on `cpu`, `memory` or `io`.
pub(crate) fn of(roots: &Roots, resource: &str) -> Option<Value> {
    parse(&files::optional(&roots.proc.join("pressure").join(resource))?)
}

/// Adds it to a value, if there is any.
pub(crate) fn add(value: &mut Value, roots: &Roots, resource: &str) {
    if let (Some(object), Some(pressure)) = (value.as_object_mut(), of(roots, resource)) {
        object.insert("pressure".to_owned(), pressure);
    }
}

/// `some avg10=… avg60=… avg300=… total=…` and the same for `full`, as `some10` and so on. Percents become fractions
/// and microseconds seconds, as everywhere.
pub(crate) fn parse(text: &str) -> Option<Value> {
    let mut object = Map::new();
    for line in text.lines() {
        let mut words = line.split_ascii_whitespace();
        let Some(kind @ ("some" | "full")) = words.next() else { continue };
        for (name, number) in words.filter_map(|word| word.split_once('=')) {
            let Some(number) =
                number.parse().ok().filter(|number: &f64| number.is_finite() && *number >= 0.0)
            else {
                continue;
            };
            if let Some(seconds) = name.strip_prefix("avg") {
                object.insert(format!("{kind}{seconds}"), figures::fraction(Some(number / 100.0)));
            } else if name == "total" {
                object.insert(format!("{kind}Seconds"), figures::fraction(Some(number / 1e6)));
            }
        }
    }
    (!object.is_empty()).then_some(Value::Object(object))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    #[test]
    fn the_kernel_s_lines_become_fractions() {
        let text = "some avg10=5.74 avg60=1.93 avg300=0.00 total=8819008852\nfull avg10=100.00 avg60=0.00 avg300=0.00 total=0\n";
        let expected = json!({
            "some10": 0.0574, "some60": 0.0193, "some300": 0.0, "someSeconds": 8819.008852,
            "full10": 1.0, "full60": 0.0, "full300": 0.0, "fullSeconds": 0.0,
        });
        assert_eq!(parse(text), Some(expected));
    }

    #[test]
    fn a_truncated_line_or_no_number_is_left_out() {
        assert_eq!(parse("some avg10=1.00 avg60=x avg30"), Some(json!({"some10": 0.01})));
        assert_eq!(parse(""), None);
    }

    proptest! {
        #[test]
        fn any_text_is_survived(text in "(some|full|[a-z]{0,4})( avg[0-9]{0,3}=[0-9.eE+NaInf-]{0,9}| total=[0-9-]{0,25}|.{0,9}){0,5}\n?") {
            parse(&text);
        }
    }
}

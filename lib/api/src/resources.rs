//! Amounts of resources, as people write them: `{"cpu": 2, "memory": "4GiB", "gpu": 1}`.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::fields;
use crate::json::kind_of;
use crate::problem::{FieldError, shorten};
use crate::selector::is_label_key;
use crate::size;

/// Processors, counted in thousandths.
pub const CPU: &str = "cpu";
/// Memory, counted in bytes.
pub const MEMORY: &str = "memory";
/// Places for tasks. Each task takes one at least, and so does each unit of a promise, so that work which asks for nothing
/// does not all start at once.
pub const PLACES: &str = "tasks";

const MAX_RESOURCES: usize = 32;
const MAX_PROCESSORS: f64 = 1_000_000.0;

/// The form of one amount.
#[derive(Debug)]
pub enum ResourceAmount {}

crate::described!(
    ResourceAmount,
    [],
    json!({ "description": "So much of something: a number, or a size such as `4GiB`", "type": ["number", "string"] })
);

/// The names of resources, for messages. They are those of labels.
const NAMES_EXPECTED: &str = "names of 1 to 63 of letters, digits and `._/-`, a letter or digit first";

/// The error about a name that no resource has.
pub(crate) fn not_a_name(name: &str) -> String {
    format!("has `{}`, which is not the name of a resource", shorten(name))
}

/// Reads amounts: `cpu` in processors, `memory` in bytes, and counts of anything else.
pub fn read(field: &str, value: &Value) -> Result<BTreeMap<String, u64>, Vec<FieldError>> {
    let map = match value {
        Value::Object(map) if map.len() <= MAX_RESOURCES => map,
        Value::Object(_) => {
            return Err(vec![FieldError::new(field, format!("has more than {MAX_RESOURCES}"))]);
        }
        other => return Err(vec![FieldError::new(field, format!("is {}, not an object", kind_of(other)))]),
    };
    let (mut amounts, mut errors) = (BTreeMap::new(), Vec::new());
    for (name, value) in map {
        if !is_label_key(name) {
            errors.push(FieldError::new(field, not_a_name(name)).expected(NAMES_EXPECTED));
            continue;
        }
        let (read, expected) = match name.as_str() {
            CPU => (processors(value), "a number of processors, such as 2 or 0.5"),
            MEMORY => (size::read(value, 0, u64::MAX), "bytes, or a text such as \"256MiB\""),
            _ => (fields::whole(value, 0, u64::MAX), "a whole number"),
        };
        match read {
            Ok(amount) => drop(amounts.insert(name.clone(), amount)),
            Err(message) => {
                let error = FieldError::new(format!("{field}.{name}"), message);
                errors.push(error.expected(expected).given(value));
            }
        }
    }
    if errors.is_empty() { Ok(amounts) } else { Err(errors) }
}

/// The same as a query or an option has it: `cpu=2,memory=4GiB,gpu=1`.
pub fn of_text(text: &str) -> Result<Value, String> {
    let pair = |pair: &str| {
        let (name, amount) = pair.split_once('=').ok_or_else(|| format!("has `{pair}` without a `=`"))?;
        let amount = amount.trim();
        let number = amount.parse::<u64>().ok().map(Value::from);
        let number = number.or_else(|| amount.parse::<f64>().ok().map(Value::from));
        Ok::<_, String>((name.trim().to_owned(), number.unwrap_or_else(|| Value::from(amount))))
    };
    let pairs = text.split(',').map(str::trim).filter(|pair| !pair.is_empty());
    Ok(Value::Object(pairs.map(pair).collect::<Result<_, _>>()?))
}

/// Amounts as they may be given: `cpu` in processors.
pub fn to_json<'a>(amounts: impl IntoIterator<Item = (&'a str, u64)>) -> Value {
    let value = |name: &str, amount: u64| match name {
        CPU if amount.is_multiple_of(1000) => Value::from(amount / 1000),
        CPU => Value::from(amount as f64 / 1000.0),
        _ => Value::from(amount),
    };
    Value::Object(amounts.into_iter().map(|(name, amount)| (name.to_owned(), value(name, amount))).collect())
}

/// Thousandths of a processor. What is between two of them counts as the greater, so that nothing is taken for free.
fn processors(value: &Value) -> Result<u64, String> {
    let number = fields::number(value)?;
    match (0.0..=MAX_PROCESSORS).contains(&number) {
        // Within range, so the cast is exact; the subtraction forgives what binary fractions add.
        true => Ok((number * 1000.0 - 1e-6).ceil().max(0.0) as u64),
        false => Err("is out of range".to_owned()),
    }
}

/// An amount alone as it may be given, `0.5` of `cpu`, `4GiB` of `memory`; memory is cut to whole MiB.
pub fn amount(name: &str, amount: u64) -> String {
    const MEBIBYTE: u64 = 1 << 20;
    match name {
        CPU => (amount as f64 / 1000.0).to_string(),
        MEMORY if amount > MEBIBYTE => size::text(amount - amount % MEBIBYTE),
        MEMORY => size::text(amount),
        _ => amount.to_string(),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn amounts_are_read_exactly_and_written_as_they_may_be_given() {
        let given = json!({ "cpu": 0.5, "memory": "4GiB", "gpu": 2 });
        let amounts = read("resources", &given).unwrap();
        let expected = [("cpu", 500), ("gpu", 2), ("memory", 4 << 30)];
        assert_eq!(amounts, expected.map(|(name, amount)| (name.to_owned(), amount)).into());
        let written = to_json(amounts.iter().map(|(name, amount)| (name.as_str(), *amount)));
        assert_eq!(read("resources", &written).unwrap(), amounts);
        assert_eq!(read("resources", &of_text("cpu=0.5, memory=4GiB,gpu=2").unwrap()).unwrap(), amounts);
        assert_eq!(read("x", &json!({ "cpu": 0.1 + 0.2 })).unwrap()["cpu"], 300);
        assert_eq!(read("x", &json!({ "cpu": 0.0001 })).unwrap()["cpu"], 1);
    }

    #[test]
    fn an_amount_is_shown_in_the_unit_that_is_typed() {
        let shown = [("cpu", 2000), ("cpu", 500), ("memory", (5 << 30) + 7), ("memory", 4 << 30), ("gpu", 3)];
        let shown: Vec<String> = shown.into_iter().map(|(name, count)| amount(name, count)).collect();
        assert_eq!(shown, ["2", "0.5", "5GiB", "4GiB", "3"]);
    }

    #[test]
    fn each_wrong_amount_is_named() {
        let wrong = |value: Value| {
            let errors = read("resources", &value).unwrap_err();
            errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
        };
        let text = wrong(json!({ "cpu": -1, "memory": "much", "gpu": 1.5, "fpga": 1 }));
        for part in ["resources.cpu: is out of range", "resources.memory: ", "resources.gpu: "] {
            assert!(text.contains(part), "{text}");
        }
        assert!(wrong(json!({ "cpu": 1e300 })).contains("out of range"));
        assert!(wrong(json!([1])).contains("is an array, not an object"));
        assert!(of_text("cpu").unwrap_err().contains("without a `=`"));
    }
}

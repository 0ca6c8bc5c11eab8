//! Estimates: a value, how far it may be off, and from how many samples it comes.
//!
//! All numbers of an estimate are finite and not negative, whatever the inputs were.

use serde_json::{Map, Value, json};

/// An estimate that is being put together.
pub(crate) struct Estimate {
    pub value: f64,
    /// A standard deviation in the value's unit; 0 if nothing is known of it.
    pub spread: f64,
    pub samples: usize,
}

impl Estimate {
    /// From one sample.
    pub fn of(value: f64) -> Self {
        Estimate { value, spread: 0.0, samples: 1 }
    }

    /// The answer, with what else is worth saying.
    pub fn with(self, notes: &[(&str, Value)]) -> Result<Option<Value>, String> {
        let Estimate { value, spread, samples } = self;
        if ![value, spread].iter().all(|number| number.is_finite() && *number >= 0.0) {
            return Err(format!("the estimate is {value} with a spread of {spread}, which is no capability"));
        }
        let mut answer = Map::new();
        answer.insert("value".to_owned(), json!(value));
        answer.insert("spread".to_owned(), json!(spread));
        answer.insert("samples".to_owned(), json!(samples));
        answer.extend(notes.iter().map(|(name, note)| ((*name).to_owned(), note.clone())));
        Ok(Some(Value::Object(answer)))
    }
}

/// Mean and standard deviation of values, each of which counts with its weight.
pub(crate) fn weighted(values: impl IntoIterator<Item = (f64, f64)>) -> Estimate {
    let (mut total, mut mean, mut squares, mut samples) = (0.0, 0.0, 0.0, 0);
    for (value, weight) in values {
        samples += 1;
        total += weight;
        // A weight so small that it vanishes moves nothing.
        if weight > 0.0 {
            let off = value - mean;
            mean += off * (weight / total);
            squares += weight * off * (value - mean);
        }
    }
    let variance = if total > 0.0 { squares / total } else { 0.0 };
    Estimate { value: mean, spread: variance.max(0.0).sqrt(), samples }
}

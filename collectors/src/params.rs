//! The parameters of a collector: taken one by one, by name; what is left at the end is refused.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::Value;

use crate::Kind;

/// What is still to be taken. Names ignore case, as environment variables made of them would.
#[derive(Debug, Clone)]
pub struct Params(BTreeMap<String, Value>);

impl Params {
    pub fn new(params: BTreeMap<String, Value>) -> Self {
        Params(params.into_iter().map(|(name, value)| (name.to_ascii_lowercase(), value)).collect())
    }

    /// A text; numbers and truth values are taken as they are written.
    pub fn text(&mut self, name: &str) -> Option<String> {
        self.0.remove(name).map(|value| match value {
            Value::String(text) => text,
            other => other.to_string(),
        })
    }

    pub fn required(&mut self, name: &str) -> Result<String, String> {
        let text = self.text(name).filter(|text| !text.is_empty());
        text.ok_or_else(|| format!("the parameter `{name}` is missing"))
    }

    pub fn number(&mut self, name: &str) -> Result<Option<f64>, String> {
        let Some(text) = self.text(name) else { return Ok(None) };
        let number = text.trim().parse().ok().filter(|number: &f64| number.is_finite());
        number.map(Some).ok_or_else(|| format!("the parameter `{name}` is `{text}`, which is no number"))
    }

    pub fn switch(&mut self, name: &str) -> Result<Option<bool>, String> {
        match self.text(name).as_deref() {
            None => Ok(None),
            Some("true" | "1" | "yes") => Ok(Some(true)),
            Some("false" | "0" | "no") => Ok(Some(false)),
            Some(other) => Err(format!("the parameter `{name}` is `{other}`; expected true or false")),
        }
    }

    /// Seconds.
    pub fn seconds(&mut self, name: &str) -> Result<Option<Duration>, String> {
        let Some(seconds) = self.number(name)? else { return Ok(None) };
        let span = Duration::try_from_secs_f64(seconds).ok().filter(|span| !span.is_zero());
        span.map(Some)
            .ok_or_else(|| format!("the parameter `{name}` is {seconds}; expected seconds, more than 0"))
    }

    /// Refuses what was not taken.
    pub(crate) fn end(self, kind: &Kind) -> Result<(), String> {
        let Some(unknown) = self.0.keys().next() else { return Ok(()) };
        let known: Vec<&str> = kind.params.iter().map(|param| param.name).collect();
        let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
        Err(format!("`{}` has no parameter `{unknown}`; known: {known}", kind.name))
    }
}

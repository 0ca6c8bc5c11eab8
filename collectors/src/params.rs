//! The parameters of a collector. A name that the collector does not have is rejected at once, so that a slip of the
//! pen never turns into a silent default. Names ignore case, as the environment variables made of them do.

use serde_json::Value;

use crate::{CollectorKind, ParamValues};

/// The values of a collector's parameters, by name in lower case.
#[derive(Debug, Clone)]
pub struct Params(ParamValues);

impl Params {
    /// Rejects names that the collector does not have.
    pub(crate) fn new(kind: &CollectorKind, values: &ParamValues) -> Result<Self, String> {
        let values: ParamValues =
            values.iter().map(|(name, value)| (name.to_ascii_lowercase(), value.clone())).collect();
        let known: Vec<&str> = kind.params.iter().map(|param| param.name).collect();
        let Some(unknown) = values.keys().find(|name| !known.contains(&name.as_str())) else {
            return Ok(Params(values));
        };
        let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
        Err(format!("`{}` has no parameter `{unknown}`; known: {known}", kind.name))
    }

    /// A text; numbers and truth values are taken as they are written.
    pub fn text(&self, name: &str) -> Option<String> {
        self.0.get(name).map(|value| match value {
            Value::String(text) => text.clone(),
            other => other.to_string(),
        })
    }

    pub fn required(&self, name: &str) -> Result<String, String> {
        let text = self.text(name).filter(|text| !text.is_empty());
        text.ok_or_else(|| format!("the parameter `{name}` is missing"))
    }

    pub fn number(&self, name: &str) -> Result<Option<f64>, String> {
        let Some(text) = self.text(name) else { return Ok(None) };
        let number = text.trim().parse().ok().filter(|number: &f64| number.is_finite());
        number.map(Some).ok_or_else(|| format!("the parameter `{name}` is `{text}`, which is no number"))
    }

    pub fn switch(&self, name: &str) -> Result<Option<bool>, String> {
        match self.text(name).as_deref() {
            None => Ok(None),
            Some("true" | "1" | "yes") => Ok(Some(true)),
            Some("false" | "0" | "no") => Ok(Some(false)),
            Some(other) => Err(format!("the parameter `{name}` is `{other}`; expected true or false")),
        }
    }
}

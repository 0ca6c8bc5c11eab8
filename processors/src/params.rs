//! The parameters of a processor. A name that the processor does not have is rejected at once, so that a slip of the
//! pen never turns into a silent default. Names ignore case, as the environment variables made of them do; numbers
//! may be given as texts, as a shell gives them.

use serde_json::Value;

use crate::{ParamValues, ProcessorKind};

/// A year, the longest past that anybody looks at.
const MOST_SECONDS: f64 = 366.0 * 86_400.0;

/// The values of a processor's parameters, by name in lower case.
pub struct Params(ParamValues);

impl Params {
    /// Rejects names that the processor does not have; those of its inputs' roles are known ([`Roles`]).
    pub(crate) fn new(kind: &ProcessorKind, values: &ParamValues) -> Result<Self, String> {
        let known: Vec<&str> =
            kind.params.iter().map(|param| param.name).chain(kind.inputs.to_vec()).collect();
        let values = lower(values);
        match values.keys().find(|name| !known.contains(&name.as_str())) {
            None => Ok(Params(values)),
            Some(unknown) => {
                Err(format!("`{}` has no parameter `{unknown}`; known: {}", kind.name, known.join(", ")))
            }
        }
    }

    pub fn text(&self, name: &str) -> Option<String> {
        self.0.get(name).map(|value| match value {
            Value::String(text) => text.trim().to_owned(),
            other => other.to_string(),
        })
    }

    pub fn number(&self, name: &str) -> Result<Option<f64>, String> {
        let Some(text) = self.text(name) else { return Ok(None) };
        let number = text.parse().ok().filter(|number: &f64| number.is_finite());
        number.map(Some).ok_or_else(|| format!("the parameter `{name}` is `{text}`, which is no number"))
    }

    /// A number of more than 0 and at most `most`.
    pub fn positive(&self, name: &str, absent: f64, most: f64) -> Result<f64, String> {
        match self.number(name)?.unwrap_or(absent) {
            number if number > 0.0 && number <= most => Ok(number),
            number => {
                Err(format!("the parameter `{name}` is {number}; expected more than 0 and at most {most}"))
            }
        }
    }

    /// A number of at least 0.
    pub fn weight(&self, name: &str) -> Result<Option<f64>, String> {
        match self.number(name)? {
            Some(number) if number < 0.0 => {
                Err(format!("the parameter `{name}` is {number}; expected 0 or more"))
            }
            number => Ok(number),
        }
    }

    /// A number of seconds in reason.
    pub fn seconds(&self, name: &str, absent: f64) -> Result<f64, String> {
        self.positive(name, absent, MOST_SECONDS)
    }

    /// A JSON pointer, which says where in an input's value something stands.
    pub fn pointer(&self, name: &str, absent: &str) -> Result<String, String> {
        let pointer = self.text(name).unwrap_or_else(|| absent.to_owned());
        match pointer.is_empty() || pointer.starts_with('/') {
            true => Ok(pointer),
            false => Err(format!(
                "the parameter `{name}` is `{pointer}`; expected a JSON pointer such as `{absent}`"
            )),
        }
    }
}

/// The data names that a processor reads, by role: the role itself, unless the parameter of that name gives another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Roles(Vec<(&'static str, String)>);

impl Roles {
    pub fn of(kind: &ProcessorKind, values: &ParamValues) -> Result<Self, String> {
        let values = Params(lower(values));
        let name = |role: &&'static str| match values.text(role).unwrap_or_else(|| (*role).to_owned()) {
            name if name.is_empty() => {
                Err(format!("the parameter `{role}` is empty; expected the data name to read as `{role}`"))
            }
            name => Ok((*role, name)),
        };
        kind.inputs.iter().map(name).collect::<Result<_, _>>().map(Roles)
    }

    /// The data name of a role.
    pub fn name<'a>(&'a self, role: &'a str) -> &'a str {
        self.0.iter().find(|(known, _)| *known == role).map_or(role, |(_, name)| name)
    }

    /// All of them: role and data name.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, &str)> {
        self.0.iter().map(|(role, name)| (*role, name.as_str()))
    }
}

fn lower(values: &ParamValues) -> ParamValues {
    values.iter().map(|(name, value)| (name.to_ascii_lowercase(), value.clone())).collect()
}

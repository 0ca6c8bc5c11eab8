//! The parameters of a processor: names that it does not know are refused at once, so that a slip of the pen never
//! turns into a silent default. Names ignore case, as the environment variables made of them do; numbers may be
//! given as texts, as a shell gives them.

use serde_json::Value;

use crate::{Given, Kind};

/// A year, the longest past that anybody looks at.
const MOST_SECONDS: f64 = 366.0 * 86_400.0;

/// What was given, by name in lower case.
pub(crate) struct Params(Given);

impl Params {
    /// Refuses what the kind does not know; the names of its inputs are known ([`Roles`]).
    pub fn read(kind: &Kind, given: &Given) -> Result<Self, String> {
        let known: Vec<&str> =
            kind.params.iter().map(|param| param.name).chain(kind.inputs.to_vec()).collect();
        let given = lower(given);
        match given.keys().find(|name| !known.contains(&name.as_str())) {
            None => Ok(Params(given)),
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

/// The seconds of a parameter for who only wants to know how far back a processor looks; `make` is what refuses.
pub(crate) fn seconds_of(given: &Given, name: &str, absent: f64) -> f64 {
    Params(lower(given)).seconds(name, absent).unwrap_or(absent)
}

/// The `window` of a kind that looks at the present alone.
pub(crate) fn no_window(_: &Given) -> Option<f64> {
    None
}

/// What every kind is made from.
pub(crate) fn params_and_roles(kind: &Kind, given: &Given) -> Result<(Params, Roles), String> {
    Ok((Params::read(kind, given)?, Roles::of(kind, given)?))
}

/// The data name that is read in a role: the role itself, unless the parameter of that name gives another one.
pub fn input_of(given: &Given, role: &str) -> String {
    Params(lower(given)).text(role).unwrap_or_else(|| role.to_owned())
}

/// Which data names a processor reads: a role is the data name, unless the parameter of that name gives another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Roles(Vec<(&'static str, String)>);

impl Roles {
    pub fn of(kind: &Kind, given: &Given) -> Result<Self, String> {
        let name = |role: &&'static str| match input_of(given, role) {
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

fn lower(given: &Given) -> Given {
    given.iter().map(|(name, value)| (name.to_ascii_lowercase(), value.clone())).collect()
}

//! Tasks that come after others: on which end of them they wait, and what they still wait for.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::queue::TaskNumber;

/// The end of a task that one after it waits for. Of an array it is that of all its tasks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum On {
    #[default]
    Success,
    /// However it ends.
    End,
}

impl On {
    pub fn as_str(self) -> &'static str {
        match self {
            On::Success => "success",
            On::End => "end",
        }
    }
}

impl fmt::Display for On {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for On {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let found = [On::Success, On::End].into_iter().find(|on| on.as_str() == text);
        found.ok_or_else(|| format!("`{text}` is neither success nor end"))
    }
}

/// A dependency, as a document names it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct After {
    pub id: String,
    pub on: On,
}

/// A task or array that is not over, and that a task waits for. Its id may be given again; its number is not.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Awaited {
    pub number: TaskNumber,
    pub id: String,
    #[serde(default)]
    pub on: On,
}

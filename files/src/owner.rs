//! The owner of files and uploads.

use std::fmt;
use std::sync::Arc;

/// The one for whom something is done here, and against whom it counts: a user, the tasks of a user on nodes, or for
/// neither of those an operator or the tasks of nobody.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Owner(Arc<str>);

impl Owner {
    pub fn user(name: &str) -> Self {
        Owner(format!("u-{name}").into())
    }

    pub fn tasks_of(name: &str) -> Self {
        Owner(format!("t-{name}").into())
    }

    /// The text of an owner, which no other one has.
    pub fn parse(text: &str) -> Option<Self> {
        (text.starts_with("u-") || text.starts_with("t-")).then(|| Owner(text.into()))
    }

    pub fn is_tasks(&self) -> bool {
        self.0.starts_with('t')
    }

    /// None: an operator, or the tasks of nobody.
    pub fn name(&self) -> Option<&str> {
        self.0.get(2..).filter(|name| !name.is_empty())
    }
}

impl fmt::Display for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

//! The reasons for which a change of the registrations is rejected.

use chrono::{DateTime, Utc};
use estimand_api::names::DataName;

use super::edit::MAX_REGISTRATIONS;

/// How many names a message lists.
const MAX_NAMED: usize = 10;

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Rejection {
    #[error("`{name}` is registered since {since}, now at version {version}; PUT /api/registry replaces it", since = instant(*created_at))]
    Taken { name: DataName, created_at: DateTime<Utc>, version: u64 },
    #[error("there are {MAX_REGISTRATIONS} registrations, the most that are kept; delete one first")]
    Full,
    #[error("`{0}` is not registered; POST /api/registry registers it")]
    Unknown(DataName),
    #[error("what is stored of `{0}` cannot be read; PUT /api/registry replaces it, DELETE removes it")]
    Unreadable(DataName),
    #[error(
        "`{name}` is at version {current}, not {given}: somebody changed it meanwhile, and \
         /api/registry/{name}/history says who; get it, apply your change to that, and send it again"
    )]
    Outdated { name: DataName, current: u64, given: u64 },
    /// The variables whose stored value should be kept, although there is none.
    #[error("no value is kept of {}", .names.join(", "))]
    NoSecret { of: DataName, names: Vec<String> },
    /// The cycle, as people read it.
    #[error("the inputs would form a cycle: {0}; each would wait for the next (`→` means: reads)")]
    Cycle(String),
    /// Registrations read the name, or bindings serve it.
    #[error("`{name}` is {}, which would get nothing new; `force` does it all the same", need(.readers, .served))]
    Needed { name: DataName, readers: Vec<DataName>, served: Vec<DataName> },
}

fn instant(at: DateTime<Utc>) -> String {
    estimand_api::instant::to_rfc3339(at.timestamp_micros())
}

fn need(readers: &[DataName], served: &[DataName]) -> String {
    let some = |names: &[DataName]| {
        let named: Vec<String> = names.iter().take(MAX_NAMED).map(|name| format!("`{name}`")).collect();
        match names.len().saturating_sub(MAX_NAMED) {
            0 => named.join(", "),
            more => format!("{} and {more} more", named.join(", ")),
        }
    };
    let parts = [("read by", readers), ("served under", served)];
    let parts = parts.into_iter().filter(|(_, names)| !names.is_empty());
    parts.map(|(words, names)| format!("{words} {}", some(names))).collect::<Vec<_>>().join(" and ")
}

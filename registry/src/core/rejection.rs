//! The reasons for which a change of the registrations is rejected.

use chrono::{DateTime, Utc};
use estimand_api::names::DataName;

use super::edit::MAX_REGISTRATIONS;

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Rejection {
    #[error("`{name}` is registered since {since}, now at version {version}; PUT /api/registry replaces it", since = instant(*created_at))]
    Taken { name: DataName, created_at: DateTime<Utc>, version: u64 },
    #[error("there are {MAX_REGISTRATIONS} registrations, the most that are kept; delete one first")]
    Full,
    #[error("`{0}` is not registered; POST /api/registry registers it")]
    Unknown(DataName),
    #[error(
        "`{name}` is at version {current}, not {given}: somebody changed it meanwhile, and \
         /api/registry/{name}/history says who; get it, apply your change to that, and send it again"
    )]
    Outdated { name: DataName, current: u64, given: u64 },
    /// The variables whose stored value should be kept, although there is none.
    #[error("no value is kept of {}", .0.join(", "))]
    NoSecret(Vec<String>),
    /// The cycle, as people read it.
    #[error("the inputs would form a cycle: {0}; each would wait for the next (`→` means: reads)")]
    Cycle(String),
}

fn instant(at: DateTime<Utc>) -> String {
    estimand_api::instant::to_rfc3339(at.timestamp_micros())
}

//! The reasons for which there is no price, each with what would do.

use estimand_capacity::{Resource, Tick};

/// The most requests of one list.
pub const MAX_LIST: usize = 256;
/// The most numbers of workers that an elastic request may leave open.
pub const MAX_WORKERS_OPEN: u64 = 1_024;

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    #[error("the request asks for nothing: it needs an amount of at least 1 of a resource")]
    Nothing,
    #[error("the request lasts 0 ticks: it must last at least 1")]
    NoLength,
    #[error("`{resource}` has no prices here; resources that have are {}", names(known))]
    UnknownResource { resource: Resource, known: Vec<Resource> },
    #[error("{amount} of `{resource}` are asked for, and there are {capacity}: ask for at most {capacity}")]
    TooWide { resource: Resource, amount: u64, capacity: u64 },
    #[error(
        "the request lasts {length} ticks, and prices reach {horizon} ticks ahead: ask for at most {horizon}"
    )]
    TooLong { length: u64, horizon: u64 },
    #[error("tick {from} is over: it is {now} now, so begin at {now} or later")]
    Past { from: Tick, now: Tick },
    #[error(
        "prices reach to tick {last}, and the deadline is {deadline}: ask for a deadline of at most {last}"
    )]
    BeyondHorizon { deadline: Tick, last: Tick },
    #[error(
        "{length} ticks from {from} on are not over at {deadline}: {}", remedy(*earliest)
    )]
    TooTight { from: Tick, length: u64, deadline: Tick, earliest: Option<Tick> },
    #[error("so much is not free at a stretch before {deadline}: {}", remedy(*earliest))]
    Full { deadline: Tick, earliest: Option<Tick> },
    #[error(
        "from {least} to {most} workers are no number of workers: give at least 1, and the greater number last"
    )]
    NoWorkers { least: u64, most: u64 },
    #[error(
        "{least} to {most} workers leave more than {MAX_WORKERS_OPEN} numbers open: give a narrower range"
    )]
    TooManyWorkers { least: u64, most: u64 },
    #[error("the work is 0 ticks: it must be at least 1")]
    NoWork,
    #[error("the list has {0} requests: it must have 1 to {MAX_LIST}")]
    ListLength(usize),
    #[error("request {place} of the list: {reason}")]
    InList { place: usize, reason: Box<Refusal> },
}

fn names(known: &[Resource]) -> String {
    let names: Vec<&str> = known.iter().map(Resource::as_str).collect();
    if names.is_empty() { "none".to_owned() } else { names.join(", ") }
}

fn remedy(earliest: Option<Tick>) -> String {
    match earliest {
        Some(deadline) => format!("the earliest deadline that would do is {deadline}"),
        None => "no deadline within the horizon would do".to_owned(),
    }
}

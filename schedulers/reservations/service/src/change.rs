//! A change of reservations and credits, which is stored whole or not at all, and the reasons why there is none.

use std::collections::BTreeMap;
use std::sync::Arc;

use estimand_api::problem::Problem;

use crate::bid::Bid;
use crate::choice::Choice;
use crate::credits::{CreditError, Entry};
use crate::reservation::Reservation;

/// The state of this service, for people.
pub const NAME: &str = "the reservations";

/// A bid with its place among all.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BidRecord {
    pub number: u64,
    pub bid: Bid,
}

/// Changes that are stored together.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Change {
    /// As they are afterwards.
    pub reservations: Vec<Arc<Reservation>>,
    /// The numbers of those that make room.
    pub deleted: Vec<u64>,
    pub entries: Vec<Entry>,
    pub bids: Vec<BidRecord>,
    /// The predictor that is chosen from now on.
    pub choice: Option<Choice>,
    /// Microseconds since 1970.
    pub at: i64,
}

/// The reservations that changes are about, each as it is after all of them; none: it is deleted.
pub fn outcomes(changes: &[Change]) -> BTreeMap<u64, Option<&Arc<Reservation>>> {
    let mut outcomes = BTreeMap::new();
    for change in changes {
        outcomes.extend(change.deleted.iter().map(|number| (*number, None)));
        let changed = change.reservations.iter();
        outcomes.extend(changed.map(|reservation| (reservation.number, Some(reservation))));
    }
    outcomes
}

/// The reason why a request is rejected.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Rejection {
    #[error("there is no reservation `{0}`")]
    Unknown(String),
    #[error("the Idempotency-Key was given with another document before, which made reservation `{0}`")]
    KeyTaken(String),
    #[error("the Idempotency-Key was given with another grant before: {amount} credits for `{user}`")]
    GrantKeyTaken { user: String, amount: String },
    #[error("reservation `{id}` is {state}: only one that is promised or active can be changed")]
    NotLive { id: String, state: &'static str },
    #[error("reservation `{id}` is {state}: only one whose time is to come can be changed")]
    Begun { id: String, state: &'static str },
    #[error("reservation `{0}` is being changed; whether it is will be known soon: ask again then")]
    Changing(String),
    #[error(
        "the value {value} is below the price {price}, which reservation `{id}` has: give at least {price}"
    )]
    BelowPrice { id: String, value: String, price: String },
    #[error(transparent)]
    Credits(#[from] CreditError),
    #[error("there are {0} reservations, and too few of them are over to make room")]
    Full(usize),
    #[error("the documents of all reservations have {} MiB, and too few of them are over to make room", .0 >> 20)]
    TooManyBytes(u64),
    /// The share of a user is used up.
    #[error("{}", .0.detail)]
    Share(Box<Problem>),
}

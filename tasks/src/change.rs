//! A change of tasks, which is stored whole or not at all, and the reasons why there is none.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use estimand_api::problem::Problem;
use estimand_api::promise::{PromiseRequest, Room};

use crate::core::promise::PromiseChange;
use crate::core::queue::TaskNumber;
use crate::images::{ImageChange, Images};
use crate::task::{Array, Edit, Task};

/// The state of this service, for people.
pub const NAME: &str = "the tasks";

/// Changes that are stored together.
#[derive(Debug, Default)]
pub struct Change {
    pub edits: Vec<Edit>,
    pub deleted: Vec<Arc<Task>>,
    /// The numbers of deleted tasks whose logs lose a piece.
    pub shortened: Vec<TaskNumber>,
    /// The ids of tasks that were deleted long ago, whose attempts are forgotten.
    pub forgotten: Vec<String>,
    /// The user who deletes them; none: the service makes room.
    pub by: Option<String>,
    /// A reader of the feed, by name, and how far it is.
    pub cursor: Option<(&'static str, u64)>,
    /// An image that is published, or is not any more.
    pub image: Option<ImageChange>,
    pub new_arrays: Vec<Arc<Array>>,
    /// The numbers of those whose last task is deleted.
    pub deleted_arrays: Vec<TaskNumber>,
    pub promises: PromiseChange,
    /// The highest number that a task ever had.
    pub highest: u64,
    /// Microseconds since 1970.
    pub at: i64,
}

/// The tasks that changes are about, each as it is after all of them; none: it is deleted.
pub fn outcomes(changes: &[Change]) -> BTreeMap<TaskNumber, Option<&Task>> {
    let mut outcomes = BTreeMap::new();
    for change in changes {
        outcomes.extend(change.deleted.iter().map(|task| (task.number, None)));
        outcomes.extend(change.edits.iter().map(|edit| (edit.after.number, Some(&edit.after))));
    }
    outcomes
}

pub fn numbers(changes: &[Change]) -> BTreeSet<TaskNumber> {
    outcomes(changes).into_keys().collect()
}

/// The promises that changes are about, by number.
pub fn promise_numbers(changes: &[Change]) -> BTreeSet<u64> {
    let of = |change: &Change| -> Vec<u64> {
        let PromiseChange { promises, removed, .. } = &change.promises;
        promises.iter().map(|promise| promise.number).chain(removed.iter().copied()).collect()
    };
    changes.iter().flat_map(of).collect()
}

/// The reason why a request is rejected.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Rejection {
    #[error("there is no task `{0}`")]
    Unknown(String),
    #[error("there is a task or array `{0}` already; without an id one is made")]
    IdTaken(String),
    #[error("there is no task or array `{0}` to come after: it was deleted, or never submitted")]
    NothingToFollow(String),
    #[error("the Idempotency-Key was given with another document before, which made task `{0}`")]
    KeyTaken(String),
    #[error("task `{id}` is {state}; only one that is over is deleted: cancel it first")]
    NotOver { id: String, state: &'static str },
    #[error(
        "`{id}` has {open} tasks that are not over; only an array that is over is deleted: cancel it first"
    )]
    NotAllOver { id: String, open: u32 },
    #[error("task `{id}` is {state}: nothing of it runs that could go back to the queue")]
    Over { id: String, state: &'static str },
    #[error("all tasks of `{0}` are over, or end for good: none can go back to the queue")]
    AllOver(String),
    #[error(
        "task `{0}` was cancelled, or its promise has ended: it ends for good, and does not go back to the queue"
    )]
    EndsForGood(String),
    #[error(
        "there are {tasks} tasks with documents of {} MiB, and too few of them are over to make room", .bytes >> 20
    )]
    Full { tasks: usize, bytes: u64 },
    #[error("{0}")]
    Share(Box<Problem>),
    #[error("the image `{image}` is not published, and only published ones run here: {advice}")]
    NotPublished { image: String, advice: String },
    #[error("no image `{name}` is published: {advice}")]
    UnknownImage { name: String, advice: String },
    #[error("{0} images are published, and no more can be; `estimand images remove` makes room")]
    TooManyImages(usize),
    #[error("there is no promise `{0}`")]
    NoPromise(String),
    #[error("there is a promise `{0}` already; without an id one is made")]
    PromiseIdTaken(String),
    #[error("the Idempotency-Key was given with other promises before, which made `{0}`")]
    PromiseKeyTaken(String),
    #[error("promise `{id}` is {state}, and has no capacity any more")]
    PromiseOver { id: String, state: &'static str },
    #[error("promise `{0}` has begun: only its end can be changed")]
    PromiseBegun(String),
    #[error("the ledger is at revision {current}, and this was decided at {given}: look at it again")]
    LedgerMoved { given: u64, current: u64 },
    #[error("the nodes are not known yet")]
    NodesUnknown,
    #[error(
        "a promise cannot be from {from} until {until}: it is {now} now, and `until` must be after `from`"
    )]
    PastWindow { from: u64, until: u64, now: u64 },
    #[error("{}", no_room(.asked, .room))]
    NoRoom { asked: Box<PromiseRequest>, room: Box<Room> },
    #[error("promise `{id}` cannot last so long: {reason}")]
    NoRoomToGrow { id: String, reason: String },
    #[error("there are {0} promises, and too few of them are over to make room")]
    TooManyPromises(usize),
    #[error("it asks for {asked}, and a unit of promise `{id}` has {unit}")]
    LargerThanUnit { id: String, asked: String, unit: String },
}

impl Rejection {
    pub fn unknown_image(name: String, images: &Images) -> Rejection {
        Rejection::UnknownImage { advice: images.advice(&name), name }
    }
}

fn no_room(asked: &PromiseRequest, room: &Room) -> String {
    let class = crate::core::promise::class(asked);
    let Room { units, most_units, first_fit, .. } = room;
    let width = asked.width.max(1);
    let when = match first_fit {
        Some(tick) => format!("from {tick} on it would fit"),
        None if *most_units < width => format!("it would never fit: there are {most_units} at the most"),
        None => "it is not found when it would fit".to_owned(),
    };
    format!("class `{class}` has room for {units} of {width} units in that window; {when}")
}

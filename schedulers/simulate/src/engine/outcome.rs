//! The outcome of a simulation.

use std::collections::BTreeMap;

use estimand_placement::Millis;
use estimand_placement::state::Progress;

#[derive(Debug, Clone, Default, PartialEq)]
pub struct Outcome {
    /// From submission to the end, of each task that ended.
    pub responses: Vec<Millis>,
    /// From submission to its last start, the same tasks.
    pub waits: Vec<Millis>,
    /// The same waits of the tasks that have a user, by user.
    pub waits_by_user: BTreeMap<String, Vec<Millis>>,
    /// Why tasks fit nowhere, and how many for each reason.
    pub misfits: BTreeMap<String, usize>,
    /// Tasks that could never start, because nodes were lost for good.
    pub waiting: usize,
    pub restarts: usize,
    /// Promises for which there was no room.
    pub refused: usize,
    /// The number of times that a task made room for a promise.
    pub displaced: usize,
    pub end: Millis,
    /// The part of the processors that was in use.
    pub utilization: f64,
    pub states: Vec<Progress>,
}

//! The background loops: reading the nodes and their pressure, planning, assigning to each node what belongs there, and
//! removing what is left of deleted tasks.

mod log_remover;
mod node_reader;
mod planner;
mod pressure_reader;
mod teller;

use std::sync::Arc;
use std::time::Duration;

use estimand_runtime::{Loop, Tasks};
use estimand_service::Writer;
use estimand_store::Reads;

use crate::shared::Shared;
use crate::writer::TasksState;

use log_remover::LogRemover;
use node_reader::NodeReader;
use planner::PlannerLoop;
use teller::Teller;

/// After failures: the first, and the longest.
const PAUSES: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(2));
/// How often each looks although nothing was announced.
const PLAN_EVERY: Duration = Duration::from_secs(5);
const TELL_EVERY: Duration = Duration::from_secs(2);
const READ_EVERY: Duration = Duration::from_secs(1);
const REMOVE_EVERY: Duration = Duration::from_secs(60);

pub fn start(shared: &Arc<Shared>, writer: &Writer<TasksState>, reads: &Arc<Reads>, tasks: &Tasks) {
    let work = |name, activity, every| Loop { name, activity, every, pauses: PAUSES };
    let to = writer.clone();
    let planner = move |all| PlannerLoop::new(all, to.clone());
    work("tasks-planner", "planning", PLAN_EVERY).spawn(tasks, shared, |all| &all.planning, planner);
    let teller = work("tasks-teller", "assigning tasks to nodes", TELL_EVERY);
    teller.spawn(tasks, shared, |all| &all.telling, Teller::new);
    let to = writer.clone();
    let reader = move |all| NodeReader::new(all, to.clone());
    work("tasks-nodes", "reading the nodes", READ_EVERY).spawn(tasks, shared, |all| &all.reading, reader);
    let to = writer.clone();
    let reads = Arc::clone(reads);
    let remover = move |all| LogRemover::new(all, Arc::clone(&reads), to.clone());
    let removing = work("tasks-logs", "removing what is left of deleted tasks", REMOVE_EVERY);
    removing.spawn(tasks, shared, |all| &all.removing, remover);
    let all = Arc::clone(shared);
    tasks.spawn_until_stop("tasks-pressure", move || pressure_reader::run(Arc::clone(&all)));
}

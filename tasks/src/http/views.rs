//! Tasks as readers see them, and the reasons why they wait.

use estimand_api::task_record::TaskRecord;
use serde_json::json;

use crate::core::cluster::Cluster;
use crate::core::fit::misfit;
use crate::core::state::State;
use crate::plan::request_of;
use crate::storage::rows::instant;
use crate::task::Task;

/// A task in a list.
pub fn record(task: &Task) -> TaskRecord {
    let progress = &task.progress;
    let millis = |at: u64| instant(i64::try_from(at).unwrap_or(i64::MAX / 1000).saturating_mul(1000));
    TaskRecord {
        id: task.id.clone(),
        state: task.state().as_str().to_owned(),
        attempt: progress.attempt,
        node: progress.node.clone(),
        ending: progress.ending.clone(),
        failures: progress.failures,
        not_before: progress.not_before.map(millis),
        submitted_at: instant(task.submitted_at),
        submitted_by: task.submitted_by.clone(),
        ended_at: task.ended_at.map(instant),
        lines: task.log.next,
        waits: None,
        document: task.document.redacted().to_map(),
        why: None,
        transitions: Vec::new(),
    }
}

/// The same with the reason why it waits, or why it is where it is.
pub fn whole_record(task: &Task, plan: Option<&Cluster>) -> TaskRecord {
    let why = task.why.as_deref().map(|why| json!(why));
    TaskRecord { why, waits: waits(task, plan), ..record(task) }
}

/// Why it is not placed; none if it does not wait for a node.
pub fn waits(task: &Task, plan: Option<&Cluster>) -> Option<String> {
    match task.state() {
        State::Queued => {}
        State::Lost => {
            let node = task.progress.node.as_deref().unwrap_or_default();
            return Some(format!("node `{node}`, on which it may be, is not heard of"));
        }
        _ => return None,
    }
    let Some(cluster) = plan else { return Some("the nodes are not known yet".to_owned()) };
    let request = request_of(task);
    Some(match misfit(cluster, &request) {
        Some(misfit) => format!("it fits on no node: it {misfit}"),
        None if task.progress.not_before.is_some() => {
            "it failed, and is tried again after a pause (`notBefore`)".to_owned()
        }
        None => {
            let fitting = cluster.nodes().filter(|node| request.means(node)).count();
            let asked = &request.amounts;
            format!("no node has room now: it needs {asked}, and {fitting} have such labels")
        }
    })
}

/// The reason why no node of the cluster can ever take it.
pub fn never_fits(task: &Task, plan: Option<&Cluster>) -> Option<String> {
    misfit(plan?, &request_of(task)).map(|misfit| format!("it waits: it {misfit}"))
}

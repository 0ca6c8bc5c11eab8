//! For how long nodes are certainly silent: by that it is known when the leases of tasks there are over. Pure.
//!
//! A task goes on for the length of its lease after the last heartbeat that the manager answered with one. This service sees no
//! heartbeats. It counts from its own look at the nodes that found the node lost first, which the manager says only when the
//! node has been silent for longer than a lease of slots. So whatever the clocks are, it counts from later than the agent does.
//!
//! Between two looks nobody may have been heard of: the manager says when it heard of the node last, and each leadership
//! counts for itself, since what a former one heard of last may not be stored. What is not certain is counted anew, as
//! everything is by another start of this service.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::{Duration, Instant};

use estimand_api::node::{Node, NodeState};

use crate::core::Millis;
use crate::core::retries::OnLoss;
use crate::task::Task;

/// Nobody is heard of and lost again within so short a time, which is less than the shortest lease of slots.
const UNSEEN: Duration = Duration::from_secs(3);

/// A node with the agent that had it when a task was placed there; that is none for tasks of an older version.
pub type Station = (String, Option<String>);

/// A look at the nodes.
#[derive(Debug, Clone, Copy)]
pub struct Look<'a> {
    pub nodes: &'a [Node],
    /// The moments before the manager was asked and after it had answered.
    pub asked: Instant,
    pub answered: Instant,
    /// The latter in microseconds since 1970, for readers.
    pub answered_us: i64,
    /// The epoch of the manager's leadership as it was known before, and as it was asked for after that; none: not known.
    pub before: Option<u64>,
    pub after: Option<u64>,
}

/// The silence of a station.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Silence {
    /// The agent said that it leaves, when no task ran there any more.
    pub left: bool,
    /// For how long it is certain; none if that is counted from a later look on.
    pub certain: Option<Duration>,
    /// Since when it is counted, in microseconds since 1970.
    pub since_us: Option<i64>,
}

#[derive(Debug, Default)]
pub struct Silences(BTreeMap<Station, Count>);

#[derive(Debug, Clone, PartialEq)]
struct Count {
    left: bool,
    /// When the manager heard of the node last; none if the node is gone, or another agent has it.
    heard: Option<i64>,
    seen: Instant,
    since: Option<CountStart>,
}

#[derive(Debug, Clone, Copy, PartialEq)]
struct CountStart {
    leadership: u64,
    at: Instant,
    at_us: i64,
    certain: Duration,
}

impl Silences {
    /// Takes a look, at these stations.
    pub fn take(&mut self, look: &Look<'_>, stations: BTreeSet<Station>) {
        let before = std::mem::take(&mut self.0);
        let nodes = by_name(look.nodes);
        let silent = stations.into_iter().filter_map(|station| {
            let (left, heard) = silent(&nodes, &station)?;
            let known = before.get(&station).filter(|known| {
                known.heard == heard && (heard.is_some() || look.asked.duration_since(known.seen) <= UNSEEN)
            });
            let since =
                known.and_then(|known| known.since).map_or_else(|| begin(look), |since| go_on(look, since));
            Some((station, Count { left, heard, seen: look.answered, since }))
        });
        self.0 = silent.collect();
    }

    /// The silence of a station, unless that is heard of.
    pub fn of(&self, station: &Station) -> Option<Silence> {
        let Count { left, since, .. } = self.0.get(station)?;
        let certain = since.map(|since| since.certain);
        Some(Silence { left: *left, certain, since_us: since.map(|since| since.at_us) })
    }
}

impl Silence {
    /// A task with a lease of this length cannot run there any more. Without a length it has the slots' lease, which is over
    /// when the node is lost.
    pub fn ends(&self, lease: Option<Millis>) -> bool {
        let Some(lease) = lease.map(Duration::from) else { return true };
        self.left || self.certain.is_some_and(|certain| certain >= lease)
    }
}

impl Task {
    /// Where something of it may be.
    pub fn station(&self) -> Option<Station> {
        Some((self.placed_on()?.to_owned(), self.progress.agent.clone()))
    }
}

/// True for a task that the node's present agent is told. A task without a lease is cancelled by whoever has the node: its own
/// agent may never be back.
pub fn is_of_agent(task: &Task, node: &Node) -> bool {
    match (&task.progress.agent, &node.agent) {
        (Some(placed), Some(present)) if placed != present => {
            task.document.on_loss == OnLoss::Wait && task.progress.is_stopping()
        }
        _ => true,
    }
}

/// True if any of these stations is not heard of.
pub fn is_any_silent(nodes: &[Node], stations: &BTreeSet<Station>) -> bool {
    let nodes = by_name(nodes);
    stations.iter().any(|station| silent(&nodes, station).is_some())
}

fn by_name(nodes: &[Node]) -> HashMap<&str, &Node> {
    nodes.iter().map(|node| (node.node_name.as_str(), node)).collect()
}

/// For a station that is not heard of, whether its agent has left, and when the manager heard of the node last.
fn silent(nodes: &HashMap<&str, &Node>, (name, agent): &Station) -> Option<(bool, Option<i64>)> {
    let Some(node) = nodes.get(name.as_str()) else { return Some((false, None)) };
    let is_other = agent.is_some() && node.agent.is_some() && *agent != node.agent;
    match node.state {
        _ if is_other => Some((false, None)),
        NodeState::Ready => None,
        NodeState::Lost => Some((node.left, Some(node.last_heartbeat.timestamp_micros()))),
    }
}

/// The count begins when the look was certainly answered by that leadership.
fn begin(look: &Look<'_>) -> Option<CountStart> {
    let leadership = look.after.filter(|_| look.before == look.after)?;
    Some(CountStart { leadership, at: look.answered, at_us: look.answered_us, certain: Duration::ZERO })
}

/// An answer is true from before it was asked for, and not longer.
fn go_on(look: &Look<'_>, since: CountStart) -> Option<CountStart> {
    match look.after {
        Some(epoch) if epoch != since.leadership => begin(look),
        Some(_) => Some(CountStart { certain: look.asked.saturating_duration_since(since.at), ..since }),
        None => Some(since),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
#[path = "silences_tests.rs"]
mod tests;

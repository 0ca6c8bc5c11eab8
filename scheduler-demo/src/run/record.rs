//! The record of a run: its events, its times, and its figures.
//!
//! Times are seconds since the work began. The ideal is computed from measurements: the time that the nodes would have
//! needed together, had each worked throughout at its measured speed. A deliberate change of a speed is recorded; then
//! each side of that moment has speeds of its own.

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

use crate::job_plan::PolicyKind;

/// A run as it went.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Run {
    pub title: String,
    pub job: String,
    pub policy: PolicyKind,
    #[serde(with = "estimand_api::instant::wire")]
    pub began: DateTime<Utc>,
    /// The revision of the facts behind the plan.
    pub revision: u64,
    pub items: u64,
    /// Time until the last item was known to be done.
    pub makespan: f64,
    pub ideal: Option<f64>,
    /// By the plan, if capabilities are items a second.
    pub expected: Option<f64>,
    /// Time until the workers were ready.
    pub startup: f64,
    /// Items that the plan moves.
    pub moved: u64,
    /// Items that were done where no copy is.
    pub fetched: u64,
    /// Items done beyond the first time.
    pub duplicates: u64,
    /// Images whose results differ between nodes that did both; known once results were merged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub conflicts: Option<u64>,
    /// In the order of their names.
    pub nodes: Vec<NodeRecord>,
    #[serde(rename = "happenings")]
    pub events: Vec<RunEvent>,
    pub notes: Vec<String>,
}

/// One node's share.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeRecord {
    pub name: String,
    /// As it was estimated.
    pub capability: f64,
    pub spread: f64,
    pub state: String,
    /// Items that were its own by the first distribution.
    pub held: u64,
    /// Items that the plan gives it.
    pub target: u64,
    /// Items that it did, including those that others had done before.
    pub did: u64,
    /// Time until its last item was done.
    pub seconds: f64,
    /// Time that it worked.
    pub worked: f64,
    /// Items a second while it worked.
    pub fps: Option<f64>,
    pub spans: Vec<Span>,
    /// The images that count for it, in the order of names.
    pub images: Vec<String>,
    /// Each line of its worker, by which speeds are measured. Left out of reports, which have spans.
    #[serde(skip)]
    pub steps: Vec<Span>,
}

/// Items that were done one after the other.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Span {
    pub from: f64,
    pub to: f64,
    pub items: u64,
}

/// An event on a timeline.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunEvent {
    pub at: f64,
    pub node: String,
    #[serde(rename = "what")]
    pub kind: RunEventKind,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub why: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RunEventKind {
    Lost,
    /// It was lost, and is there again.
    Back,
    /// It was not there from the beginning.
    Joined,
    /// The experiment made it faster or slower.
    Changed,
}

impl RunEventKind {
    pub fn as_str(self) -> &'static str {
        match self {
            RunEventKind::Lost => "lost",
            RunEventKind::Back => "back",
            RunEventKind::Joined => "joined",
            RunEventKind::Changed => "changed",
        }
    }
}

impl Run {
    /// The makespan over the ideal.
    pub fn over_ideal(&self) -> Option<f64> {
        self.ideal.filter(|ideal| *ideal > 0.0).map(|ideal| self.makespan / ideal)
    }

    /// Records a deliberate change of a node's speed. From here on the ideal is the least time in which the nodes could
    /// have done it all, each at the speed that it showed before that moment, and then at the one that it showed after.
    pub fn changed(&mut self, at: f64, node: &str, why: &str) {
        let (before, after): (f64, f64) = self
            .nodes
            .iter()
            .map(|record| record.speeds_around(at))
            .fold((0.0, 0.0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
        let items = self.items as f64;
        let left = items - before * at;
        self.ideal = match left <= 0.0 {
            true => Some(items / before),
            false => (after > 0.0).then(|| at + left / after),
        };
        let (node, why) = (node.to_owned(), why.to_owned());
        self.events.push(RunEvent { at, node, kind: RunEventKind::Changed, why });
        self.events.sort_by(|a, b| a.at.total_cmp(&b.at));
    }

    /// Adds duplicates and conflicts that the merged results show.
    pub fn add_results(&mut self, merged: &crate::results::MergedResults) {
        self.duplicates = self.duplicates.max(merged.duplicates);
        self.conflicts = Some(merged.conflicts);
    }
}

impl NodeRecord {
    /// A node that has nothing and did nothing.
    pub(super) fn empty() -> NodeRecord {
        NodeRecord {
            name: String::new(),
            capability: 0.0,
            spread: 0.0,
            state: String::new(),
            held: 0,
            target: 0,
            did: 0,
            seconds: 0.0,
            worked: 0.0,
            fps: None,
            spans: Vec::new(),
            images: Vec::new(),
            steps: Vec::new(),
        }
    }

    /// Items a second while it worked, before a moment and after it. A span across that moment counts for neither; a side
    /// without measurements has the speed of the other.
    fn speeds_around(&self, at: f64) -> (f64, f64) {
        let speed = |is_there: &dyn Fn(&Span) -> bool| {
            let steps = self.steps.iter().filter(|step| is_there(step));
            let (items, seconds) = steps
                .fold((0, 0.0), |(items, seconds), step| (items + step.items, seconds + step.to - step.from));
            (seconds > 0.0).then(|| items as f64 / seconds)
        };
        let (before, after) = (speed(&|step| step.to <= at), speed(&|step| step.from >= at));
        let either = before.or(after).or(self.fps).unwrap_or(0.0);
        (before.unwrap_or(either), after.unwrap_or(either))
    }

    /// Adds items that took `seconds` until `to`. Items without a pause between them share a span.
    pub(super) fn add(&mut self, to: f64, seconds: f64, items: u64) {
        /// Lines are on their way for so long; a shorter pause is none.
        const PAUSE: f64 = 0.1;
        let from = (to - seconds).max(0.0);
        self.worked += seconds;
        if seconds > 0.0 {
            self.steps.push(Span { from, to, items });
        }
        match self.spans.last_mut() {
            Some(last) if seconds > 0.0 && from - last.to <= PAUSE => {
                last.to = to;
                last.items += items;
            }
            // How long it took is not known: with what was before it.
            Some(last) if seconds <= 0.0 => last.items += items,
            last => {
                let from = last.map_or(from, |last| from.max(last.to));
                if items > 0 || seconds > 0.0 {
                    self.spans.push(Span { from, to, items });
                }
            }
        }
        if items > 0 {
            self.did += items;
            self.seconds = to;
        }
        self.fps = (self.worked > 0.0 && self.did > 0).then(|| self.did as f64 / self.worked);
    }
}

/// The least time in which nodes of the speeds that were measured could have done it all.
pub(super) fn ideal(items: u64, records: &[NodeRecord]) -> Option<f64> {
    let speed: f64 = records.iter().filter_map(|record| record.fps).sum();
    (speed > 0.0).then(|| items as f64 / speed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_changed_speed_is_measured_before_and_after() {
        let mut record = NodeRecord::empty();
        for second in 1..=4 {
            record.add(f64::from(second), 1.0, 30);
        }
        // A line that is of both.
        record.add(5.0, 1.0, 20);
        record.add(6.0, 1.0, 10);
        record.add(7.0, 1.0, 10);
        assert_eq!(record.speeds_around(4.5), (30.0, 10.0));
        assert_eq!(record.speeds_around(0.5), (130.0 / 6.0, 130.0 / 6.0), "nothing is known of before");
        // A span before the pause says nothing about the speed after it.
        record.add(20.0, 1.0, 10);
        assert_eq!(record.speeds_around(4.5), (30.0, 10.0));
    }
}

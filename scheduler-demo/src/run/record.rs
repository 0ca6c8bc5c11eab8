//! What happened when, and what that amounts to.
//!
//! Times are seconds since the work began. The ideal is by what was measured: the time that the nodes would have
//! needed together, had each worked throughout at the speed that it showed while it worked. Whoever changed a speed
//! under way says so; then each side of that moment has speeds of its own.

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

use crate::planned::Method;

/// A run as it went.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Run {
    pub title: String,
    pub job: String,
    pub policy: Method,
    #[serde(with = "estimand_api::instant::wire")]
    pub began: DateTime<Utc>,
    /// Of the facts that the plan was made of.
    pub revision: u64,
    pub items: u64,
    /// Until the last item was known to be done.
    pub makespan: f64,
    pub ideal: Option<f64>,
    /// By the plan, if capabilities are items a second.
    pub expected: Option<f64>,
    /// Until the workers were ready.
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
    pub nodes: Vec<Lane>,
    pub happenings: Vec<Happening>,
    pub notes: Vec<String>,
}

/// One node's share.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Lane {
    pub name: String,
    /// As it was estimated.
    pub capability: f64,
    pub spread: f64,
    pub state: String,
    /// Items that were its own by the first distribution.
    pub held: u64,
    /// Items that the plan gives it.
    pub target: u64,
    /// Items that it did, those that others had done before among them.
    pub did: u64,
    /// Until it was done with its last item.
    pub seconds: f64,
    /// How long it worked.
    pub worked: f64,
    /// Items a second while it worked.
    pub fps: Option<f64>,
    pub spans: Vec<Span>,
    /// Whose results count for it, in the order of names.
    pub images: Vec<String>,
    /// Each line of its worker: what speeds are measured by. Not in a report, where spans say the same for people.
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

/// Something that a timeline marks.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Happening {
    pub at: f64,
    pub node: String,
    pub what: What,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub why: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum What {
    Lost,
    /// It was lost, and is there again.
    Back,
    /// It was not there from the beginning.
    Joined,
    /// Whoever experiments with it made it faster or slower.
    Changed,
}

impl What {
    pub fn as_str(self) -> &'static str {
        match self {
            What::Lost => "lost",
            What::Back => "back",
            What::Joined => "joined",
            What::Changed => "changed",
        }
    }
}

impl Run {
    /// The makespan over the ideal.
    pub fn over_ideal(&self) -> Option<f64> {
        self.ideal.filter(|ideal| *ideal > 0.0).map(|ideal| self.makespan / ideal)
    }

    /// Notes that a node's speed was changed on purpose. From here on the ideal is the least time in which the nodes could
    /// have done it all, each at the speed that it showed before that moment, and then at the one that it showed after.
    pub fn changed(&mut self, at: f64, node: &str, why: &str) {
        let (before, after): (f64, f64) = self
            .nodes
            .iter()
            .map(|lane| lane.speeds_around(at))
            .fold((0.0, 0.0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
        let items = self.items as f64;
        let left = items - before * at;
        self.ideal = match left <= 0.0 {
            true => Some(items / before),
            false => (after > 0.0).then(|| at + left / after),
        };
        let (node, why) = (node.to_owned(), why.to_owned());
        self.happenings.push(Happening { at, node, what: What::Changed, why });
        self.happenings.sort_by(|a, b| a.at.total_cmp(&b.at));
    }

    /// Counts what the results say of images that were done more than once.
    pub fn take_merged(&mut self, merged: &crate::results::Merged) {
        self.duplicates = self.duplicates.max(merged.duplicates);
        self.conflicts = Some(merged.conflicts);
    }
}

impl Lane {
    /// A node that has nothing and did nothing.
    pub(super) fn empty() -> Lane {
        Lane {
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

    /// Items a second while it worked, before a moment and after it. What was under way then tells of neither; where nothing
    /// is known of one side, it is as on the other.
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

    /// Notes items that took so long until then. What follows without a pause is one span.
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
pub(super) fn ideal(items: u64, lanes: &[Lane]) -> Option<f64> {
    let speed: f64 = lanes.iter().filter_map(|lane| lane.fps).sum();
    (speed > 0.0).then(|| items as f64 / speed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn speeds_have_two_sides_where_one_was_changed() {
        let mut lane = Lane::empty();
        for second in 1..=4 {
            lane.add(f64::from(second), 1.0, 30);
        }
        // A line that is of both.
        lane.add(5.0, 1.0, 20);
        lane.add(6.0, 1.0, 10);
        lane.add(7.0, 1.0, 10);
        assert_eq!(lane.speeds_around(4.5), (30.0, 10.0));
        assert_eq!(lane.speeds_around(0.5), (130.0 / 6.0, 130.0 / 6.0), "nothing is known of before");
        // What came before the pause is no speed of after it.
        lane.add(20.0, 1.0, 10);
        assert_eq!(lane.speeds_around(4.5), (30.0, 10.0));
    }
}

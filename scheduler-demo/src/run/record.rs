//! What happened when, and what that amounts to.
//!
//! Times are seconds since the work began. The ideal is by what was measured: the time that the nodes would have
//! needed together, had each worked throughout at the speed that it showed while it worked.

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
}

impl What {
    pub fn as_str(self) -> &'static str {
        match self {
            What::Lost => "lost",
            What::Back => "back",
            What::Joined => "joined",
        }
    }
}

impl Run {
    /// The makespan over the ideal.
    pub fn over_ideal(&self) -> Option<f64> {
        self.ideal.filter(|ideal| *ideal > 0.0).map(|ideal| self.makespan / ideal)
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
        }
    }

    /// Notes items that took so long until then. What follows without a pause is one span.
    pub(super) fn add(&mut self, to: f64, seconds: f64, items: u64) {
        /// Lines are on their way for so long; a shorter pause is none.
        const PAUSE: f64 = 0.1;
        let from = (to - seconds).max(0.0);
        self.worked += seconds;
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

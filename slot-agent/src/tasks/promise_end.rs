//! The end of the promise on which an attempt runs, on the machine's clock that also counts while it sleeps.
//!
//! The agent writes it into the attempt's folder, where its keeper finds it whether or not the agent lives. Neither asks what time
//! it is: the task service says how much time is left.

use std::io;

use estimand_api::promise::PromiseEnd;
use estimand_api::task::TaskEnding;
use estimand_api::task_stop::StopOrder;
use estimand_runtime::files::write_whole;
use serde::{Deserialize, Serialize};

use super::folder::AttemptFolder;
use super::lease::boot_clock;

pub const FILE: &str = "end";
/// Words that differ by less, in nanoseconds, say the same.
const TOLERANCE: u64 = 20_000_000;
const NANOS_OF_MILLI: u64 = 1_000_000;

/// The end of a promise, by [`boot_clock`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct WindowEnd {
    pub promise: String,
    /// The end by the clock of the task service, which tells one end from another.
    until: u64,
    /// When the task is asked to end, if it is not asked to save its work first.
    soft: u64,
    /// When it is killed.
    pub hard: u64,
    /// When the task is asked to save its work, if it is. Keepers of the version before end it at `soft` alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    checkpoint: Option<u64>,
}

impl WindowEnd {
    /// The end of which the task service spoke at this moment.
    pub fn new(end: &PromiseEnd, at: u64) -> Self {
        let hard = at.saturating_add(end.left_ms.saturating_mul(NANOS_OF_MILLI));
        let before = |millis: u64| hard.saturating_sub(millis.saturating_mul(NANOS_OF_MILLI));
        WindowEnd {
            promise: end.promise.clone(),
            until: end.until,
            soft: before(end.grace_ms),
            hard,
            checkpoint: end.checkpoint_ms.map(before),
        }
    }

    /// The end that holds after another word about it. Words of the same end are late on their way and never early, so that
    /// the earliest is right; another end replaces the former one.
    pub fn after(known: Option<Self>, new: Self) -> Self {
        match known {
            Some(known) if known.is_same(&new) && new.hard + TOLERANCE > known.hard => known,
            _ => new,
        }
    }

    fn is_same(&self, other: &Self) -> bool {
        let grace = |end: &Self| end.hard - end.soft;
        (&self.promise, self.until, grace(self)) == (&other.promise, other.until, grace(other))
    }

    /// True if the task is to end, or to begin no more.
    pub fn has_come(&self) -> bool {
        self.begins() <= boot_clock()
    }

    /// When its end begins.
    pub fn begins(&self) -> u64 {
        self.checkpoint.unwrap_or(self.soft)
    }

    /// The order to end, from this moment or the beginning of its end on.
    pub fn order(&self, at: u64) -> StopOrder {
        let grace_ms = Some(self.hard.saturating_sub(self.begins().max(at)) / NANOS_OF_MILLI);
        StopOrder { grace_ms, checkpoint: self.checkpoint.is_some() }
    }

    pub fn ending(&self) -> TaskEnding {
        TaskEnding::Promise(PromiseEnd::reason(&self.promise))
    }

    /// The end as the folder has it; none without one.
    pub fn read(folder: &AttemptFolder) -> io::Result<Option<Self>> {
        folder.read(FILE)
    }

    pub fn write(&self, folder: &AttemptFolder) -> io::Result<()> {
        write_whole(&folder.file(FILE), &serde_json::to_vec(self)?, 0o600)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn said(until: u64, left_ms: u64) -> PromiseEnd {
        PromiseEnd { promise: "p".into(), until, left_ms, grace_ms: 1_000, checkpoint_ms: None }
    }

    #[test]
    fn the_earliest_word_of_one_end_holds_and_another_end_replaces_it() {
        const SECOND: u64 = 1_000_000_000;
        let first = WindowEnd::new(&said(70, 8_000), 100 * SECOND);
        assert_eq!((first.soft, first.hard), (107 * SECOND, 108 * SECOND));
        let late = WindowEnd::new(&said(70, 8_000), 103 * SECOND);
        assert_eq!(WindowEnd::after(Some(first.clone()), late.clone()), first);
        assert_eq!(WindowEnd::after(Some(late), first.clone()), first);
        // The promise was extended, then shortened.
        let longer = WindowEnd::new(&said(90, 26_000), 102 * SECOND);
        assert_eq!(WindowEnd::after(Some(first.clone()), longer.clone()), longer);
        assert_eq!(WindowEnd::after(Some(longer), first.clone()), first);
        assert_eq!(WindowEnd::after(None, first.clone()), first);
        // As it is written while nothing is left.
        assert_eq!(WindowEnd::new(&said(70, 0), 0).hard, 0);
    }

    #[test]
    fn an_end_with_a_checkpoint_begins_with_that() {
        let plain = WindowEnd::new(&said(70, 8_000), 0);
        assert_eq!(plain.begins(), 7_000 * NANOS_OF_MILLI);
        assert_eq!(plain.order(0), StopOrder { grace_ms: Some(1_000), checkpoint: false });
        let end = WindowEnd::new(&PromiseEnd { checkpoint_ms: Some(3_000), ..said(70, 8_000) }, 0);
        assert_eq!((end.begins(), end.soft), (5_000 * NANOS_OF_MILLI, 7_000 * NANOS_OF_MILLI));
        assert_eq!(end.order(0), StopOrder { grace_ms: Some(3_000), checkpoint: true });
        assert_eq!(end.order(6_000 * NANOS_OF_MILLI).grace_ms, Some(2_000), "its keeper comes late");
        // As an agent of the version before wrote it.
        let text = serde_json::to_string(&plain).unwrap();
        assert!(!text.contains("checkpoint"), "{text}");
        assert_eq!(serde_json::from_str::<WindowEnd>(&text).unwrap(), plain);
    }

    #[test]
    fn an_end_is_found_by_the_next_keeper() {
        let place = tempfile::tempdir().unwrap();
        let folder = AttemptFolder::at(place.path().to_owned());
        assert_eq!(WindowEnd::read(&folder).unwrap(), None);
        let end = WindowEnd::new(&said(70, 8_000), boot_clock());
        assert!(!end.has_come() && WindowEnd::new(&said(70, 900), boot_clock()).has_come());
        end.write(&folder).unwrap();
        assert_eq!(WindowEnd::read(&folder).unwrap(), Some(end));
    }
}

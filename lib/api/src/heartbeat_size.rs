//! The size of a heartbeat: what the largest node may have to say. An agent cuts the texts of its statuses until they fit.
//!
//! Were there no such bound, a node on which thousands of slots fail with long complaints would send what no manager takes,
//! and count as lost.

use crate::node::Heartbeat;
use crate::registration::MAX_REGISTRATIONS;
use crate::slot::{Status, cut};

/// The names of slots that end: each in quotes, with a comma.
const STOPPING_BYTES: usize = MAX_REGISTRATIONS * (128 + 3);
/// Facts, labels, delivery and the names of fields.
const HEAD_BYTES: usize = 128 * 1024;
/// A status without its texts: a name, counts, times, and the names of fields.
const STATUS_BYTES: usize = 1100;
/// The texts of all statuses.
const TEXTS_BYTES: usize = 4 * 1024 * 1024;
/// The largest body of a heartbeat: one status for each registration that there may be.
pub const MAX_HEARTBEAT_BYTES: usize =
    HEAD_BYTES + STOPPING_BYTES + MAX_REGISTRATIONS * STATUS_BYTES + TEXTS_BYTES;

/// The longest that a text may be, tried one after the other until all fit.
const LONGEST_TEXTS: [usize; 5] = [4096, 1024, 256, 64, 0];

impl Heartbeat {
    /// Cuts the texts of the statuses until the heartbeat fits its bound; the longest ones first.
    pub fn fit(&mut self) {
        for longest in LONGEST_TEXTS {
            if self.texts().map(|text| written_bytes(text)).sum::<usize>() <= TEXTS_BYTES {
                return;
            }
            self.texts().for_each(|text| cut(text, longest));
        }
    }

    fn texts(&mut self) -> impl Iterator<Item = &mut String> {
        self.statuses.iter_mut().flat_map(texts)
    }
}

/// All texts of a status that can be long.
fn texts(status: &mut Status) -> impl Iterator<Item = &mut String> {
    let next = status.next.as_mut().and_then(|next| next.last_error.as_mut());
    let single = [status.last_error.as_mut(), status.note.as_mut(), status.last_exit.as_mut(), next];
    let quarantined = status.last_quarantined.as_mut().map(|one| [&mut one.reason, &mut one.value]);
    let tail = [&mut status.stderr_tail];
    single
        .into_iter()
        .flatten()
        .chain(quarantined.into_iter().flatten())
        .chain(tail)
        .chain(&mut status.unenforced)
}

/// The bytes of a text in JSON, with its quotes and a comma.
fn written_bytes(text: &str) -> usize {
    let more = |byte: u8| match byte {
        b'"' | b'\\' => 1,
        0..0x20 => 5,
        _ => 0,
    };
    text.len() + text.bytes().map(more).sum::<usize>() + 3
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::collections::BTreeMap;

    use super::*;
    use crate::names::DataName;
    use crate::node::{Delivery, Facts};
    use crate::slot::{NextVersion, QuarantinedValue};

    /// Everything is as long as it may be, and takes as much as it can when it is written.
    fn largest_status(number: usize) -> Status {
        let long = || "\u{1}".repeat(100);
        let name = DataName::parse(&format!("n{number:0>127}")).unwrap();
        let late = chrono::DateTime::from_timestamp_micros(253_402_300_799_999_999).unwrap();
        let odd = Some(123_456_789.123_456_78);
        Status {
            doing: crate::slot::SlotActivity::BackingOff,
            runs: u64::MAX,
            failures: u64::MAX,
            timeouts: u64::MAX,
            quarantined: u64::MAX,
            overruns: u64::MAX,
            restarts: u64::MAX,
            failing: u64::MAX,
            without_value: u64::MAX,
            last_start: Some(late),
            last_duration_ms: odd,
            last_exit: Some(long()),
            last_wait_ms: odd,
            last_cpu_ms: odd,
            last_memory: Some(u64::MAX),
            last_good: Some(late),
            last_error: Some(long()),
            note: Some(long()),
            last_quarantined: Some(QuarantinedValue { at: late, reason: long(), value: long() }),
            stderr_tail: long(),
            missing: true,
            next: Some(NextVersion { version: u64::MAX, failures: u64::MAX, last_error: Some(long()) }),
            unenforced: vec![long(), long()],
            ..Status::new(name, u64::MAX)
        }
    }

    #[test]
    fn the_largest_heartbeat_fits_its_bound() {
        let label = |number| (format!("{number:0>128}"), "v".repeat(128));
        let mut beat = Heartbeat {
            agent: "a".repeat(128),
            boot: u64::MAX,
            labels: (0..crate::labels::MAX_LABELS).map(label).collect::<BTreeMap<_, _>>(),
            facts: Facts { kernel: "k".repeat(32 * 1024), ..Facts::default() },
            delivery: Delivery { failing: Some("\u{1}".repeat(4096)), ..Delivery::default() },
            applied: u64::MAX,
            stopping: (0..MAX_REGISTRATIONS).map(|number| largest_status(number).data_name).collect(),
            full: true,
            statuses: (0..MAX_REGISTRATIONS).map(largest_status).collect(),
            leaving: false,
            clock_ahead_ms: Some(i64::MIN),
        };
        beat.bound();
        assert!(serde_json::to_vec(&beat).unwrap().len() > MAX_HEARTBEAT_BYTES);
        beat.fit();
        let written = serde_json::to_vec(&beat).unwrap().len();
        println!("{written} of {MAX_HEARTBEAT_BYTES} bytes");
        assert!(written <= MAX_HEARTBEAT_BYTES, "{written}");
    }

    #[test]
    fn texts_that_fit_are_left_alone_and_longer_ones_lose_no_more_than_they_must() {
        let with = |slots: usize, tail: usize| {
            let status = |number| Status {
                stderr_tail: "x".repeat(tail),
                last_error: Some("short".to_owned()),
                ..Status::new(DataName::parse(&format!("n{number}")).unwrap(), 1)
            };
            let mut beat = Heartbeat { statuses: (0..slots).map(status).collect(), ..Heartbeat::default() };
            beat.fit();
            let first = &beat.statuses[0];
            (first.stderr_tail.len(), first.last_error.clone().unwrap())
        };
        assert_eq!(with(300, 12_000), (12_000, "short".to_owned()));
        assert_eq!(with(900, 12_000), (4096, "short".to_owned()));
        assert_eq!(with(3000, 12_000), (1024, "short".to_owned()));
    }

    #[test]
    fn a_text_takes_as_much_as_it_is_written_with() {
        for text in ["", "plain", "\"\\", "\n\t\u{1}\u{7f}ä"] {
            let written = serde_json::to_string(text).unwrap().len();
            assert!((written..=written + 12).contains(&written_bytes(text)), "{text:?}");
        }
    }
}

//! Single things in words for people: ages, intervals, places, values.

use chrono::{DateTime, TimeDelta, Utc};
use estimand_api::registration::{Registration, Replicas};
use estimand_api::task_progress::TaskProgress;
use estimand_api::task_record::TaskRecord;
use estimand_api::value::State;
use serde::Serialize;
use serde_json::Value as Json;

use super::harmless::visible;
use super::table::{Cell, Tone};

/// How long ago, in the two largest units that matter. Clocks differ a little, so the future is now.
pub fn age(since: DateTime<Utc>, now: DateTime<Utc>) -> String {
    let millis = (now - since).num_milliseconds().max(0);
    let seconds = millis / 1_000;
    match seconds {
        0 => format!("{millis}ms"),
        1..=9 => format!("{seconds}.{}s", millis / 100 % 10),
        10..=119 => format!("{seconds}s"),
        120..=7_199 => format!("{}m{:02}s", seconds / 60, seconds % 60),
        7_200..=172_799 => format!("{}h{:02}m", seconds / 3_600, seconds / 60 % 60),
        _ => format!("{}d{:02}h", seconds / 86_400, seconds / 3_600 % 24),
    }
}

/// How long something took.
pub fn took(millis: f64) -> String {
    match millis {
        ..9.95 => format!("{:.1}ms", millis.max(0.0)),
        ..999.5 => format!("{millis:.0}ms"),
        ..119_950.0 => format!("{:.1}s", millis / 1_000.0),
        _ => age(DateTime::UNIX_EPOCH, DateTime::UNIX_EPOCH + TimeDelta::milliseconds(millis as i64)),
    }
}

/// A clock that is so many milliseconds ahead: `30.0s behind`.
pub fn clock(ahead_ms: i64) -> String {
    let word = if ahead_ms < 0 { "behind" } else { "ahead of" };
    format!("{} {word}", took(ahead_ms.unsigned_abs() as f64))
}

/// `512 B`, `1.5 MiB`.
pub fn bytes(number: u64) -> String {
    let units = ["KiB", "MiB", "GiB", "TiB", "PiB"];
    let (mut scaled, mut unit) = (number as f64, "B");
    for next in units {
        // A number that would be rounded up to 1024 is one of the next unit.
        if scaled < 1023.95 {
            break;
        }
        (scaled, unit) = (scaled / 1024.0, next);
    }
    if unit == "B" { format!("{number} B") } else { format!("{scaled:.1} {unit}") }
}

/// The output of a program, line by line, with nothing in it that the terminal would obey.
pub fn lines(text: &str) -> impl Iterator<Item = String> + '_ {
    text.lines().map(|line| visible(&line.replace('\t', "    ")).into_owned())
}

/// An instant to the millisecond, in UTC.
pub fn instant(at: DateTime<Utc>) -> String {
    at.format("%Y-%m-%dT%H:%M:%S%.3fZ").to_string()
}

/// Where it runs: `all`, `zone=a`, `any 2`, `any 2 of zone=a`.
pub fn placement(registration: &Registration) -> String {
    let Registration { nodes, replicas, .. } = registration;
    match (replicas, nodes.is_empty()) {
        (Replicas::All, true) => "all".to_owned(),
        (Replicas::All, false) => nodes.to_string(),
        (Replicas::Count(count), true) => format!("any {count}"),
        (Replicas::Count(count), false) => format!("any {count} of {nodes}"),
    }
}

/// A word as the wire has it, e.g. of a kind or a mode.
pub fn wire(word: &impl Serialize) -> String {
    serde_json::to_value(word).map(|value| bare(&value)).unwrap_or_default()
}

/// A text without its quotes, anything else as JSON.
pub fn bare(value: &Json) -> String {
    match value {
        Json::String(text) => text.clone(),
        other => other.to_string(),
    }
}

pub fn state(state: State) -> Cell {
    let tone = match state {
        State::Fresh => Tone::Plain,
        State::Stale => Tone::Warning,
        State::Failed | State::NodeLost => Tone::Bad,
    };
    Cell::toned(state.as_str(), tone)
}

/// The state of a task, with how far it is while it is not over.
pub fn task_state(task: &TaskRecord) -> String {
    let steps = task.progress.as_ref().filter(|_| !task.is_over()).and_then(TaskProgress::steps);
    match steps {
        Some(steps) => format!("{} {steps}", task.state),
        None => task.state.clone(),
    }
}

/// The values that a task tells, in one line.
pub fn values(progress: &TaskProgress) -> String {
    let values = progress.values.iter().map(|(name, value)| format!("{name} {value}"));
    values.collect::<Vec<_>>().join(", ")
}

/// `1 value`, `2 values`.
pub fn count(number: usize, noun: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{number} {noun}{plural}")
}

/// The same of a count that came over the wire.
pub fn count_u64(number: u64, noun: &str) -> String {
    count(usize::try_from(number).unwrap_or(usize::MAX), noun)
}

/// `a, b and 3 more`.
pub fn some_of(all: &[&str], most: usize) -> String {
    let (named, more) = all.split_at(all.len().min(most));
    match more.len() {
        0 => named.join(", "),
        more => format!("{} and {more} more", named.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_keeps_its_meaning_and_moves_no_cursor() {
        let value = serde_json::json!({ "a": "\u{9b}2J\u{7f}\u{202e}ü\u{200b}\u{e0041}\n" });
        let text = serde_json::to_string_pretty(&value).unwrap_or_default();
        let harmless = crate::output::harmless::harmless_json(&text);
        assert_eq!(harmless, "{\n  \"a\": \"\\u009b2J\\u007f\\u202eü\\u200b\\udb40\\udc41\\n\"\n}");
        assert_eq!(serde_json::from_str::<Json>(&harmless).ok(), Some(value));
    }

    #[test]
    fn an_age_is_short_and_never_negative() {
        let now = DateTime::UNIX_EPOCH + TimeDelta::days(1_000);
        let check = |millis: i64, expected: &str| {
            assert_eq!(age(now - TimeDelta::milliseconds(millis), now), expected);
        };
        check(-5_000, "0ms");
        check(999, "999ms");
        check(3_250, "3.2s");
        check(119_999, "119s");
        check(120_000, "2m00s");
        check(7_199_000, "119m59s");
        check(7_260_000, "2h01m");
        check(3 * 86_400_000 + 4 * 3_600_000, "3d04h");
    }

    #[test]
    fn a_duration_says_as_much_as_matters() {
        for (millis, expected) in [
            (0.04, "0.0ms"),
            (9.94, "9.9ms"),
            (9.96, "10ms"),
            (999.4, "999ms"),
            (999.6, "1.0s"),
            (30_000.0, "30.0s"),
            (125_000.0, "2m05s"),
        ] {
            assert_eq!(took(millis), expected, "{millis}");
        }
    }

    #[test]
    fn bytes_are_counted_in_the_unit_that_fits() {
        for (number, expected) in [
            (0, "0 B"),
            (1_023, "1023 B"),
            (1_024, "1.0 KiB"),
            (1_048_575, "1.0 MiB"),
            (16_106_127_360, "15.0 GiB"),
            (u64::MAX, "16384.0 PiB"),
        ] {
            assert_eq!(bytes(number), expected);
        }
    }

    #[test]
    fn the_output_of_a_program_keeps_its_lines_and_nothing_else() {
        let text = "a\tb\r\n\u{1b}[2Jc\n\nd\re";
        assert_eq!(lines(text).collect::<Vec<_>>(), ["a    b", "\\u{1b}[2Jc", "", "d\\re"]);
    }
}

//! Single things in words for people: ages, intervals, places, values.

use std::borrow::Cow;

use chrono::{DateTime, Utc};
use estimand_api::registration::{Registration, Replicas, Timing};
use estimand_api::value::State;
use serde::Serialize;
use serde_json::Value as Json;

use super::table::{Cell, Tone};

/// The text with its control characters written out, so that nothing that came from elsewhere moves the
/// cursor, colours the screen or begins a line.
pub fn visible(text: &str) -> Cow<'_, str> {
    match text.contains(char::is_control) {
        false => Cow::Borrowed(text),
        true => text
            .chars()
            .map(|c| if c.is_control() { c.escape_default().to_string() } else { c.to_string() })
            .collect::<String>()
            .into(),
    }
}

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

/// An instant to the millisecond, in UTC.
pub fn instant(at: DateTime<Utc>) -> String {
    at.format("%Y-%m-%dT%H:%M:%S%.3fZ").to_string()
}

/// When it runs: `5s`, or the cron expression.
pub fn timing(timing: &Timing) -> String {
    match timing {
        Timing::Every(span) => span.to_string(),
        Timing::Cron(expr) => expr.to_string(),
    }
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

/// `1 value`, `2 values`.
pub fn count(number: usize, noun: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{number} {noun}{plural}")
}

#[cfg(test)]
mod tests {
    use chrono::TimeDelta;

    use super::*;

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
}

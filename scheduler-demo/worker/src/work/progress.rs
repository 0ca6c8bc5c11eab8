//! A worker's progress: a line of JSON, which becomes its node's value.
//!
//! Only the latest value is kept, so a line repeats everything that matters; the names of single images are a service
//! to readers, and may be missed. A line never becomes larger than a value may be.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use serde::Serialize;

/// Of the names in one list of a line; two lists and the rest fit into a value's 64 KiB.
const MAX_NAME_BYTES: usize = 24 * 1024;
/// How far back the present speed looks.
const WINDOW: Duration = Duration::from_secs(5);

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Activity {
    /// It loads its network, or waits for an earlier worker of its node to end.
    Starting,
    /// There is nothing left to do in its part.
    Waiting,
    Working,
}

/// One line.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Progress<'a> {
    pub job: &'a str,
    pub activity: Activity,
    /// The version of the part that it follows; none: it has no part.
    pub revision: Option<u64>,
    /// How many of the part's images have a durable result.
    pub done: usize,
    pub of: usize,
    /// Images a second, lately.
    pub fps: f64,
    /// Images a second since it last had to wait.
    pub avg_fps: f64,
    /// Done since the line before.
    pub images: Vec<&'a str>,
    /// Done, but not in this version of the part: the scheduler took these away after they were done.
    pub extra: Vec<&'a str>,
    /// How many names the two lists had no room for.
    #[serde(skip_serializing_if = "is_zero")]
    pub left_out: usize,
    /// The problem with the part that the scheduler wrote; the worker goes on with the one before.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub problem: Option<&'a str>,
}

/// As many of the names as fit, and how many don't.
pub fn fitting<'a>(names: impl Iterator<Item = &'a str>) -> (Vec<&'a str>, usize) {
    let (mut fitting, mut left_out, mut bytes) = (Vec::new(), 0, 0);
    for name in names {
        bytes += escaped_len(name) + 3;
        match bytes <= MAX_NAME_BYTES {
            true => fitting.push(name),
            false => left_out += 1,
        }
    }
    (fitting, left_out)
}

/// No shorter than it is in JSON between its quotes.
fn escaped_len(name: &str) -> usize {
    name.bytes().map(|byte| if matches!(byte, 0..0x20 | b'"' | b'\\') { 6 } else { 1 }).sum()
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it so")]
fn is_zero(count: &usize) -> bool {
    *count == 0
}

/// How fast images are done while there are any to do.
#[derive(Debug)]
pub struct Speed {
    began: Instant,
    /// When the last one was done: a wait for more lowers no speed.
    last: Instant,
    count: usize,
    /// When each of the latest was done.
    latest: VecDeque<Instant>,
}

impl Speed {
    pub fn new(now: Instant) -> Self {
        Speed { began: now, last: now, count: 0, latest: VecDeque::new() }
    }

    pub fn count(&mut self, now: Instant) {
        self.count += 1;
        self.last = now;
        self.latest.push_back(now);
        self.forget(now);
    }

    pub fn images(&self) -> usize {
        self.count
    }

    pub fn seconds(&self) -> f64 {
        self.last.duration_since(self.began).as_secs_f64()
    }

    /// Over the last seconds.
    pub fn present(&mut self, now: Instant) -> f64 {
        self.forget(now);
        let from = now.checked_sub(WINDOW).map_or(self.began, |start| start.max(self.began));
        rate(self.latest.len(), now.duration_since(from).as_secs_f64())
    }

    pub fn average(&self) -> f64 {
        rate(self.count, self.seconds())
    }

    fn forget(&mut self, now: Instant) {
        while self.latest.front().is_some_and(|at| now.duration_since(*at) > WINDOW) {
            self.latest.pop_front();
        }
    }
}

/// With two digits: more would only make the line longer.
fn rate(images: usize, seconds: f64) -> f64 {
    match seconds > 0.0 {
        true => (images as f64 / seconds * 100.0).round() / 100.0,
        false => 0.0,
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn the_present_speed_forgets_and_the_average_does_not() {
        let start = Instant::now();
        let at = |millis: u64| start + Duration::from_millis(millis);
        let mut speed = Speed::new(start);
        for image in 1..=10 {
            speed.count(at(image * 100));
        }
        assert_eq!((speed.present(at(1_000)), speed.average()), (10.0, 10.0));
        for image in 1..=10 {
            speed.count(at(1_000 + image * 1_000));
        }
        // Six in the last five seconds, the first of them at their very beginning.
        assert_eq!((speed.present(at(11_000)), speed.average()), (1.2, 1.82));
        assert_eq!((speed.images(), speed.seconds()), (20, 11.0));
    }

    #[test]
    fn a_line_is_never_larger_than_a_value() {
        let nasty = "\"\\\u{1}".repeat(50);
        let names: Vec<&str> = std::iter::repeat_n(nasty.as_str(), 10_000).collect();
        let (fitting, left_out) = fitting(names.iter().copied());
        let line = Progress {
            job: &"j".repeat(128),
            activity: Activity::Working,
            revision: Some(u64::MAX),
            done: 10_000,
            of: 10_000,
            fps: 1.0 / 3.0,
            avg_fps: 1.0 / 3.0,
            images: fitting.clone(),
            extra: fitting,
            left_out,
            problem: Some(&"p".repeat(1_000)),
        };
        let text = serde_json::to_string(&line).unwrap();
        assert!(text.len() <= estimand_api::value::MAX_VALUE_BYTES, "{}", text.len());
        assert!(text.len() > MAX_NAME_BYTES, "there was room for more: {}", text.len());
        assert_eq!(line.images.len() + left_out, 10_000);
    }
}

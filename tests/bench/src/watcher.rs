//! Watches values and notes when each became readable.

use std::io::ErrorKind;
use std::time::{Duration, Instant, SystemTime};

use anyhow::{Context, bail};
use estimand_api::value::Value;
use estimand_testkit::http::Http;

/// A value that arrived.
#[derive(Debug)]
pub struct Seen {
    pub value: Value,
    /// In nanoseconds since 1970, by the clock that everything on this machine goes by.
    pub at_ns: i64,
}

/// Everything that changes during so long.
pub fn watch(http: &Http, time: Duration) -> anyhow::Result<Vec<Seen>> {
    let end = Instant::now() + time;
    let mut events = http.sse("/api/data/watch?dataName=*", &[]);
    let mut seen = Vec::new();
    loop {
        let event = match events.try_next(end.saturating_duration_since(Instant::now())) {
            Ok(Some(event)) => event,
            Ok(None) => bail!("the watch ended"),
            Err(error) if error.kind() == ErrorKind::TimedOut => return Ok(seen),
            Err(error) => return Err(error).context("watching"),
        };
        let at_ns = now_ns();
        if event.event == "change" {
            seen.push(Seen { value: serde_json::from_str(&event.data)?, at_ns });
        }
        // Events that have arrived already are given out also when there is no time left.
        if Instant::now() >= end {
            return Ok(seen);
        }
    }
}

fn now_ns() -> i64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    since.as_nanos() as i64
}

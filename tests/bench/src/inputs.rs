//! One data name's values on many nodes, written like those of an outside writer, and reading the results from them.
//!
//! Each write gives its nodes a value that no write before it gave, so a result shows which one it is of. Values
//! are whole numbers: sums and quotients of them come out the same everywhere.

use std::io::Write as _;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use estimand_testkit::http::{EventReader, Http};
use serde::Deserialize;
use serde_json::json;

use crate::keys::push_post;
use crate::load::Requests;

/// How long a result may take that should take a moment.
const PATIENCE: Duration = Duration::from_secs(60);
/// Between two looks at one result, and at all of them.
const LOOK_EVERY: Duration = Duration::from_micros(200);
const LOOK_AT_ALL_EVERY: Duration = Duration::from_millis(5);

/// The values written under one name.
pub struct Inputs {
    name: &'static str,
    /// By node.
    latest: Vec<u64>,
    /// The last value that was given out.
    value: u64,
    /// How many nodes a batch writes, and where the next one begins.
    rows: usize,
    next: usize,
    written: u64,
    body: Vec<u8>,
}

/// A value that was read.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Found {
    node_name: String,
    data_value: f64,
}

pub fn node_of(number: usize) -> String {
    format!("node-{number:05}")
}

impl Inputs {
    /// Nothing is written yet. The number of nodes is a multiple of that of rows in a batch.
    pub fn new(name: &'static str, nodes: usize, rows: usize) -> Self {
        Inputs { name, latest: vec![0; nodes], value: 0, rows, next: 0, written: 0, body: Vec::new() }
    }

    /// Other batches from now on, from the first node.
    pub fn in_batches_of(&mut self, rows: usize) {
        (self.rows, self.next) = (rows, 0);
    }

    pub fn nodes(&self) -> usize {
        self.latest.len()
    }

    /// The value that a node has.
    pub fn of(&self, node: usize) -> f64 {
        self.latest[node] as f64
    }

    pub fn total(&self) -> f64 {
        self.latest.iter().sum::<u64>() as f64
    }

    /// How many values were written so far.
    pub fn written(&self) -> u64 {
        self.written
    }

    /// The node that the last batch wrote last.
    pub fn last_written(&self) -> usize {
        self.next.checked_sub(1).unwrap_or(self.latest.len() - 1)
    }

    /// Writes the next batch, and waits until it is acknowledged.
    pub fn write_batch(&mut self, http: &Http) -> anyhow::Result<()> {
        self.render();
        let headers = [("Content-Type", "application/json")];
        let answer = http.try_request("POST", "/api/data/batch", &headers, &self.body)?;
        ensure!(answer.status == 200, "writing {} values: {answer}", self.rows);
        Ok(())
    }

    /// Writes one node's value, and waits until it is acknowledged.
    pub fn write_one(&mut self, http: &Http, node: usize) -> anyhow::Result<()> {
        self.value += 1;
        self.written += 1;
        self.latest[node] = self.value;
        let write = json!({ "dataName": self.name, "nodeName": node_of(node), "dataValue": self.value });
        let answer = http.send_json("PUT", "/api/data", &write);
        ensure!((200..300).contains(&answer.status), "writing {write}: {answer}");
        Ok(())
    }

    /// The next batch as JSON, in `body`.
    fn render(&mut self) {
        let (from, to) = (self.next, self.next + self.rows);
        self.value += 1;
        self.written += self.rows as u64;
        self.next = to % self.latest.len();
        self.latest[from..to].fill(self.value);
        self.body.clear();
        for number in from..to {
            self.body.push(if number == from { b'[' } else { b',' });
            let (name, node, value) = (self.name, node_of(number), self.value);
            // Writing to a vector does not fail.
            let _ = write!(self.body, r#"{{"dataName":"{name}","nodeName":"{node}","dataValue":{value}}}"#);
        }
        self.body.push(b']');
    }
}

impl Requests for Inputs {
    fn next(&mut self, out: &mut Vec<u8>) -> bool {
        self.render();
        push_post(out, "/api/data/batch", &self.body);
        true
    }
}

/// Reading a number may miss its last digit. Values that follow one another are much further apart.
fn is_same(one: f64, other: f64) -> bool {
    (one - other).abs() <= one.abs() * 1e-12
}

/// Waits until a node's result is this.
pub fn until_one(http: &Http, name: &str, node: usize, expected: f64) -> anyhow::Result<()> {
    let began = Instant::now();
    let path = format!("/api/data/{name}/{}", node_of(node));
    loop {
        let answer = http.get(&path);
        let found = match answer.status {
            200 => Some(serde_json::from_slice::<Found>(&answer.body)?.data_value),
            404 => None,
            _ => anyhow::bail!("GET {path}: {answer}"),
        };
        if found.is_some_and(|found| is_same(found, expected)) {
            return Ok(());
        }
        ensure!(began.elapsed() < PATIENCE, "{path} is {found:?} after {PATIENCE:?}, not {expected}");
        thread::sleep(LOOK_EVERY);
    }
}

/// A watch of the results of one name.
pub struct ResultWatch(EventReader);

impl ResultWatch {
    /// Opens it, and passes over what there is already.
    pub fn open(http: &Http, name: &str) -> anyhow::Result<Self> {
        let mut events = http.try_sse(&format!("/api/data/watch?dataName={name}"), &[])?;
        while events.try_next(PATIENCE)?.context("the watch ended")?.event != "snapshot" {}
        Ok(ResultWatch(events))
    }

    /// Waits until it tells that a node's result is this.
    pub fn until(&mut self, node: usize, expected: f64) -> anyhow::Result<()> {
        let node = node_of(node);
        loop {
            let event = self.0.try_next(PATIENCE)?.context("the watch ended")?;
            if event.event != "change" {
                continue;
            }
            let found: Found = serde_json::from_str(&event.data)?;
            if found.node_name == node && is_same(found.data_value, expected) {
                return Ok(());
            }
        }
    }
}

/// Waits until every node's result is this, and returns when they were found to be.
pub fn until_all(
    http: &Http,
    name: &str,
    inputs: &Inputs,
    expected: impl Fn(usize) -> f64,
) -> anyhow::Result<Instant> {
    let began = Instant::now();
    // Looking at all of them takes its time from the service, so the last is waited for first.
    let last = inputs.last_written();
    until_one(http, name, last, expected(last))?;
    let path = format!("/api/data?dataName={name}");
    loop {
        let asked = Instant::now();
        let answer = http.get(&path);
        ensure!(answer.status == 200, "GET {path}: {answer}");
        let found: Vec<Found> = serde_json::from_slice(&answer.body).with_context(|| path.clone())?;
        let mut right = 0;
        for Found { node_name, data_value } in &found {
            let number = node_name.strip_prefix("node-").and_then(|number| number.parse().ok());
            right += usize::from(number.is_some_and(|number| is_same(expected(number), *data_value)));
        }
        if right == inputs.nodes() {
            return Ok(asked);
        }
        let nodes = inputs.nodes();
        ensure!(
            began.elapsed() < PATIENCE,
            "{right} of {nodes} results of {name} are right after {PATIENCE:?}"
        );
        thread::sleep(LOOK_AT_ALL_EVERY);
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn batches_go_round_and_each_has_its_own_value() {
        let mut inputs = Inputs::new("x", 4, 2);
        for _ in 0..3 {
            inputs.render();
        }
        assert_eq!((inputs.latest.as_slice(), inputs.total()), (&[3, 3, 2, 2][..], 10.0));
        assert_eq!((inputs.written(), inputs.last_written()), (6, 1));
        let body: serde_json::Value = serde_json::from_slice(&inputs.body).unwrap();
        assert_eq!(body[1], json!({ "dataName": "x", "nodeName": "node-00001", "dataValue": 3 }));
        inputs.in_batches_of(4);
        inputs.render();
        assert_eq!((inputs.latest.as_slice(), inputs.last_written()), (&[4; 4][..], 3));
    }
}

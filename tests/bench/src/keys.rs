//! The values that everything is measured with, and the requests and rows about them.
//!
//! Names, nodes and values have a fixed width, so that every request and every answer has the same size.

use std::io::Write as _;

use fastrand::Rng;

use crate::load::Requests;

/// Rows in one batch.
pub const BATCH_ROWS: usize = 1_000;
/// Different batches that are prepared; they are sent in turn.
const PREPARED_BATCHES: usize = 64;
/// Different rows that are prepared for databases; they are written in turn.
const PREPARED_ROWS: usize = 1 << 16;

/// So many data names on so many nodes.
#[derive(Debug, Clone, Copy)]
pub struct Keys {
    pub names: u32,
    pub nodes: u32,
}

/// The rows that a database is asked to store.
#[derive(Debug, Clone)]
pub struct Row {
    pub id: String,
    pub name: String,
    pub node: String,
    pub value: String,
}

impl Row {
    fn new((name, node): (u32, u32), rng: &mut Rng) -> Self {
        let (name, node) = (name_of(name), node_of(node));
        Row { id: format!("{name}/{node}"), name, node, value: format!("0.{:06}", rng.u32(0..1_000_000)) }
    }

    fn push_json(&self, out: &mut Vec<u8>) {
        let Row { name, node, value, .. } = self;
        // Writing to a vector does not fail.
        let _ = write!(out, r#"{{"dataName":"{name}","nodeName":"{node}","dataValue":{value}}}"#);
    }
}

impl Keys {
    pub fn count(self) -> usize {
        self.names as usize * self.nodes as usize
    }

    pub fn any(self, rng: &mut Rng) -> (u32, u32) {
        (rng.u32(0..self.names), rng.u32(0..self.nodes))
    }

    /// Every row once, in order.
    pub fn all(self) -> impl Iterator<Item = Row> + Send {
        let mut rng = Rng::with_seed(1);
        let keys = (0..self.names).flat_map(move |name| (0..self.nodes).map(move |node| (name, node)));
        keys.map(move |key| Row::new(key, &mut rng))
    }

    /// Rows with random keys.
    pub fn some(self) -> Vec<Row> {
        let mut rng = Rng::with_seed(2);
        (0..PREPARED_ROWS).map(|_| Row::new(self.any(&mut rng), &mut rng)).collect()
    }
}

pub fn name_of(number: u32) -> String {
    format!("bench_{number:04}")
}

pub fn node_of(number: u32) -> String {
    format!("node-{number:03}")
}

/// Reads of one value, each of a random name and node.
pub struct ReadOne(pub Keys, pub Rng);

impl Requests for ReadOne {
    fn next(&mut self, out: &mut Vec<u8>) -> bool {
        let (name, node) = self.0.any(&mut self.1);
        push_get(out, format_args!("/api/data/bench_{name:04}/node-{node:03}"));
        true
    }
}

/// Reads of all values of a name: of the first name if there is only one, else of a random one.
pub struct ReadName(pub Keys, pub Rng);

impl Requests for ReadName {
    fn next(&mut self, out: &mut Vec<u8>) -> bool {
        let (name, _) = self.0.any(&mut self.1);
        push_get(out, format_args!("/api/data?dataName=bench_{name:04}"));
        true
    }
}

/// One read of all values of each name.
pub struct EachName(pub std::ops::Range<u32>);

impl Requests for EachName {
    fn next(&mut self, out: &mut Vec<u8>) -> bool {
        let Some(name) = self.0.next() else { return false };
        push_get(out, format_args!("/api/data?dataName=bench_{name:04}"));
        true
    }
}

/// Single writes of random keys.
pub struct WriteOne {
    keys: Keys,
    rng: Rng,
    body: Vec<u8>,
}

impl WriteOne {
    pub fn new(keys: Keys, rng: Rng) -> Self {
        WriteOne { keys, rng, body: Vec::new() }
    }
}

impl Requests for WriteOne {
    fn next(&mut self, out: &mut Vec<u8>) -> bool {
        let ((name, node), value) = (self.keys.any(&mut self.rng), self.rng.u32(0..1_000_000));
        self.body.clear();
        let _ = write!(
            self.body,
            r#"{{"dataName":"bench_{name:04}","nodeName":"node-{node:03}","dataValue":0.{value:06}}}"#
        );
        push_post(out, "/api/data", &self.body);
        true
    }
}

/// Batches of random keys, over and over.
pub struct WriteBatch {
    prepared: Vec<Vec<u8>>,
    next: usize,
}

impl WriteBatch {
    pub fn new(keys: Keys) -> Self {
        let rows = keys.some();
        let prepared = rows.chunks_exact(BATCH_ROWS).take(PREPARED_BATCHES).map(batch_request).collect();
        WriteBatch { prepared, next: 0 }
    }
}

impl Requests for WriteBatch {
    fn next(&mut self, out: &mut Vec<u8>) -> bool {
        out.extend_from_slice(&self.prepared[self.next % self.prepared.len()]);
        self.next += 1;
        true
    }
}

/// Every value once, in batches.
pub struct WriteAll<I>(pub I);

impl<I: Iterator<Item = Row> + Send> Requests for WriteAll<I> {
    fn next(&mut self, out: &mut Vec<u8>) -> bool {
        let rows: Vec<Row> = self.0.by_ref().take(BATCH_ROWS).collect();
        if !rows.is_empty() {
            out.extend_from_slice(&batch_request(&rows));
        }
        !rows.is_empty()
    }
}

fn batch_request(rows: &[Row]) -> Vec<u8> {
    let mut body = vec![b'['];
    for row in rows {
        if body.len() > 1 {
            body.push(b',');
        }
        row.push_json(&mut body);
    }
    body.push(b']');
    let mut request = Vec::with_capacity(body.len() + 200);
    push_post(&mut request, "/api/data/batch", &body);
    request
}

fn push_get(out: &mut Vec<u8>, path: std::fmt::Arguments<'_>) {
    let _ = write!(out, "GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nAccept: */*\r\n\r\n");
}

/// Appends a request with a body.
pub fn push_post(out: &mut Vec<u8>, path: &str, body: &[u8]) {
    let _ = write!(
        out,
        "POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nAccept: */*\r\nContent-Type: application/json\r\n\
         Content-Length: {}\r\n\r\n",
        body.len()
    );
    out.extend_from_slice(body);
}

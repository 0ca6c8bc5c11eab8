//! As much of the data service as a worker meets: the watch of its part.

use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

use serde_json::{Value, json};

/// Answers watches with one value, and tells them when it changes.
pub struct Plane {
    pub address: String,
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    part: Option<Value>,
    watchers: Vec<TcpStream>,
    /// The first lines of all requests.
    requests: Vec<String>,
}

impl Plane {
    pub fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let state = Arc::new(Mutex::new(State::default()));
        let shared = state.clone();
        // It ends with the process: nothing of it outlives the test.
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                answer(stream, &shared);
            }
        });
        Plane { address, state }
    }

    /// Writes the part, as a scheduler would.
    pub fn write(&self, part: Value) {
        let mut state = self.state.lock().unwrap();
        let event = format!("event: change\ndata: {}\n\n", value(&part));
        state.part = Some(part);
        // A watcher that is gone is no matter.
        state.watchers.retain_mut(|watcher| watcher.write_all(event.as_bytes()).is_ok());
    }

    pub fn delete(&self) {
        let mut state = self.state.lock().unwrap();
        state.part = None;
        let event =
            "event: delete\ndata: {\"dataName\":\"birds.part\",\"nodeName\":\"n1\",\"revision\":9}\n\n";
        state.watchers.retain_mut(|watcher| watcher.write_all(event.as_bytes()).is_ok());
    }

    pub fn requests(&self) -> Vec<String> {
        self.state.lock().unwrap().requests.clone()
    }
}

fn answer(mut stream: TcpStream, state: &Mutex<State>) {
    let mut lines = BufReader::new(stream.try_clone().unwrap()).lines().map_while(Result::ok);
    let Some(request) = lines.next() else { return };
    lines.take_while(|line| !line.is_empty()).for_each(drop);
    let mut state = state.lock().unwrap();
    state.requests.push(request);
    let values: Vec<Value> = state.part.iter().map(value).collect();
    let snapshot = json!({ "revision": 1, "reason": "start", "values": values });
    let head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n";
    if write!(stream, "{head}event: snapshot\ndata: {snapshot}\n\n").is_ok() {
        state.watchers.push(stream);
    }
}

fn value(part: &Value) -> Value {
    let at = "2026-01-31T12:00:00.000000Z";
    json!({
        "dataName": "birds.part", "nodeName": "n1", "dataValue": part, "collectedAt": at, "receivedAt": at,
        "validFor": null, "state": "fresh", "revision": 1,
    })
}

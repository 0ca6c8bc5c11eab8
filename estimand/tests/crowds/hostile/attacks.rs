//! Attacks of a hostile user, all at once, with one token, until it is told to end. Each way counts how often it was let in and
//! how often refused.

use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use estimand_testkit::http::Http;
use estimand_testkit::wait::pass;
use serde_json::{Value, json};

use super::Site;

const PATIENCE_OF_HOSTILES: Duration = Duration::from_secs(20);
const LARGE: usize = 240_000;
/// Connections of each kind that are held at once.
const MANY: usize = 300;
/// Between two bytes of a slow upload.
const SLOWLY: Duration = Duration::from_secs(4);
/// Between two requests of one way: it would else take all processors by itself, as any client could.
const BREATH: Duration = Duration::from_millis(5);

/// The path and body of a request by its number.
type Asked = fn(usize) -> (String, Value);

/// The ways that are answered, with what they send.
const ASKING: [(&str, Asked); 7] = [
    ("documents", |_| {
        (
            "/api/tasks".to_owned(),
            json!({ "command": ["/bin/true"], "environment": { "X": "x".repeat(LARGE) },
        "nodes": "node=nowhere" }),
        )
    }),
    ("empty lines", |_| ("/api/tasks".to_owned(), json!({ "command": ["/usr/bin/yes", ""] }))),
    ("arrays", |_| ("/api/tasks".to_owned(), json!({ "command": ["/bin/sleep", "3600"], "count": 10_000 }))),
    ("priority", |_| {
        ("/api/tasks".to_owned(), json!({ "command": ["/bin/sleep", "3600"], "priority": 1_000_000 }))
    }),
    ("places", |_| {
        (
            "/api/reservations".to_owned(),
            json!({ "resources": { "tasks": 255 }, "duration": "50m", "value": 1 }),
        )
    }),
    ("units", |_| {
        (
            "/api/reservations".to_owned(),
            json!({ "resources": { "memory": 1 }, "width": 200, "duration": "50m",
        "value": 100 }),
        )
    }),
    ("reservations", |number| {
        (
            "/api/reservations".to_owned(),
            json!({ "resources": { "cpu": 0.001 }, "duration": "1s",
        "from": format!("{}s", 600 + number % 2_000), "by": "55m", "value": 1,
        "task": { "command": ["/bin/true"], "environment": { "X": "x".repeat(LARGE) } } }),
        )
    }),
];

/// The ways that hold connections open: a request's path, with whatever more its head says.
const HOLDING: [(&str, &str); 4] = [
    ("watches", "GET /api/tasks/watch HTTP/1.1\r\n"),
    ("polls", "GET /api/tasks/events?id=nothing*&waitMs=60000 HTTP/1.1\r\n"),
    ("silence", ""),
    ("half a head", "GET /api/tasks HTTP/1.1\r\nX-More: "),
];

/// The ways that are refused within seconds, however slow the machine.
const AT_ONCE: [&str; 5] = ["arrays", "priority", "places", "polls", "watches"];

#[derive(Debug, Default, Clone, Copy)]
struct Count {
    let_in: u64,
    refused: u64,
}

pub struct Attacks {
    client: Http,
    address: String,
    lines: SocketAddr,
    token: String,
    counts: Mutex<BTreeMap<&'static str, Count>>,
    refusals: Mutex<BTreeMap<&'static str, String>>,
}

impl Attacks {
    pub fn new(site: &Site, number: usize) -> Self {
        Attacks {
            client: site.user(number).with_deadline(PATIENCE_OF_HOSTILES),
            address: site.plane.http.authority().to_owned(),
            lines: site.plane.lines,
            token: site.tokens[number].clone(),
            counts: Mutex::default(),
            refusals: Mutex::default(),
        }
    }

    pub fn go_on_until(&self, over: &AtomicBool) {
        thread::scope(|scope| {
            for (way, asked) in ASKING {
                scope.spawn(move || self.ask(way, asked, over));
            }
            for (way, head) in HOLDING {
                scope.spawn(move || self.hold(way, head, over));
            }
            scope.spawn(|| self.upload_slowly(over));
            scope.spawn(|| self.leave_uploads_unfinished(over));
            scope.spawn(|| self.keep_files(over));
            scope.spawn(|| self.say_lines(over));
        });
    }

    fn count(&self, way: &'static str, is_refused: bool) {
        let mut counts = self.counts.lock().unwrap();
        let count = counts.entry(way).or_default();
        count.refused += u64::from(is_refused);
        count.let_in += u64::from(!is_refused);
    }

    /// Counts an answer; a connection that was cut or not taken is a refusal, too.
    fn note(&self, way: &'static str, answer: std::io::Result<estimand_testkit::http::Response>) {
        let is_refused = !answer.as_ref().is_ok_and(|answer| answer.status < 300);
        if let Ok(answer) = answer
            && is_refused
        {
            let words = String::from_utf8_lossy(&answer.body).into_owned();
            self.refusals.lock().unwrap().entry(way).or_insert(words);
        }
        self.count(way, is_refused);
    }

    fn ask(&self, way: &'static str, asked: Asked, over: &AtomicBool) {
        for number in 0.. {
            if over.load(Ordering::Acquire) {
                return;
            }
            let (path, body) = asked(number);
            let kind = [("Content-Type", "application/json")];
            let answer = self.client.try_request("POST", &path, &kind, body.to_string().as_bytes());
            self.note(way, answer);
            pass(BREATH);
        }
    }

    fn connect(&self, head: &str) -> Option<TcpStream> {
        let mut stream = TcpStream::connect(&self.address).ok()?;
        let text = match head.strip_suffix("HTTP/1.1\r\n") {
            Some(_) => format!("{head}Host: x\r\nAuthorization: Bearer {}\r\n\r\n", self.token),
            None => head.to_owned(),
        };
        stream.write_all(text.as_bytes()).ok()?;
        stream.set_nonblocking(true).ok()?;
        Some(stream)
    }

    /// Keeps many connections, and opens each again that is answered or closed.
    fn hold(&self, way: &'static str, head: &str, over: &AtomicBool) {
        let mut open: Vec<Option<TcpStream>> = (0..MANY).map(|_| None).collect();
        while !over.load(Ordering::Acquire) {
            for place in &mut open {
                if place.as_mut().is_some_and(|stream| self.was_refused(way, stream)) {
                    *place = None;
                    self.count(way, true);
                }
                if place.is_none() {
                    *place = self.connect(head);
                    self.count(way, place.is_none());
                }
            }
            pass(BREATH * 40);
        }
    }

    /// True if the connection was closed, or answered by anything but a stream.
    fn was_refused(&self, way: &'static str, stream: &mut TcpStream) -> bool {
        let mut bytes = [0; 4096];
        match stream.read(&mut bytes) {
            Ok(0) => true,
            Ok(count) => {
                let text = String::from_utf8_lossy(&bytes[..count]).into_owned();
                let is_problem = text.contains("application/problem+json");
                if is_problem {
                    self.refusals.lock().unwrap().entry(way).or_insert(text);
                }
                is_problem
            }
            Err(error) => error.kind() != std::io::ErrorKind::WouldBlock,
        }
    }

    /// A byte now and then on as many uploads as there are places.
    fn upload_slowly(&self, over: &AtomicBool) {
        let way = "slow uploads";
        let mut open: Vec<Option<TcpStream>> = (0..80).map(|_| None).collect();
        while !over.load(Ordering::Acquire) {
            for (number, place) in open.iter_mut().enumerate() {
                let goes_on = place
                    .as_mut()
                    .is_some_and(|stream| !self.was_refused(way, stream) && stream.write_all(b"x").is_ok());
                if !goes_on {
                    let head = format!(
                        "PUT /api/files/content?path=slow/{number} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {}\r\nContent-Length: 1000000\r\n\r\nx",
                        self.token
                    );
                    self.count(way, place.is_some());
                    *place = self.connect(&head);
                }
            }
            for _ in 0..20 {
                if !over.load(Ordering::Acquire) {
                    pass(SLOWLY / 20);
                }
            }
        }
    }

    fn leave_uploads_unfinished(&self, over: &AtomicBool) {
        for number in 0.. {
            if over.load(Ordering::Acquire) {
                return;
            }
            let path = format!("/api/files/content?path=half/{number}&size=2000000&offset=0");
            self.note("unfinished", self.client.try_request("PUT", &path, &[], &[b'x'; 1000]));
            pass(BREATH);
        }
    }

    fn keep_files(&self, over: &AtomicBool) {
        for number in 0.. {
            if over.load(Ordering::Acquire) {
                return;
            }
            let path = format!("/api/files/content?path=many/{number}");
            self.note("files", self.client.try_request("PUT", &path, &[], b"x"));
            pass(BREATH);
        }
    }

    /// Connections for lines that say no token, and one that never reads.
    fn say_lines(&self, over: &AtomicBool) {
        let way = "lines";
        let mut open: Vec<Option<TcpStream>> = (0..MANY).map(|_| None).collect();
        while !over.load(Ordering::Acquire) {
            for (number, place) in open.iter_mut().enumerate() {
                if place.as_mut().is_some_and(|stream| number > 0 && self.was_refused(way, stream)) {
                    *place = None;
                    self.count(way, true);
                }
                if place.is_none() {
                    *place = TcpStream::connect(self.lines)
                        .ok()
                        .filter(|stream| stream.set_nonblocking(true).is_ok());
                    self.count(way, place.is_none());
                    if let Some(stream) = place.as_mut().filter(|_| number == 0) {
                        let _ = stream.write_all(format!("{}\n", json!({ "token": self.token })).as_bytes());
                    }
                }
            }
            if let Some(Some(stream)) = open.first_mut() {
                let line = format!("{}\n", json!({ "id": 1, "list": {} }));
                while stream.write_all(line.as_bytes()).is_ok() {}
            }
            pass(BREATH * 40);
        }
    }

    /// A share that is never full would bound nothing. Some are used up at once, the others if there is time.
    #[track_caller]
    pub fn check_refused(&self, has_time: bool) {
        let counts = self.counts.lock().unwrap();
        let is_due = |way: &str| has_time || AT_ONCE.contains(&way);
        let unbounded: Vec<_> =
            counts.iter().filter(|(way, count)| count.refused == 0 && is_due(way)).collect();
        assert!(unbounded.is_empty(), "never refused: {unbounded:?}");
    }

    pub fn print(&self) {
        let refusals = self.refusals.lock().unwrap();
        for (way, count) in self.counts.lock().unwrap().iter() {
            let words = refusals.get(way).map_or("", |words| words.lines().last().unwrap_or_default());
            println!("{way:<14}{:>8} let in{:>8} refused  {words}", count.let_in, count.refused);
        }
    }

    /// The hostile user's tasks are cancelled by an operator, so that what comes after is not beside them.
    pub fn end(&self, site: &Site) {
        let label =
            format!("/api/tasks?user={}&state=QUEUED,RUNNING&limit=1000", super::name(super::USERS - 1));
        loop {
            let found = site.plane.http.get(&label).expect_status(200).json();
            let found = found["tasks"].as_array().unwrap().clone();
            if found.is_empty() {
                return;
            }
            for task in found {
                let id = task["id"].as_str().unwrap();
                site.plane.http.request("POST", &format!("/api/tasks/{id}/cancel"), &[], b"");
            }
        }
    }
}

//! Stands in for the manager and the task service of one node: says what belongs there, and takes the news.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use estimand_testkit::wait;
use serde_json::{Value, json};

/// How long a question for the desired state waits; a real manager takes longer.
const WAIT: Duration = Duration::from_millis(200);

pub struct StandIn {
    url: String,
    state: Arc<Mutex<State>>,
}

/// The news of one attempt.
#[derive(Debug, Default, Clone)]
pub struct AttemptNews {
    /// By their numbers.
    pub lines: BTreeMap<u64, Value>,
    /// The lines, as often as they came.
    pub lines_sent: usize,
    /// Each stage once.
    pub stages: Vec<Value>,
    /// How many lines there were when its end came.
    pub lines_at_end: Option<usize>,
}

struct State {
    revision: u64,
    tasks: Value,
    /// So long ago the manager was told the tasks.
    age: Duration,
    lease_ms: u64,
    /// False: heartbeats are not answered.
    beats: bool,
    /// False: news are not taken.
    takes: bool,
    /// The start of the agent that has said that it leaves.
    left: Option<Value>,
    heard: BTreeMap<String, AttemptNews>,
}

impl StandIn {
    pub fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let state = Arc::new(Mutex::new(State {
            revision: 1,
            tasks: json!([]),
            age: Duration::ZERO,
            lease_ms: 60_000,
            beats: true,
            takes: true,
            left: None,
            heard: BTreeMap::new(),
        }));
        let shared = Arc::clone(&state);
        // It ends with the test's process.
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let state = Arc::clone(&shared);
                thread::spawn(move || serve(stream, &state));
            }
        });
        StandIn { url, state }
    }

    pub fn url(&self) -> &str {
        &self.url
    }

    /// Says what belongs on the node: all of it.
    pub fn assign(&self, tasks: Value) {
        let mut state = self.state();
        state.tasks = tasks;
        state.revision += 1;
    }

    /// Says the same as a manager that was told so long ago.
    pub fn assign_late(&self, tasks: Value, age: Duration) {
        self.state().age = age;
        self.assign(tasks);
    }

    /// From now on it does not say what belongs on the node, as a manager that was not told yet.
    pub fn say_nothing_of_tasks(&self) {
        self.assign(Value::Null);
    }

    pub fn give_leases_of(&self, lease: Duration) {
        self.state().lease_ms = u64::try_from(lease.as_millis()).unwrap();
    }

    pub fn answer_heartbeats(&self, beats: bool) {
        self.state().beats = beats;
    }

    /// True if its agent's last word was that the node has nothing any more.
    pub fn has_left(&self) -> bool {
        self.state().left.is_some()
    }

    pub fn take_news(&self, takes: bool) {
        self.state().takes = takes;
    }

    /// The news of an attempt, `ID.NUMBER`.
    pub fn heard(&self, attempt: &str) -> AttemptNews {
        self.state().heard.get(attempt).cloned().unwrap_or_default()
    }

    /// Looks at the news of an attempt, which may be many, where they are.
    pub fn look_at<T>(&self, attempt: &str, look: impl FnOnce(&AttemptNews) -> T) -> T {
        look(self.state().heard.get(attempt).unwrap_or(&AttemptNews::default()))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn serve(stream: TcpStream, state: &Mutex<State>) -> Option<()> {
    let mut reader = BufReader::new(stream);
    loop {
        let mut head = Vec::new();
        loop {
            let mut line = String::new();
            if reader.read_line(&mut line).ok()? == 0 {
                return None;
            }
            match line.trim_end() {
                "" => break,
                line => head.push(line.to_owned()),
            }
        }
        let length = head.iter().find_map(|line| {
            let (name, value) = line.split_once(':')?;
            name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse().unwrap())
        });
        let mut body = vec![0; length.unwrap_or(0)];
        reader.read_exact(&mut body).ok()?;
        let mut words = head[0].split(' ');
        let (method, target) = (words.next()?, words.next()?);
        let (status, answer) = answer(state, method, target, &body);
        let text = answer.map_or_else(String::new, |answer| answer.to_string());
        let kind = if status < 400 { "application/json" } else { "application/problem+json" };
        let head = match status {
            204 => "HTTP/1.1 204 Well\r\n\r\n".to_owned(),
            _ => format!(
                "HTTP/1.1 {status} Well\r\nContent-Type: {kind}\r\nContent-Length: {}\r\n\r\n",
                text.len()
            ),
        };
        reader.get_mut().write_all((head + &text).as_bytes()).ok()?;
    }
}

fn answer(state: &Mutex<State>, method: &str, target: &str, body: &[u8]) -> (u16, Option<Value>) {
    let lock = || state.lock().unwrap_or_else(PoisonError::into_inner);
    let path = target.split('?').next().unwrap_or_default();
    match (method, path) {
        ("POST", "/api/tasks/news") => {
            let mut state = lock();
            if !state.takes {
                return (503, None);
            }
            state.take(&serde_json::from_slice(body).unwrap());
            (200, Some(json!({})))
        }
        ("POST", path) if path.ends_with("/heartbeat") => {
            let mut state = lock();
            let beat: Value = serde_json::from_slice(body).unwrap();
            // A beat that was on its way when the agent left says nothing any more.
            if beat["leaving"] == json!(true) {
                state.left = Some(beat["boot"].clone());
            } else if state.left.as_ref() != Some(&beat["boot"]) {
                state.left = None;
            }
            match state.beats {
                true => (200, Some(json!({"intervalMs": 100, "leaseMs": state.lease_ms, "resend": false}))),
                false => (503, None),
            }
        }
        ("GET", path) if path.ends_with("/slots") => {
            let known = target.split(['?', '&']).find_map(|part| part.strip_prefix("revision="));
            let newer = wait::poll(WAIT, || {
                let state = lock();
                match Some(state.revision.to_string().as_str()) == known {
                    true => Err(()),
                    false => Ok(json!({
                        "revision": state.revision, "slots": [], "tasks": state.tasks,
                        "tasksAgeMs": u64::try_from(state.age.as_millis()).unwrap(),
                    })),
                }
            });
            newer.map_or((204, None), |desired| (200, Some(desired)))
        }
        _ => (404, None),
    }
}

impl State {
    fn take(&mut self, news: &Value) {
        let name = |one: &Value| format!("{}.{}", one["id"].as_str().unwrap(), one["attempt"]);
        for log in news["logs"].as_array().into_iter().flatten() {
            let heard = self.heard.entry(name(log)).or_default();
            for (number, line) in (log["first"].as_u64().unwrap()..).zip(log["lines"].as_array().unwrap()) {
                heard.lines_sent += 1;
                let known = heard.lines.entry(number).or_insert_with(|| line.clone());
                assert_eq!(
                    (&known["text"], &known["at"]),
                    (&line["text"], &line["at"]),
                    "line {number} changed"
                );
            }
        }
        for report in news["reports"].as_array().into_iter().flatten() {
            let heard = self.heard.entry(name(report)).or_default();
            let stage = report["stage"].clone();
            if stage.get("ended").is_some() {
                heard.lines_at_end.get_or_insert(heard.lines.len());
            }
            if !heard.stages.contains(&stage) {
                heard.stages.push(stage);
            }
        }
    }
}

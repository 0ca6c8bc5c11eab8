//! Writers that count, and the check of what is read against what they sent and had acknowledged.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{PoisonError, RwLock, RwLockWriteGuard};
use std::time::Duration;

use serde_json::Value;

use crate::http::Http;
use crate::wait::{self, PATIENCE};

const SINGLES: usize = 8;
const BATCHES: usize = 2;
const BATCH_ITEMS: u64 = 20;
/// Leaves the processor to the others.
const BETWEEN_READS: Duration = Duration::from_millis(5);

pub struct Load {
    base: String,
    writers: Vec<Writer>,
    stopping: AtomicBool,
    /// A writer passes it before it sends; held for writing while there is nobody to send to.
    gate: RwLock<()>,
}

/// One connection's counter.
struct Writer {
    name: String,
    /// The nodes that it writes at once, all with the same counter.
    nodes: u64,
    sent: AtomicU64,
    acknowledged: AtomicU64,
    /// Answers that said to try again later.
    refused: AtomicU64,
}

/// Ends the writers also when a check has failed.
struct Stop<'l>(&'l AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}

impl Load {
    pub fn new(base: &str) -> Self {
        let singles = (0..SINGLES).map(|place| Writer::new(format!("single_{place}"), 1));
        let batches = (0..BATCHES).map(|place| Writer::new(format!("batch_{place}"), BATCH_ITEMS));
        Load::of(base, singles.chain(batches).collect())
    }

    /// Nothing but batches of so many values.
    pub fn of_batches(base: &str, writers: usize, items: u64) -> Self {
        Load::of(base, (0..writers).map(|place| Writer::new(format!("bulk_{place}"), items)).collect())
    }

    fn of(base: &str, writers: Vec<Writer>) -> Self {
        Load { base: base.to_owned(), writers, stopping: AtomicBool::new(false), gate: RwLock::new(()) }
    }

    /// Runs the writers, and a reader if one is wanted, for as long as `work` runs; returns how many answers
    /// the reader got.
    pub fn run_during(&self, reading: bool, work: impl FnOnce()) -> u64 {
        std::thread::scope(|scope| {
            let stop = Stop(&self.stopping);
            for writer in &self.writers {
                scope.spawn(|| self.write(writer));
            }
            let (running, ended) = channel::<()>();
            let reader = reading.then(|| scope.spawn(move || self.read(&ended)));
            work();
            drop((stop, running));
            reader.map_or(0, |reader| reader.join().expect("the reader found nothing wrong"))
        })
    }

    fn write(&self, writer: &Writer) {
        let http = Http::new(&self.base);
        while !self.stopping() {
            drop(self.gate.read().unwrap_or_else(PoisonError::into_inner));
            writer.write_next(&http);
        }
    }

    /// Must always be answered, and never sees less than was acknowledged nor half a batch.
    fn read(&self, ended: &Receiver<()>) -> u64 {
        let http = Http::new(&self.base);
        let mut answers = 0;
        while ended.recv_timeout(BETWEEN_READS) == Err(RecvTimeoutError::Timeout) {
            self.check(&http);
            answers += self.writers.len() as u64;
        }
        answers
    }

    /// Keeps the writers from sending until it is dropped.
    pub fn hold(&self) -> RwLockWriteGuard<'_, ()> {
        self.gate.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// The last acknowledged counter of each writer.
    pub fn acknowledged(&self) -> Vec<u64> {
        self.writers.iter().map(|writer| writer.acknowledged.load(Ordering::Acquire)).collect()
    }

    /// How many values were acknowledged.
    pub fn values(&self) -> u64 {
        let values = |writer: &Writer| writer.acknowledged.load(Ordering::Acquire) * writer.nodes;
        self.writers.iter().map(values).sum()
    }

    /// How many writes were refused, all writers together.
    pub fn refused(&self) -> u64 {
        self.writers.iter().map(|writer| writer.refused.load(Ordering::Acquire)).sum()
    }

    /// Waits until so many more writes are acknowledged, of all writers together.
    pub fn wait_for_progress(&self, more: u64) {
        let total = || self.acknowledged().iter().sum::<u64>();
        let goal = total() + more;
        wait::until_ok(PATIENCE, "writes to be acknowledged", || self.fine(total() >= goal));
    }

    /// Waits until every writer had a further write acknowledged.
    pub fn wait_for_everyone(&self) {
        let before = self.acknowledged();
        let all = || self.acknowledged().iter().zip(&before).all(|(now, before)| now > before);
        wait::until_ok(PATIENCE, "every writer to go on", || self.fine(all()));
    }

    /// Checks all that is read.
    pub fn check(&self, http: &Http) {
        self.check_since(http, &self.acknowledged());
    }

    /// The same against what had been acknowledged at an earlier time.
    pub fn check_since(&self, http: &Http, acknowledged: &[u64]) {
        for (writer, acknowledged) in self.writers.iter().zip(acknowledged) {
            writer.check(http, *acknowledged);
        }
    }

    fn stopping(&self) -> bool {
        self.stopping.load(Ordering::Acquire)
    }

    fn fine(&self, done: bool) -> Result<(), String> {
        if done { Ok(()) } else { Err(format!("{:?}", self.acknowledged())) }
    }
}

impl Writer {
    fn new(name: String, nodes: u64) -> Self {
        let [sent, acknowledged, refused] = [0, 0, 0].map(AtomicU64::new);
        Writer { name, nodes, sent, acknowledged, refused }
    }

    /// Writes the next counter, and notes whether that was acknowledged.
    fn write_next(&self, http: &Http) {
        let counter = self.sent.load(Ordering::Relaxed) + 1;
        self.sent.store(counter, Ordering::Release);
        // Text, since who sends thousands at once would be busy with nothing else.
        let name = &self.name;
        let item = |node| format!(r#"{{"dataName":"{name}","nodeName":"n{node}","dataValue":{counter}}}"#);
        let (method, path, body) = match self.nodes {
            1 => ("PUT", "/api/data", item(0)),
            nodes => {
                let items: Vec<String> = (0..nodes).map(item).collect();
                ("POST", "/api/data/batch", format!("[{}]", items.join(",")))
            }
        };
        let Ok(answer) = http.try_request(method, path, &[], body.as_bytes()) else { return };
        match answer.status {
            200 | 201 => self.acknowledged.store(counter, Ordering::Release),
            503 => {
                assert!(answer.header("retry-after").is_some(), "{answer}");
                self.refused.fetch_add(1, Ordering::Release);
            }
            _ => panic!("{method} {path} was answered {answer}"),
        }
    }

    fn check(&self, http: &Http, acknowledged: u64) {
        let answer = http.get(&format!("/api/data?dataName={}", self.name)).expect_status(200);
        let sent = self.sent.load(Ordering::Acquire);
        let values: Vec<Value> = serde_json::from_slice(&answer.body).expect("a list of values");
        let counters: Vec<u64> =
            values.iter().map(|value| value["dataValue"].as_u64().expect("a counter")).collect();
        let expected = if acknowledged == 0 && counters.is_empty() { 0 } else { self.nodes };
        assert_eq!(counters.len() as u64, expected, "{}: {counters:?}", self.name);
        let name = &self.name;
        assert!(counters.windows(2).all(|pair| pair[0] == pair[1]), "half a batch of {name}: {counters:?}");
        for counter in counters {
            assert!(counter >= acknowledged, "{name} is {counter}, but {acknowledged} was acknowledged");
            assert!(counter <= sent, "{name} is {counter}, but only {sent} was sent");
        }
    }
}

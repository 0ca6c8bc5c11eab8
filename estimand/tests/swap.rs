//! Swapping estimators while schedulers read: no error, no gap and no mix, and nothing acknowledged is lost.
//!
//! Every value says which estimator it is of, so a reply that is of two of them at once is found at sight. Values
//! are written all the time. The third estimator emits objects and is bound by a field, so that swaps change how
//! values are shown as well.
#![allow(clippy::unwrap_used)]

use std::collections::{BTreeMap, BTreeSet};
use std::io::ErrorKind;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use estimand_testkit::http::{Event, Http, Response};
use estimand_testkit::process::{self, Estimand, free_port};
use estimand_testkit::wait::PATIENCE;
use serde_json::{Value, json};

/// A watcher that has not caught up by then has lost a change.
const LOST_AFTER: Duration = Duration::from_secs(60);

const STABLE: &str = "node_capability";
const NODES: u64 = 50;
const SWAPS: u64 = 1_000;
const READERS: usize = 3;
/// A value is its estimator's number times this, and what it counts.
const OF_ESTIMATOR: u64 = 1_000_000;
const KILLS: usize = 10;

/// Ends the threads also when a check has failed.
struct Stop<'s>(&'s AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}

fn start() -> Estimand {
    process::estimand().args(["up", "--no-agent"]).port(free_port()).start()
}

fn name(estimator: u64) -> String {
    format!("estimator_{estimator}")
}

/// An estimator's values for all nodes at once.
fn batch(estimator: u64, count: u64) -> Value {
    let number = estimator * OF_ESTIMATOR + count % OF_ESTIMATOR;
    let value = if estimator == 2 { json!({"value": number, "spread": 0}) } else { json!(number) };
    let item =
        |node| json!({"dataName": name(estimator), "nodeName": format!("n{node:02}"), "dataValue": value});
    (0..NODES).map(item).collect()
}

fn write(http: &Http, estimator: u64, count: u64) {
    http.send_json("POST", "/api/data/batch", &batch(estimator, count)).expect_status(200);
}

fn target(estimator: u64) -> Value {
    match estimator {
        2 => json!({"to": name(2), "field": "/value"}),
        other => json!({"to": name(other)}),
    }
}

fn bind(http: &Http, estimator: u64) -> Response {
    http.send_json("PUT", &format!("/api/bindings/{STABLE}"), &target(estimator))
}

/// The values by node, each of which must be shown under the stable name.
fn by_node<'v>(values: impl IntoIterator<Item = &'v Value>) -> BTreeMap<String, u64> {
    let one = |value: &Value| {
        assert_eq!(value["dataName"], STABLE, "{value}");
        let number = value["dataValue"].as_u64();
        (value["nodeName"].as_str().unwrap().to_owned(), number.unwrap_or_else(|| panic!("{value}")))
    };
    values.into_iter().map(one).collect()
}

/// The one estimator that all nodes have their values of.
#[track_caller]
fn whole(values: &BTreeMap<String, u64>) -> u64 {
    assert_eq!(values.len() as u64, NODES, "a gap: {values:?}");
    let of: BTreeSet<u64> = values.values().map(|number| number / OF_ESTIMATOR).collect();
    assert_eq!(of.len(), 1, "of several at once: {values:?}");
    of.into_iter().next().unwrap()
}

fn read(http: &Http) -> (u64, BTreeMap<String, u64>) {
    let answer = http.get(&format!("/api/data?dataName={STABLE}")).expect_status(200);
    let values: Vec<Value> = serde_json::from_slice(&answer.body).unwrap();
    (answer.header("estimand-revision").unwrap().parse().unwrap(), by_node(&values))
}

/// Polls as fast as it can; returns how many replies were of each estimator.
fn poll(base: &str, stop: &AtomicBool) -> BTreeMap<u64, u64> {
    let http = Http::new(base);
    let (mut seen, mut last) = (BTreeMap::new(), 0);
    while !stop.load(Ordering::Acquire) {
        let (revision, values) = read(&http);
        assert!(revision >= last, "revision {revision} after {last}");
        last = revision;
        *seen.entry(whole(&values)).or_default() += 1;
    }
    seen
}

/// Writes all estimators' values over and over; returns how often.
fn keep_writing(base: &str, stop: &AtomicBool) -> u64 {
    let http = Http::new(base);
    let mut count = 0;
    while !stop.load(Ordering::Acquire) {
        count += 1;
        write(&http, count % 3, count);
    }
    count
}

/// The state of a watcher, event by event.
#[derive(Default)]
struct Watched {
    values: BTreeMap<String, u64>,
    revision: u64,
    snapshots: u64,
}

impl Watched {
    fn take(&mut self, event: &Event) {
        let content = event.json();
        let revision = content["revision"].as_u64().unwrap();
        assert!(revision >= self.revision, "{revision} after {}: {event:?}", self.revision);
        self.revision = revision;
        match event.event.as_str() {
            "snapshot" => {
                self.values = by_node(content["values"].as_array().unwrap());
                self.snapshots += 1;
            }
            "change" => self.values.extend(by_node([&content])),
            "settled" => {}
            other => panic!("nothing is ever deleted, yet there was a {other}: {event:?}"),
        }
        whole(&self.values);
    }
}

/// Follows until everything has ended and what it knows is what is served.
fn follow(base: &str, stop: &AtomicBool) -> Watched {
    let http = Http::new(base);
    let mut events = http.sse(&format!("/api/data/watch?dataName={STABLE}"), &[]);
    let mut watched = Watched::default();
    let mut ended = None;
    loop {
        match events.try_next(Duration::from_millis(100)) {
            Ok(event) => watched.take(&event.expect("a watch has no end")),
            Err(error) if error.kind() == ErrorKind::TimedOut => {}
            Err(error) => panic!("{error}"),
        }
        if stop.load(Ordering::Acquire) {
            let since = ended.get_or_insert_with(Instant::now);
            if watched.values == read(&http).1 {
                return watched;
            }
            assert!(since.elapsed() < LOST_AFTER, "it has lost something: {:?}", watched.values);
        }
    }
}

#[test]
fn a_thousand_swaps_under_load_are_seen_whole() {
    let process = start();
    let (base, http) = (process.base_url(), process.http());
    (0..3).for_each(|estimator| write(&http, estimator, 0));
    bind(&http, 0).expect_status(200);
    let (stop, stop_writing) = (AtomicBool::new(false), AtomicBool::new(false));
    thread::scope(|scope| {
        let ending = (Stop(&stop), Stop(&stop_writing));
        let readers: Vec<_> = (0..READERS).map(|_| scope.spawn(|| poll(base, &stop))).collect();
        let watcher = scope.spawn(|| follow(base, &stop));
        let writer = scope.spawn(|| keep_writing(base, &stop_writing));
        let began = Instant::now();
        for swap in 1..=SWAPS {
            // Two of them take turns, then three.
            let estimator = if swap <= SWAPS / 2 { swap % 2 } else { swap % 3 };
            let answer = bind(&http, estimator).expect_status(200);
            assert_eq!(answer.header("estimand-hint"), None, "{answer}");
            // An acknowledged swap is visible.
            if swap % 10 == 0 {
                assert_eq!(whole(&read(&http).1), estimator);
            }
        }
        let took = began.elapsed();
        drop(ending);
        let written = writer.join().unwrap();
        let watched = watcher.join().unwrap();
        let mut replies: BTreeMap<u64, u64> = BTreeMap::new();
        for reader in readers {
            reader
                .join()
                .unwrap()
                .into_iter()
                .for_each(|(of, count)| *replies.entry(of).or_default() += count);
        }
        println!("{SWAPS} swaps in {took:?}, {written} batches written meanwhile, replies {replies:?}");
        println!("the watcher was told of {} swaps", watched.snapshots);
        assert_eq!(replies.len(), 3, "not every estimator was seen, so nothing was shown: {replies:?}");
        assert!(written > 3 && watched.snapshots > 3);
    });
    let history: Vec<Value> =
        serde_json::from_slice(&http.get(&format!("/api/bindings/{STABLE}/history?limit=2000")).body)
            .unwrap();
    assert_eq!(history.len() as u64, SWAPS + 1 - unchanged(), "each swap is kept once");
}

/// How many of the requests found that it is so already: where three begin to take turns.
fn unchanged() -> u64 {
    let of = |swap: u64| if swap <= SWAPS / 2 { swap % 2 } else { swap % 3 };
    (1..=SWAPS).filter(|swap| of(*swap) == if *swap == 1 { 0 } else { of(swap - 1) }).count() as u64
}

/// Swaps until the service is gone, and notes what was acknowledged: by revision, the estimator.
fn swap_until_killed(base: &str, sent: &AtomicU64, acknowledged: &Mutex<BTreeMap<u64, u64>>) {
    let http = Http::new(base);
    loop {
        let estimator = (sent.load(Ordering::Acquire) + 1) % 3;
        sent.store(estimator, Ordering::Release);
        let (path, body) = (format!("/api/bindings/{STABLE}"), target(estimator).to_string());
        let Ok(answer) = http.try_request("PUT", &path, &[], body.as_bytes()) else { return };
        let revision = answer.expect_status(200).json()["revision"].as_u64().unwrap();
        acknowledged.lock().unwrap_or_else(PoisonError::into_inner).insert(revision, estimator);
    }
}

#[test]
fn acknowledged_swaps_survive_kills() {
    let mut process = start();
    (0..3).for_each(|estimator| write(&process.http(), estimator, 0));
    bind(&process.http(), 0).expect_status(200);
    let sent = AtomicU64::new(0);
    let acknowledged = Mutex::new(BTreeMap::new());
    let count = || acknowledged.lock().unwrap_or_else(PoisonError::into_inner).len();
    for _ in 0..KILLS {
        let base = process.base_url().to_owned();
        thread::scope(|scope| {
            scope.spawn(|| swap_until_killed(&base, &sent, &acknowledged));
            let goal = count() + fastrand::usize(1..=40);
            estimand_testkit::wait::until(PATIENCE, "swaps to be acknowledged", || {
                (count() >= goal).then_some(())
            });
            process.kill9();
        });
        process.restart_on_same_port();
        check_after_restart(&process.http(), sent.load(Ordering::Acquire), &acknowledged);
    }
    println!("{} swaps were acknowledged over {KILLS} kills", count());
}

fn check_after_restart(http: &Http, sent: u64, acknowledged: &Mutex<BTreeMap<u64, u64>>) {
    let acknowledged = acknowledged.lock().unwrap_or_else(PoisonError::into_inner);
    let (_, last) = acknowledged.last_key_value().unwrap();
    let bound = http.get(&format!("/api/bindings/{STABLE}")).expect_status(200).json();
    let served = |estimator: u64| {
        let target = target(estimator);
        bound["to"] == target["to"] && bound["field"] == target["field"]
    };
    // The one that was under way when it was killed may have been stored or not.
    assert!(served(*last) || served(sent), "{bound} although {last} was acknowledged and {sent} sent");
    assert!(served(whole(&read(http).1)), "what is served is what is bound");

    let answer = http.get(&format!("/api/bindings/{STABLE}/history?limit=100000")).expect_status(200);
    let history: Vec<Value> = serde_json::from_slice(&answer.body).unwrap();
    let kept: BTreeMap<u64, &Value> =
        history.iter().map(|swap| (swap["revision"].as_u64().unwrap(), &swap["to"])).collect();
    for (revision, estimator) in acknowledged.iter() {
        assert_eq!(kept.get(revision).copied(), Some(&json!(name(*estimator))), "revision {revision}");
    }
    assert_eq!(history[0]["revision"], bound["revision"], "the newest is the one that holds");
    assert_eq!(bound["before"]["to"], history[1]["to"], "where a rollback leads is known again");
}

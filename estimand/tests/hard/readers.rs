//! Readers who ask for much and take nothing: the memory of a service does not depend on how many they are, and they
//! are cut off.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use estimand_testkit::http::Http;
use estimand_testkit::process::{Estimand, estimand};
use estimand_testkit::processes;
use estimand_testkit::wait::{self, PATIENCE};
use serde_json::{Value, json};

use crate::figures::mebibytes;

const NAMES: usize = 8;
const NODES: usize = 100;
const VALUE_BYTES: usize = 60 << 10;
/// All values, once.
const KNOWN_BYTES: u64 = (NAMES * NODES * VALUE_BYTES) as u64;
/// The memory that large responses may take together (invariant 8 of ARCHITECTURE.md), and what allocators add to it.
const MOST_GROWTH: u64 = (128 + 64) << 20;
const IDLE: usize = 24;

/// A service that knows some 50 MB.
fn full_service() -> Estimand {
    let service = estimand().args(["data"]).start();
    write_all(&service.http(), 0);
    service
}

/// Writes every value, other than in the last round.
fn write_all(http: &Http, round: usize) {
    let text = |node: usize| format!("{round} {}", "x".repeat(VALUE_BYTES - 16 - node % 8));
    for name in 0..NAMES {
        let value = |node| json!({"dataName": format!("name_{name}"), "nodeName": format!("n{node}"), "dataValue": {"text": text(node)}});
        let batch: Vec<Value> = (0..NODES).map(value).collect();
        http.send_json("POST", "/api/data/batch", &json!(batch)).expect_status(200);
    }
}

/// Asks, and takes nothing of the answer.
fn ask(service: &Estimand, path: &str) -> TcpStream {
    let authority = service.http().authority().to_owned();
    let mut stream = TcpStream::connect(&authority).unwrap();
    write!(stream, "GET {path} HTTP/1.1\r\nHost: {authority}\r\nConnection: close\r\n\r\n").unwrap();
    stream
}

fn connections(http: &Http) -> f64 {
    let metrics = http.get("/metrics").expect_status(200);
    let line = metrics.text().lines().find_map(|line| line.strip_prefix("estimand_http_connections "));
    line.expect("the figure is there").parse().unwrap()
}

/// Asks for each of the paths again and again while all values are replaced, and takes nothing. Returns the connections.
fn flood(service: &Estimand, what: &str, paths: &[&str]) -> Vec<TcpStream> {
    let http = service.http();
    // The values as they are, and once more as they are read by name, belong to the values.
    (0..NAMES).for_each(|name| drop(http.get(&format!("/api/data?dataName=name_{name}")).expect_status(200)));
    let before = processes::rss_bytes(service.pid());
    let (mut idle, mut most) = (Vec::new(), before);
    for round in 1..=3 {
        for _ in 0..IDLE / 3 {
            idle.extend(paths.iter().map(|path| ask(service, path)));
        }
        write_all(&http, round);
        let began = Instant::now();
        http.get("/api/data/name_0/n0").expect_status(200);
        assert!(began.elapsed() < Duration::from_secs(20), "a small read took {:?}", began.elapsed());
        most = most.max(processes::rss_bytes(service.pid()));
    }
    let grown = most.saturating_sub(before);
    println!(
        "{what}: {} idle connections over {} MiB known: {} MiB before, {} MiB more at most",
        idle.len(),
        mebibytes(KNOWN_BYTES),
        mebibytes(before),
        mebibytes(grown)
    );
    // While values are replaced there are two of each for a moment.
    let bound = MOST_GROWTH + KNOWN_BYTES;
    assert!(grown < bound, "{what}: {} MiB more than before", mebibytes(grown));
    idle
}

#[test]
fn readers_who_do_not_read_take_no_memory_and_are_cut_off() {
    let _alone = crate::with_the_processor();
    let service = full_service();
    let http = service.http();
    let paths = ["/api/data?dataName=*", "/api/data?dataName=*&state=fresh", "/api/data?dataName=name_1"];
    let mut idle = flood(&service, "readers", &paths);
    let asked = Instant::now();

    // A reader that is slow, but takes a little now and then, gets all of it.
    let whole = wait::until_ok(PATIENCE, "room for one more", || match http.get("/api/data?dataName=*") {
        answer if answer.status == 200 => Ok(answer.body.len()),
        answer => Err(answer.to_string()),
    });
    assert!(whole as u64 > KNOWN_BYTES, "{whole} bytes");
    wait::until_ok(PATIENCE, "the idle ones to be cut off", || match connections(&http) {
        few if few < 8.0 => Ok(()),
        many => Err(format!("{many} connections")),
    });
    println!("cut off after {:?}", asked.elapsed());
    let mut taken = Vec::new();
    // Either way it is over: the rest is not sent.
    let _ = idle[0].read_to_end(&mut taken);
    assert!((taken.len() as u64) < KNOWN_BYTES, "{} bytes", taken.len());
}

#[test]
fn watchers_who_do_not_read_take_no_memory() {
    let _alone = crate::with_the_processor();
    let service = full_service();
    let paths = [
        "/api/data/watch?dataName=*",
        "/api/data/watch?dataName=*&field=/text",
        "/api/data/watch?dataName=name_1",
    ];
    drop(flood(&service, "watchers", &paths));
}

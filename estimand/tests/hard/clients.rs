//! Clients that never finish what they began, and crowds of those that only listen.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::TcpStream;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use estimand_testkit::process::{Estimand, estimand, free_port};
use estimand_testkit::processes;
use estimand_testkit::proxy::{Proxy, Way};
use estimand_testkit::wait::{self, PATIENCE};
use serde_json::json;

use crate::figures::{Times, mebibytes};
use crate::{long_or, pass, put};

/// A reader's p99 among all this: generous, since the machine does more than this.
const WORSE: u32 = 25;
/// Below this nobody calls a read slow, whatever it was before.
const FAST: Duration = Duration::from_millis(40);
const READS: usize = 300;
/// The most that an idle watcher may cost, with its connection, its task and its buffers.
const WATCHER_BYTES: u64 = 64 << 10;

fn service() -> Estimand {
    let up = estimand().args(["up", "--no-agent"]).port(free_port()).start();
    put(&up.http(), "known", 1).expect_status(201);
    up
}

fn reads(up: &Estimand) -> Times {
    Times::of_reads(&up.http(), "/api/data/known/n", READS, &AtomicBool::new(true))
}

#[track_caller]
fn check_unharmed(what: &str, before: &Times, now: &Times) {
    println!("{what}: {before} before, {now} now");
    assert!(now.p99() < (before.p99() * WORSE).max(FAST), "{what}: {before} before, {now} now");
}

fn connect(up: &Estimand) -> TcpStream {
    TcpStream::connect(up.base_url().strip_prefix("http://").unwrap()).unwrap()
}

/// True if the service has closed the connection; its bytes before that go to `said`.
fn is_closed(mut stream: &TcpStream, said: &mut Vec<u8>) -> bool {
    stream.set_nonblocking(true).unwrap();
    let mut bytes = [0; 4096];
    let closed = loop {
        match stream.read(&mut bytes) {
            Ok(0) => break true,
            Ok(count) => said.extend_from_slice(&bytes[..count]),
            Err(error) if error.kind() == ErrorKind::WouldBlock => break false,
            Err(_) => break true,
        }
    };
    stream.set_nonblocking(false).unwrap();
    closed
}

/// Sends `text` a byte at a time for as long as the service listens; what it answered until it closed.
fn drip(stream: &mut TcpStream, text: &[u8]) -> String {
    let mut said = Vec::new();
    for byte in text.iter().cycle() {
        if is_closed(stream, &mut said) || stream.write_all(&[*byte]).is_err() {
            break;
        }
        pass(Duration::from_millis(40));
    }
    String::from_utf8_lossy(&said).into_owned()
}

#[test]
fn a_client_that_sends_byte_by_byte_is_cut_off_in_time() {
    let up = service();
    let before = reads(&up);
    let files = processes::open_files(up.pid());
    std::thread::scope(|scope| {
        let drips = (0..long_or(200, 30)).map(|place| {
            let mut stream = connect(&up);
            scope.spawn(move || {
                let began = Instant::now();
                let said = if place % 2 == 0 {
                    drip(&mut stream, b"GET /api/data/known/n HTTP/1.1\r\nX-Filler: ")
                } else {
                    stream
                        .write_all(
                            b"PUT /api/data HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100000\r\n\r\n",
                        )
                        .unwrap();
                    drip(&mut stream, b" ")
                };
                (place, began.elapsed(), said)
            })
        });
        let drips: Vec<_> = drips.collect();
        check_unharmed("among slow clients", &before, &reads(&up));
        for drip in drips {
            let (place, took, said) = drip.join().unwrap();
            assert!(took < Duration::from_secs(40), "client {place} was listened to for {took:?}");
            assert!(said.is_empty() || said.contains(" 408 "), "client {place} was told {said}");
        }
    });
    wait::until_ok(PATIENCE, "their connections to be gone", || match processes::open_files(up.pid()) {
        now if now <= files + 8 => Ok(()),
        now => Err(format!("{files} became {now}")),
    });
}

/// The client is there and says nothing, or hears nothing; nobody tells the service.
#[test]
fn half_open_connections_cost_a_socket_each() {
    let up = service();
    let before = reads(&up);
    let memory = up.rss_bytes();
    let silent: Vec<TcpStream> = (0..long_or(5_000, 500)).map(|_| connect(&up)).collect();
    let proxy = Proxy::to(up.base_url().strip_prefix("http://").unwrap().parse().unwrap());
    let deaf: Vec<TcpStream> = (0..20)
        .map(|_| {
            let mut stream = TcpStream::connect(proxy.address()).unwrap();
            stream.write_all(b"GET /api/data/known/n HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
            stream
        })
        .collect();
    wait::until(PATIENCE, "the answers", || deaf.iter().all(|one| one.peek(&mut [0]).is_ok()).then_some(()));
    proxy.pause_only(Way::ToClient);
    check_unharmed("among half-open connections", &before, &reads(&up));
    let cost = up.rss_bytes().saturating_sub(memory) / silent.len() as u64;
    println!("{} connections that say nothing: {} KiB each", silent.len(), cost >> 10);
    assert!(cost < WATCHER_BYTES, "{cost} bytes each");
    // A client that sends nothing for longer than a head may take is not waited for.
    wait::until(PATIENCE, "the silent ones to be cut off", || {
        silent.iter().all(|stream| is_closed(stream, &mut Vec::new())).then_some(())
    });
}

#[test]
fn thousands_of_watchers_harm_nobody() {
    // The service sees to its own limit.
    let up = service();
    processes::allow_many_files();
    let before = reads(&up);
    let memory = up.rss_bytes();
    let http = up.http();
    let count = long_or(10_000, 1_000);
    let mut watchers: Vec<_> = (0..count)
        .map(|_| {
            let mut watch = http.sse("/api/data/watch?dataName=rare", &[]);
            assert_eq!(watch.next_news(PATIENCE).event, "snapshot");
            watch
        })
        .collect();
    let cost = up.rss_bytes().saturating_sub(memory) / count as u64;
    println!("{count} idle watchers: {} KiB each", cost >> 10);
    assert!(cost < WATCHER_BYTES, "{cost} bytes each");
    check_unharmed("among idle watchers", &before, &reads(&up));
    // They are there: each is told.
    put(&http, "rare", 7).expect_status(201);
    for watch in &mut watchers {
        assert_eq!(watch.next_news(PATIENCE).json()["dataValue"], 7);
    }
}

#[test]
fn watchers_that_never_read_cost_a_socket_each() {
    let up = service();
    let http = up.http();
    let deaf: Vec<TcpStream> = (0..50)
        .map(|_| {
            let mut stream = connect(&up);
            stream.write_all(b"GET /api/data/watch?dataName=* HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
            stream
        })
        .collect();
    wait::until(PATIENCE, "the watches to begin", || {
        deaf.iter().all(|one| one.peek(&mut [0]).is_ok()).then_some(())
    });
    let before = reads(&up);
    let large = "x".repeat(32 << 10);
    let write = |times: usize| {
        for number in 0..times {
            let body =
                json!({"dataName": format!("large_{}", number % 20), "nodeName": "n", "dataValue": large});
            let answer = http.send_json("PUT", "/api/data", &body);
            assert!(answer.status < 300, "{answer}");
        }
    };
    // So much fills their sockets' buffers; what comes then must be kept for nobody.
    write(long_or(2_000, 400));
    let memory = up.rss_bytes();
    write(long_or(20_000, 1_000));
    let grown = up.rss_bytes().saturating_sub(memory);
    println!("{} watchers that never read: {} MiB more", deaf.len(), mebibytes(grown));
    assert!(grown < 96 << 20, "{} MiB", mebibytes(grown));
    check_unharmed("with watchers that never read", &before, &reads(&up));
    let mut watch = http.sse("/api/data/watch?dataName=late", &[]);
    watch.next_news(PATIENCE);
    put(&http, "late", 1).expect_status(201);
    assert_eq!(watch.next_news(PATIENCE).event, "change");
}

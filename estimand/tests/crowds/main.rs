//! Crowds that keep as many connections as the services may have open files, and come again when they are cut off.
//!
//! A program of its own, one test after the other: a crowd takes all the processor that it gets, which is no part of any
//! other story.
#![allow(clippy::unwrap_used)]

mod hostile;

use std::ffi::OsString;
use std::io::{ErrorKind, Read as _, Write as _};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use estimand_testkit::http::{Http, Response};
use estimand_testkit::netns::Network;
use estimand_testkit::plane::{Plane, put};
use estimand_testkit::process::{Builder, Estimand, binary, free_port};
use estimand_testkit::processes;
use estimand_testkit::wait::{self, PATIENCE, pass};
use rustix::process::Uid;
use serde_json::{Value, json};

/// Few, so that the crowd is small.
const FILES: usize = 1024;
const CROWD: usize = FILES + 200;
/// For one request among the crowd. Without room for it, it would wait until the crowd goes.
const SOON: Duration = Duration::from_secs(15);
const ROUNDS: i64 = 8;
/// How soon whoever was cut off comes again.
const COMES_AGAIN: Duration = Duration::from_millis(200);
/// A user who has nothing to do with the services.
const OTHER: u32 = 65_533;

const WATCH: &str = "GET /api/data/watch?dataName=* HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n";
const ANSWERED: &str = "GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n";
const NOTHING: &str = "";

static CROWDS: Mutex<()> = Mutex::new(());

fn alone() -> MutexGuard<'static, ()> {
    CROWDS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Keeps its connections until it is dropped, and opens each again that is closed.
struct Crowd {
    over: Arc<AtomicBool>,
    opened: Arc<AtomicUsize>,
    thread: Option<JoinHandle<()>>,
}

impl Crowd {
    /// Each says `says` first. Gathered when this returns.
    fn gather(authority: &str, says: &'static str, user: Option<u32>) -> Self {
        processes::allow_many_files();
        let (over, opened) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
        let (address, end, count) = (authority.to_owned(), Arc::clone(&over), Arc::clone(&opened));
        let thread = std::thread::spawn(move || {
            if let Some(user) = user.map(Uid::from_raw) {
                // This thread's alone: on Linux each has its own.
                rustix::thread::set_thread_res_uid(user, user, user).unwrap();
            }
            let mut open: Vec<Option<TcpStream>> = (0..CROWD).map(|_| None).collect();
            while !end.load(Ordering::Acquire) {
                for place in &mut open {
                    if place.as_mut().is_some_and(is_closed) {
                        *place = None;
                    }
                    if place.is_none() {
                        *place = connect(&address, says);
                        count.fetch_add(usize::from(place.is_some()), Ordering::Release);
                    }
                }
                pass(COMES_AGAIN);
            }
        });
        let crowd = Crowd { over, opened, thread: Some(thread) };
        wait::until(PATIENCE, "the crowd to gather", || (crowd.opened() >= CROWD).then_some(()));
        crowd
    }

    fn opened(&self) -> usize {
        self.opened.load(Ordering::Acquire)
    }
}

impl Drop for Crowd {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Release);
        let ended = self.thread.take().map(JoinHandle::join);
        assert!(std::thread::panicking() || matches!(ended, Some(Ok(()))), "the crowd failed");
    }
}

fn connect(address: &str, says: &str) -> Option<TcpStream> {
    let mut stream = TcpStream::connect(address).ok()?;
    stream.write_all(says.as_bytes()).ok()?;
    stream.set_nonblocking(true).ok()?;
    Some(stream)
}

fn is_closed(stream: &mut TcpStream) -> bool {
    let mut bytes = [0; 4096];
    loop {
        match stream.read(&mut bytes) {
            Ok(0) => return true,
            Ok(_) => {}
            Err(error) => return error.kind() != ErrorKind::WouldBlock,
        }
    }
}

/// The services and an agent in one process, which runs a slot.
fn plane_with_a_slot() -> (Estimand, Plane) {
    let up = with_few_files(&["--node", "n1", "--allow", "/usr/bin"]).port(free_port()).start();
    let plane = Plane::of(&up);
    plane.register(&json!({"dataName": "clock", "cmd": ["/usr/bin/date", "+%s%N"], "max-Time": 0.5}));
    plane.wait_fresh("clock", &["n1"]);
    (up, plane)
}

fn with_few_files(args: &[&str]) -> Builder {
    let bounded = [format!("--nofile={FILES}:{FILES}"), "--".to_owned()].map(OsString::from);
    let up = ["up", "--defaults", "none"].iter().chain(args).map(OsString::from);
    Estimand::builder("/usr/bin/prlimit").args(bounded).args([binary().into_os_string()]).args(up)
}

/// The answer to a new client.
#[track_caller]
fn answer(up: &Estimand, method: &str, path: &str, body: &Value) -> Response {
    Http::new(up.base_url()).with_deadline(SOON).ask_again(method, path, body)
}

#[track_caller]
fn write(up: &Estimand, name: &str, value: i64) {
    let body = json!({"dataName": name, "nodeName": "n", "dataValue": value});
    let answer = answer(up, "PUT", "/api/data", &body);
    assert!(answer.status < 300, "{answer}");
}

/// A new client each time is answered, writes and reads; what the slot measured meanwhile is seen.
#[track_caller]
fn check_all_goes_on(up: &Estimand, crowd: &Crowd, what: &str) {
    let mut slowest = Duration::ZERO;
    let mut clocks = std::collections::BTreeSet::new();
    for round in 1..=ROUNDS {
        let began = Instant::now();
        answer(up, "GET", "/healthz", &Value::Null).expect_status(200);
        write(up, "meanwhile", round);
        let read = answer(up, "GET", "/api/data/meanwhile/n", &Value::Null).expect_status(200).json();
        assert_eq!(read["dataValue"], round);
        slowest = slowest.max(began.elapsed());
    }
    wait::until(PATIENCE, "three more runs of the slot", || {
        let clock = answer(up, "GET", "/api/data/clock/n1", &Value::Null).expect_status(200);
        clocks.insert(clock.json()["dataValue"].to_string());
        (clocks.len() > 3).then_some(())
    });
    let open = processes::open_files(up.pid());
    println!(
        "{what}: {} connections opened, {open} of {FILES} files open, slowest round {slowest:?}",
        crowd.opened()
    );
    assert!(open < FILES, "{open}");
}

#[test]
fn silent_connections_in_the_number_of_descriptors_stop_nobody() {
    let _alone = alone();
    let (up, _plane) = plane_with_a_slot();
    let crowd = Crowd::gather(up.http().authority(), NOTHING, None);
    check_all_goes_on(&up, &crowd, "connections that say nothing");
}

#[test]
fn answered_connections_in_the_number_of_descriptors_stop_nobody() {
    let _alone = alone();
    let (up, _plane) = plane_with_a_slot();
    let crowd = Crowd::gather(up.http().authority(), ANSWERED, None);
    check_all_goes_on(&up, &crowd, "connections that are kept after an answer");
}

#[test]
fn watchers_in_the_number_of_descriptors_stop_no_other_user() {
    let _alone = alone();
    let (up, _plane) = plane_with_a_slot();
    let http = up.http();
    let mut watch = http.sse("/api/data/watch?dataName=seen", &[]);
    assert_eq!(watch.next_news(PATIENCE).event, "snapshot");
    let crowd = Crowd::gather(http.authority(), WATCH, Some(OTHER));
    check_all_goes_on(&up, &crowd, "watchers of another user");
    write(&up, "seen", 1);
    assert_eq!(watch.next_news(PATIENCE).event, "change");
}

#[test]
fn watchers_from_one_address_leave_room_for_another_address() {
    let _alone = alone();
    let network = Network::new();
    let host = network.host("other");
    let up = with_few_files(&["--no-agent", "--insecure"]).listen_host(network.address()).start();
    put(&up.http(), "known", 7).expect_status(201);
    let crowd = Crowd::gather(up.http().authority(), WATCH, None);
    for _ in 0..5 {
        let mut command = host.command("curl");
        command.args(["-sS", &format!("{}/api/data/known/n", up.base_url())]);
        let began = Instant::now();
        let output = command.output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success() && said.contains(r#""dataValue":7"#), "{output:?}");
        assert!(began.elapsed() < SOON, "{:?}", began.elapsed());
    }
    println!(
        "{} connections opened, {} of {FILES} files open",
        crowd.opened(),
        processes::open_files(up.pid())
    );
}

//! A bad network between agents and the data service: each request arrives late, again, and after later ones.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use estimand_testkit::place::{INTERVAL, Place};
use estimand_testkit::plane::Apart;
use estimand_testkit::process::free_port;
use estimand_testkit::proxy::{Proxy, Way};
use estimand_testkit::wait::{self, PATIENCE};

use crate::{long_or, pass, side_by_side};

/// How many requests are kept for being sent again, the oldest first.
const KEPT: usize = 3;
const READ_TIMEOUT: Duration = Duration::from_secs(20);

/// Carries HTTP requests, and sends each write again when later ones have been answered.
struct Replayer {
    address: SocketAddr,
    again: Arc<AtomicUsize>,
    over: Arc<AtomicBool>,
}

impl Replayer {
    fn to(server: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let (again, over) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(false)));
        let kept = Arc::new(Mutex::new(Vec::new()));
        let (replays, orders) = channel::<Vec<u8>>();
        let count = Arc::clone(&again);
        thread::spawn(move || {
            for request in orders {
                let replayed =
                    TcpStream::connect(server).and_then(|mut stream| exchange(&mut stream, &request));
                count.fetch_add(usize::from(replayed.is_ok()), Ordering::Release);
            }
        });
        let end = Arc::clone(&over);
        thread::spawn(move || {
            for client in listener.incoming() {
                if end.load(Ordering::Acquire) {
                    return;
                }
                let (kept, replays) = (Arc::clone(&kept), replays.clone());
                let Ok(client) = client else { return };
                thread::spawn(move || {
                    // Either end may go away.
                    let _ = carry(client, server, &kept, &replays);
                });
            }
        });
        Replayer { address, again, over }
    }
}

impl Drop for Replayer {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Release);
        // Its listener finds that it is over.
        let _ = TcpStream::connect(self.address);
    }
}

fn carry(
    mut client: TcpStream,
    server: SocketAddr,
    kept: &Mutex<Vec<Vec<u8>>>,
    replays: &Sender<Vec<u8>>,
) -> std::io::Result<()> {
    let mut server = TcpStream::connect(server)?;
    server.set_nodelay(true)?;
    client.set_nodelay(true)?;
    loop {
        let request = message(&mut client)?;
        let answer = exchange(&mut server, &request)?;
        client.write_all(&answer)?;
        let mut kept = kept.lock().unwrap();
        kept.push(request);
        if kept.len() > KEPT {
            let _ = replays.send(kept.remove(0));
        }
    }
}

fn exchange(stream: &mut TcpStream, request: &[u8]) -> std::io::Result<Vec<u8>> {
    stream.set_read_timeout(Some(READ_TIMEOUT))?;
    stream.write_all(request)?;
    message(stream)
}

/// One request or answer: a head, and a body of the length that it says.
fn message(stream: &mut TcpStream) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let mut byte = [0];
    while !bytes.ends_with(b"\r\n\r\n") {
        stream.read_exact(&mut byte)?;
        bytes.push(byte[0]);
    }
    let head = String::from_utf8_lossy(&bytes).to_ascii_lowercase();
    let length = head.lines().find_map(|line| line.strip_prefix("content-length:")?.trim().parse().ok());
    let mut body = vec![0; length.unwrap_or(0)];
    stream.read_exact(&mut body)?;
    bytes.extend(body);
    Ok(bytes)
}

#[test]
fn a_network_that_delays_repeats_and_carries_one_way_changes_nothing() {
    side_by_side(&[
        (
            "requests_that_arrive_again_and_late_change_nothing",
            requests_that_arrive_again_and_late_change_nothing as fn(),
        ),
        (
            "a_line_that_carries_one_way_only_loses_and_doubles_nothing",
            a_line_that_carries_one_way_only_loses_and_doubles_nothing as fn(),
        ),
    ]);
}

fn requests_that_arrive_again_and_late_change_nothing() {
    let place = Place::new("replay");
    let port = free_port();
    let replayer = Replayer::to(([127, 0, 0, 1], port).into());
    let services = Apart::start_behind(&place, port, &format!("http://{}", replayer.address));
    let _agent = place.agent("n1", services.manager.base_url());
    let plane = &services.plane;
    plane.register(&place.counting("pulse"));
    plane.register(&place.streaming("flow"));
    plane.wait_fresh("pulse", &["n1"]);
    plane.wait_fresh("flow", &["n1"]);
    // Nobody ever sees a value go back.
    let wanted = long_or(500, 20);
    let mut highest = 0;
    wait::until_ok(PATIENCE * 5, "so many requests to have come again", || {
        let number = plane.value("flow", "n1")?["dataValue"].as_u64().unwrap();
        assert!(number >= highest, "{number} after {highest}");
        highest = number;
        match replayer.again.load(Ordering::Acquire) {
            again if again >= wanted => Ok(()),
            again => Err(format!("{again} of {wanted}")),
        }
    });
    plane.check_history("pulse", "n1", place.runs("n1", "pulse"));
    plane.check_history("flow", "n1", highest);
}

fn a_line_that_carries_one_way_only_loses_and_doubles_nothing() {
    let place = Place::new("oneway");
    let port = free_port();
    let proxy = Proxy::to(([127, 0, 0, 1], port).into());
    let services = Apart::start_behind(&place, port, &proxy.url());
    let _agent = place.agent("n1", services.manager.base_url());
    let plane = &services.plane;
    plane.register(&place.counting("pulse"));
    plane.wait_fresh("pulse", &["n1"]);
    let last = plane.last_number("pulse", "n1");
    for round in 0..long_or(20, 2) {
        let way = [Way::ToClient, Way::ToServer][round % 2];
        proxy.pause_only(way);
        place.while_it_runs("n1", "pulse", INTERVAL * 6);
        // The held bytes come now, if its connection is still there; else it is sent again.
        if round % 4 >= 2 {
            proxy.cut();
        }
        proxy.resume();
        plane.check_history("pulse", "n1", place.runs("n1", "pulse"));
    }
    assert!(plane.last_number("pulse", "n1") > last);

    // A line that is slow, with jumps, delivers all the same.
    for delay in [300, 50, 700, 0] {
        proxy.set_latency(Duration::from_millis(delay));
        pass(Duration::from_secs(1));
    }
    plane.check_history("pulse", "n1", place.runs("n1", "pulse"));
}

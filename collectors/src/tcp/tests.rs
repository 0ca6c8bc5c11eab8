//! Against real listeners.

#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::{KIND, split, unescaped};
use crate::{Reading, Surroundings, make};

/// A server that does something with each of a number of connections.
fn server(connections: usize, serve: impl Fn(TcpStream) + Send + 'static) -> (String, JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let thread = std::thread::spawn(move || {
        for _ in 0..connections {
            serve(listener.accept().unwrap().0);
        }
    });
    (address, thread)
}

/// Time that a machine which is busy with other tests may add.
const SLACK: Duration = Duration::from_secs(10);

fn ask(params: &[(&str, &str)], time: Duration) -> Value {
    let params: BTreeMap<String, Value> =
        params.iter().map(|(name, value)| ((*name).to_owned(), json!(value))).collect();
    let mut tcp = make(&KIND, &params, &Surroundings::default()).unwrap();
    let until = Instant::now() + time;
    let Reading::Here(value) = tcp.collect(until).unwrap() else { panic!("it is of this node") };
    assert!(Instant::now() <= until + SLACK, "it took longer than it may");
    value
}

const LONG: Duration = Duration::from_secs(20);

#[test]
fn an_open_port_says_in_how_long() {
    let (address, thread) = server(1, drop);
    let value = ask(&[("address", &address)], LONG);
    assert_eq!((&value["open"], &value["address"]), (&json!(true), &json!(address)));
    let seconds = value["seconds"].as_f64().unwrap();
    assert!((0.0..10.0).contains(&seconds));
    assert!(value.get("error").is_none() && value.get("answer").is_none());
    thread.join().unwrap();
}

#[test]
fn a_closed_port_and_an_unknown_name_are_answers() {
    // An address of its own, on which no other test opens the port meanwhile.
    let address = TcpListener::bind("127.77.0.1:0").unwrap().local_addr().unwrap().to_string();
    assert_eq!(ask(&[("address", &address)], LONG), json!({"open": false, "error": "refused"}));
    let value = ask(&[("address", "no-such-name.invalid:80")], LONG);
    assert_eq!(value, json!({"open": false, "error": "name not found"}));
}

#[test]
fn one_that_never_accepts_runs_into_the_time() {
    // A full queue of waiting connections drops what comes after.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let mut waiting = Vec::new();
    while let Ok(stream) = TcpStream::connect_timeout(&address, Duration::from_millis(100)) {
        waiting.push(stream);
        assert!(waiting.len() < 10_000, "the queue has an end");
    }
    let value = ask(&[("address", &address.to_string())], Duration::from_millis(300));
    assert_eq!(value, json!({"open": false, "error": "timeout"}));
}

#[test]
fn a_request_is_answered_as_expected() {
    let (address, thread) = server(2, |mut stream| {
        let mut request = [0; 6];
        stream.read_exact(&mut request).unwrap();
        assert_eq!(&request, b"PING\r\n");
        stream.write_all(b"+PONG\r\n").unwrap();
    });
    let params = [("address", address.as_str()), ("send", "PING\\r\\n"), ("expect", "PONG")];
    let value = ask(&params, LONG);
    assert_eq!(value["expected"], true);
    assert!(value["answer"].as_str().unwrap().starts_with("+PONG"));
    assert!(value["answerSeconds"].is_number());

    let other = ask(&[("address", &address), ("send", "PING\\r\\n"), ("expect", "OK")], LONG);
    assert_eq!((&other["open"], &other["expected"]), (&json!(true), &json!(false)));
    assert_eq!((&other["error"], &other["answer"]), (&json!("ended"), &json!("+PONG\r\n")));
    thread.join().unwrap();
}

#[test]
fn the_expected_bytes_are_found_across_reads() {
    let (address, thread) = server(1, |mut stream| {
        stream.write_all(&[&[b'.'; 4094], b"PONG".as_slice()].concat()).unwrap();
    });
    assert_eq!(ask(&[("address", &address), ("expect", "PONG")], LONG)["expected"], true);
    thread.join().unwrap();
}

#[test]
fn a_half_closed_connection_still_answers() {
    let (address, thread) = server(1, |mut stream| {
        stream.shutdown(Shutdown::Read).unwrap();
        stream.write_all(b"ready").unwrap();
    });
    let value = ask(&[("address", &address), ("send", "hello"), ("expect", "ready")], LONG);
    assert_eq!(value["expected"], true, "{value}");
    thread.join().unwrap();
}

#[test]
fn silence_drops_and_floods_have_an_end() {
    // A drop at a time that never makes up what is expected; it ends when the other side hangs up.
    let (slow, dripping) = server(1, |mut stream| {
        stream.set_read_timeout(Some(Duration::from_millis(20))).unwrap();
        while stream.write_all(b".").is_ok() {
            if stream.read(&mut [0; 8]).is_ok_and(|count| count == 0) {
                return;
            }
        }
    });
    let value = ask(&[("address", &slow), ("expect", "never")], Duration::from_secs(2));
    assert_eq!((&value["open"], &value["expected"]), (&json!(true), &json!(false)));
    assert_eq!(value["error"], "timeout");
    dripping.join().unwrap();

    let (flood, flooding) = server(1, |mut stream| while stream.write_all(&[b'x'; 4096]).is_ok() {});
    let value = ask(&[("address", &flood), ("expect", "never")], LONG);
    assert_eq!(value["error"], "too much");
    assert_eq!(value["answer"].as_str().unwrap().len(), 256);
    flooding.join().unwrap();
}

#[test]
fn a_peer_that_does_not_read_runs_into_the_time_limit() {
    let (address, thread) = server(1, |mut stream| {
        // Nothing is read until the other side has given up.
        let mut all = Vec::new();
        assert!(stream.peek(&mut [0]).is_ok());
        let _ = stream.read_to_end(&mut all);
    });
    let value = ask(&[("address", &address), ("send", "x"), ("expect", "y")], Duration::from_millis(300));
    assert_eq!(value["error"], "timeout");
    thread.join().unwrap();
}

#[test]
fn addresses_and_escapes_that_are_none_are_refused() {
    assert_eq!(split("[::1]:80"), Some(("::1".to_owned(), 80)));
    assert_eq!(split("host:80"), Some(("host".to_owned(), 80)));
    for wrong in ["host", "host:", ":80", "host:0", "host:65536", "::1:80", "[::1:80", "[]:80"] {
        assert_eq!(split(wrong), None, "{wrong}");
    }
    assert_eq!(unescaped("a\\r\\n\\t\\\\b").unwrap(), b"a\r\n\t\\b");
    assert!(unescaped("\\x").is_err() && unescaped("\\").is_err());
}

#[test]
fn it_may_be_dropped_inside_a_runtime() {
    let params = BTreeMap::from([("address".to_owned(), json!("localhost:1"))]);
    let tcp = make(&KIND, &params, &Surroundings::default()).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(async move { drop(tcp) });
}

//! Servers that are no NameNode, want what nobody has, never answer or never end.

use std::io::Write;
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use estimand_collectors::Failure;
use serde_json::{Value, json};

use crate::support::*;

const WITHIN: Duration = Duration::from_secs(30);

fn at(webhdfs: &str) -> Value {
    json!({ "namenode": "hdfs://127.0.0.1:9", "webhdfs": webhdfs })
}

#[test]
fn without_any_configuration_there_is_none_here() {
    let Err(Failure::NotHere(why)) = ask(&json!({}), None, WITHIN) else { panic!("it found an HDFS") };
    assert!(why.contains("`namenode`") && why.contains("hadoop/conf"), "{why}");
}

#[test]
fn kerberos_is_named_when_it_is_wanted() {
    let negotiates = server(|_, stream| {
        let _ = stream.write_all(
            b"HTTP/1.1 401 Unauthorized\r\nWWW-Authenticate: Negotiate\r\nConnection: close\r\nContent-Length: 0\r\n\r\n",
        );
    });
    let why = failure(&at(&negotiates), None, WITHIN);
    assert!(why.starts_with("this HDFS wants Kerberos"), "{why}");
}

#[test]
fn a_server_without_webhdfs_is_told_apart_from_a_broken_one() {
    let page = server(|_, stream| reply(stream, "404 Not Found", b"<html>nothing</html>"));
    let why = failure(&at(&page), None, WITHIN);
    assert!(why.contains("offers no WebHDFS"), "{why}");
    let broken = server(|_, stream| reply(stream, "500 Server Error", b"\n<html>\noops"));
    let why = failure(&at(&broken), None, WITHIN);
    assert!(why.contains("status 500") && why.ends_with("<html>"), "{why}");
    let other = server(|_, stream| reply(stream, "200 OK", b"hello"));
    let why = failure(&at(&other), None, WITHIN);
    assert!(why.contains("not in the words of HDFS"), "{why}");
}

#[test]
fn a_dead_namenode_behind_a_living_address_is_named() {
    let status = server(|_, stream| reply(stream, "200 OK", br#"{"FileStatus":{}}"#));
    let why = failure(&at(&status), None, WITHIN);
    assert!(why.starts_with("the NameNode at hdfs://127.0.0.1:9 can't be reached"), "{why}");
}

#[test]
fn one_that_never_answers_is_left_in_time() {
    // Held until the end of the test, so that the connection is never closed from the other side.
    let (hold, held) = channel();
    let silent = server(move |_, stream| {
        let _ = hold.send(stream.try_clone().unwrap());
    });
    let begun = Instant::now();
    let within = Duration::from_secs(1);
    let why = failure(&at(&silent), None, within);
    // It has all of the time and no more; what is added here is for a machine that has other things to do.
    assert!(begun.elapsed() < within + Duration::from_secs(30), "{:?}", begun.elapsed());
    assert!(why.contains("no answer within"), "{why}");
    drop(held);
}

#[test]
fn one_that_never_ends_is_left_at_a_bound() {
    let endless = server(|_, stream| {
        let head = b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n";
        let _ = stream.write_all(head);
        while stream.write_all(&[b' '; 1 << 16]).is_ok() {}
    });
    let why = failure(&at(&endless), None, WITHIN);
    assert!(why.contains("more than 64 MiB"), "{why}");
}

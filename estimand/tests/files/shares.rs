//! One user takes what one user may, and the others go on.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;

use estimand_testkit::http::Http;
use estimand_testkit::process::{self, Estimand};
use estimand_testkit::wait::{self, PATIENCE};
use serde_json::{Value, json};

/// A service that makes tokens, too.
fn up() -> Estimand {
    process::estimand().args(["up", "--no-agent", "--defaults", "none"]).start()
}

fn token(up: &Estimand, user: &str) -> String {
    let made = up.http().send_json("POST", "/api/tokens", &json!({ "name": user, "role": "user" }));
    made.expect_status(201).json()["token"].as_str().unwrap().to_owned()
}

fn put(http: &Http, path: &str, bytes: &[u8]) -> estimand_testkit::http::Response {
    http.request("PUT", &format!("/api/files/content?path={path}"), &[], bytes)
}

/// An upload of which one byte has come.
fn begun(http: &Http, token: &str, path: &str) -> TcpStream {
    let mut wire = TcpStream::connect(http.authority()).unwrap();
    wire.set_read_timeout(Some(PATIENCE)).unwrap();
    let head = format!(
        "PUT /api/files/content?path={path} HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {token}\r\nContent-Length: \
         1000000\r\n\r\nx",
        http.authority()
    );
    wire.write_all(head.as_bytes()).unwrap();
    wire
}

fn share(http: &Http, user: &str, kind: &str) -> Value {
    let all = http.get("/api/shares").expect_status(200).json();
    let of = all.as_array().unwrap().iter().find(|shares| shares["user"] == user).cloned();
    of.map_or(Value::Null, |of| of["shares"][kind].clone())
}

#[test]
fn a_user_who_sends_slowly_keeps_nobody_else_from_sending() {
    let up = up();
    let (alice, bob) = (token(&up, "alice"), token(&up, "bob"));
    let http = up.http();
    let most = share(&http, "alice", "uploads")["limit"].as_u64().unwrap();
    let mut slow: Vec<TcpStream> = (0..most).map(|n| begun(&http, &alice, &format!("slow{n}"))).collect();
    wait::until(PATIENCE, "all of them to be begun", || {
        (share(&http, "alice", "uploads")["used"] == most).then_some(())
    });
    let hers = Http::new(up.base_url()).showing(Some(&alice));
    let refused = put(&hers, "one-more", b"x").expect_status(503).json();
    assert!(refused["detail"].as_str().unwrap().contains("users set alice --uploads"), "{refused}");
    let his = Http::new(up.base_url()).showing(Some(&bob));
    put(&his, "his", b"his").expect_status(200);
    put(&http, "an-operators", b"x").expect_status(200);
    // A place is given back with its connection.
    drop(slow.pop());
    wait::until(PATIENCE, "a place to be free", || {
        (put(&hers, "one-more", b"x").status == 200).then_some(())
    });
}

#[test]
fn a_users_files_are_bounded_and_counted_as_they_come_and_go() {
    let up = up();
    let (alice, bob) = (token(&up, "alice"), token(&up, "bob"));
    let (http, hers) = (up.http(), Http::new(up.base_url()).showing(Some(&alice)));
    let limits = json!({ "files": 3, "fileBytes": 1_000 });
    http.send_json("PATCH", "/api/users/alice", &limits).expect_status(200);
    put(&hers, "a", &[1; 400]).expect_status(200);
    put(&hers, "b", &[2; 400]).expect_status(200);
    let used = |kind: &str| share(&http, "alice", kind)["used"].as_u64().unwrap();
    assert_eq!((used("files"), used("fileBytes")), (2, 800));
    let refused = put(&hers, "c", &[3; 400]).expect_status(409).json();
    assert!(refused["detail"].as_str().unwrap().contains("users set alice --file-bytes"), "{refused}");
    // What has come of it is not kept, and what is replaced counts no more.
    put(&hers, "b", &[4; 100]).expect_status(200);
    put(&hers, "c", &[5; 100]).expect_status(200);
    let refused = put(&hers, "d", b"").expect_status(409).json();
    assert!(refused["detail"].as_str().unwrap().contains("users set alice --files"), "{refused}");
    hers.request("DELETE", "/api/files?path=a", &[], b"").expect_status(204);
    put(&hers, "d", b"").expect_status(200);
    assert_eq!((used("files"), used("fileBytes")), (3, 200));
    put(&Http::new(up.base_url()).showing(Some(&bob)), "c", &[3; 4_000]).expect_status(200);
}

/// A file that was removed left the folders that were made for it, and nothing counted those: a disk had no more room for files, whoever's.
#[test]
fn folders_count_as_files_and_stay_counted_when_they_are_empty() {
    let up = up();
    let alice = Http::new(up.base_url()).showing(Some(&token(&up, "alice")));
    let http = up.http();
    http.send_json("PATCH", "/api/users/alice", &json!({ "files": 5 })).expect_status(200);
    let used = || share(&http, "alice", "files")["used"].as_u64().unwrap();
    let remove = |path: &str| alice.request("DELETE", &format!("/api/files?path={path}"), &[], b"");
    put(&alice, "a/b/c", b"").expect_status(200);
    assert_eq!(used(), 3);
    remove("a/b/c").expect_status(204);
    assert_eq!(used(), 2);
    let refused = put(&alice, "d/e/f/g", b"").expect_status(409).json();
    assert!(refused["detail"].as_str().unwrap().contains("users set alice --files"), "{refused}");
    put(&alice, "a/b/x", b"").expect_status(200);
    put(&alice, "a/d/x", b"").expect_status(200);
    assert_eq!(used(), 5);
    put(&alice, "a/b/y", b"").expect_status(409);
    for path in ["a/b/x", "a/d/x", "a/b", "a/d", "a"] {
        remove(path).expect_status(204);
    }
    assert_eq!(used(), 0);
}

/// A request on a connection of its own, of which no answer was read yet.
fn asked(http: &Http, token: &str, path: &str) -> TcpStream {
    let mut wire = TcpStream::connect(http.authority()).unwrap();
    wire.set_read_timeout(Some(PATIENCE)).unwrap();
    let head =
        format!("GET {path} HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {token}\r\n\r\n", http.authority());
    wire.write_all(head.as_bytes()).unwrap();
    wire
}

fn status(wire: &mut TcpStream) -> String {
    let mut line = vec![0; 12];
    wire.read_exact(&mut line).unwrap();
    String::from_utf8(line).unwrap()
}

#[test]
fn a_user_who_watches_and_waits_leaves_room_for_others() {
    let up = up();
    let (alice, bob, http) = (token(&up, "alice"), token(&up, "bob"), up.http());
    let limits = json!({ "watches": 2, "polls": 2 });
    http.send_json("PATCH", "/api/users/alice", &limits).expect_status(200);
    let held = |kind: &str, count: u64| {
        wait::until(PATIENCE, "it to be counted", || {
            (share(&http, "alice", kind)["used"] == count).then_some(())
        });
    };
    let watch = "/api/data/watch?dataName=x";
    let mut watches: Vec<TcpStream> = (0..2).map(|_| asked(&http, &alice, watch)).collect();
    watches.iter_mut().for_each(|wire| assert_eq!(status(wire), "HTTP/1.1 200"));
    assert_eq!(status(&mut asked(&http, &alice, watch)), "HTTP/1.1 503");
    assert_eq!(status(&mut asked(&http, &bob, watch)), "HTTP/1.1 200");
    let poll = "/api/tasks/events?waitMs=60000";
    let polls: Vec<TcpStream> = (0..2).map(|_| asked(&http, &alice, poll)).collect();
    held("polls", 2);
    assert_eq!(status(&mut asked(&http, &alice, poll)), "HTTP/1.1 503");
    assert_eq!(status(&mut asked(&http, &bob, "/api/tasks/events?waitMs=1")), "HTTP/1.1 200");
    drop((watches, polls));
}

#[test]
fn a_user_who_changes_much_at_once_leaves_room_for_others() {
    let up = up();
    let (alice, bob, http) = (token(&up, "alice"), token(&up, "bob"), up.http());
    http.send_json("PATCH", "/api/users/alice", &json!({ "changes": 2 })).expect_status(200);
    // The rest of its body does not come.
    let begun = |token: &str| {
        let mut wire = TcpStream::connect(http.authority()).unwrap();
        wire.set_read_timeout(Some(PATIENCE)).unwrap();
        let head = format!(
            "POST /api/tasks HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {token}\r\nContent-Length: 100\r\n\r\n{{",
            http.authority()
        );
        wire.write_all(head.as_bytes()).unwrap();
        wire
    };
    let changes: Vec<TcpStream> = (0..2).map(|_| begun(&alice)).collect();
    wait::until(PATIENCE, "them to be counted", || {
        (share(&http, "alice", "changes")["used"] == 2).then_some(())
    });
    assert_eq!(status(&mut begun(&alice)), "HTTP/1.1 503");
    put(&Http::new(up.base_url()).showing(Some(&bob)), "a", b"x").expect_status(200);
    drop(changes);
    wait::until(PATIENCE, "them to be given back", || {
        (share(&http, "alice", "changes")["used"] == 0).then_some(())
    });
}

#[test]
fn a_connection_that_is_one_too_many_of_a_user_is_closed() {
    let up = up();
    let (alice, bob, http) = (token(&up, "alice"), token(&up, "bob"), up.http());
    http.send_json("PATCH", "/api/users/alice", &json!({ "connections": 2 })).expect_status(200);
    let mut open: Vec<TcpStream> = (0..2).map(|_| asked(&http, &alice, "/api/shares")).collect();
    open.iter_mut().for_each(|wire| assert_eq!(status(wire), "HTTP/1.1 200"));
    let mut third = asked(&http, &alice, "/api/shares");
    assert_eq!(status(&mut third), "HTTP/1.1 503");
    // It is closed, and not kept beside the others.
    third.read_to_end(&mut Vec::new()).unwrap();
    assert_eq!(status(&mut asked(&http, &bob, "/api/shares")), "HTTP/1.1 200");
    drop(open);
    wait::until(PATIENCE, "a connection to be free", || {
        (status(&mut asked(&http, &alice, "/api/shares")) == "HTTP/1.1 200").then_some(())
    });
}

#[test]
fn a_change_and_an_answer_end_with_the_token() {
    let up = up();
    let (alice, http) = (token(&up, "alice"), up.http());
    let hers = Http::new(up.base_url()).showing(Some(&alice));
    let size = 64 << 20;
    put(&hers, "large", &vec![7; size]).expect_status(200);
    let mut reading = TcpStream::connect(http.authority()).unwrap();
    reading.set_read_timeout(Some(PATIENCE)).unwrap();
    let head = format!(
        "GET /api/files/content?path=large HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {alice}\r\n\r\n",
        http.authority()
    );
    reading.write_all(head.as_bytes()).unwrap();
    let mut got = vec![0; 1024];
    reading.read_exact(&mut got).unwrap();
    let mut sending = begun(&http, &alice, "half");
    wait::until(PATIENCE, "it to be begun", || (share(&http, "alice", "uploads")["used"] == 1).then_some(()));
    http.request("DELETE", "/api/tokens/alice", &[], b"").expect_status(200);
    let mut answer = vec![0; 12];
    sending.read_exact(&mut answer).unwrap();
    assert_eq!(answer, b"HTTP/1.1 401");
    let mut rest = Vec::new();
    let _ = reading.read_to_end(&mut rest);
    assert!(rest.len() < size / 2, "{} bytes of {size} after the token was revoked", rest.len());
}

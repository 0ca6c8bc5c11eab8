//! Users' shares of documents and logs: one user takes no memory from others, also not over a restart.

use std::io::Write as _;
use std::net::TcpStream;

use estimand_testkit::http::Http;
use estimand_testkit::process::{self, Estimand, free_port};
use estimand_testkit::wait::{self, PATIENCE};
use serde_json::{Value, json};

use crate::plane::Plane;

/// Near the largest document.
const LARGE: usize = 240 * 1024;

fn token(services: &Estimand, name: &str) -> String {
    let issued = services.http().send_json("POST", "/api/tokens", &json!({ "name": name, "role": "user" }));
    issued.expect_status(201).json()["token"].as_str().unwrap().to_owned()
}

fn user(services: &Estimand, name: &str) -> Http {
    services.http().showing(Some(&token(services, name)))
}

fn document(bytes: usize) -> Value {
    json!({ "command": ["/bin/true"], "nodes": "node=nowhere", "environment": { "V": "x".repeat(bytes) } })
}

/// Before there were shares 1 GiB was full after some 4,000 of these, and each start ended in the same way.
#[test]
fn documents_of_one_user_take_their_share_and_no_more() {
    let mut services =
        process::estimand().args(["up", "--no-agent", "--defaults", "none"]).port(free_port()).start();
    let (alice, bob) = (user(&services, "alice"), user(&services, "bob"));
    let before = services.rss_bytes();
    let large = document(LARGE);
    let mut kept = 0;
    for _ in 0..400 {
        match alice.send_json("POST", "/api/tasks", &large) {
            answer if answer.status == 201 => kept += 1,
            answer => {
                assert_eq!((answer.status, &answer.json()["type"]), (409, &json!("share-full")), "{answer}");
            }
        }
    }
    let share =
        |http: &Http| http.get("/api/shares").expect_status(200).json()[0]["shares"]["memory"].clone();
    let limit = share(&alice)["limit"].as_u64().unwrap();
    assert_eq!(kept, limit / (LARGE as u64 + 2048 + 200), "an eighth of what is kept in all: {limit}");
    bob.send_json("POST", "/api/tasks", &large).expect_status(201);
    let grown = services.rss_bytes().saturating_sub(before);
    assert!(grown < 8 * limit, "{kept} documents have made it larger by {grown}");

    services.kill9();
    services.restart_on_same_port();
    let again = services.rss_bytes().saturating_sub(before);
    assert!(again < 8 * limit, "a start with {kept} documents takes {again}");
    assert_eq!(alice.send_json("POST", "/api/tasks", &large).status, 409);
    bob.send_json("POST", "/api/tasks", &large).expect_status(201);

    // More is there than is allowed now: it starts, and refuses only what is new.
    let less = services.http().send_json("PATCH", "/api/users/alice", &json!({ "memory": "1MiB" }));
    less.expect_status(200);
    services.kill9();
    services.restart_on_same_port();
    let page = alice.get("/api/tasks?limit=5").expect_status(200).json();
    assert_eq!(page["tasks"].as_array().unwrap().len(), 5);
    assert_eq!(share(&alice)["limit"], 1 << 20, "limits are kept");
    assert_eq!(alice.send_json("POST", "/api/tasks", &document(1)).status, 409);
    bob.send_json("POST", "/api/tasks", &document(1)).expect_status(201);
}

#[test]
fn logs_of_one_user_take_their_share_and_their_own_oldest_go() {
    let plane = Plane::start(&["n1"]);
    let (alice, bob) = (user(&plane.services, "alice"), user(&plane.services, "bob"));
    let set = plane.http.send_json("PATCH", "/api/users/alice", &json!({ "logs": "100KiB" }));
    set.expect_status(200);
    let run = |http: &Http, id: &str, bytes: usize| {
        let script = format!("head -c {bytes} /dev/zero | tr '\\0' x | fold -w 1000");
        let document = json!({ "id": id, "command": ["/bin/sh", "-c", script] });
        http.send_json("POST", "/api/tasks", &document).expect_status(201);
        wait::until_ok(PATIENCE, "the task to be over", || {
            let task = http.get(&format!("/api/tasks/{id}")).json();
            if task.get("endedAt").is_some() { Ok(()) } else { Err(task) }
        });
    };
    run(&bob, "his", 80_000);
    run(&alice, "first", 60_000);
    run(&alice, "second", 60_000);
    assert_eq!(alice.get("/api/tasks/first").status, 404, "her oldest has made room");
    assert_eq!(plane.log("second").len(), 60);
    run(&alice, "third", 300_000);
    assert_eq!(alice.get("/api/tasks/second").status, 404);
    let lines = plane.http.get("/api/tasks/third/logs").expect_status(200).json()["lines"].clone();
    let last = lines.as_array().unwrap().last().unwrap().clone();
    assert!(last["dropped"].as_u64().is_some_and(|dropped| dropped > 100), "{last}");
    assert_eq!(plane.log("his").len(), 80, "nothing of another user goes");
    let used = alice.get("/api/shares").json()[0]["shares"]["logs"]["used"].as_u64().unwrap();
    assert!(used <= 100 << 10, "{used}");
}

/// One thread reads what is stored, for all. Watches and questions of one user from long ago filled its queue, and kept the threads busy that
/// answer requests: everybody else's reads came to 503, or to nothing.
#[test]
fn a_user_who_follows_very_much_leaves_others_their_turn_to_read() {
    let services =
        process::estimand().args(["up", "--no-agent", "--defaults", "none"]).port(free_port()).start();
    let alice = token(&services, "alice");
    let (hers, bob) = (services.http().showing(Some(&alice)), user(&services, "bob"));
    // More events than are in memory.
    let many = json!({ "command": ["/bin/true"], "nodes": "node=nowhere", "count": 10_000 });
    hers.send_json("POST", "/api/tasks", &many).expect_status(201);
    let id = bob.send_json("POST", "/api/tasks", &document(1)).expect_status(201).json()["id"].clone();
    let path = format!("/api/tasks/{}", id.as_str().unwrap());

    let address = services.base_url().trim_start_matches("http://").to_owned();
    let ask = |path: &str| {
        let mut stream = TcpStream::connect(&address).unwrap();
        let head = format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nAuthorization: Bearer {alice}\r\n\r\n");
        stream.write_all(head.as_bytes()).unwrap();
        stream
    };
    let watches = (0..240).map(|_| ask("/api/tasks/watch?after=0&state=LOST"));
    let questions = (0..240).map(|_| ask("/api/tasks/events?after=0&state=LOST&waitMs=20000"));
    let follows: Vec<TcpStream> = watches.chain(questions).collect();
    for _ in 0..10 {
        bob.get(&path).expect_status(200);
        bob.get(&format!("{path}/logs")).expect_status(200);
    }
    drop(follows);
}

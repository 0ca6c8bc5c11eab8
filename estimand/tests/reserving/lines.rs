//! Reservations over plain TCP: pipelined, bounded, and as private as over HTTP.

use std::collections::BTreeSet;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{Shutdown, TcpStream};
use std::thread;

use estimand_testkit::wait::PATIENCE;
use serde_json::{Value, json};

use crate::plane::Plane;

/// Fewer than the files that may be open here.
const MANY: usize = 9_000;

/// One descriptor, for both directions.
pub struct Connection(BufReader<TcpStream>);

impl Connection {
    pub fn open(plane: &Plane) -> Self {
        let stream = TcpStream::connect(plane.lines).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        Connection(BufReader::new(stream))
    }

    /// One that has shown the operator's token.
    pub fn of_operator(plane: &Plane) -> Self {
        Self::showing(plane, &plane.token(&json!({ "name": "lines", "role": "operate" })))
    }

    pub fn showing(plane: &Plane, token: &str) -> Self {
        let mut connection = Self::open(plane);
        connection.send_token(token);
        assert_eq!(connection.hear()["status"], 200);
        connection
    }

    pub fn say(&mut self, line: &Value) {
        self.0.get_ref().write_all(format!("{line}\n").as_bytes()).unwrap();
    }

    pub fn hear(&mut self) -> Value {
        let mut line = String::new();
        self.0.read_line(&mut line).unwrap();
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line:?}"))
    }

    /// Sends the token without waiting for its answer.
    fn send_token(&mut self, token: &str) {
        self.say(&json!({ "token": token }));
    }

    fn is_closed(&mut self) -> bool {
        let mut line = String::new();
        matches!(self.0.read_line(&mut line), Ok(0) | Err(_))
    }
}

#[test]
fn many_requests_are_answered_in_order_on_one_connection() {
    let plane = Plane::start();
    plane.processors();
    plane.grant("ada", "1000");
    let mut connection = Connection::of_operator(&plane);
    let asked =
        json!({ "resources": { "cpu": 0.01 }, "duration": 1, "from": "10m", "value": 9, "user": "ada" });
    for number in 0..200 {
        connection.say(&json!({ "id": number, "reserve": asked, "key": format!("line {number}") }));
    }
    let mut ids = BTreeSet::new();
    for number in 0..200 {
        let answer = connection.hear();
        assert_eq!((&answer["id"], &answer["status"]), (&json!(number), &json!(201)), "{answer}");
        ids.insert(answer["body"]["id"].as_str().unwrap().to_owned());
    }
    assert_eq!(ids.len(), 200);
    connection.say(&json!({ "id": "q", "quote": asked }));
    connection.say(&json!({ "id": "s", "show": "r1" }));
    connection.say(&json!({ "id": "c", "cancel": "r1" }));
    connection.say(&json!({ "id": "n", "show": "r999" }));
    let answers: Vec<Value> = (0..4).map(|_| connection.hear()).collect();
    let seen: Vec<(&str, u64)> = answers
        .iter()
        .map(|answer| (answer["id"].as_str().unwrap(), answer["status"].as_u64().unwrap()))
        .collect();
    assert_eq!(seen, [("q", 200), ("s", 200), ("c", 200), ("n", 404)]);
    connection.say(&json!({ "reserve": asked, "key": "line 0" }));
    let again = connection.hear();
    assert_eq!((&again["status"], &again["body"]["id"]), (&json!(200), &json!("r1")), "{again}");
    plane.check_money();
}

#[test]
fn reservations_and_prices_are_read_over_lines_too() {
    let plane = Plane::start();
    plane.processors();
    plane.grant("ada", "1000");
    let mut connection = Connection::of_operator(&plane);
    let asked =
        json!({ "resources": { "cpu": 0.01 }, "duration": 1, "from": "10m", "value": 9, "user": "ada" });
    for _ in 0..3 {
        connection.say(&json!({ "reserve": asked }));
        assert_eq!(connection.hear()["status"], 201);
    }
    connection.say(&json!({ "list": { "state": "PROMISED", "user": "ada", "limit": 2 } }));
    let page = connection.hear();
    let ids: Vec<&str> = page["body"]["reservations"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| one["id"].as_str().unwrap())
        .collect();
    assert_eq!((ids, page["body"]["next"].as_str()), (vec!["r3", "r2"], Some("r2")), "{page}");
    connection.say(&json!({ "prices": { "resources": "cpu=0.01", "duration": "1s", "by": "5s" } }));
    let prices = connection.hear();
    assert_eq!(prices["status"], 200, "{prices}");
    let over_http = plane.http.get("/api/reservations/prices?resources=cpu=0.01&duration=1s&by=5s");
    assert_eq!(prices["body"]["class"], over_http.json()["class"], "{prices}");
    for (line, part) in [
        (json!({ "list": { "stat": "PROMISED" } }), "stat"),
        (json!({ "prices": { "resources": { "cpu": 1 }, "duration": "1s" } }), "neither a text nor a number"),
        (json!({ "id": "i".repeat(127), "show": "r1" }), "128 bytes"),
    ] {
        connection.say(&line);
        let answer = connection.hear();
        assert_eq!(answer["status"], 400, "{line}: {answer}");
        assert!(answer["body"].to_string().contains(part), "{line}: {answer}");
    }
}

/// Connections that say nothing, and some that say much without a token, take no seats for long.
#[test]
fn whoever_shows_no_token_is_sent_away() {
    let plane = Plane::start();
    plane.processors();
    let mut silent: Vec<Connection> = (0..20).map(|_| Connection::open(&plane)).collect();
    let mut lost = Connection::open(&plane);
    lost.say(&json!({ "show": "r1" }));
    assert_eq!(lost.hear()["status"], 401);
    let mut connection = Connection::of_operator(&plane);
    for one in silent.iter_mut().chain([&mut lost]) {
        let told = one.hear();
        assert_eq!(told["status"], 408, "{told}");
        assert!(told.to_string().contains("a token that the service knows"), "{told}");
        assert!(one.is_closed());
    }
    connection.say(&json!({ "show": "r1" }));
    assert_eq!(connection.hear()["status"], 404, "a connection that has shown its token stays");
}

/// Each of these would keep 64 answers of a quarter of a MiB.
#[test]
fn answers_that_nobody_reads_take_a_bounded_part_of_memory() {
    let plane = Plane::start();
    plane.processors();
    plane.grant("ada", "1000");
    let mut connection = Connection::of_operator(&plane);
    let text = "x".repeat(200 << 10);
    let task = json!({ "command": ["true"], "environment": { "TEXT": text } });
    let asked = json!({
        "resources": { "cpu": 0.01 }, "duration": 1, "from": "10m", "value": 9, "user": "ada", "task": task
    });
    connection.say(&json!({ "reserve": asked }));
    let made = connection.hear();
    assert_eq!(made["status"], 201, "{made}");
    let token = plane.token(&json!({ "name": "sleepy", "role": "operate" }));
    let before = plane.services.rss_bytes();
    let mut unread: Vec<Connection> = (0..30).map(|_| Connection::showing(&plane, &token)).collect();
    for one in &mut unread {
        for _ in 0..64 {
            one.say(&json!({ "show": "r1" }));
        }
    }
    // Somebody else is answered meanwhile, and after as much of that as fits.
    for _ in 0..50 {
        connection.say(&json!({ "show": "r1" }));
        assert_eq!(connection.hear()["status"], 200);
    }
    let grown = plane.services.rss_bytes().saturating_sub(before);
    assert!(grown < 150 << 20, "{grown} bytes");
    for _ in 0..64 {
        let read = unread[0].hear();
        assert_eq!(
            read["status"], 200,
            "an answer that is read makes room for the next: {}",
            read["body"]["detail"]
        );
    }
}

#[test]
fn what_is_wrong_is_answered_and_nobody_reserves_without_a_token() {
    let plane = Plane::start();
    plane.processors();
    let mut stranger = Connection::open(&plane);
    let asked = json!({ "resources": { "cpu": 1 }, "duration": 1, "value": 9 });
    stranger.say(&json!({ "id": 1, "reserve": asked }));
    assert_eq!(stranger.hear()["status"], 401);
    stranger.say(&json!({ "token": "none-that-anybody-made-0123456789" }));
    assert_eq!(stranger.hear()["status"], 401);
    stranger.say(&json!({ "id": 2, "reserve": asked }));
    assert_eq!(stranger.hear()["status"], 401);

    let mut connection = Connection::of_operator(&plane);
    for (line, part) in [
        ("not JSON", "body"),
        ("[]", "an array"),
        ("{}", "has not exactly one request"),
        ("{\"reserve\": {}, \"quote\": {}}", "has not exactly one request"),
        ("{\"reserv\": {}}", "is no request"),
        ("{\"show\": 7}", "is no request"),
        ("{\"change\": \"r1\"}", "is no request"),
        ("{\"change\": \"r1\", \"to\": 7}", "is no request"),
        ("{\"bid\": \"r1\"}", "is no request"),
        ("{\"show\": \"r1\", \"value\": 7}", "is no request"),
        ("{\"reserveList\": {\"value\": 7}}", "allOrNone"),
        ("{\"quote\": {\"resources\": {\"cpu\": 1}, \"duration\": \"-1\"}}", "duration"),
    ] {
        connection.0.get_ref().write_all(format!("{line}\r\n\n").as_bytes()).unwrap();
        let answer = connection.hear();
        assert_eq!(answer["status"], 400, "{line}: {answer}");
        assert!(answer["body"].to_string().contains(part), "{line}: {answer}");
    }
    // Half a line and no more.
    connection.0.get_ref().write_all(b"{\"show\": \"r1\"").unwrap();
    connection.0.get_ref().shutdown(Shutdown::Write).unwrap();
    assert!(connection.hear()["body"]["detail"].as_str().unwrap().contains("ends in its middle"));
    assert!(connection.is_closed());
}

/// A long line takes room for the whole of it as soon as it has begun.
#[test]
fn long_lines_that_never_end_leave_room_for_those_of_others() {
    let plane = Plane::start();
    plane.processors();
    plane.grant("ada", "10");
    let half = "x".repeat(5_000);
    let begun = |connections: Vec<Connection>| {
        connections.iter().for_each(|one| one.0.get_ref().write_all(half.as_bytes()).unwrap());
        connections
    };
    let mut strangers = begun((0..300).map(|_| Connection::open(&plane)).collect());
    let token = plane.token(&json!({ "name": "greedy", "role": "operate" }));
    let mut greedy = begun((0..300).map(|_| Connection::showing(&plane, &token)).collect());
    assert_eq!(strangers.last_mut().unwrap().hear()["status"], 413);
    // On a slow machine the first of them are over before the last have begun.
    assert!(
        greedy.iter_mut().rev().any(|one| one.hear()["status"] == 503),
        "room for all long lines of a token"
    );
    let text = "x".repeat(20 << 10);
    let task = json!({ "command": ["true"], "environment": { "TEXT": text } });
    let asked = json!({
        "resources": { "cpu": 0.01 }, "duration": 1, "from": "10m", "value": 9, "user": "ada", "task": task
    });
    let mut connection = Connection::of_operator(&plane);
    connection.say(&json!({ "reserve": asked }));
    let made = connection.hear();
    assert_eq!(made["status"], 201, "{made}");
}

#[test]
fn a_line_without_end_is_refused_and_many_of_them_take_no_memory() {
    let plane = Plane::start();
    plane.processors();
    let before = plane.services.rss_bytes();
    thread::scope(|scope| {
        for _ in 0..20 {
            scope.spawn(|| {
                let mut connection = Connection::open(&plane);
                let piece = vec![b'x'; 64 * 1024];
                for _ in 0..160 {
                    if connection.0.get_ref().write_all(&piece).is_err() {
                        break;
                    }
                }
                // It was told, unless the reset overtook the answer.
                let mut line = String::new();
                if connection.0.read_line(&mut line).is_ok_and(|length| length > 0) {
                    assert!(line.contains("\"status\":413") || line.contains("\"status\":503"), "{line}");
                }
            });
        }
    });
    let grown = plane.services.rss_bytes().saturating_sub(before);
    assert!(grown < 100 << 20, "{grown} bytes");
    let mut connection = Connection::of_operator(&plane);
    connection.say(&json!({ "id": 1, "show": "r1" }));
    assert_eq!(connection.hear()["status"], 404);
}

#[test]
fn thousands_of_idle_connections_cost_little_and_disturb_nobody() {
    let plane = Plane::start();
    plane.processors();
    plane.grant("ada", "10");
    let most = rustix::process::getrlimit(rustix::process::Resource::Nofile);
    let limit = rustix::process::Rlimit { current: most.maximum, maximum: most.maximum };
    rustix::process::setrlimit(rustix::process::Resource::Nofile, limit).unwrap();
    let token = plane.token(&json!({ "name": "idle", "role": "operate" }));
    let mut connection = Connection::of_operator(&plane);
    let before = plane.services.rss_bytes();
    let mut idle: Vec<Connection> = Vec::new();
    for number in 0..MANY {
        let mut one = Connection::open(&plane);
        one.send_token(&token);
        idle.push(one);
        // Answers are read a hundred connections later, so that many tokens are checked at the same time.
        if let Some(earlier) = number.checked_sub(100) {
            assert_eq!(idle[earlier].hear()["status"], 200);
        }
    }
    let asked =
        json!({ "resources": { "cpu": 0.01 }, "duration": 1, "from": "10m", "value": 9, "user": "ada" });
    connection.say(&json!({ "id": 1, "reserve": asked }));
    assert_eq!(connection.hear()["status"], 201);
    let grown = plane.services.rss_bytes().saturating_sub(before);
    assert!(grown < 100 << 20, "{} idle connections cost {grown} bytes", idle.len());
    println!("{MANY} idle connections: {} bytes each", grown / MANY as u64);
}

//! Reservations over plain TCP: pipelined, bounded, and as private as over HTTP.

use std::collections::BTreeSet;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{Shutdown, TcpStream};
use std::thread;

use estimand_testkit::wait::PATIENCE;
use serde_json::{Value, json};

use crate::plane::Plane;

pub struct Connection {
    stream: TcpStream,
    reader: BufReader<TcpStream>,
}

impl Connection {
    pub fn open(plane: &Plane) -> Self {
        let stream = TcpStream::connect(plane.lines).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let reader = BufReader::new(stream.try_clone().unwrap());
        Connection { stream, reader }
    }

    /// One that has shown the operator's token.
    pub fn of_operator(plane: &Plane) -> Self {
        Self::showing(plane, &plane.token(&json!({ "name": "lines", "role": "operate" })))
    }

    pub fn showing(plane: &Plane, token: &str) -> Self {
        let mut connection = Self::open(plane);
        connection.say(&json!({ "token": token }));
        assert_eq!(connection.hear()["status"], 200);
        connection
    }

    pub fn say(&mut self, line: &Value) {
        self.stream.write_all(format!("{line}\n").as_bytes()).unwrap();
    }

    pub fn hear(&mut self) -> Value {
        let mut line = String::new();
        self.reader.read_line(&mut line).unwrap();
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line:?}"))
    }

    fn is_closed(&mut self) -> bool {
        let mut line = String::new();
        matches!(self.reader.read_line(&mut line), Ok(0) | Err(_))
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
    plane.check_money();
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
    assert_eq!(stranger.hear()["status"], 200, "only the form is checked here");
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
        connection.stream.write_all(format!("{line}\r\n\n").as_bytes()).unwrap();
        let answer = connection.hear();
        assert_eq!(answer["status"], 400, "{line}: {answer}");
        assert!(answer["body"].to_string().contains(part), "{line}: {answer}");
    }
    // Half a line and no more.
    connection.stream.write_all(b"{\"show\": \"r1\"").unwrap();
    connection.stream.shutdown(Shutdown::Write).unwrap();
    assert!(connection.hear()["body"]["detail"].as_str().unwrap().contains("ends in its middle"));
    assert!(connection.is_closed());
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
                    if connection.stream.write_all(&piece).is_err() {
                        break;
                    }
                }
                // It was told, unless the reset overtook the answer.
                let mut line = String::new();
                if connection.reader.read_line(&mut line).is_ok_and(|length| length > 0) {
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
fn ten_thousand_idle_connections_cost_little_and_disturb_nobody() {
    let plane = Plane::start();
    plane.processors();
    plane.grant("ada", "10");
    let most = rustix::process::getrlimit(rustix::process::Resource::Nofile);
    let limit = rustix::process::Rlimit { current: most.maximum, maximum: most.maximum };
    rustix::process::setrlimit(rustix::process::Resource::Nofile, limit).unwrap();
    let before = plane.services.rss_bytes();
    let idle: Vec<TcpStream> = (0..10_000)
        .map(|number| TcpStream::connect(plane.lines).unwrap_or_else(|error| panic!("{number}: {error}")))
        .collect();
    let mut connection = Connection::of_operator(&plane);
    let asked =
        json!({ "resources": { "cpu": 0.01 }, "duration": 1, "from": "10m", "value": 9, "user": "ada" });
    connection.say(&json!({ "id": 1, "reserve": asked }));
    assert_eq!(connection.hear()["status"], 201);
    let grown = plane.services.rss_bytes().saturating_sub(before);
    assert!(grown < 100 << 20, "{} idle connections cost {grown} bytes", idle.len());
    println!("10,000 idle connections: {} bytes each", grown / 10_000);
}

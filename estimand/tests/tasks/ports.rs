//! The ports of tasks: reached by their users through the services, whatever is slow, killed or in the way meanwhile.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::process::{Child, Stdio};
use std::time::Duration;

use estimand_testkit::http::Http;
use estimand_testkit::process::free_port;
use estimand_testkit::processes;
use estimand_testkit::wait::{self, PATIENCE};
use serde_json::{Value, json};

use crate::plane::Plane;

/// Answers each connection as its argument says.
const SERVER: &str = r#"
import os, socket, socketserver, sys, threading
class Server(socketserver.ThreadingTCPServer):
    allow_reuse_address = daemon_threads = True
    request_queue_size = 256
class Echo(socketserver.BaseRequestHandler):
    def handle(self):
        while piece := self.request.recv(65536):
            self.request.sendall(piece)
class Last(socketserver.BaseRequestHandler):
    def handle(self):
        got = b""
        while piece := self.request.recv(65536):
            got += piece
        self.request.sendall(b"got %d" % len(got))
class Flood(socketserver.BaseRequestHandler):
    def handle(self):
        self.request.settimeout(None)
        for number in range(64):
            self.request.sendall(bytes([number]) * (1 << 20))
            print("sent", number, flush=True)
server = Server(("127.0.0.1", int(os.environ["ESTIMAND_TASK_PORT"])), globals()[sys.argv[1]])
print("listens", flush=True)
server.serve_forever()
"#;

/// `tasks forward`, which runs until it is dropped.
struct Forward {
    process: Child,
    address: String,
}

impl Forward {
    fn start(plane: &Plane, id: &str) -> Self {
        let mut command = plane.cli(&["tasks", "forward", id]);
        let mut process = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(process.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let address =
            line.strip_prefix("http://").and_then(|rest| rest.split_once(' ')).unwrap().0.to_owned();
        Forward { process, address }
    }

    fn connect(&self) -> TcpStream {
        let connection = TcpStream::connect(&self.address).unwrap();
        connection.set_read_timeout(Some(PATIENCE)).unwrap();
        connection
    }

    /// The server's answer to this, if it gets as far as that.
    fn try_echo(&self, text: &[u8]) -> Option<Vec<u8>> {
        let mut connection = self.connect();
        let mut got = vec![0; text.len()];
        connection.write_all(text).ok()?;
        connection.read_exact(&mut got).ok()?;
        Some(got)
    }

    /// Its standard error until it was ended.
    fn end(mut self) -> String {
        self.process.kill().unwrap();
        let mut said = String::new();
        self.process.stderr.take().unwrap().read_to_string(&mut said).unwrap();
        said
    }
}

impl Drop for Forward {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Plane {
    /// A task that listens, and answers so.
    fn serving(&self, id: &str, how: &str) -> String {
        let command = json!(["/usr/bin/env", "python3", "-c", SERVER, how]);
        let id = self.submit(&json!({ "id": id, "command": command, "port": 0, "onLoss": "wait" }));
        self.wait_lines(&id, 1);
        id
    }

    fn user(&self, name: &str) -> String {
        let fields = json!({ "name": name, "role": "user" });
        let issued = self.http.send_json("POST", "/api/tokens", &fields).expect_status(201).json();
        issued["token"].as_str().unwrap().to_owned()
    }

    /// The answer to a wish for a tunnel that is not opened.
    fn refused(&self, id: &str, token: Option<&str>) -> Value {
        let http = Http::new(self.services.base_url());
        let http = if token.is_some() { http.showing(token) } else { http };
        let headers = [
            ("Connection", "Upgrade"),
            ("Upgrade", "websocket"),
            ("Sec-WebSocket-Version", "13"),
            ("Sec-WebSocket-Key", "x3JJHMbDL1EzLkh9GBhXDw=="),
        ];
        http.request("GET", &format!("/api/tasks/{id}/tunnel"), &headers, b"").json()
    }
}

#[test]
fn a_web_server_is_read_and_sees_no_credentials_of_ours() {
    let plane = Plane::start(&["n1"]);
    let script = "env > env; exec python3 -m http.server $ESTIMAND_TASK_PORT --bind 127.0.0.1";
    let id = plane.submit(&json!({ "command": ["/bin/sh", "-c", script], "port": 0 }));
    let http = wait::until(PATIENCE, "the task to run", || {
        (plane.task(&id)["state"] == "RUNNING").then(|| Forward::start(&plane, &id))
    });
    // This server closes each connection after its answer.
    let page = || Http::new(&format!("http://{}", http.address));
    let variables = wait::until(PATIENCE, "the server to answer", || {
        page().try_request("GET", "/env", &[], b"").ok().filter(|answer| answer.status == 200)
    });
    let variables = String::from_utf8(variables.body).unwrap();
    assert!(
        variables.contains("ESTIMAND_TASK_PORT=") && !variables.contains("ESTIMAND_TOKEN"),
        "{variables}"
    );
    page().get("/none").expect_status(404);
}

#[test]
fn each_direction_ends_by_itself() {
    let plane = Plane::start(&["n1"]);
    let id = plane.serving("last", "Last");
    let forward = Forward::start(&plane, &id);
    let mut connection = forward.connect();
    connection.write_all(&vec![7; 3_000_000]).unwrap();
    connection.shutdown(Shutdown::Write).unwrap();
    let mut answer = String::new();
    connection.read_to_string(&mut answer).unwrap();
    assert_eq!(answer, "got 3000000");
}

#[test]
fn a_hundred_connections_are_open_at_once() {
    let plane = Plane::start(&["n1"]);
    let id = plane.serving("echo", "Echo");
    let forward = Forward::start(&plane, &id);
    let mut open: Vec<TcpStream> = (0..100).map(|_| forward.connect()).collect();
    for round in 0..2_u32 {
        for (number, connection) in open.iter_mut().enumerate() {
            connection.write_all(format!("{round}.{number:04}").as_bytes()).unwrap();
        }
        for (number, connection) in open.iter_mut().enumerate() {
            let mut got = [0; 6];
            connection.read_exact(&mut got).unwrap();
            assert_eq!(got, format!("{round}.{number:04}").as_bytes());
        }
    }
    let metrics = String::from_utf8(plane.http.get("/metrics").body).unwrap();
    assert!(metrics.contains("estimand_task_tunnels 100\n"), "{metrics}");
    drop(open);
    wait::until_ok(PATIENCE, "all of them to be over", || {
        let metrics = String::from_utf8(plane.http.get("/metrics").body).unwrap();
        if metrics.contains("estimand_task_tunnels 0\n") { Ok(()) } else { Err(metrics) }
    });
}

#[test]
fn a_slow_reader_holds_up_the_task_and_takes_no_memory() {
    let plane = Plane::start(&["n1"]);
    let id = plane.serving("flood", "Flood");
    let forward = Forward::start(&plane, &id);
    let pids = [plane.services.pid(), plane.agents[0].pid(), forward.process.id()];
    let before = pids.map(processes::peak_rss_bytes);
    let mut connection = forward.connect();
    // Nothing is read until the task is held up: between two looks no more of it went.
    let mut last = None;
    wait::until_ok(PATIENCE, "the task to be held up", || {
        wait::pass(Duration::from_millis(300));
        let sent = plane.log(&id).len();
        if last.replace(sent) == Some(sent) { Ok(()) } else { Err(sent) }
    });
    let sent = plane.log(&id).len();
    assert!(sent < 40, "{sent} MiB were sent although nothing was read");
    let mut got = Vec::new();
    connection.read_to_end(&mut got).unwrap();
    assert!(
        got.len() == 64 << 20
            && got.chunks(1 << 20).enumerate().all(|(n, piece)| piece.iter().all(|b| usize::from(*b) == n))
    );
    for (pid, before) in pids.into_iter().zip(before) {
        let grown = processes::peak_rss_bytes(pid) - before;
        println!("{} KiB more", grown >> 10);
        assert!(grown < 24 << 20, "{grown} bytes more");
    }
}

#[test]
fn an_agent_that_is_killed_breaks_connections_and_makes_others_when_it_is_back() {
    let mut plane = Plane::start(&["n1"]);
    let id = plane.serving("echo", "Echo");
    let forward = Forward::start(&plane, &id);
    let mut open = forward.connect();
    let mut got = [0; 4];
    open.write_all(b"ping").unwrap();
    open.read_exact(&mut got).unwrap();
    plane.agents[0].kill9();
    // It is no orderly end.
    assert!(open.read(&mut got).is_err());
    plane.agents[0].restart_on_same_port();
    let again = wait::until(PATIENCE, "a connection by the agent that is back", || forward.try_echo(b"ping"));
    assert_eq!(again, b"ping");
    assert_eq!(plane.task(&id)["attempt"], 1);
    plane.services.kill9();
    plane.services.restart_on_same_port();
    let again = wait::until(PATIENCE, "a connection by services that are back", || forward.try_echo(b"pong"));
    assert_eq!(again, b"pong");
}

#[test]
fn a_task_that_ends_ends_its_connections() {
    let plane = Plane::start(&["n1"]);
    let id = plane.serving("echo", "Echo");
    let forward = Forward::start(&plane, &id);
    let mut open = forward.connect();
    let mut got = [0; 4];
    open.write_all(b"ping").unwrap();
    open.read_exact(&mut got).unwrap();
    plane.http.request("POST", &format!("/api/tasks/{id}/cancel"), &[], b"");
    assert!(matches!(open.read(&mut got), Ok(0) | Err(_)));
    plane.over(&id);
    assert!(forward.try_echo(b"ping").is_none());
    let said = forward.end();
    assert!(said.contains("`echo` is over: it is CANCELLED"), "{said}");
}

#[test]
fn a_task_that_cannot_be_reached_says_why() {
    let plane = Plane::start(&["n1"]);
    let refused = |id: &str| plane.refused(id, None)["detail"].as_str().unwrap().to_owned();
    let plain = plane.submit(&json!({ "command": ["/bin/sleep", "1000"] }));
    assert!(refused(&plain).contains("has no port"));
    let shown = plane.cli(&["tasks", "forward", &plain]).output().unwrap();
    assert!(String::from_utf8_lossy(&shown.stderr).contains("`--port PORT` of `tasks submit`"), "{shown:?}");
    let waits = plane.submit(&json!({ "command": ["/bin/true"], "port": 80, "nodes": "node=n9" }));
    assert!(refused(&waits).contains("it is QUEUED"));
    assert!(refused("nobody").contains("there is no task `nobody`"));
    // It listens nowhere.
    let running = |document: Value| {
        let id = plane.submit(&document);
        wait::until(PATIENCE, "it to run", || (plane.task(&id)["state"] == "RUNNING").then_some(()));
        id
    };
    let silent = running(json!({ "command": ["/bin/sleep", "1000"], "port": free_port() }));
    assert!(refused(&silent).contains("nothing listens at port"), "{}", refused(&silent));
    // Any other listener belongs to somebody else.
    let other = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = other.local_addr().unwrap().port();
    let spy = running(json!({ "command": ["/bin/sleep", "1000"], "port": port }));
    assert!(refused(&spy).contains("is not a process of the task"), "{}", refused(&spy));
}

#[test]
fn another_user_is_told_that_there_is_no_such_task() {
    let plane = Plane::start(&["n1"]);
    let (alice, bob) = (plane.user("alice"), plane.user("bob"));
    let command = json!(["/usr/bin/env", "python3", "-c", SERVER, "Echo"]);
    let document = json!({ "id": "hers", "command": command, "port": 0, "user": "alice" });
    let id = plane.submit(&document);
    plane.wait_lines(&id, 1);
    assert!(plane.refused(&id, Some(&bob))["detail"].as_str().unwrap().contains("there is no task `hers`"));
    let mut forward = plane.cli(&["tasks", "forward", &id]);
    let refused = forward.env("ESTIMAND_TOKEN", &bob).output().unwrap();
    assert_eq!(refused.status.code(), Some(3), "{refused:?}");
    let orders = Http::new(plane.services.base_url()).showing(Some(&alice));
    orders.get("/api/tasks/tunnels?node=n1").expect_status(403);
}

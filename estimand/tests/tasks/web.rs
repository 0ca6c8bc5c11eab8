//! Requests to tasks through the services, by programs that show a token.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;

use estimand_testkit::TOKEN;
use estimand_testkit::wait::{self, PATIENCE};
use serde_json::json;

use crate::plane::Plane;

/// Shows what it was asked; says something in pieces; speaks something else after an upgrade.
const SERVER: &str = r#"
import http.server, os
STATUSES = {"/nothing": 204, "/same": 304, "/unasked": 101}
POWERFUL = ["Server", "Strict-Transport-Security", "WWW-Authenticate", "X-Accel-Redirect", "Access-Control-Allow-Origin",
            "Refresh", "Link", "Via", "X-Frame-Options"]
class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def answer(self):
        if self.headers.get("Upgrade") == "websocket":
            self.send_response(101)
            self.send_header("Upgrade", "websocket")
            self.send_header("Connection", "Upgrade")
            self.end_headers()
            while piece := self.connection.recv(4096):
                self.connection.sendall(piece.upper())
            self.close_connection = True
            return
        if self.path in STATUSES:
            self.send_response(STATUSES[self.path])
            if self.path == "/unasked":
                self.send_header("Upgrade", "websocket")
                self.send_header("Connection", "Upgrade")
            else:
                self.send_header("Content-Length", "7")
                self.send_header("Location", "/api/tokens")
                for name in POWERFUL:
                    self.send_header(name, "1")
            self.end_headers()
            return
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        shown = f"{self.command} {self.path}\n{self.headers}{body.decode()}".encode()
        self.send_response(404 if self.path == "/none" else 200)
        self.send_header("Set-Cookie", "a=b")
        self.send_header("X-Of-Task", "1")
        if self.path == "/pieces":
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            for _ in range(3):
                self.wfile.write(b"5\r\nhello\r\n")
            self.wfile.write(b"0\r\n\r\n")
            return
        self.send_header("Content-Length", str(len(shown)))
        self.end_headers()
        self.wfile.write(shown)
    do_GET = do_POST = do_PUT = do_DELETE = answer
server = http.server.ThreadingHTTPServer(("127.0.0.1", int(os.environ["ESTIMAND_TASK_PORT"])), Handler)
print("listens", flush=True)
server.serve_forever()
"#;

fn serving(plane: &Plane) -> String {
    let command = json!(["/usr/bin/env", "python3", "-c", SERVER]);
    let id = plane.submit(&json!({ "id": "web", "command": command, "port": 0, "onLoss": "wait" }));
    plane.wait_lines(&id, 1);
    wait::until(PATIENCE, "it to run", || (plane.task(&id)["state"] == "RUNNING").then_some(()));
    format!("/api/tasks/{id}/web")
}

#[test]
fn requests_go_through_without_credentials_and_answers_without_power() {
    let plane = Plane::start(&["n1"]);
    let web = serving(&plane);
    // A notebook refuses what has another origin than its own host.
    let origin = format!("http://{}", plane.http.authority());
    let headers = [
        ("Cookie", "session=secret"),
        ("X-Mine", "2"),
        ("Origin", origin.as_str()),
        ("Referer", origin.as_str()),
    ];
    let answer = plane.http.request("POST", &format!("{web}/a%2Fb/c?d=/e"), &headers, b"a body");
    let shown = String::from_utf8(answer.body.clone()).unwrap();
    assert!(shown.starts_with("POST /a%2Fb/c?d=/e\n") && shown.ends_with("\na body"), "{shown}");
    let lower = shown.to_lowercase();
    for part in [
        "host: localhost\n",
        "origin: http://localhost\n",
        "x-mine: 2\n",
        "x-forwarded-prefix: /api/tasks/web/web\n",
        "x-forwarded-for: 127.0.0.1\n",
    ] {
        assert!(lower.contains(part), "{part}: {shown}");
    }
    assert!(
        !shown.contains(TOKEN)
            && !lower.contains("authorization")
            && !lower.contains("cookie")
            && !lower.contains("referer"),
        "{shown}"
    );
    assert_eq!((answer.status, answer.header("x-of-task")), (200, Some("1")));
    assert_eq!(answer.header("set-cookie"), None);
    assert!(answer.header("content-security-policy").unwrap().starts_with("sandbox;"));
    // An error of the task is its own.
    let none = plane.http.get(&format!("{web}/none"));
    assert!(none.status == 404 && none.body.starts_with(b"GET /none\n"), "{none:?}");
    assert_eq!(plane.http.get(&format!("{web}/pieces")).body, b"hellohellohello");
}

#[test]
fn an_answer_without_a_body_comes_at_once_and_a_protocol_that_nobody_asked_for_does_not() {
    let plane = Plane::start(&["n1"]);
    let web = serving(&plane);
    for (path, status) in [("nothing", 204), ("same", 304)] {
        // On one connection: the next answer is not taken for the body of this one.
        for _ in 0..2 {
            let answer = plane.http.get(&format!("{web}/{path}"));
            assert_eq!((answer.status, answer.body.len()), (status, 0), "{answer:?}");
            assert_eq!(answer.header("location"), Some("/api/tasks/web/web/api/tokens"), "{answer:?}");
            for name in [
                "content-length",
                "server",
                "strict-transport-security",
                "www-authenticate",
                "x-accel-redirect",
            ] {
                assert_eq!(answer.header(name), None, "{answer:?}");
            }
            for name in ["access-control-allow-origin", "refresh", "link", "via", "x-frame-options"] {
                assert_eq!(answer.header(name), None, "{answer:?}");
            }
        }
    }
    let unasked = plane.http.get(&format!("{web}/unasked")).expect_status(502).json();
    assert!(unasked["detail"].as_str().unwrap().contains("not asked for"), "{unasked}");
}

#[test]
fn an_upgraded_connection_goes_through_both_ways() {
    let plane = Plane::start(&["n1"]);
    let web = serving(&plane);
    let mut connection = TcpStream::connect(plane.http.authority()).unwrap();
    connection.set_read_timeout(Some(PATIENCE)).unwrap();
    let head = format!(
        "GET {web}/socket HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {TOKEN}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n",
        plane.http.authority()
    );
    connection.write_all(head.as_bytes()).unwrap();
    let mut answer = Vec::new();
    while !answer.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        connection.read_exact(&mut byte).unwrap();
        answer.extend(byte);
    }
    assert!(answer.starts_with(b"HTTP/1.1 101 "), "{}", String::from_utf8_lossy(&answer));
    for word in ["hello", "again"] {
        connection.write_all(word.as_bytes()).unwrap();
        let mut got = [0; 5];
        connection.read_exact(&mut got).unwrap();
        assert_eq!(got, word.to_uppercase().as_bytes());
    }
}

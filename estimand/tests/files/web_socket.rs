//! Files over a WebSocket, spoken by hand.

use std::io::{self, Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

use estimand_testkit::TOKEN;
use estimand_testkit::http::Http;
use estimand_testkit::process;
use serde_json::{Value, json};

use crate::{Files, sha256, some_bytes};

const TEXT: u8 = 1;
const BINARY: u8 = 2;
const CLOSE: u8 = 8;

/// A client that says and hears one frame after the other.
struct WebSocket(TcpStream);

impl WebSocket {
    fn open(files: &Files) -> Self {
        WebSocket::showing(&files.http, TOKEN)
    }

    fn showing(http: &Http, token: &str) -> Self {
        WebSocket::with(http, token, "").unwrap_or_else(|answer| panic!("{answer}"))
    }

    /// With further headers; the answer if it is no WebSocket.
    fn with(http: &Http, token: &str, headers: &str) -> Result<Self, String> {
        let authority = http.authority();
        let mut stream = TcpStream::connect(authority).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        let head = format!(
            "GET /api/files/socket HTTP/1.1\r\nHost: {authority}\r\nAuthorization: Bearer {token}\r\nUpgrade: websocket\r\n\
             Connection: Upgrade\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n{headers}\r\n"
        );
        stream.write_all(head.as_bytes()).unwrap();
        let mut answer = Vec::new();
        while !answer.ends_with(b"\r\n\r\n") {
            let mut byte = [0];
            stream.read_exact(&mut byte).unwrap();
            answer.extend(byte);
        }
        let answer = String::from_utf8_lossy(&answer).into_owned();
        if answer.starts_with("HTTP/1.1 101") { Ok(WebSocket(stream)) } else { Err(answer) }
    }

    fn send(&mut self, kind: u8, bytes: &[u8]) -> io::Result<()> {
        let mut frame = vec![0x80 | kind];
        match bytes.len() {
            length @ ..126 => frame.push(0x80 | length as u8),
            length @ 126..0x1_0000 => {
                frame.push(0x80 | 126);
                frame.extend((length as u16).to_be_bytes());
            }
            length => {
                frame.push(0x80 | 127);
                frame.extend((length as u64).to_be_bytes());
            }
        }
        // A mask of zeros leaves the bytes as they are.
        frame.extend([0; 4]);
        frame.extend(bytes);
        self.0.write_all(&frame)
    }

    fn ask(&mut self, request: &Value) -> Value {
        self.send(TEXT, request.to_string().as_bytes()).unwrap();
        self.answer()
    }

    fn answer(&mut self) -> Value {
        let (kind, bytes) = self.next();
        assert_eq!(kind, TEXT, "{}", String::from_utf8_lossy(&bytes));
        serde_json::from_slice(&bytes).unwrap()
    }

    fn next(&mut self) -> (u8, Vec<u8>) {
        let mut head = [0; 2];
        self.0.read_exact(&mut head).unwrap();
        assert_eq!(head[0] & 0x80, 0x80, "a whole message");
        let length = match head[1] {
            126 => {
                let mut length = [0; 2];
                self.0.read_exact(&mut length).unwrap();
                usize::from(u16::from_be_bytes(length))
            }
            127 => {
                let mut length = [0; 8];
                self.0.read_exact(&mut length).unwrap();
                usize::try_from(u64::from_be_bytes(length)).unwrap()
            }
            length => usize::from(length),
        };
        let mut bytes = vec![0; length];
        self.0.read_exact(&mut bytes).unwrap();
        (head[0] & 0x0f, bytes)
    }
}

#[test]
fn files_come_and_go_over_one_connection() {
    let files = Files::start();
    let bytes = some_bytes(700_000);
    let mut socket = WebSocket::open(&files);
    let upload = json!({ "upload": { "path": "a/b", "size": bytes.len(), "sha256": sha256(&bytes) } });
    assert_eq!(socket.ask(&upload), json!({ "progress": { "received": 0, "size": 700_000 } }));
    for piece in bytes.chunks(100_000) {
        socket.send(BINARY, piece).unwrap();
    }
    assert_eq!(socket.answer()["file"]["sha256"], sha256(&bytes));
    let there = socket.ask(&json!({ "download": { "path": "a/b", "offset": 100_000 } }));
    assert_eq!(there["file"]["size"], 700_000);
    let mut back = Vec::new();
    while back.len() < 600_000 {
        let (kind, bytes) = socket.next();
        assert_eq!(kind, BINARY);
        back.extend(bytes);
    }
    assert!(back == bytes[100_000..]);
    // The connection outlives what is wrong.
    for (wrong, part) in [
        (json!({ "download": { "path": "nowhere" } }), "there is no file"),
        (json!({ "download": { "path": "a/b", "offset": u64::MAX } }), "is behind the end of the file"),
        (json!({ "download": { "path": "../x" } }), "is not the path of a file"),
        (json!({ "fetch": {} }), "unknown variant"),
        (json!({ "upload": { "path": "x", "size": 1, "color": 2 } }), "color"),
    ] {
        let problem = socket.ask(&wrong)["problem"].to_string();
        assert!(problem.contains(part), "{wrong}: {problem}");
    }
    socket.send(BINARY, b"lost").unwrap();
    assert!(socket.answer()["problem"].to_string().contains("an upload begins with one"));
    socket.send(CLOSE, &[]).unwrap();
    assert_eq!(socket.next().0, CLOSE);
}

#[test]
fn an_upload_goes_on_over_another_connection() {
    let files = Files::start();
    let bytes = some_bytes(2_000_000);
    let upload = json!({ "upload": { "path": "x", "size": bytes.len() } });
    let mut socket = WebSocket::open(&files);
    socket.ask(&upload);
    for piece in bytes[..1_500_000].chunks(500_000) {
        socket.send(BINARY, piece).unwrap();
    }
    drop(socket);
    let (mut socket, received) =
        estimand_testkit::wait::until(estimand_testkit::wait::PATIENCE, "what came to be kept", || {
            let mut socket = WebSocket::open(&files);
            let progress = socket.ask(&upload);
            let received = progress["progress"]["received"].as_u64().filter(|received| *received > 0)?;
            Some((socket, usize::try_from(received).unwrap()))
        });
    for piece in bytes[received..].chunks(500_000) {
        socket.send(BINARY, piece).unwrap();
    }
    assert_eq!(socket.answer()["file"]["sha256"], sha256(&bytes));
}

#[test]
fn a_page_of_another_site_opens_none() {
    let files = Files::start();
    let refused = WebSocket::with(&files.http, TOKEN, "Origin: http://elsewhere\r\n");
    assert!(refused.is_err_and(|answer| answer.starts_with("HTTP/1.1 403")));
}

#[test]
fn a_user_reaches_no_file_of_others_over_a_socket() {
    // The one service makes tokens, too.
    let up = process::estimand().args(["up", "--no-agent", "--defaults", "none"]).start();
    let http = up.http();
    let token = |user: &str| {
        let body = json!({ "name": user, "role": "user" });
        let made = http.send_json("POST", "/api/tokens", &body).expect_status(201).json();
        made["token"].as_str().unwrap().to_owned()
    };
    let mut alice = WebSocket::showing(&http, &token("alice"));
    assert_eq!(alice.ask(&json!({ "upload": { "path": "a", "size": 4 } }))["progress"]["received"], 0);
    alice.send(BINARY, b"hers").unwrap();
    assert_eq!(alice.answer()["file"]["path"], "a");
    assert_eq!(alice.ask(&json!({ "download": { "path": "a" } }))["file"]["path"], "a");
    assert_eq!(alice.next(), (BINARY, b"hers".to_vec()));

    let mut bob = WebSocket::showing(&http, &token("bob"));
    for path in ["a", "users/alice/a"] {
        let answer = bob.ask(&json!({ "download": { "path": path } }));
        assert_eq!(answer["problem"]["detail"], format!("there is no file `{path}`"));
    }
    assert_eq!(bob.ask(&json!({ "upload": { "path": "a", "size": 3 } }))["progress"]["received"], 0);
    bob.send(BINARY, b"his").unwrap();
    assert_eq!(bob.answer()["file"]["path"], "a");
    assert_eq!(http.get("/api/files/content?path=users/alice/a").expect_status(200).body, b"hers");
    assert_eq!(http.get("/api/files/content?path=users/bob/a").expect_status(200).body, b"his");
}

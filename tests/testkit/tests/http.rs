//! The client against a server that says exactly what each test tells it to.
#![allow(clippy::unwrap_used)]

use std::io::{ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use estimand_testkit::http::Http;
use estimand_testkit::wait::PATIENCE;

const AT_ONCE: Duration = Duration::from_millis(30);

/// Serves each connection in turn by `serve`, which gets its number from 0.
fn server(connections: usize, serve: fn(usize, TcpStream)) -> (Http, JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let base = format!("http://{}", listener.local_addr().unwrap());
    let handle = thread::spawn(move || {
        for number in 0..connections {
            serve(number, listener.accept().unwrap().0);
        }
    });
    (Http::new(&base), handle)
}

/// Reads one request: its head, and as much body as it announces.
fn request(stream: &mut TcpStream) -> String {
    let mut bytes = Vec::new();
    let mut byte = [0];
    while !bytes.ends_with(b"\r\n\r\n") {
        stream.read_exact(&mut byte).unwrap();
        bytes.push(byte[0]);
    }
    let head = String::from_utf8(bytes).unwrap();
    let announced = head.lines().find_map(|line| line.strip_prefix("Content-Length: "));
    let mut body = vec![0; announced.map_or(0, |count| count.parse().unwrap())];
    stream.read_exact(&mut body).unwrap();
    head + &String::from_utf8(body).unwrap()
}

#[test]
fn uses_a_connection_again() {
    let (http, server) = server(1, |_, mut stream| {
        let first = request(&mut stream);
        assert!(first.starts_with("GET /a?b=c HTTP/1.1\r\nHost: 127.0.0.1:"), "{first}");
        stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n[]").unwrap();
        let second = request(&mut stream);
        assert!(second.starts_with("POST /x HTTP/1.1\r\n") && second.contains("\r\nX-A: 1\r\n"), "{second}");
        assert!(second.ends_with("\r\n\r\nhello"), "{second}");
        stream.write_all(b"HTTP/1.1 201 Created\r\nlocation: /x/1\r\nContent-Length: 0\r\n\r\n").unwrap();
    });
    assert_eq!(http.get("/a?b=c").expect_status(200).json(), serde_json::json!([]));
    let created = http.request("POST", "/x", &[("X-A", "1")], b"hello").expect_status(201);
    assert_eq!(created.header("Location"), Some("/x/1"));
    server.join().unwrap();
}

#[test]
fn opens_a_new_connection_when_the_server_closed_the_old() {
    let (http, server) = server(2, |number, mut stream| {
        request(&mut stream);
        write!(stream, "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n{number}").unwrap();
    });
    assert_eq!(http.get("/").text(), "0");
    estimand_testkit::wait::until(PATIENCE, "an answer on a new connection", || {
        http.try_request("GET", "/", &[], b"").ok().filter(|answer| answer.text() == "1")
    });
    server.join().unwrap();
}

#[test]
fn joins_chunks_and_passes_over_interim_responses() {
    let (http, server) = server(1, |_, mut stream| {
        request(&mut stream);
        stream.write_all(b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\n").unwrap();
        stream.write_all(b"Transfer-Encoding: chunked\r\n\r\n3;x=y\r\nabc\r\n").unwrap();
        stream.write_all(b"A\r\n0123456789\r\n0\r\nTrailer: t\r\n\r\n").unwrap();
    });
    assert_eq!(http.get("/").text(), "abc0123456789");
    server.join().unwrap();
}

#[test]
fn sends_raw_bytes_as_they_are() {
    let (http, server) = server(1, |_, mut stream| {
        let mut got = [0; 9];
        stream.read_exact(&mut got).unwrap();
        assert_eq!(&got, b"G\0ET \xff\r\n\n");
        stream.write_all(b"HTTP/1.0 400 Bad Request\r\n\r\nto the end").unwrap();
    });
    let answer = http.raw(b"G\0ET \xff\r\n\n").expect_status(400);
    assert_eq!(answer.text(), "to the end");
    server.join().unwrap();
}

#[test]
fn a_body_cut_short_is_an_error() {
    let (http, server) = server(2, |number, mut stream| {
        request(&mut stream);
        let starts: [&[u8]; 2] = [
            b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf",
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n9\r\nhalf",
        ];
        stream.write_all(starts[number]).unwrap();
    });
    for _ in 0..2 {
        let error = http.try_request("GET", "/", &[], b"").unwrap_err();
        assert_eq!(error.kind(), ErrorKind::UnexpectedEof, "{error}");
    }
    server.join().unwrap();
}

#[test]
fn a_silent_server_meets_the_deadline() {
    let (http, server) = server(1, |_, mut stream| {
        request(&mut stream);
        // Until the client gives up and closes.
        let _ = stream.read(&mut [0]);
    });
    let http = http.with_deadline(AT_ONCE);
    assert_eq!(http.try_request("GET", "/", &[], b"").unwrap_err().kind(), ErrorKind::TimedOut);
    server.join().unwrap();
}

#[test]
fn events_come_whole_however_they_are_cut() {
    let (http, server) = server(1, |_, mut stream| {
        let asked = request(&mut stream);
        assert!(asked.contains("Accept: text/event-stream") && asked.contains("Last-Event-ID: 6"), "{asked}");
        stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n").unwrap();
        stream.write_all(b"Transfer-Encoding: chunked\r\n\r\n").unwrap();
        for chunk in
            ["id: 7\nevent: val", "ue\ndata: {\"a\":1}\n", "\n: alive\n\nda", "ta: x\r\ndata: y\r\n\r\n"]
        {
            write!(stream, "{:x}\r\n{chunk}\r\n", chunk.len()).unwrap();
        }
        // The client has read both events and found nothing more before the stream ends.
        assert_eq!(stream.read(&mut [0]).unwrap(), 0);
    });
    let mut events = http.sse("/watch", &[("Last-Event-ID", "6")]);
    let first = events.next_event(PATIENCE);
    assert_eq!((first.id.as_deref(), first.event.as_str()), (Some("7"), "value"));
    assert_eq!(first.json(), serde_json::json!({"a": 1}));
    let second = events.next_event(PATIENCE);
    assert_eq!((second.id, second.event.as_str(), second.data.as_str()), (None, "message", "x\ny"));
    assert_eq!(events.try_next(AT_ONCE).unwrap_err().kind(), ErrorKind::TimedOut);
    drop(events);
    server.join().unwrap();
}

#[test]
fn a_refused_stream_shows_the_answer() {
    let (http, server) = server(1, |_, mut stream| {
        request(&mut stream);
        stream.write_all(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 7\r\n\r\nno name").unwrap();
    });
    let error = http.try_sse("/watch", &[]).err().unwrap().to_string();
    assert!(error.contains("400") && error.contains("no name"), "{error}");
    server.join().unwrap();
}

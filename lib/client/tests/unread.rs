//! A server ends a connection on which no request comes with 408. A request that was sent at that moment, or was about to
//! be, is sent again.
#![allow(clippy::unwrap_used)]

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::thread;
use std::time::Duration;

use estimand_client::{Client, Error, Options};

/// Reads the head of a request without a body, and answers.
fn answer(mut stream: TcpStream, text: &str) -> String {
    let (mut head, mut byte) = (Vec::new(), [0]);
    while !head.ends_with(b"\r\n\r\n") {
        stream.read_exact(&mut byte).unwrap();
        head.push(byte[0]);
    }
    stream.write_all(text.as_bytes()).unwrap();
    String::from_utf8(head).unwrap()
}

/// Deletes a task, which is sent again only if it was not taken, at a server that answers so; returns how often it was sent.
fn delete(answers: &[&'static str]) -> (Result<(), Error>, usize) {
    delete_after(&[], answers)
}

/// Deletes a task at a server that says `early` on connections of their own, before it has read anything.
fn delete_after(early: &[&'static str], answers: &[&'static str]) -> (Result<(), Error>, usize) {
    // Another test may have done so.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let client = Client::new(&format!("http://{}", listener.local_addr().unwrap())).unwrap();
    let answers = answers.to_vec();
    let first = early.to_vec();
    let server = thread::spawn(move || {
        for text in first {
            let mut stream = listener.accept().unwrap().0;
            stream.write_all(text.as_bytes()).unwrap();
            stream.shutdown(Shutdown::Write).unwrap();
            // What was sent all the same, so that the connection is not reset.
            let _ = stream.read_to_end(&mut Vec::new());
        }
        let served = answers.into_iter().map(|text| answer(listener.accept().unwrap().0, text));
        served.filter(|head| head.starts_with("DELETE /api/tasks/t1 ")).count()
    });
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let outcome = runtime.block_on(client.delete_task("t1"));
    if !early.is_empty() {
        // A server whose answers were not asked for would wait for ever.
        outcome.as_ref().unwrap();
    }
    (outcome, server.join().unwrap())
}

const UNREAD: &str = "HTTP/1.1 408 Request Timeout\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";
const DONE: &str = "HTTP/1.1 204 No Content\r\nconnection: close\r\n\r\n";
const FOREIGN: &str = "HTTP/1.1 418 I'm a teapot\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";

#[test]
fn a_request_that_was_not_read_is_sent_again() {
    let (outcome, sent) = delete(&[UNREAD, UNREAD, DONE]);
    outcome.unwrap();
    assert_eq!(sent, 3);
    let (outcome, sent) = delete(&[FOREIGN]);
    assert!(matches!(outcome, Err(Error::Unexpected { .. })) && sent == 1);
}

#[test]
fn a_request_whose_connection_ended_before_it_is_sent_again() {
    for _ in 0..40 {
        let (outcome, _) = delete_after(&[UNREAD], &[DONE]);
        outcome.unwrap();
    }
}

/// The wait of a busy server is longer than an outage may take.
#[test]
fn a_request_that_was_not_read_for_long_is_sent_again() {
    const OUTAGE: Duration = Duration::from_millis(20);
    let _ = rustls::crypto::ring::default_provider().install_default();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let options = Options { retry_within: OUTAGE, ..Options::default() };
    let client = Client::with_options(&address, options).unwrap();
    let server = thread::spawn(move || {
        for text in [UNREAD, DONE] {
            let stream = listener.accept().unwrap().0;
            thread::sleep(2 * OUTAGE);
            answer(stream, text);
        }
    });
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let outcome = runtime.block_on(client.delete_task("t1"));
    outcome.unwrap();
    server.join().unwrap();
}

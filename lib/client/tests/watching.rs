//! A watch has deadlines of its own: a service that has nothing to say is silent for longer than an answer may take.
#![allow(clippy::unwrap_used)]

use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::thread;
use std::time::Duration;

use estimand_client::{Client, Event, Options};

/// No test waits longer than this for anything.
const PATIENCE: Duration = Duration::from_secs(30);

#[test]
fn the_deadline_of_an_answer_ends_no_watch() {
    // Another test may have done so.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let server = thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            let mut byte = [0];
            stream.read_exact(&mut byte).unwrap();
            head.push(byte[0]);
        }
        stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n").unwrap();
        let snapshot =
            "event: snapshot\ndata: {\"revision\":7,\"reason\":\"start\",\"values\":[]}\nid: 7\n\n";
        stream.write_all(snapshot.as_bytes()).unwrap();
        // Open until its client is done with it.
        stream.read_exact(&mut [0]).unwrap_err();
    });
    // No byte ever comes within this.
    let options = Options { read_timeout: Duration::ZERO, ..Options::default() };
    let client = Client::with_options(&address, options).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let event = runtime.block_on(async {
        let mut watch = client.watch(Vec::new());
        tokio::time::timeout(PATIENCE, watch.next()).await.unwrap().unwrap()
    });
    assert!(matches!(event, Event::Snapshot { revision: 7, .. }), "{event:?}");
    drop((client, runtime));
    server.join().unwrap();
}

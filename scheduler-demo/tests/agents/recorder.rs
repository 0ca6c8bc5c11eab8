//! A proxy in front of a service that keeps every byte of both directions: what a client said and what it was told.

use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};

/// All bytes of one direction, by connection.
type Tape = Arc<Mutex<Vec<Vec<u8>>>>;

pub struct Recorder {
    address: SocketAddr,
    said: Tape,
    heard: Tape,
    over: Arc<AtomicBool>,
    acceptor: Option<JoinHandle<()>>,
}

impl Recorder {
    /// A recorder on a port of its own, in front of `http://ADDRESS:PORT`.
    pub fn to(url: &str) -> Recorder {
        let target: SocketAddr = url.trim_start_matches("http://").parse().unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let (said, heard, over) = (Tape::default(), Tape::default(), Arc::new(AtomicBool::new(false)));
        let (tapes, is_over) = ([Arc::clone(&said), Arc::clone(&heard)], Arc::clone(&over));
        let acceptor = thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                if is_over.load(Ordering::Acquire) {
                    return;
                }
                let tapes = tapes.clone();
                // Both ends of it end with their processes, and so does this.
                thread::spawn(move || drop(carry(&client, target, &tapes)));
            }
        });
        Recorder { address, said, heard, over, acceptor: Some(acceptor) }
    }

    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// The method and the target of every request.
    pub fn requests(&self) -> Vec<String> {
        let tape = locked(&self.said);
        tape.iter().flat_map(|bytes| requests(std::str::from_utf8(bytes).unwrap())).collect()
    }

    /// Everything that was said and heard.
    pub fn text(&self) -> String {
        let tapes = [&self.said, &self.heard];
        let texts = tapes.map(|tape| String::from_utf8_lossy(&locked(tape).concat()).into_owned());
        texts.concat()
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Release);
        // So that it looks.
        let _ = TcpStream::connect(self.address);
        if let Some(acceptor) = self.acceptor.take() {
            let _ = acceptor.join();
        }
    }
}

/// Those of one connection, in each of which a body may follow the head.
fn requests(mut said: &str) -> Vec<String> {
    let mut requests = Vec::new();
    while let Some((head, rest)) = said.split_once("\r\n\r\n") {
        let (first, fields) = head.split_once("\r\n").unwrap();
        requests.push(first.strip_suffix(" HTTP/1.1").unwrap().to_owned());
        let fields = fields.to_lowercase();
        let length = fields.lines().find_map(|field| field.strip_prefix("content-length: "));
        said = &rest[length.map_or(0, |length| length.parse().unwrap())..];
    }
    assert_eq!(said, "", "no request ends with this");
    requests
}

fn carry(client: &TcpStream, target: SocketAddr, [said, heard]: &[Tape; 2]) -> io::Result<()> {
    let server = TcpStream::connect(target)?;
    thread::scope(|threads| {
        threads.spawn(|| copy(client, &server, said));
        copy(&server, client, heard);
    });
    Ok(())
}

/// Copies until one side ends, and then shuts the other one down.
fn copy(mut from: &TcpStream, mut to: &TcpStream, tape: &Tape) {
    let own = {
        let mut connections = locked(tape);
        connections.push(Vec::new());
        connections.len() - 1
    };
    let mut bytes = [0; 16 << 10];
    while let Ok(count @ 1..) = from.read(&mut bytes) {
        locked(tape)[own].extend(&bytes[..count]);
        if to.write_all(&bytes[..count]).is_err() {
            break;
        }
    }
    let _ = to.shutdown(Shutdown::Write);
}

fn locked(tape: &Tape) -> MutexGuard<'_, Vec<Vec<u8>>> {
    tape.lock().unwrap_or_else(PoisonError::into_inner)
}

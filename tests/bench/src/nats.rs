//! As much of NATS' protocol as a load generator needs beside its answers: how a connection begins, and whom an answer goes to.

use std::io::{Read, Write};
use std::net::TcpStream;

use anyhow::{Context, ensure};

/// The subject for answers that a request is rendered with; each connection puts its own number there.
pub const INBOX: &str = "_INBOX.000";
const NUMBER_AT: usize = INBOX.len() - 3;
const MOST_CONNECTIONS: usize = 1_000;
/// The server asks for a sign of life two seconds after a connection was made, and then as often as it is configured to.
const ASKED: &[u8] = b"PING\r\n";

/// Begins connections, and takes all that comes unasked. All wait at once for the sign of life that they are asked for.
pub fn greet<'a>(streams: impl IntoIterator<Item = &'a mut TcpStream>) -> anyhow::Result<()> {
    let mut streams: Vec<&mut TcpStream> = streams.into_iter().collect();
    ensure!(streams.len() <= MOST_CONNECTIONS, "an inbox has three digits");
    for (number, stream) in streams.iter_mut().enumerate() {
        write!(stream, "CONNECT {{\"verbose\":false,\"headers\":true}}\r\nSUB _INBOX.{number:03} 1\r\n")?;
    }
    for stream in streams {
        let (mut said, mut piece) = (Vec::new(), [0; 4096]);
        while !said.ends_with(ASKED) {
            let count = stream.read(&mut piece)?;
            ensure!(count > 0, "the server said {:?} and closed", String::from_utf8_lossy(&said));
            said.extend_from_slice(&piece[..count]);
        }
        stream.write_all(b"PONG\r\n")?;
    }
    Ok(())
}

/// Has the answer sent to the connection of that number.
pub fn sign(request: &mut [u8], number: usize) -> anyhow::Result<()> {
    let at = request.windows(INBOX.len()).position(|window| window == INBOX.as_bytes());
    let at = at.context("a request without an inbox")? + NUMBER_AT;
    let digits = [number / 100, number / 10 % 10, number % 10];
    for (byte, digit) in request[at..].iter_mut().zip(digits) {
        *byte = b'0' + digit as u8;
    }
    Ok(())
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_request_names_the_inbox_of_its_connection() {
        let mut request = format!("PUB $KV.bench.a {INBOX} 1\r\n7\r\n").into_bytes();
        sign(&mut request, 63).unwrap();
        assert_eq!(request, b"PUB $KV.bench.a _INBOX.063 1\r\n7\r\n");
        assert!(sign(&mut b"PUB a 1\r\n7\r\n".to_vec(), 1).is_err());
    }
}

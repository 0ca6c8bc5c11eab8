//! The servers that plugins ask: each says just enough of its protocol, on a port of 127.0.0.1.
//!
//! A connection is answered and closed before the next one is taken. They end with [`Peers`].

use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use estimand_testkit::process::free_port;

/// The one page of an HTTP server.
pub const PAGE: &str =
    "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 6\r\nConnection: close\r\n\r\nHello\n";
const NO_PAGE: &str = "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
/// A peer that says nothing for so long is given up.
const READ_TIMEOUT: Duration = Duration::from_secs(5);

pub struct Peers {
    /// By the word that stands for the port.
    ports: Vec<(&'static str, u16)>,
    threads: Vec<(SocketAddr, JoinHandle<()>)>,
    echo: Option<(SocketAddr, JoinHandle<()>)>,
    ends: Arc<AtomicBool>,
}

impl Peers {
    pub fn start() -> Self {
        let ends = Arc::default();
        let mut peers = Peers { ports: Vec::new(), threads: Vec::new(), echo: None, ends };
        peers.ports.push(("{closed}", free_port()));
        peers.serve("{http}", http);
        peers.serve("{ssh}", |stream| say(stream, b"SSH-2.0-Estimand_1.0\r\n"));
        peers.serve("{smtp}", |stream| talk(stream, "220 peer ESMTP\r\n", "250 fine\r\n"));
        peers.serve("{ftp}", |stream| talk(stream, "220 peer\r\n", "221 bye\r\n"));
        peers.serve("{pop}", |stream| talk(stream, "+OK peer\r\n", "+OK\r\n"));
        peers.serve("{imap}", |stream| talk(stream, "* OK peer\r\n", "* BYE\r\na1 OK\r\n"));
        peers.serve("{time}", |stream| say(stream, &seconds_since_1900().to_be_bytes()));
        peers.echo();
        peers
    }

    /// The text with its words for ports replaced.
    pub fn fill(&self, text: &str) -> String {
        self.ports.iter().fold(text.to_owned(), |text, (word, port)| text.replace(word, &port.to_string()))
    }

    fn serve(&mut self, word: &'static str, answer: fn(&mut TcpStream)) {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let address = listener.local_addr().unwrap();
        let ends = Arc::clone(&self.ends);
        let serving = std::thread::spawn(move || {
            for stream in listener.incoming() {
                if ends.load(Ordering::SeqCst) {
                    return;
                }
                let Ok(mut stream) = stream else { continue };
                let _ = stream.set_read_timeout(Some(READ_TIMEOUT));
                answer(&mut stream);
            }
        });
        self.ports.push((word, address.port()));
        self.threads.push((address, serving));
    }

    /// Sends back what it gets.
    fn echo(&mut self) {
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let address = socket.local_addr().unwrap();
        let ends = Arc::clone(&self.ends);
        let serving = std::thread::spawn(move || {
            let mut packet = [0; 1_500];
            while let Ok((length, from)) = socket.recv_from(&mut packet) {
                if ends.load(Ordering::SeqCst) {
                    return;
                }
                let _ = socket.send_to(&packet[..length], from);
            }
        });
        self.ports.push(("{udp}", address.port()));
        self.echo = Some((address, serving));
    }
}

impl Drop for Peers {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::SeqCst);
        // Each is woken so that it sees that it ends.
        for (address, serving) in self.threads.drain(..) {
            drop(TcpStream::connect(address));
            let _ = serving.join();
        }
        if let Some((address, serving)) = self.echo.take()
            && let Ok(socket) = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))
            && socket.send_to(b"end", address).is_ok()
        {
            let _ = serving.join();
        }
    }
}

fn say(stream: &mut TcpStream, bytes: &[u8]) {
    let _ = stream.write_all(bytes);
}

/// A greeting, and the same answer to all that comes, until the other side leaves.
fn talk(stream: &mut TcpStream, greeting: &str, answer: &str) {
    say(stream, greeting.as_bytes());
    let mut line = [0; 512];
    while stream.read(&mut line).is_ok_and(|length| length > 0) {
        say(stream, answer.as_bytes());
    }
}

fn http(stream: &mut TcpStream) {
    let mut request = Vec::new();
    let mut chunk = [0; 1_024];
    while !request.windows(4).any(|four| four == b"\r\n\r\n") {
        match stream.read(&mut chunk) {
            Ok(length) if length > 0 => request.extend_from_slice(&chunk[..length]),
            _ => return,
        }
    }
    let is_root = request.starts_with(b"GET / ") || request.starts_with(b"HEAD / ");
    say(stream, if is_root { PAGE } else { NO_PAGE }.as_bytes());
}

/// The offset of the time protocol: 70 years more than the time of Unix has.
fn seconds_since_1900() -> u32 {
    let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
    u32::try_from(since_1970 + 2_208_988_800).unwrap_or(u32::MAX)
}

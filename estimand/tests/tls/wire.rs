//! The wire: no plain HTTP to a TLS port, no token in clear, and connections that never get anywhere.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use estimand_api::access::Token;
use estimand_client::{Client, Credentials, Options};
use estimand_testkit::TOKEN;
use estimand_testkit::netns::Network;
use estimand_testkit::wait::PATIENCE;
use reqwest::{Method, StatusCode};

use crate::plane::{Plane, estimand, refused};

fn address(plane: &Plane) -> SocketAddr {
    plane.url().strip_prefix("https://").unwrap().parse().unwrap()
}

#[test]
fn plain_http_is_not_answered_on_a_tls_port() {
    let plane = Plane::start(&[]);
    let mut stream = TcpStream::connect(address(&plane)).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.write_all(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
    let mut answer = Vec::new();
    // An alert of TLS, then the end.
    let _ = stream.read_to_end(&mut answer);
    assert!(!answer.starts_with(b"HTTP"), "{answer:?}");
    assert!(answer.len() < 16, "{answer:?}");
}

/// Takes connections for as long as it lives and gives back all that comes on the first.
fn listen(at: SocketAddr) -> (SocketAddr, thread::JoinHandle<Vec<u8>>) {
    let listener = TcpListener::bind(at).unwrap();
    let address = listener.local_addr().unwrap();
    let heard = thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        stream.set_read_timeout(Some(Duration::from_millis(500))).unwrap();
        let mut heard = Vec::new();
        let _ = stream.read_to_end(&mut heard);
        heard
    });
    (address, heard)
}

#[test]
fn a_token_does_not_go_over_the_network_as_it_is() {
    let plane = Plane::start(&[]);
    let network = Network::new();
    let here = SocketAddr::new(network.address().into(), 0);
    for scheme in ["http", "https"] {
        let (address, heard) = listen(here);
        let credentials = Credentials { token: Some(Token::parse(TOKEN).unwrap()), ..Credentials::default() };
        let options = Options { attempts: 1, credentials, read_timeout: PATIENCE, ..Options::default() };
        let client = Client::with_options(&format!("{scheme}://{address}"), options).unwrap();
        assert_eq!(client.withholds_token().is_some(), scheme == "http");
        refused(plane.wait(client.nodes()));
        let heard = heard.join().unwrap();
        assert!(!heard.is_empty(), "{scheme}");
        let text = String::from_utf8_lossy(&heard);
        assert!(!text.contains(TOKEN) && !text.contains("Bearer"), "{text}");
    }
}

#[test]
fn handshakes_that_hang_hold_nobody_up() {
    // More than the library takes on by itself before others have to wait.
    const HANGING: usize = 700;
    let plane = Plane::start(&["--workers", "1"]);
    let began = Instant::now();
    let mut hanging: Vec<TcpStream> = (0..HANGING)
        .map(|number| {
            let mut stream = TcpStream::connect(address(&plane)).unwrap();
            if number % 2 == 0 {
                // The beginning of a record of the handshake, and no more.
                stream.write_all(&[0x16, 3, 1, 1, 0]).unwrap();
            }
            stream
        })
        .collect();
    let made = began.elapsed();
    let asked = Instant::now();
    assert_eq!(plane.http(None).send(Method::GET, "/healthz", None).0, StatusCode::OK);
    assert!(asked.elapsed() < Duration::from_secs(3) + made, "{:?}", asked.elapsed());
    // They are ended, all of them.
    for stream in &mut hanging {
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let mut rest = Vec::new();
        match stream.read_to_end(&mut rest) {
            Ok(_) => {}
            Err(error) => assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset, "{error}"),
        }
    }
}

#[test]
fn an_address_that_others_reach_is_not_served_without_tls() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path().display().to_string();
    let done = estimand(&["up", "--no-agent", "--listen", "0.0.0.0:0", "--data-dir", &folder]);
    let said = String::from_utf8_lossy(&done.stderr);
    assert!(!done.status.success());
    for command in ["estimand pki init", "estimand pki issue", "--tls DIR", "--insecure"] {
        assert!(said.contains(command), "{said}");
    }
}

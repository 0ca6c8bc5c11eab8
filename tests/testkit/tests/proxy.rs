//! The proxy holds, closes, refuses and delays, and otherwise carries every byte.
#![allow(clippy::unwrap_used)]

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use estimand_testkit::proxy::{Proxy, Way};
use estimand_testkit::wait::{self, PATIENCE};

const SILENCE: Duration = Duration::from_millis(200);

/// A server that sends everything back, and ends a connection when the client does.
fn echo() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            thread::spawn(move || std::io::copy(&mut &stream, &mut &stream));
        }
    });
    address
}

fn client(proxy: &Proxy) -> TcpStream {
    let stream = TcpStream::connect(proxy.address()).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream
}

#[track_caller]
fn says_back(mut stream: &TcpStream, text: &str) {
    stream.write_all(text.as_bytes()).unwrap();
    expect(stream, text);
}

#[track_caller]
fn expect(mut stream: &TcpStream, text: &str) {
    let mut read = vec![0; text.len()];
    stream.read_exact(&mut read).unwrap();
    assert_eq!(String::from_utf8(read).unwrap(), text);
}

#[track_caller]
fn expect_silence(mut stream: &TcpStream) {
    stream.set_read_timeout(Some(SILENCE)).unwrap();
    let error = stream.read(&mut [0]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::WouldBlock);
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
}

#[track_caller]
fn expect_end(mut stream: &TcpStream) {
    let end = stream.read(&mut [0]);
    assert!(matches!(&end, Ok(0)) || end.is_err_and(|error| error.kind() == ErrorKind::ConnectionReset));
}

#[test]
fn carries_every_byte_both_ways_and_the_end() {
    let proxy = Proxy::to(echo());
    assert_eq!(proxy.url(), format!("http://{}", proxy.address()));
    let stream = client(&proxy);
    let sent: Vec<u8> = (0..3_000_000_u32).map(|number| (number % 251) as u8).collect();
    let mut read = Vec::new();
    thread::scope(|scope| {
        scope.spawn(|| {
            (&stream).write_all(&sent).unwrap();
            stream.shutdown(Shutdown::Write).unwrap();
        });
        (&stream).read_to_end(&mut read).unwrap();
    });
    assert!(read == sent);
    wait::until(PATIENCE, "the connection to be over", || (proxy.connections() == 0).then_some(()));
}

#[test]
fn holds_while_paused_and_delivers_in_order() {
    let proxy = Proxy::to(echo());
    let old = client(&proxy);
    says_back(&old, "before");
    proxy.pause();
    (&old).write_all(b"one").unwrap();
    (&old).write_all(b"two").unwrap();
    let new = client(&proxy);
    (&new).write_all(b"three").unwrap();
    expect_silence(&old);
    expect_silence(&new);
    proxy.resume();
    expect(&old, "onetwo");
    expect(&new, "three");
}

#[test]
fn cuts_what_there_is_also_while_paused() {
    let proxy = Proxy::to(echo());
    let stream = client(&proxy);
    says_back(&stream, "x");
    proxy.pause();
    (&stream).write_all(b"lost").unwrap();
    assert_eq!(proxy.connections(), 1);
    proxy.cut();
    expect_end(&stream);
    assert_eq!(proxy.connections(), 0);
    proxy.resume();
    says_back(&client(&proxy), "again");
}

#[test]
fn refuses_and_accepts_again_on_the_same_port() {
    let proxy = Proxy::to(echo());
    let stream = client(&proxy);
    says_back(&stream, "x");
    for _ in 0..3 {
        proxy.refuse();
        let refused = TcpStream::connect(proxy.address()).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::ConnectionRefused);
        assert!(TcpListener::bind(proxy.address()).is_err(), "the port stays the proxy's");
        proxy.accept();
        says_back(&client(&proxy), "again");
    }
    expect_end(&stream);
}

#[test]
fn delays_each_way_without_narrowing_it() {
    const LATENCY: Duration = Duration::from_millis(100);
    let proxy = Proxy::to(echo());
    let stream = client(&proxy);
    proxy.set_latency(LATENCY);
    let began = Instant::now();
    says_back(&stream, "x");
    assert!(began.elapsed() >= 2 * LATENCY);
    // Forty chunks one after the other would take eight seconds.
    let many = "y".repeat(40 * (16 << 10));
    let began = Instant::now();
    thread::scope(|scope| {
        scope.spawn(|| (&stream).write_all(many.as_bytes()).unwrap());
        expect(&stream, &many);
    });
    assert!((2 * LATENCY..70 * LATENCY).contains(&began.elapsed()), "{:?}", began.elapsed());
    proxy.set_latency(Duration::ZERO);
    says_back(&stream, "z");
}

#[test]
fn a_server_that_is_not_there_closes_the_connection() {
    let nowhere = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let proxy = Proxy::to(nowhere);
    expect_end(&client(&proxy));
}

#[test]
fn nothing_is_left_when_it_is_dropped() {
    let proxy = Proxy::to(echo());
    let (stream, address) = (client(&proxy), proxy.address());
    says_back(&stream, "x");
    proxy.pause();
    drop(proxy);
    expect_end(&stream);
    assert_eq!(TcpStream::connect(address).unwrap_err().kind(), ErrorKind::ConnectionRefused);
    assert!(TcpListener::bind(address).is_ok());
}

#[test]
fn one_way_is_held_while_the_other_goes_on() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let proxy = Proxy::to(listener.local_addr().unwrap());
    let client = client(&proxy);
    let (server, _) = listener.accept().unwrap();
    server.set_read_timeout(Some(PATIENCE)).unwrap();
    for (way, mut from, mut to) in [(Way::ToServer, &client, &server), (Way::ToClient, &server, &client)] {
        proxy.pause_only(way);
        to.write_all(b"other way").unwrap();
        expect(from, "other way");
        from.write_all(b"held").unwrap();
        expect_silence(to);
        proxy.resume();
        expect(to, "held");
    }
}

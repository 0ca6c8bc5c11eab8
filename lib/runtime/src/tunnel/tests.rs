#![allow(clippy::unwrap_used)]

use tokio::io::{DuplexStream, duplex};
use tokio::task::JoinHandle;

use super::*;

struct World {
    /// The ends that programs have.
    here: Half,
    there: Half,
    client: JoinHandle<io::Result<()>>,
    server: JoinHandle<io::Result<()>>,
}

/// Two relays, and a wire between them.
fn world() -> World {
    let (wire_here, wire_there) = duplex(4096);
    let start = |wire: DuplexStream, side| {
        let (own, program) = pair();
        (tokio::spawn(relay(tokio::io::split(wire), own, side)), program)
    };
    let (client, here) = start(wire_here, Side::Client);
    let (server, there) = start(wire_there, Side::Server);
    World { here, there, client, server }
}

#[tokio::test]
async fn bytes_go_both_ways_and_each_direction_ends_by_itself() {
    let World { mut here, mut there, client, server } = world();
    let sent: Vec<u8> = (0..1_000_000_u32).map(|number| number as u8).collect();
    let program = async {
        let mut got = Vec::new();
        there.read_to_end(&mut got).await.unwrap();
        // The other direction goes on.
        there.write_all(&got).await.unwrap();
        there.shutdown().await.unwrap();
    };
    let user = async {
        let mut got = Vec::new();
        here.write_all(&sent).await.unwrap();
        here.shutdown().await.unwrap();
        here.read_to_end(&mut got).await.unwrap();
        got
    };
    let (got, ()) = tokio::join!(user, program);
    assert!(got == sent);
    client.await.unwrap().unwrap();
    server.await.unwrap().unwrap();
}

#[tokio::test]
async fn a_program_that_breaks_off_is_no_end_for_its_peer() {
    let World { mut here, mut there, client, server } = world();
    there.write_all(b"half of it").await.unwrap();
    drop(there);
    let mut got = Vec::new();
    let broke = here.read_to_end(&mut got).await.unwrap_err();
    assert_eq!(broke.kind(), io::ErrorKind::ConnectionAborted);
    assert!(client.await.unwrap().is_err() && server.await.unwrap().is_err());
}

#[tokio::test]
async fn a_slow_reader_holds_up_the_writer() {
    let World { here, mut there, client: _client, server: _server } = world();
    let mut written = 0;
    let endless = async {
        loop {
            there.write_all(&[7; 1024]).await.unwrap();
            written += 1024;
        }
    };
    let held_up = timeout(Duration::from_millis(300), endless).await;
    assert!(held_up.is_err() && written > 0 && written < 200 * 1024, "{written}");
    drop(here);
}

#[tokio::test(start_paused = true)]
async fn a_peer_that_says_nothing_is_gone_and_one_that_pings_is_there() {
    let World { here: _here, there: _there, client, server } = world();
    sleep(HEARD_WITHIN * 10).await;
    assert!(!client.is_finished() && !server.is_finished());
    // An hour without a byte is another matter.
    sleep(IDLE_WITHIN).await;
    assert!(client.is_finished() && server.is_finished());
    let (silent, _other) = duplex(64);
    let (own, _program) = pair();
    let began = Instant::now();
    let silence = relay(tokio::io::split(silent), own, Side::Client).await.unwrap_err();
    assert_eq!(silence.kind(), io::ErrorKind::TimedOut);
    assert!(began.elapsed() <= HEARD_WITHIN);
}

#[tokio::test]
async fn a_message_in_pieces_and_a_ping_of_another_library_are_understood() {
    let (wire, mut peer) = duplex(4096);
    let (own, mut program) = pair();
    let relaying = tokio::spawn(relay(tokio::io::split(wire), own, Side::Client));
    let mut frames = Vec::new();
    let mut push = |kind, is_final, content: &[u8]| {
        Header { kind, is_final, length: content.len() as u64, mask: None }.encode(&mut frames);
        frames.extend(content);
    };
    push(Kind::Binary, false, b"one ");
    push(Kind::Ping, true, b"are you there");
    push(Kind::Continuation, true, b"message");
    push(Kind::Text, true, END);
    peer.write_all(&frames).await.unwrap();
    let mut got = String::new();
    program.read_to_string(&mut got).await.unwrap();
    assert_eq!(got, "one message");
    let pong = Header::read(&mut peer, true).await.unwrap();
    assert_eq!((pong.kind, pong.length), (Kind::Pong, 13));
    assert_eq!(content(&mut peer, pong).await.unwrap(), b"are you there");
    program.shutdown().await.unwrap();
    let end = Header::read(&mut peer, true).await.unwrap();
    assert_eq!(content(&mut peer, end).await.unwrap(), END);
    let close = Header::read(&mut peer, true).await.unwrap();
    assert_eq!(close.kind, Kind::Close);
    drop(peer);
    relaying.await.unwrap().unwrap();
}

//! A launcher that is spoken to by somebody who does not know how.

use std::os::fd::OwnedFd;
use std::process::{Command, Stdio as Io};

use super::protocol::{Deadline, MAX_REQUEST, Reply, Request, Start};
use super::socket::Received;
use super::wire::Reader;
use super::*;

fn answers(socket: &OwnedFd, how_many: usize) -> Vec<Reply> {
    let mut answers = Vec::new();
    let mut buffer = vec![0; 64 * 1024];
    let deadline = Instant::now() + Duration::from_secs(20);
    while answers.len() < how_many {
        assert!(Instant::now() < deadline, "only {answers:?}");
        match socket::receive(socket, &mut buffer, &mut Vec::new()) {
            Ok(Received::Packet(length)) => {
                let mut reader = Reader(&buffer[..length]);
                while !reader.0.is_empty() {
                    answers.push(Reply::decode(&mut reader).unwrap());
                }
            }
            Err(rustix::io::Errno::AGAIN) => std::thread::yield_now(),
            other => panic!("{other:?} after {answers:?}"),
        }
    }
    answers
}

#[test]
fn nonsense_is_refused_and_nothing_breaks() {
    let (ours, theirs) = socket::pair().unwrap();
    let mut launcher = Command::new(launcher_program()).stdin(Io::from(theirs)).spawn().unwrap();
    let say = |packet: &[u8]| socket::send(&ours, packet, &[]).unwrap();
    let start = Start {
        run: 1,
        cell: 9,
        stdin: false,
        file: protocol::File::AtPath,
        until: Deadline::NEVER,
        arguments: 1,
        variables: 0,
        strings: b"/\0/bin/true\0x\0",
    };

    for nonsense in [&[200][..], &[1], &[4, 0, 0], &[0xff; 1000], &Request::Start(start).encode()[..30]] {
        say(nonsense);
        assert!(matches!(answers(&ours, 1)[0], Reply::Refused { .. }), "{nonsense:?}");
    }
    rustix::net::sockopt::set_socket_send_buffer_size(&ours, 4 * MAX_REQUEST).unwrap();
    say(&vec![1; MAX_REQUEST + 1]);
    assert!(matches!(answers(&ours, 1)[0], Reply::Refused { .. }), "too large");

    let start = || {
        let strings = b"/\0/bin/true\0x\0";
        Request::Start(Start {
            run: 1,
            cell: 9,
            stdin: false,
            file: protocol::File::AtPath,
            until: Deadline::NEVER,
            arguments: 1,
            variables: 0,
            strings,
        })
        .encode()
    };
    say(&start());
    assert!(matches!(answers(&ours, 1)[0], Reply::Failed { run: 1, .. }), "a cell that is not open");
    say(&Request::OpenCell { cell: 9, name: "../../x", limits: Limits::default() }.encode());
    assert!(matches!(answers(&ours, 1)[0], Reply::CellOpen { cell: 9, .. }));
    say(&start());
    assert!(matches!(answers(&ours, 1)[0], Reply::Failed { run: 1, .. }), "no pipes");
    for request in [Request::Kill { run: 77 }, Request::Terminate { run: 77 }] {
        say(&request.encode());
    }
    say(&Request::CloseCell { cell: 77 }.encode());
    assert_eq!(answers(&ours, 1)[0], Reply::CellClosed { cell: 77 });
    say(&Request::CloseCell { cell: 9 }.encode());
    assert_eq!(answers(&ours, 1)[0], Reply::CellClosed { cell: 9 });

    drop(ours);
    assert!(launcher.wait().unwrap().success());
}

#[test]
fn without_a_socket_it_says_so() {
    let output = Command::new(launcher_program()).stdin(Io::null()).output().unwrap();
    assert!(!output.status.success());
    assert!(String::from_utf8_lossy(&output.stderr).contains("is not an agent's socket"));
}

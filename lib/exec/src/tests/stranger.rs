//! A launcher whose socket carries nonsense.

use std::os::fd::OwnedFd;
use std::process::{Command, Stdio as Io};

use super::protocol::{MAX_REQUEST, ProgramSource, Reply, Request, Start};
use super::socket::ReceivedPacket;
use super::*;

fn answers(socket: &OwnedFd, how_many: usize) -> Vec<Reply> {
    let mut answers = Vec::new();
    let mut buffer = vec![0; 64 * 1024];
    let deadline = Instant::now() + Duration::from_secs(20);
    while answers.len() < how_many {
        assert!(Instant::now() < deadline, "only {answers:?}");
        match socket::receive(socket, &mut buffer, &mut Vec::new()) {
            Ok(ReceivedPacket::Packet(length)) => {
                let mut packet = &buffer[..length];
                while !packet.is_empty() {
                    answers.push(Reply::decode(&mut packet).unwrap());
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
    let start = || {
        let start = Start {
            run: 1,
            cell: 9,
            stdin: false,
            source: ProgramSource::Path,
            until: None,
            directory: c"/".into(),
            dir_rights: DirRights::Run,
            program: c"/bin/true".into(),
            arguments: vec![c"x".into()],
            variables: vec![],
        };
        Request::Start(start).encode()
    };

    for nonsense in [&[200][..], &[1], &[4, 0, 0], &[0xff; 1000], &start()[..15]] {
        say(nonsense);
        assert!(matches!(answers(&ours, 1)[0], Reply::Refused { .. }), "{nonsense:?}");
    }
    rustix::net::sockopt::set_socket_send_buffer_size(&ours, 4 * MAX_REQUEST).unwrap();
    say(&vec![1; MAX_REQUEST + 1]);
    assert!(matches!(answers(&ours, 1)[0], Reply::Refused { .. }), "too large");

    say(&start());
    assert!(matches!(answers(&ours, 1)[0], Reply::Failed { run: 1, .. }), "a cell that is not open");
    say(&Request::OpenCell { cell: 9, name: "../../x".into(), limits: Limits::default() }.encode());
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
fn a_launcher_without_a_socket_says_so() {
    let output = Command::new(launcher_program()).stdin(Io::null()).output().unwrap();
    assert!(!output.status.success());
    assert!(String::from_utf8_lossy(&output.stderr).contains("is not an agent's socket"));
}

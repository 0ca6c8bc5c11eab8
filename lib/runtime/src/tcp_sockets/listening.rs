//! The sockets that listen at a port, asked of the kernel by netlink (`sock_diag`). Its tables in `/proc` take a walk over all
//! buckets of connections, a millisecond each on a machine of 24 GiB, whoever is looked for.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::netlink::{SOCK_DIAG, SocketAddrNetlink};
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, recvfrom, sendto, socket_with,
};

use super::TcpSocket;

const IPV4: u8 = 2;
const IPV6: u8 = 10;
const TCP: u8 = 6;
/// The state of a listening socket, as a bit.
const LISTENING: u32 = 1 << 10;
const BY_FAMILY: u16 = 20;
/// A request for all that match.
const REQUEST_DUMP: u16 = 0x301;
const ERROR: u16 = 2;
const DONE: u16 = 3;
const HEADER: usize = 16;
const REQUEST: usize = HEADER + 56;
/// The kernel's answers of one message fit.
const ROOM: usize = 32 * 1024;
const PATIENCE: Duration = Duration::from_secs(1);

/// All that listen at the port, on any address of this process's network.
pub(super) fn listening(port: u16) -> io::Result<Vec<TcpSocket>> {
    let mut found = Vec::new();
    for family in [IPV4, IPV6] {
        match of_family(family, port) {
            Ok(sockets) => found.extend(sockets),
            // A machine without IPv6.
            Err(Errno::NOENT) if family == IPV6 => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(found)
}

fn of_family(family: u8, port: u16) -> rustix::io::Result<Vec<TcpSocket>> {
    let netlink =
        socket_with(AddressFamily::NETLINK, SocketType::RAW, SocketFlags::CLOEXEC, Some(SOCK_DIAG))?;
    set_socket_timeout(&netlink, Timeout::Recv, Some(PATIENCE))?;
    sendto(&netlink, &request(family, port), SendFlags::empty(), &SocketAddrNetlink::new(0, 0))?;
    let (mut found, mut buffer) = (Vec::new(), vec![0; ROOM]);
    loop {
        let (_, length, sender) = recvfrom(&netlink, buffer.as_mut_slice(), RecvFlags::empty())?;
        // Only the kernel has the number zero.
        if sender.map(SocketAddrNetlink::try_from).transpose()?.is_none_or(|sender| sender.pid() != 0) {
            continue;
        }
        let answer = buffer.get(..length).ok_or(Errno::MSGSIZE)?;
        if read_answer(answer, port, &mut found)? == Answer::Last {
            return Ok(found);
        }
    }
}

/// A header of netlink and an `inet_diag_req_v2`.
fn request(family: u8, port: u16) -> [u8; REQUEST] {
    let mut bytes = [0; REQUEST];
    let mut put = |at: usize, value: &[u8]| bytes[at..at + value.len()].copy_from_slice(value);
    put(0, &(REQUEST as u32).to_ne_bytes());
    put(4, &BY_FAMILY.to_ne_bytes());
    put(6, &REQUEST_DUMP.to_ne_bytes());
    put(HEADER, &[family, TCP]);
    put(HEADER + 4, &LISTENING.to_ne_bytes());
    put(HEADER + 8, &port.to_be_bytes());
    bytes
}

#[derive(PartialEq, Eq)]
enum Answer {
    HasMore,
    Last,
}

/// Reads the messages of one datagram.
fn read_answer(mut bytes: &[u8], port: u16, found: &mut Vec<TcpSocket>) -> rustix::io::Result<Answer> {
    while !bytes.is_empty() {
        let length = number(bytes, 0)? as usize;
        let kind = u16::from_ne_bytes(array(bytes, 4)?);
        let body = bytes.get(HEADER..length).ok_or(Errno::BADMSG)?;
        match kind {
            DONE => return Ok(Answer::Last),
            ERROR => return Err(Errno::from_raw_os_error(number(body, 0)?.cast_signed().wrapping_neg())),
            _ => found.extend(read_socket(body)?.into_iter().filter(|socket| socket.local.port() == port)),
        }
        bytes = bytes.get(length.next_multiple_of(4)..).unwrap_or_default();
    }
    Ok(Answer::HasMore)
}

/// Reads an `inet_diag_msg`; none if it is of no known family.
fn read_socket(body: &[u8]) -> rustix::io::Result<Option<TcpSocket>> {
    let port = u16::from_be_bytes(array(body, 4)?);
    let ip = match body.first() {
        Some(&IPV6) => IpAddr::V6(Ipv6Addr::from(array::<16>(body, 8)?)).to_canonical(),
        Some(&IPV4) => IpAddr::V4(Ipv4Addr::from(array::<4>(body, 8)?)),
        _ => return Ok(None),
    };
    Ok(Some(TcpSocket {
        local: SocketAddr::new(ip, port),
        remote: SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), 0),
        listens: true,
        user: number(body, 64)?,
        inode: number(body, 68)?.into(),
    }))
}

fn number(bytes: &[u8], at: usize) -> rustix::io::Result<u32> {
    Ok(u32::from_ne_bytes(array(bytes, at)?))
}

fn array<const N: usize>(bytes: &[u8], at: usize) -> rustix::io::Result<[u8; N]> {
    bytes.get(at..).and_then(<[u8]>::first_chunk).copied().ok_or(Errno::BADMSG)
}

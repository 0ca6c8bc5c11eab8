//! The TCP sockets of this machine and their owners, from the kernel's table.

mod listening;

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// The states of sockets in the kernel's table that are of use here. After a crowd most others are ones that wait for their end.
const LISTENS: &str = "0A";
/// Connected; the second and third have said that they send no more, and still receive.
const CONNECTED: [&str; 3] = ["01", "04", "05"];
const TABLES: [&str; 2] = ["/proc/net/tcp", "/proc/net/tcp6"];

/// One line of the table. Addresses of IPv4 are written as such, also those of sockets that take both kinds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TcpSocket {
    pub local: SocketAddr,
    pub remote: SocketAddr,
    pub listens: bool,
    /// Zero for a socket that no process has any more, whoever had it.
    pub user: u32,
    /// Its number in the kernel; zero if no process has it any more.
    pub inode: u64,
}

/// All that listen or are connected, in this process's network.
pub fn tcp_sockets() -> io::Result<Vec<TcpSocket>> {
    let mut found = Vec::new();
    for table in TABLES {
        match std::fs::read_to_string(table) {
            Ok(text) => found.extend(parse(&text)),
            // A machine without IPv6 has no table for it.
            Err(error) if error.kind() == io::ErrorKind::NotFound && table.ends_with('6') => {}
            Err(error) => return Err(error),
        }
    }
    Ok(found)
}

/// All that listen at the port, in this process's network.
pub fn listening_at(port: u16) -> io::Result<Vec<TcpSocket>> {
    // A kernel without netlink's part for sockets, or a sandbox that forbids it, has its tables.
    listening::listening(port).or_else(|_| {
        let mut sockets = tcp_sockets()?;
        sockets.retain(|socket| socket.listens && socket.local.port() == port);
        Ok(sockets)
    })
}

fn parse(table: &str) -> impl Iterator<Item = TcpSocket> + '_ {
    table.lines().filter_map(|line| {
        let mut columns = line.split_ascii_whitespace().skip(1);
        let (local, remote, state) = (columns.next()?, columns.next()?, columns.next()?);
        let listens = state == LISTENS;
        if !listens && !CONNECTED.contains(&state) {
            return None;
        }
        let (local, remote) = (parse_address(local)?, parse_address(remote)?);
        let (user, inode) = (columns.nth(3)?.parse().ok()?, columns.nth(1)?.parse().ok()?);
        Some(TcpSocket { local, remote, listens, user, inode })
    })
}

/// Reads an address as the kernel writes it: groups of four bytes in the machine's order, then the port.
fn parse_address(text: &str) -> Option<SocketAddr> {
    let (ip, port) = text.split_once(':')?;
    let word = |at: usize| {
        let digits = ip.get(at * 8..at * 8 + 8)?;
        Some(u32::from_str_radix(digits, 16).ok()?.to_ne_bytes())
    };
    let ip = match ip.len() {
        8 => IpAddr::V4(Ipv4Addr::from(word(0)?)),
        32 => {
            let words = [word(0)?, word(1)?, word(2)?, word(3)?];
            IpAddr::V6(Ipv6Addr::from(<[u8; 16]>::try_from(words.as_flattened()).ok()?)).to_canonical()
        }
        _ => return None,
    };
    Some(SocketAddr::new(ip, u16::from_str_radix(port, 16).ok()?))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::net::{TcpListener, TcpStream};

    use super::*;

    #[test]
    #[cfg(target_endian = "little")]
    fn lines_of_both_tables_are_read() {
        let table = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n\
            0: 0100007F:1B9E 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1001        0 70 1 0 100 0 0 10 0\n\
            1: 0000000000000000FFFF00000100007F:1B9E 0000000000000000FFFF00000200007F:0050 01 \
               00000000:00000000 00:00000000 00000000     7        0 72 1 0 100 0 0 10 0\n\
            2: 0100007F:1B9E 0100007F:9999 06 00000000:00000000 00:00000000 00000000     0        0 0 1 0 100 0 0 10 0\n\
            3: nonsense\n";
        let found: Vec<_> = parse(table).collect();
        let line = |local: &str, remote: &str, listens, user, inode| TcpSocket {
            local: local.parse().unwrap(),
            remote: remote.parse().unwrap(),
            listens,
            user,
            inode,
        };
        let expected = [
            line("127.0.0.1:7070", "0.0.0.0:0", true, 1001, 70),
            line("127.0.0.1:7070", "127.0.0.2:80", false, 7, 72),
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn both_ends_of_an_own_connection_are_found() {
        let own = rustix::process::geteuid().as_raw();
        for (at, half) in [("127.0.0.1:0", false), ("[::1]:0", false), ("127.0.0.1:0", true)] {
            let Ok(listener) = TcpListener::bind(at) else { continue };
            let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            if half {
                client.shutdown(std::net::Shutdown::Write).unwrap();
            }
            let (here, there) = (client.local_addr().unwrap(), client.peer_addr().unwrap());
            let found = tcp_sockets().unwrap();
            let of = |local, remote| found.iter().find(|one| (one.local, one.remote) == (local, remote));
            let end = of(here, there).unwrap();
            assert!(end.user == own && end.inode != 0, "{at}");
            assert!(half || of(there, here).is_some(), "{at}");
        }
    }

    #[test]
    fn the_kernel_names_the_same_listeners_as_its_table() {
        for at in ["127.0.0.1:0", "[::1]:0", "0.0.0.0:0", "[::]:0"] {
            let Ok(listener) = TcpListener::bind(at) else { continue };
            let address = listener.local_addr().unwrap();
            let _connected = TcpStream::connect(address).unwrap();
            let asked = listening::listening(address.port()).unwrap();
            let mut read = tcp_sockets().unwrap();
            read.retain(|socket| socket.listens && socket.local.port() == address.port());
            let plain = |socket: &TcpSocket| (socket.local, socket.user, socket.inode);
            assert_eq!(
                asked.iter().map(plain).collect::<Vec<_>>(),
                read.iter().map(plain).collect::<Vec<_>>()
            );
            assert_eq!(asked.len(), 1, "{at}");
        }
        let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        assert_eq!(listening::listening(free).unwrap(), []);
    }
}

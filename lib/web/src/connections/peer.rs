//! The owner of a connection: an address of the network, or a user of this machine.
//!
//! On a loopback address all users of the machine share one, so the kernel's table is asked for the owner of the other end.
//! An IPv6 address stands for the network of 2^64 of which one host has all.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::sync::Arc;

use estimand_runtime::tcp_sockets::{TcpSocket, tcp_sockets};

use super::Connection;

/// The one that a connection counts for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Peer {
    Address(IpAddr),
    User(u32),
    /// Of this machine, and no process has the other end any more; or the kernel does not say.
    Nobody,
}

/// The peers of all, in their order. The table is read only if there are some of this machine.
pub(super) fn of_each(all: &[Arc<Connection>]) -> Vec<Peer> {
    let is_local = |one: &Arc<Connection>| one.user.is_none() && one.peer.ip().to_canonical().is_loopback();
    let sockets = if all.iter().any(is_local) { tcp_sockets().unwrap_or_default() } else { Vec::new() };
    let users = users(&sockets);
    let of = |one: &Arc<Connection>| one.user.map_or_else(|| peer(one.peer, one.local, &users), Peer::User);
    all.iter().map(of).collect()
}

type Users = HashMap<(SocketAddr, SocketAddr), u32>;

fn users(sockets: &[TcpSocket]) -> Users {
    let held = sockets.iter().filter(|socket| socket.inode != 0);
    held.map(|socket| ((socket.local, socket.remote), socket.user)).collect()
}

fn peer(there: SocketAddr, here: SocketAddr, users: &Users) -> Peer {
    let plain = |address: SocketAddr| SocketAddr::new(address.ip().to_canonical(), address.port());
    match there.ip().to_canonical() {
        ip if ip.is_loopback() => {
            users.get(&(plain(there), plain(here))).map_or(Peer::Nobody, |user| Peer::User(*user))
        }
        IpAddr::V6(ip) => Peer::Address(IpAddr::V6(Ipv6Addr::from(u128::from(ip) >> 64 << 64))),
        ip => Peer::Address(ip),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn users_of_this_machine_and_addresses_of_others_are_told_apart() {
        let at = |text: &str| -> SocketAddr { text.parse().unwrap() };
        let socket = |local, remote, user, inode| TcpSocket { local, remote, listens: false, user, inode };
        let here = at("127.0.0.1:7070");
        let users =
            users(&[socket(at("127.0.0.1:1000"), here, 1001, 5), socket(at("127.0.0.1:1001"), here, 0, 0)]);
        let of = |there: &str| peer(at(there), here, &users);
        assert_eq!(of("127.0.0.1:1000"), Peer::User(1001));
        assert_eq!(of("[::ffff:127.0.0.1]:1000"), Peer::User(1001));
        assert_eq!(of("127.0.0.1:1001"), Peer::Nobody);
        assert_eq!(of("10.1.2.3:5"), of("10.1.2.3:6"));
        assert_ne!(of("10.1.2.3:5"), of("10.1.2.4:5"));
        assert_eq!(of("[2001:db8::1]:5"), of("[2001:db8::2]:5"));
        assert_ne!(of("[2001:db8::1]:5"), of("[2001:db8:0:1::1]:5"));
    }
}

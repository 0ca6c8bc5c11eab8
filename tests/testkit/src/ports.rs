//! Picks TCP ports that are free and stay free.
//!
//! A port below the range from which the kernel takes the local ends of connections: a server that is
//! killed and started again on its port would otherwise now and then find a client's socket there.
//! No port is given twice while the process that got it lives, whose claim is the UDP port of the same number: the kernel
//! keeps it, and no test uses it otherwise. A program that claims nothing may still take one between the check and its
//! use, so whoever starts a server on it has to notice that.

use std::fs;
use std::net::{Ipv4Addr, TcpListener, UdpSocket};
use std::sync::{Mutex, PoisonError};

const LOWEST: u16 = 10_000;
/// Where the kernel's range begins unless it says otherwise.
const USUAL_END: u16 = 32_768;
const MAX_TRIES: usize = 1_000;

/// A port of 127.0.0.1 on which nothing listens.
pub fn free_port() -> u16 {
    static CLAIMS: Mutex<Vec<UdpSocket>> = Mutex::new(Vec::new());
    let end = first_ephemeral_port();
    for _ in 0..MAX_TRIES {
        let port = fastrand::u16(LOWEST..end);
        let Ok(claim) = UdpSocket::bind((Ipv4Addr::LOCALHOST, port)) else { continue };
        if TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok() {
            CLAIMS.lock().unwrap_or_else(PoisonError::into_inner).push(claim);
            return port;
        }
    }
    panic!("no free port between {LOWEST} and {end} on 127.0.0.1 in {MAX_TRIES} tries");
}

fn first_ephemeral_port() -> u16 {
    let range = fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range").unwrap_or_default();
    let first = range.split_whitespace().next().and_then(|word| word.parse().ok()).unwrap_or(USUAL_END);
    // A machine that gave nearly everything to the kernel leaves no better place than the usual one.
    if first > LOWEST + 1_000 { first } else { USUAL_END }
}

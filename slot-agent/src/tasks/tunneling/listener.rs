//! The listener of a task: the socket at its port, if a process of the task has it.
//!
//! A user chooses the port, and other programs of the node listen on it, too: those of other users, and the node's own. So a
//! tunnel leads only to a socket that a process of this very task holds. Its processes are those that descend from its keeper,
//! which no process can undo ([44](../../../../docs/decisions/44-runs-that-leave-their-group.md)); the keeper is the one that
//! has the lock of its attempt. Blocking, though not for long.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::unix::fs::MetadataExt as _;

use estimand_runtime::tcp_sockets::{TcpSocket, listening_at};
use rustix::fs::{FlockOperation, flock};

use super::super::folder::AttemptFolder;

#[derive(Debug, thiserror::Error)]
pub enum ListenerError {
    #[error("nothing listens at port {0} of its node yet")]
    Nobody(u16),
    #[error("what listens at port {0} of its node is not a process of the task")]
    Others(u16),
    #[error(
        "it cannot be told whose the listener at port {0} of its node is: its keeper is not in the table of locks"
    )]
    Unknown(u16),
    #[error("the processes of its node cannot be looked at: {0}")]
    Unreadable(#[from] io::Error),
}

/// A socket that listens, and where it is reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Listener {
    pub address: SocketAddr,
    inode: u64,
}

/// The listener of an attempt at this port. One that was found before is not looked for again.
pub fn find(
    folder: &AttemptFolder,
    port: u16,
    found_before: Option<Listener>,
) -> Result<Listener, ListenerError> {
    let listeners = listeners(&listening_at(port)?);
    if listeners.is_empty() {
        return Err(ListenerError::Nobody(port));
    }
    if let Some(known) = found_before.filter(|known| listeners.contains(known)) {
        return Ok(known);
    }
    let keeper = keeper(folder)?.ok_or(ListenerError::Unknown(port))?;
    let held = descendants(keeper, &parents()?).into_iter().flat_map(sockets);
    let held: Vec<u64> = held.collect();
    let own = listeners.into_iter().find(|listener| held.contains(&listener.inode));
    own.ok_or(ListenerError::Others(port))
}

/// Sockets that this machine reaches, those of all addresses and of loopback ones first.
fn listeners(sockets: &[TcpSocket]) -> Vec<Listener> {
    let mut all: Vec<Listener> = sockets
        .iter()
        .map(|socket| {
            let ip = match socket.local.ip() {
                IpAddr::V4(ip) if ip.is_unspecified() => IpAddr::V4(Ipv4Addr::LOCALHOST),
                // It may take IPv6 alone.
                IpAddr::V6(ip) if ip.is_unspecified() => IpAddr::V6(std::net::Ipv6Addr::LOCALHOST),
                ip => ip,
            };
            Listener { address: SocketAddr::new(ip, socket.local.port()), inode: socket.inode }
        })
        .collect();
    all.sort_by_key(|listener| !listener.address.ip().is_loopback());
    all
}

/// The process that has the lock of an attempt.
fn keeper(folder: &AttemptFolder) -> io::Result<Option<u32>> {
    // The kernel's table names devices otherwise than `stat` on some file systems, but alike for files of one folder: so a
    // lock of this process's own says how.
    let own = File::open(folder.file("begun"))?;
    flock(&own, FlockOperation::NonBlockingLockShared)?;
    let locks = fs::read_to_string("/proc/locks")?;
    let kept = fs::metadata(folder.file("accepted.json"))?;
    let device = locks.lines().filter_map(Lock::parse).find_map(|lock| {
        let is_own = lock.pid == std::process::id() && lock.mode == "READ";
        lock.place.strip_suffix(&format!(":{}", own.metadata().ok()?.ino())).filter(|_| is_own)
    });
    Ok(device.and_then(|device| holder(&locks, &format!("{device}:{}", kept.ino()))))
}

/// The process that holds a lock on the file at this place, by the kernel's table.
fn holder(locks: &str, place: &str) -> Option<u32> {
    let held = locks.lines().filter_map(Lock::parse);
    held.filter(|lock| lock.mode == "WRITE" && lock.place == place).map(|lock| lock.pid).next()
}

/// A line of the kernel's table that is about the lock of a whole file.
struct Lock<'l> {
    mode: &'l str,
    pid: u32,
    /// Device and number of the file.
    place: &'l str,
}

impl<'l> Lock<'l> {
    fn parse(line: &'l str) -> Option<Self> {
        let mut columns = line.split_ascii_whitespace().skip(1);
        let (kind, _, mode) = (columns.next()?, columns.next()?, columns.next()?);
        let (pid, place) = (columns.next()?.parse().ok()?, columns.next()?);
        (kind == "FLOCK").then_some(Lock { mode, pid, place })
    }
}

/// The parent of each process.
fn parents() -> io::Result<HashMap<u32, u32>> {
    let processes = fs::read_dir("/proc")?.flatten();
    let pids = processes.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    // One that is gone meanwhile has no socket.
    Ok(pids
        .filter_map(|pid| Some((pid, parent(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)?)))
        .collect())
}

/// The parent in the text of `/proc/PID/stat`, in which the program's name may be anything.
fn parent(stat: &str) -> Option<u32> {
    let (_, rest) = stat.rsplit_once(')')?;
    rest.split_ascii_whitespace().nth(1)?.parse().ok()
}

/// The processes below one.
fn descendants(root: u32, parents: &HashMap<u32, u32>) -> Vec<u32> {
    let is_below = |pid: u32| {
        let mut chain = std::iter::successors(parents.get(&pid), |parent| parents.get(parent));
        // A number that was given anew while the table was read could close a circle.
        chain.by_ref().take(parents.len()).any(|above| *above == root)
    };
    parents.keys().copied().filter(|pid| is_below(*pid)).collect()
}

/// The sockets that a process has open.
fn sockets(pid: u32) -> Vec<u64> {
    let Ok(open) = fs::read_dir(format!("/proc/{pid}/fd")) else { return Vec::new() };
    let inode = |entry: fs::DirEntry| -> Option<u64> {
        let target = fs::read_link(entry.path()).ok()?;
        target.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?.parse().ok()
    };
    open.flatten().filter_map(inode).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn a_process_below_another_is_found_by_its_parents() {
        let parents = [(1, 0), (5, 1), (7, 5), (9, 7), (8, 1), (20, 21), (21, 20)].into();
        let mut below = descendants(5, &parents);
        below.sort_unstable();
        assert_eq!(below, [7, 9]);
        assert_eq!(parent("7 (a) b) S 5 1 1"), Some(5));
        let own = std::process::id();
        assert_eq!(
            parents_of_own(),
            rustix::process::getppid().unwrap().as_raw_nonzero().get().unsigned_abs()
        );
        assert!(own > 0);
    }

    fn parents_of_own() -> u32 {
        parents().unwrap()[&std::process::id()]
    }

    #[test]
    fn the_holder_of_a_lock_is_in_the_table() {
        let table = "1: POSIX  ADVISORY  WRITE 4 08:01:7 0 EOF\n2: FLOCK  ADVISORY  READ  5 08:01:7 0 EOF\n\
                     2: -> FLOCK  ADVISORY  WRITE 6 08:01:7 0 EOF\n3: FLOCK  ADVISORY  WRITE 8 08:01:7 0 EOF\n";
        assert_eq!((holder(table, "08:01:7"), holder(table, "08:02:7")), (Some(8), None));
        let place = tempfile::tempdir().unwrap();
        let folder = AttemptFolder::new(place.path(), "a", 1);
        fs::create_dir(folder.path()).unwrap();
        fs::write(folder.file("accepted.json"), "").unwrap();
        fs::write(folder.file("begun"), "").unwrap();
        assert_eq!(keeper(&folder).unwrap(), None);
        let _lock = folder.lock().unwrap().unwrap();
        assert_eq!(keeper(&folder).unwrap(), Some(std::process::id()));
    }

    #[test]
    fn a_listener_of_somebody_else_is_none() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let place = tempfile::tempdir().unwrap();
        let folder = AttemptFolder::new(place.path(), "a", 1);
        fs::create_dir(folder.path()).unwrap();
        fs::write(folder.file("accepted.json"), "").unwrap();
        fs::write(folder.file("begun"), "").unwrap();
        let _lock = folder.lock().unwrap().unwrap();
        // The lock is this process's own, which is not below itself.
        assert!(matches!(find(&folder, port, None), Err(ListenerError::Others(_))));
        drop(listener);
        assert!(matches!(find(&folder, port, None), Err(ListenerError::Nobody(_))));
    }
}

//! Where a service listens: an address of the network, or a socket in the file system, of its own making or systemd's.

use std::fmt;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::{BorrowedFd, FromRawFd as _, OwnedFd};
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _, PermissionsExt as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::{env, fs, io};

use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};

use super::BACKLOG;

/// Begins the address of a socket in the file system.
const UNIX: &str = "unix:";
/// The longest path of a socket that is made: the kernel takes 107 bytes, and one is made under a longer name first.
const MAX_PATH_BYTES: usize = 96;
/// The first descriptor that systemd hands on.
const FIRST_HANDED_ON: i32 = 3;

/// Where a service listens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ListenAddress {
    Tcp(SocketAddr),
    /// A socket at this path.
    Unix(PathBuf),
}

impl ListenAddress {
    /// The address as clients have it.
    pub fn url(&self, scheme: &str) -> String {
        match self {
            ListenAddress::Tcp(address) => format!("{scheme}://{address}"),
            ListenAddress::Unix(_) => self.to_string(),
        }
    }

    /// True if this machine alone reaches it.
    pub fn is_local(&self) -> bool {
        self.tcp().is_none_or(|address| address.ip().to_canonical().is_loopback())
    }

    /// The address of the network; none of a socket in the file system.
    pub fn tcp(&self) -> Option<SocketAddr> {
        match self {
            ListenAddress::Tcp(address) => Some(*address),
            ListenAddress::Unix(_) => None,
        }
    }
}

impl From<SocketAddr> for ListenAddress {
    fn from(address: SocketAddr) -> Self {
        ListenAddress::Tcp(address)
    }
}

impl fmt::Display for ListenAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ListenAddress::Tcp(address) => address.fmt(f),
            ListenAddress::Unix(path) => write!(f, "{UNIX}{}", path.display()),
        }
    }
}

impl FromStr for ListenAddress {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if let Some(path) = text.strip_prefix(UNIX) {
            return if path.starts_with('/') && path.len() <= MAX_PATH_BYTES && !path.ends_with('/') {
                Ok(ListenAddress::Unix(path.into()))
            } else {
                Err(format!(
                    "expected a whole path of at most {MAX_PATH_BYTES} bytes after `unix:`, such as unix:/run/estimand.sock"
                ))
            };
        }
        if let Some(Ok(port)) = text.strip_prefix("localhost:").map(str::parse) {
            return Ok(ListenAddress::Tcp(SocketAddr::from(([127, 0, 0, 1], port))));
        }
        text.parse().map(ListenAddress::Tcp).map_err(|_| {
            "expected an IP address and a port, such as 127.0.0.1:7070, localhost:7070 or [::1]:7070, or a socket such as \
             unix:/run/estimand.sock"
                .to_owned()
        })
    }
}

/// A socket that listens.
#[derive(Debug)]
pub(super) enum Listener {
    Tcp(TcpListener),
    Unix(UnixListener),
}

/// The socket that systemd has handed on to this process.
#[derive(Debug)]
pub struct HandedOn {
    pub(super) listener: Listener,
    pub address: ListenAddress,
}

impl HandedOn {
    /// Takes it, if there is one: `LISTEN_FDS` counts them, and `LISTEN_PID` says whom they are for. To be called once.
    pub fn take() -> io::Result<Option<Self>> {
        let number = |name| env::var(name).ok().and_then(|text| text.parse::<u32>().ok());
        let process = number("LISTEN_PID");
        let count = number("LISTEN_FDS");
        let Some(count) = count.filter(|count| *count > 0 && process == Some(std::process::id())) else {
            return Ok(None);
        };
        if count > 1 {
            return Err(io::Error::other(format!(
                "systemd hands on {count} sockets (LISTEN_FDS); a service takes one: have one `ListenStream=` in its .socket"
            )));
        }
        // SAFETY: it is borrowed for these questions alone, of which an answer may be that it is not open.
        let announced = unsafe { BorrowedFd::borrow_raw(FIRST_HANDED_ON) };
        rustix::io::fcntl_setfd(announced, rustix::io::FdFlags::CLOEXEC).map_err(|error| {
            io::Error::other(format!(
                "LISTEN_FDS says that systemd hands on a socket, and descriptor {FIRST_HANDED_ON} is none: {error}; expected \
                 the variable to come from systemd alone"
            ))
        })?;
        let is_listening = rustix::net::sockopt::socket_acceptconn(announced).unwrap_or(false);
        if !is_listening || rustix::net::sockopt::socket_type(announced)? != SocketType::STREAM {
            return Err(io::Error::other(
                "systemd hands on a descriptor that is no listening stream socket: have `ListenStream=` and no `Accept=yes`",
            ));
        }
        // SAFETY: systemd has opened it for this process, and nothing else here has it.
        let descriptor = unsafe { OwnedFd::from_raw_fd(FIRST_HANDED_ON) };
        let family = rustix::net::sockopt::socket_domain(&descriptor)?;
        let (listener, address) = if family == AddressFamily::UNIX {
            let listener = UnixListener::from(descriptor);
            let path = listener.local_addr()?.as_pathname().map(Path::to_path_buf).unwrap_or_default();
            (Listener::Unix(listener), ListenAddress::Unix(path))
        } else {
            let listener = TcpListener::from(descriptor);
            let address = listener.local_addr()?;
            (Listener::Tcp(listener), ListenAddress::Tcp(address))
        };
        Ok(Some(HandedOn { listener, address }))
    }
}

/// A socket in the file system that this process has made, and takes away at its end.
#[derive(Debug)]
pub(super) struct MadeSocket {
    path: PathBuf,
    inode: u64,
}

impl MadeSocket {
    /// Makes it. It has its mode before anybody can find it, and takes the place of one that nobody listens at.
    pub(super) fn make(path: &Path, mode: u32) -> io::Result<(Self, UnixListener)> {
        match fs::symlink_metadata(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
            Ok(there) if !there.file_type().is_socket() => {
                return Err(io::Error::new(
                    io::ErrorKind::AlreadyExists,
                    "something that is no socket is there; expected a path where nothing is",
                ));
            }
            Ok(_) => match UnixStream::connect(path) {
                Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {}
                Err(error) => return Err(error),
                Ok(_) => return Err(io::ErrorKind::AddrInUse.into()),
            },
        }
        let mut hidden = path.as_os_str().to_owned();
        hidden.push(format!(".{}", std::process::id()));
        let hidden = PathBuf::from(hidden);
        let _ = fs::remove_file(&hidden);
        let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
        rustix::net::bind(&socket, &rustix::net::SocketAddrUnix::new(&hidden)?)?;
        let shown = fs::set_permissions(&hidden, fs::Permissions::from_mode(mode))
            .and_then(|()| Ok(rustix::net::listen(&socket, BACKLOG)?))
            .and_then(|()| fs::rename(&hidden, path))
            .and_then(|()| fs::symlink_metadata(path));
        if shown.is_err() {
            let _ = fs::remove_file(&hidden);
        }
        let made = MadeSocket { path: path.to_owned(), inode: shown?.ino() };
        Ok((made, UnixListener::from(socket)))
    }
}

impl Drop for MadeSocket {
    /// Another process may have put its own there meanwhile.
    fn drop(&mut self) {
        if fs::symlink_metadata(&self.path).is_ok_and(|there| there.ino() == self.inode) {
            let _ = fs::remove_file(&self.path);
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn addresses_are_read_and_shown() {
        for text in ["127.0.0.1:7070", "[::1]:0", "unix:/run/estimand.sock"] {
            assert_eq!(text.parse::<ListenAddress>().unwrap().to_string(), text);
        }
        let local: ListenAddress = "localhost:7070".parse().unwrap();
        assert_eq!(local.url("http"), "http://127.0.0.1:7070");
        assert!("unix:/run/x".parse::<ListenAddress>().unwrap().is_local() && local.is_local());
        assert!(!"0.0.0.0:1".parse::<ListenAddress>().unwrap().is_local());
        for wrong in ["7070", "unix:x", "unix:", "unix:/run/", &format!("unix:/{}", "x".repeat(96))] {
            assert!(wrong.parse::<ListenAddress>().unwrap_err().contains("such as"), "{wrong}");
        }
    }

    #[test]
    fn a_socket_has_its_mode_replaces_a_dead_one_and_goes_with_its_maker() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("s");
        // A file of a process that was killed.
        drop(UnixListener::bind(&path).unwrap());
        let (made, listener) = MadeSocket::make(&path, 0o640).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o7777, 0o640);
        UnixStream::connect(&path).unwrap();
        let taken = MadeSocket::make(&path, 0o600).unwrap_err();
        assert_eq!(taken.kind(), io::ErrorKind::AddrInUse);
        drop((made, listener));
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
        fs::write(&path, "of somebody").unwrap();
        let refused = MadeSocket::make(&path, 0o600).unwrap_err();
        assert!(refused.to_string().contains("no socket"), "{refused}");
        assert_eq!(fs::read_to_string(&path).unwrap(), "of somebody");
    }
}

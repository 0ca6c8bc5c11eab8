//! The bounds of a collector: the files that it may read and the addresses that it may reach when a registration names
//! them, as the operator of the node says.
//!
//! A file counts by where it lies once it is open, an address by its number once its name is looked up; so neither a link
//! nor a name that is changed in between leads elsewhere. What a collector reads by itself (the kernel's files, Hadoop's
//! configuration and the addresses in it) is not bounded. There are no bounds for a collection by hand.

mod files;
mod net;

use std::fs::File;
use std::net::SocketAddr;
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::{fs, io};

use rustix::fs::OFlags;
use tokio::net::lookup_host;

pub use files::AllowRead;
pub use net::{AllowNet, NetPattern};

use crate::Failure;

/// By default everything is allowed.
#[derive(Debug, Clone, Default)]
pub struct Bounds {
    pub read: AllowRead,
    pub net: AllowNet,
    pub libraries: AllowLibraries,
}

/// The libraries that a registration may name. They run in this process, and so with all that it may do.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum AllowLibraries {
    #[default]
    Everything,
    Nothing,
}

/// The reason why something cannot be read or reached.
#[derive(Debug)]
pub(crate) enum Barrier {
    /// The operator does not allow it.
    Refused(String),
    Io(io::Error),
}

impl Bounds {
    /// Opens a file for looking at it alone, which does nothing to a device or a pipe, with all links followed.
    pub(crate) fn find(&self, path: &Path) -> Result<FoundFile, Barrier> {
        let flags = (OFlags::PATH | OFlags::CLOEXEC).bits().cast_signed();
        let opened = File::options().read(true).custom_flags(flags).open(path);
        let file = match opened {
            Ok(file) => file,
            // It is not told of a place that may not be looked at if there is something.
            Err(error) => {
                self.read.check(path, &files::real(path))?;
                return Err(Barrier::Io(error));
            }
        };
        let found = FoundFile { file, real: PathBuf::new() };
        let real = fs::read_link(found.itself())?;
        self.read.check(path, &real)?;
        Ok(FoundFile { real, ..found })
    }

    /// The addresses of a host that may be reached: at least one.
    pub(crate) async fn find_addresses(&self, host: &str, port: u16) -> Result<Vec<SocketAddr>, Barrier> {
        let host = host.trim_start_matches('[').trim_end_matches(']');
        // A name that leads to nothing that is allowed is not even looked up.
        if !self.net.may_allow(host, port) {
            return Err(self.net.refusal(host, port, None));
        }
        let all: Vec<SocketAddr> = lookup_host((host, port)).await?.collect();
        let allowed: Vec<SocketAddr> =
            all.iter().copied().filter(|address| self.net.allows(host, *address)).collect();
        match (allowed.is_empty(), all.first()) {
            (false, _) => Ok(allowed),
            (true, Some(address)) => Err(self.net.refusal(host, port, Some(address.ip()))),
            (true, None) => Err(io::Error::new(io::ErrorKind::NotFound, "the name has no address").into()),
        }
    }

    pub(crate) fn check_library(&self, library: &str) -> Result<(), String> {
        match self.libraries {
            AllowLibraries::Everything => Ok(()),
            AllowLibraries::Nothing => Err(format!(
                "the parameter `library` is not taken: {library} would run in the agent on this node itself; without \
                 the parameter the loader finds the driver's (`ldconfig`, or LD_LIBRARY_PATH of the agent)"
            )),
        }
    }
}

/// A file that may be read, and cannot become another one.
#[derive(Debug)]
pub(crate) struct FoundFile {
    file: File,
    /// Where it lies.
    pub real: PathBuf,
}

impl FoundFile {
    pub(crate) fn metadata(&self) -> io::Result<fs::Metadata> {
        self.file.metadata()
    }

    /// The same file, open for reading.
    pub(crate) fn read(&self) -> io::Result<File> {
        // Not waiting, whatever it is.
        let flags = (OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC).bits().cast_signed();
        File::options().read(true).custom_flags(flags).open(self.itself())
    }

    pub(crate) fn entries(&self) -> io::Result<fs::ReadDir> {
        fs::read_dir(self.itself())
    }

    /// The name by which this process reaches it.
    fn itself(&self) -> PathBuf {
        PathBuf::from(format!("/proc/self/fd/{}", self.file.as_raw_fd()))
    }
}

impl From<io::Error> for Barrier {
    fn from(error: io::Error) -> Self {
        Barrier::Io(error)
    }
}

impl Barrier {
    /// The error of a collection; `doing` says what failed.
    pub(crate) fn failure(self, doing: &str) -> Failure {
        match self {
            Barrier::Refused(reason) => Failure::Refused(reason),
            Barrier::Io(error) => Failure::Failed(format!("{doing}: {error}")),
        }
    }
}

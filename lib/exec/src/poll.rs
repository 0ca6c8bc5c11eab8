//! The launcher's wait for events.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};

/// The sources of events.
pub(super) const SOCKET: u64 = 0;
const SIGNALS: u64 = 1;

/// The launcher's one `epoll` descriptor.
#[derive(Debug)]
pub(super) struct Poll(OwnedFd);

impl Poll {
    pub fn new() -> io::Result<Self> {
        Ok(Poll(epoll::create(CreateFlags::CLOEXEC)?))
    }

    /// Reports what comes over the socket and its end, and signals.
    pub fn watch(&self, socket: impl AsFd, signals: impl AsFd) -> io::Result<()> {
        epoll::add(&self.0, socket, EventData::new_u64(SOCKET), EventFlags::IN | EventFlags::RDHUP)?;
        Ok(epoll::add(&self.0, signals, EventData::new_u64(SIGNALS), EventFlags::IN)?)
    }

    /// Reports no further event of the socket.
    pub fn forget(&self, socket: impl AsFd) {
        let _ = epoll::delete(&self.0, socket);
    }

    /// Reports, or no longer, that the socket takes packets again.
    pub fn watch_writable(&self, socket: impl AsFd, wanted: bool) -> io::Result<()> {
        let flags = EventFlags::IN | EventFlags::RDHUP;
        let flags = if wanted { flags | EventFlags::OUT } else { flags };
        Ok(epoll::modify(&self.0, socket, EventData::new_u64(SOCKET), flags)?)
    }
}

impl AsFd for Poll {
    fn as_fd(&self) -> std::os::fd::BorrowedFd<'_> {
        self.0.as_fd()
    }
}

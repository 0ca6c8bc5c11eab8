//! A lease as a keeper reads it.

use std::io;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create, timerfd_settime,
};
use tokio::io::unix::AsyncFd;

use super::{Lease, boot_clock, boot_id};

/// How often a file is read that was being written: that takes no time.
const READS: usize = 5;

#[derive(Debug)]
pub struct LeaseWatch {
    path: PathBuf,
    boot: String,
    /// The lease under which the task runs: another one is not its own.
    number: u64,
    /// The end that was read last; 0 if the lease was found to be another one.
    until: AtomicU64,
    timer: AsyncFd<OwnedFd>,
    /// The timer is set for the end that the file had.
    is_set: AtomicBool,
}

impl LeaseWatch {
    pub fn new(path: PathBuf, number: u64) -> io::Result<Self> {
        let flags = TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK;
        let timer = timerfd_create(TimerfdClockId::Boottime, flags)?;
        // SAFETY: the descriptor is owned, and nothing takes it out or closes it before the `AsyncFd` is dropped.
        let timer = unsafe { AsyncFd::register(timer) }?;
        let is_set = AtomicBool::new(false);
        Ok(LeaseWatch { path, boot: boot_id(), number, until: AtomicU64::new(0), timer, is_set })
    }

    /// Looks at the file.
    pub fn is_over(&self) -> bool {
        self.until().is_none_or(|until| !self.set(until))
    }

    /// It may have been ended: the file is looked at when this is waited for next. An end that was moved on is found
    /// when the former one has come.
    pub fn look_again(&self) {
        self.is_set.store(false, Ordering::Relaxed);
    }

    /// Returns when it is over. May be dropped and called again.
    pub async fn over(&self) {
        loop {
            if !self.is_set.load(Ordering::Relaxed) && self.is_over() {
                return;
            }
            match self.timer.readable().await {
                Ok(mut ready) => ready.clear_ready(),
                Err(_) => return,
            }
            self.look_again();
        }
    }

    /// Sets the timer; false if that cannot be done.
    fn set(&self, until: u64) -> bool {
        let it_value = Timespec {
            tv_sec: (until / 1_000_000_000).cast_signed(),
            tv_nsec: (until % 1_000_000_000).cast_signed(),
        };
        let once = Itimerspec { it_interval: Timespec { tv_sec: 0, tv_nsec: 0 }, it_value };
        let is_set = timerfd_settime(self.timer.get_ref(), TimerfdTimerFlags::ABSTIME, &once).is_ok();
        self.is_set.store(is_set, Ordering::Relaxed);
        is_set
    }

    /// When it ends, if it is not over. A file that cannot be read ends nothing: then the end counts that was read last.
    fn until(&self) -> Option<u64> {
        let mut reads = (0..READS).filter_map(|_| Lease::read(&self.path, &self.boot));
        if let Some(lease) = reads.next() {
            let until = if lease.number == self.number { lease.until } else { 0 };
            self.until.store(until, Ordering::Relaxed);
        }
        let until = self.until.load(Ordering::Relaxed);
        (until > boot_clock()).then_some(until)
    }
}

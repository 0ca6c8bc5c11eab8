//! The lease of a node as its tasks see it: a moment on the machine's clock that also counts while it sleeps.
//!
//! Keepers outlive their agent, so they find it in a file. It means nothing after the machine was started anew.

use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use estimand_runtime::files::write_whole;
use rustix::time::{
    ClockId, Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, clock_gettime,
    timerfd_create, timerfd_settime,
};
use tokio::io::unix::AsyncFd;

/// Nanoseconds since the machine was started.
pub fn boot_clock() -> u64 {
    let now = clock_gettime(ClockId::Boottime);
    now.tv_sec.unsigned_abs() * 1_000_000_000 + now.tv_nsec.unsigned_abs()
}

/// The present start of the machine; another one after it is started anew.
pub fn boot_id() -> String {
    static ID: OnceLock<String> = OnceLock::new();
    let read = || {
        let id = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
        id.trim().to_owned()
    };
    ID.get_or_init(read).clone()
}

/// A lease. One that is renewed in time is the same one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Lease {
    /// Counts the leases, from the machine's start.
    number: u64,
    /// By [`boot_clock`].
    until: u64,
}

/// The file with the lease, as its agent writes it.
#[derive(Debug)]
pub struct LeaseFile {
    path: PathBuf,
    boot: String,
    known: Mutex<Lease>,
    /// The lease that the file has.
    written: Mutex<Option<Lease>>,
}

impl LeaseFile {
    pub fn open(path: PathBuf) -> Self {
        let boot = boot_id();
        let known = Mutex::new(read(&path, &boot).unwrap_or_default());
        LeaseFile { path, boot, known, written: Mutex::default() }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Moves its end on, and never back. If it was over already, another one begins.
    pub fn extend(&self, until: u64) {
        let mut known = self.lock();
        if known.until <= boot_clock() {
            known.number += 1;
        }
        known.until = known.until.max(until);
    }

    /// Ends it now.
    pub fn end(&self) {
        self.lock().until = 0;
    }

    /// The number of the lease, while one holds.
    pub fn holds(&self) -> Option<u64> {
        let known = *self.lock();
        (known.until > boot_clock()).then_some(known.number)
    }

    /// Writes it for the keepers, unless it is written. Blocking.
    pub fn publish(&self) -> io::Result<()> {
        // Held while it is written: one at a time.
        let mut written = self.written.lock().unwrap_or_else(PoisonError::into_inner);
        let known = *self.lock();
        if *written == Some(known) {
            return Ok(());
        }
        let Lease { number, until } = known;
        write_whole(&self.path, format!("{} {number} {until}", self.boot).as_bytes(), 0o600)?;
        *written = Some(known);
        Ok(())
    }

    fn lock(&self) -> MutexGuard<'_, Lease> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn read(path: &Path, boot: &str) -> Option<Lease> {
    let text = fs::read_to_string(path).ok()?;
    let mut words = text.split_whitespace();
    let (of, number, until) = (words.next()?, words.next()?, words.next()?);
    (of == boot).then_some(())?;
    Some(Lease { number: number.parse().ok()?, until: until.parse().ok()? })
}

/// The same, as a keeper reads it.
#[derive(Debug)]
pub struct LeaseWatch {
    path: PathBuf,
    boot: String,
    /// The lease under which the task runs: another one is not its own.
    number: u64,
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
        Ok(LeaseWatch { path, boot: boot_id(), number, timer, is_set: AtomicBool::new(false) })
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

    /// When it ends, if it is not over.
    fn until(&self) -> Option<u64> {
        let lease = read(&self.path, &self.boot)?;
        (lease.number == self.number && lease.until > boot_clock()).then_some(lease.until)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    const LONG: u64 = 3_600_000_000_000;

    #[tokio::test]
    async fn a_lease_is_extended_and_runs_out() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("lease");
        let file = LeaseFile::open(path.clone());
        let watch = |number| LeaseWatch::new(path.clone(), number).unwrap();
        assert!(watch(0).is_over() && file.holds().is_none(), "there never was one");
        watch(0).over().await;
        let until = boot_clock() + LONG;
        file.extend(until);
        file.extend(until - 1);
        file.publish().unwrap();
        let number = file.holds().unwrap();
        assert_eq!(LeaseFile::open(path.clone()).holds(), Some(number), "an agent that is started anew");
        assert!(!watch(number).is_over());
        file.end();
        file.publish().unwrap();
        assert!(watch(number).is_over());
        let soon = boot_clock() + 20_000_000;
        file.extend(soon);
        file.publish().unwrap();
        watch(file.holds().unwrap_or(number + 1)).over().await;
        assert!(boot_clock() >= soon);
    }

    /// Between its end and that renewal, the task may have been started elsewhere.
    #[test]
    fn a_lease_that_is_renewed_too_late_is_another_one() {
        let place = tempfile::tempdir().unwrap();
        let file = LeaseFile::open(place.path().join("lease"));
        file.extend(boot_clock() + LONG);
        let first = file.holds().unwrap();
        file.extend(boot_clock() + 2 * LONG);
        assert_eq!(file.holds(), Some(first));
        file.end();
        file.publish().unwrap();
        for again in [file, LeaseFile::open(place.path().join("lease"))] {
            again.extend(boot_clock() + LONG);
            assert_eq!(again.holds(), Some(first + 1));
        }
    }

    #[test]
    fn a_lease_of_a_former_start_of_the_machine_is_none() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("lease");
        fs::write(&path, format!("another 1 {}", u64::MAX)).unwrap();
        assert_eq!(LeaseFile::open(path.clone()).holds(), None);
        fs::write(&path, "").unwrap();
        assert_eq!(LeaseFile::open(path).holds(), None);
    }
}

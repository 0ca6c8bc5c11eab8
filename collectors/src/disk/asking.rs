//! Space of file systems, asked for without waiting for ever.
//!
//! A call to a file system whose server is gone cannot be ended. So each is made on a thread of its own, and one that
//! has not come back is remembered: there is never more than one thread a mount.

use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::{Duration, Instant};

/// The longest that is waited for all of them, even if there would be more time.
const PATIENCE: Duration = Duration::from_secs(2);

/// Space of a file system, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Space {
    pub total: u64,
    pub free: u64,
    /// For those who are not the administrator.
    pub available: u64,
    pub inodes: u64,
    pub inodes_free: u64,
}

/// Asks at once; for what cannot hang.
pub(super) fn space(path: &Path) -> io::Result<Space> {
    let stat = rustix::fs::statvfs(path)?;
    let bytes = |blocks: u64| blocks.saturating_mul(stat.f_frsize);
    Ok(Space {
        total: bytes(stat.f_blocks),
        free: bytes(stat.f_bfree),
        available: bytes(stat.f_bavail),
        inodes: stat.f_files,
        inodes_free: stat.f_ffree,
    })
}

type Answer = io::Result<Space>;

/// Asks what can hang.
pub(super) struct Asker {
    ask: fn(&Path) -> Answer,
    /// Those who have not come back yet.
    asked: HashMap<PathBuf, Receiver<Answer>>,
}

impl Default for Asker {
    fn default() -> Self {
        Asker { ask: space, asked: HashMap::new() }
    }
}

impl Asker {
    /// The answer of each; none of those that do not answer in time.
    pub fn ask(&mut self, paths: &[PathBuf], until: Instant) -> Vec<Option<Answer>> {
        let until = until.min(Instant::now() + PATIENCE);
        for path in paths {
            if !self.asked.contains_key(path) {
                self.begin(path.clone());
            }
        }
        // The answer of a mount that is gone is not awaited any more.
        self.asked.retain(|path, _| paths.contains(path));
        paths.iter().map(|path| self.answer(path, until)).collect()
    }

    fn begin(&mut self, path: PathBuf) {
        let (answered, answer) = mpsc::channel();
        let (ask, of) = (self.ask, path.clone());
        let asking = move || {
            // The receiver is gone if the mount went meanwhile.
            let _ = answered.send(ask(&of));
        };
        if thread::Builder::new().name("statvfs".to_owned()).spawn(asking).is_ok() {
            self.asked.insert(path, answer);
        }
    }

    fn answer(&mut self, path: &Path, until: Instant) -> Option<Answer> {
        let left = until.saturating_duration_since(Instant::now());
        let answer = self.asked.get(path)?.recv_timeout(left);
        if matches!(answer, Err(mpsc::RecvTimeoutError::Timeout)) {
            return None;
        }
        self.asked.remove(path);
        answer.ok()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::sync::Mutex;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    static DEAD: Mutex<()> = Mutex::new(());
    static ASKED: AtomicUsize = AtomicUsize::new(0);

    fn answer(path: &Path) -> Answer {
        if path == Path::new("/dead") {
            ASKED.fetch_add(1, Ordering::SeqCst);
            drop(DEAD.lock().unwrap());
        }
        Ok(Space { total: 1, free: 1, available: 1, inodes: 1, inodes_free: 1 })
    }

    #[test]
    fn a_dead_server_holds_nothing_up_and_is_asked_once() {
        let mut asker = Asker { ask: answer, ..Asker::default() };
        let paths = ["/alive".into(), "/dead".into()];
        let dead = DEAD.lock().unwrap();
        for _ in 0..3 {
            // The lock is held all the time: that this returns at all is the point.
            let answers = asker.ask(&paths, Instant::now() + Duration::from_millis(20));
            assert!(answers[1].is_none());
        }
        assert!(asker.ask(&paths[..1], Instant::now() + PATIENCE)[0].is_some(), "the one that lives");
        assert_eq!(ASKED.load(Ordering::SeqCst), 1);
        drop(dead);
        let answers = asker.ask(&paths, Instant::now() + PATIENCE);
        assert!(answers.iter().all(Option::is_some), "it lives again");
    }

    #[test]
    fn a_missing_path_is_an_error_and_not_silence() {
        let answers = Asker::default().ask(&["/no/such/place".into()], Instant::now() + PATIENCE);
        assert!(answers[0].as_ref().is_some_and(Result::is_err));
    }
}

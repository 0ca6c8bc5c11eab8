//! Numbers the runs of an agent: microseconds by the clock, but always more than the number before.
//!
//! That holds over restarts and over a clock that is set back, because a mark above every number given out is
//! on disk before the first of them is: a restart goes on from the mark. The mark is a few seconds ahead, and is
//! moved on in the background when half of that is used. Numbers are therefore a little ahead of the clock after
//! a restart; another agent that takes over the node's name at once is heard when the clock has caught up.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use estimand_runtime::Clock;
use estimand_runtime::files::write_atomically;

use super::SpoolError;

/// How far the mark is ahead of the numbers, in microseconds.
const AHEAD: u64 = 4_000_000;
/// After how many numbers writing the mark is tried again, where it could not be written.
const AGAIN_AFTER: u64 = 1_000_000;
/// The name of the file, in the folder of the agent.
const FILE: &str = "sequence";

/// Gives out numbers, each larger than all before it.
pub struct Sequencer(Arc<Shared>);

struct Shared {
    path: PathBuf,
    clock: Arc<dyn Clock>,
    state: Mutex<State>,
    /// Held while the mark is written, so that an older one never comes last.
    writing: Mutex<()>,
}

#[derive(Debug)]
struct State {
    last: u64,
    /// No number above this is given out before a higher mark is on disk.
    mark: u64,
    /// The mark is being moved on in the background.
    moving: bool,
    failing: bool,
}

impl Sequencer {
    /// Goes on where a former process with the same folder ended.
    pub fn open(dir: &Path, clock: Arc<dyn Clock>) -> Result<Self, SpoolError> {
        super::spool::make_folder(dir)?;
        let path = dir.join(FILE);
        let last = match fs::read(&path) {
            Ok(text) => parse(&text).unwrap_or_else(|| {
                tracing::warn!(path = %path.display(), "the mark of the sequence is spoilt; the clock is trusted");
                0
            }),
            Err(error) if error.kind() == io::ErrorKind::NotFound => 0,
            Err(source) => return Err(SpoolError::Read { path, source }),
        };
        let mark = last.max(now(&*clock)).saturating_add(AHEAD);
        if let Err(source) = store(&path, mark) {
            return Err(SpoolError::Write { path, source });
        }
        let state = Mutex::new(State { last, mark, moving: false, failing: false });
        Ok(Sequencer(Arc::new(Shared { path, clock, state, writing: Mutex::new(()) })))
    }

    /// The next number.
    pub fn next(&self) -> u64 {
        let mut state = lock(&self.0.state);
        let next = now(&*self.0.clock).max(state.last + 1);
        state.last = next;
        let (passed, soon) = (next > state.mark, next > state.mark.saturating_sub(AHEAD / 2));
        let begin = soon && !state.moving && !passed;
        state.moving |= begin;
        drop(state);
        if passed {
            self.0.move_mark();
        } else if begin {
            let shared = Arc::clone(&self.0);
            match tokio::runtime::Handle::try_current() {
                Ok(runtime) => drop(runtime.spawn_blocking(move || shared.move_mark())),
                Err(_) => shared.move_mark(),
            }
        }
        next
    }
}

impl Shared {
    /// Puts the mark ahead of what was given out.
    fn move_mark(&self) {
        let _writing = lock(&self.writing);
        let mark = lock(&self.state).last.saturating_add(AHEAD);
        let stored = store(&self.path, mark);
        let mut state = lock(&self.state);
        state.moving = false;
        match stored {
            Ok(()) => {
                state.mark = state.mark.max(mark);
                state.failing = false;
            }
            // A slot does not stop for that: the clock alone keeps the order, unless it is set back just now.
            Err(error) => {
                state.mark = state.mark.max(state.last.saturating_add(AGAIN_AFTER));
                if !std::mem::replace(&mut state.failing, true) {
                    tracing::warn!(path = %self.path.display(), %error, "cannot write the mark of the sequence");
                }
            }
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn now(clock: &dyn Clock) -> u64 {
    u64::try_from(clock.now_micros()).unwrap_or(0)
}

fn store(path: &Path, mark: u64) -> io::Result<()> {
    let mark = mark.to_string();
    let text = format!("{mark} {:08x}\n", crc32fast::hash(mark.as_bytes()));
    write_atomically(path, text.as_bytes(), 0o600)
}

fn parse(text: &[u8]) -> Option<u64> {
    let (mark, sum) = std::str::from_utf8(text).ok()?.trim_end().split_once(' ')?;
    let right = u32::from_str_radix(sum, 16).ok()? == crc32fast::hash(mark.as_bytes());
    // Orders are kept as signed numbers, so that a larger one would never be taken.
    mark.parse().ok().filter(|mark| right && *mark < i64::MAX as u64)
}

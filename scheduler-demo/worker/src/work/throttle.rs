//! Takes only a share of a core, by pausing: for nodes that are emulated where no cgroup may be made.
//!
//! Only the processor time that this thread really had counts, so that a worker on a shared core isn't slowed twice. The share may stand in a file, so that it can change under a running job.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};

/// A share of a core, above 0 and up to 1.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Share(f64);

impl Share {
    pub fn parse(text: &str) -> Option<Self> {
        text.parse().ok().filter(|share| (0.01..=1.0).contains(share)).map(Share)
    }

    /// Of a file that has nothing else in it.
    fn read(path: &Path) -> Result<Self, String> {
        // Opening a pipe would wait for a writer.
        if !path.metadata().map_err(|error| error.to_string())?.is_file() {
            return Err("it is no plain file".to_owned());
        }
        let mut text = String::new();
        let file = File::open(path).map_err(|error| error.to_string())?;
        file.take(MOST_TEXT_BYTES).read_to_string(&mut text).map_err(|error| error.to_string())?;
        Share::parse(text.trim())
            .ok_or_else(|| format!("`{}` stands there; expected {EXPECTED}", text.trim().escape_debug()))
    }
}

const EXPECTED: &str = "a share of a core, 0.01 to 1";
/// More than a number takes.
const MOST_TEXT_BYTES: u64 = 64;

/// The source of the share.
#[derive(Debug, Clone, PartialEq)]
pub enum ShareSource {
    Fixed(Share),
    /// The present content of a file; all of a core before the first valid content.
    File(PathBuf),
}

impl ShareSource {
    pub const ALL: ShareSource = ShareSource::Fixed(Share(1.0));

    /// A share, or the absolute path of a file with one.
    pub fn parse(text: &str) -> Result<Self, String> {
        if text.starts_with('/') {
            return Ok(ShareSource::File(text.into()));
        }
        let share = Share::parse(text).map(ShareSource::Fixed);
        share.ok_or_else(|| format!("expected {EXPECTED}, or the absolute path of a file with one"))
    }
}

/// Of time that was not used, only this much may be made up for.
const CREDIT: Duration = Duration::from_millis(100);

/// Keeps account of what one thread used.
#[derive(Debug)]
pub struct Throttle {
    share: Share,
    /// Read anew at each pause, since that costs nothing beside an image.
    file: Option<PathBuf>,
    /// True: the file is invalid, and that was reported.
    complained: bool,
    last: Instant,
    last_used: Duration,
    /// How long the thread would have to pause to be at its share; negative if it may go faster.
    owed_seconds: f64,
}

impl Throttle {
    pub fn new(share_source: &ShareSource) -> Self {
        let (share, file) = match share_source {
            ShareSource::Fixed(share) => (*share, None),
            ShareSource::File(path) => (Share(1.0), Some(path.clone())),
        };
        let mut throttle = Throttle {
            share,
            file,
            complained: false,
            last: Instant::now(),
            last_used: used(),
            owed_seconds: 0.0,
        };
        throttle.look();
        throttle
    }

    /// Resets the account.
    pub fn begin_anew(&mut self) {
        (self.last, self.last_used, self.owed_seconds) = (Instant::now(), used(), 0.0);
    }

    /// How long the thread that has worked since the last call should pause now.
    pub fn pause(&mut self) -> Duration {
        self.look();
        let (now, used) = (Instant::now(), used());
        let owed = self.account(now.duration_since(self.last), used.saturating_sub(self.last_used));
        (self.last, self.last_used) = (now, used);
        owed
    }

    /// A file that is missing or odd, which it may be while it is written, changes nothing.
    fn look(&mut self) {
        let Some(path) = &self.file else { return };
        match Share::read(path) {
            Ok(share) => (self.share, self.complained) = (share, false),
            Err(wrong) if !self.complained => {
                let Share(share) = self.share;
                eprintln!("estimand-worker: {}: {wrong}; {share} of a core it is until then", path.display());
                self.complained = true;
            }
            Err(_) => {}
        }
    }

    fn account(&mut self, passed: Duration, used: Duration) -> Duration {
        let Share(share) = self.share;
        if share >= 1.0 {
            self.owed_seconds = 0.0;
            return Duration::ZERO;
        }
        let owed = self.owed_seconds + used.as_secs_f64() / share - passed.as_secs_f64();
        self.owed_seconds = owed.max(-CREDIT.as_secs_f64());
        Duration::from_secs_f64(self.owed_seconds.max(0.0))
    }
}

/// The processor time of this thread.
fn used() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec as u32)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn throttle(share: &str) -> Throttle {
        Throttle::new(&ShareSource::parse(share).unwrap())
    }

    fn millis(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    #[test]
    fn the_pause_makes_up_for_what_was_used() {
        let mut throttle = throttle("0.25");
        assert_eq!(throttle.account(millis(30), millis(30)).as_millis(), 90);
        // Paused for that long, then worked again.
        assert_eq!(throttle.account(millis(120), millis(30)).as_millis(), 90);
        // A core shared with others: 30 of 60 ms.
        assert_eq!(throttle.account(millis(150), millis(30)).as_millis(), 60);
    }

    #[test]
    fn time_spent_waiting_is_not_saved_up() {
        let mut throttle = throttle("0.5");
        assert_eq!(throttle.account(millis(60_000), Duration::ZERO), Duration::ZERO);
        assert_eq!(throttle.account(millis(300), millis(300)).as_millis(), 200);
    }

    #[test]
    fn a_whole_core_needs_no_pause() {
        assert_eq!(Throttle::new(&ShareSource::ALL).account(millis(1), millis(50)), Duration::ZERO);
    }

    #[test]
    fn the_share_of_a_file_is_the_one_that_was_good_last() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("share");
        let mut throttle = throttle(path.to_str().unwrap());
        assert_eq!((throttle.share, throttle.complained), (Share(1.0), true), "there is none yet");
        for (text, share, complained) in [
            ("0.5\n", 0.5, false),
            ("", 0.5, true),
            ("0.25", 0.25, false),
            ("2", 0.25, true),
            ("1", 1.0, false),
        ] {
            std::fs::write(&path, text).unwrap();
            throttle.pause();
            assert_eq!((throttle.share, throttle.complained), (Share(share), complained), "{text:?}");
        }
        std::fs::remove_file(&path).unwrap();
        std::fs::create_dir(&path).unwrap();
        throttle.pause();
        assert_eq!((throttle.share, throttle.complained), (Share(1.0), true), "a folder");
    }

    #[test]
    fn the_clock_is_that_of_this_thread() {
        let before = used();
        let mut number = 1u64;
        while used() - before < millis(5) {
            number = std::hint::black_box(number.wrapping_mul(3));
        }
        let other = std::thread::spawn(used).join().unwrap();
        assert!(other < used(), "{other:?} is a new thread's");
    }
}

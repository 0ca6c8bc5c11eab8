//! The keeper of an attempt, as the agent knows it.

use std::time::Duration;

use estimand_runtime::BackOff;
use tokio::time::Instant;

use super::super::pool::KeeperProcess;

/// Between keepers of one attempt, should they not live.
const FIRST_PAUSE: Duration = Duration::from_millis(500);
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

/// An attempt's keeper as this agent knows it, beside what is on disk.
pub(super) struct Keeper {
    /// None if the agent before this one started it, or if it has none.
    pub process: Option<KeeperProcess>,
    pub starts: BackOff,
    pub not_before: Option<Instant>,
    /// The lease under which it could have begun: when that is over, it may have been begun elsewhere.
    pub lease: Option<u64>,
    /// It was accepted here and given to nobody since, so nothing of it is on disk that is not known.
    pub is_new: bool,
    pub has_ended: bool,
    /// It is assigned no more.
    pub is_gone: bool,
}

impl Keeper {
    pub fn new(lease: Option<u64>) -> Self {
        let starts = BackOff::new(FIRST_PAUSE, LONGEST_PAUSE);
        Keeper {
            process: None,
            starts,
            not_before: None,
            lease,
            is_new: false,
            has_ended: false,
            is_gone: false,
        }
    }

    pub fn is_running(&mut self) -> bool {
        self.process.as_mut().is_some_and(|process| !process.has_ended())
    }
}

//! All leases of a node: one for each length.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use estimand_api::task::TaskAssignment;
use tokio::sync::watch;

use super::file::LeaseFile;
use crate::LEASE_MARGIN;

/// The name of the file with the lease of slots, which others begin with.
const NAME: &str = "lease";
/// Two clocks may differ by one part in so many: this node's and the one of whoever waits for the end.
const CLOCKS_DIFFER: u32 = 1000;

/// How long tasks go on after the last heartbeat that was answered with a lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum LeaseLength {
    /// As long as slots.
    OfSlots,
    /// So many milliseconds, and not shorter than slots.
    Millis(u64),
}

#[derive(Debug)]
pub struct Leases {
    folder: PathBuf,
    state: Mutex<State>,
    /// The number of the slots' lease that holds, or did last; 0 before there was one.
    begun: watch::Sender<u64>,
}

#[derive(Debug)]
struct State {
    /// When the last heartbeat was sent that was answered with a lease, by [`boot_clock`], and the length of that; none
    /// before there was one.
    granted: Option<(u64, Duration)>,
    of_slots: Arc<LeaseFile>,
    others: BTreeMap<u64, Arc<LeaseFile>>,
}

impl LeaseLength {
    /// The length of the lease of an attempt, if it has a lease.
    pub fn of(assignment: &TaskAssignment) -> Option<LeaseLength> {
        assignment.leased.then(|| assignment.lease_ms.map_or(LeaseLength::OfSlots, LeaseLength::Millis))
    }

    /// The end of such a lease, after a heartbeat that was sent then and answered with this lease of slots.
    fn end(self, (sent, of_slots): (u64, Duration)) -> u64 {
        let length = match self {
            LeaseLength::OfSlots => of_slots,
            LeaseLength::Millis(millis) => of_slots.max(Duration::from_millis(millis)),
        };
        let usable = length.saturating_sub(LEASE_MARGIN.max(length / CLOCKS_DIFFER));
        sent.saturating_add(u64::try_from(usable.as_nanos()).unwrap_or(u64::MAX))
    }
}

impl Leases {
    /// Finds the leases of these lengths that a former agent had, and removes the files of others.
    pub fn open(folder: PathBuf, used: &BTreeSet<LeaseLength>) -> io::Result<Self> {
        let mut others = BTreeMap::new();
        for entry in fs::read_dir(&folder)? {
            let name = entry?.file_name();
            let millis =
                name.to_str().and_then(|name| name.strip_prefix(NAME)?.strip_prefix('-')?.parse().ok());
            let Some(millis) = millis else { continue };
            let path = folder.join(&name);
            if used.contains(&LeaseLength::Millis(millis)) {
                others.insert(millis, Arc::new(LeaseFile::open(path)));
            } else {
                fs::remove_file(path)?;
            }
        }
        let of_slots = Arc::new(LeaseFile::open(folder.join(NAME)));
        let state = Mutex::new(State { granted: None, of_slots, others });
        Ok(Leases { folder, state, begun: watch::Sender::new(0) })
    }

    /// The lease of a length, which has its file from now on.
    pub fn of(&self, length: LeaseLength) -> Arc<LeaseFile> {
        let mut state = self.lock();
        let LeaseLength::Millis(millis) = length else { return Arc::clone(&state.of_slots) };
        if let Some(known) = state.others.get(&millis) {
            return Arc::clone(known);
        }
        // It began with that of slots at the latest, since it is not shorter.
        let until = state.granted.map_or(0, |granted| length.end(granted));
        let path = self.folder.join(format!("{NAME}-{millis}"));
        let file = Arc::new(LeaseFile::new(path, state.of_slots.number(), until));
        state.others.insert(millis, Arc::clone(&file));
        file
    }

    /// A heartbeat that was sent then, by [`boot_clock`], was answered with this lease of slots.
    pub fn grant(&self, sent: u64, of_slots: Duration) {
        let mut state = self.lock();
        let granted = state.granted.insert((sent, of_slots)).to_owned();
        state.of_slots.extend(LeaseLength::OfSlots.end(granted));
        for (millis, file) in &state.others {
            file.extend(LeaseLength::Millis(*millis).end(granted));
        }
        if let Some(number) = state.of_slots.holds() {
            self.begun.send_if_modified(|known| std::mem::replace(known, number) != number);
        }
    }

    /// There is no lease any more.
    pub fn end(&self) {
        let mut state = self.lock();
        state.granted = None;
        state.of_slots.end();
        state.others.values().for_each(|file| file.end());
    }

    /// Writes the leases of these lengths for the keepers. Blocking.
    pub fn publish(&self, used: &BTreeSet<LeaseLength>) -> io::Result<()> {
        // A lease that cannot be written keeps no other one from it.
        used.iter().map(|length| self.of(*length).publish()).fold(Ok(()), Result::and)
    }

    /// Removes the files of lengths that nothing uses any more. Blocking.
    pub fn retain(&self, used: &BTreeSet<LeaseLength>) {
        self.lock().others.retain(|millis, file| {
            let is_used = used.contains(&LeaseLength::Millis(*millis));
            if !is_used && let Err(error) = fs::remove_file(file.path()) {
                tracing::debug!(%error, "the file of a lease cannot be removed");
            }
            is_used
        });
    }

    /// The number of the slots' lease, each time that another one begins.
    pub fn begun(&self) -> watch::Receiver<u64> {
        self.begun.subscribe()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

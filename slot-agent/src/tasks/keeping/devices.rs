//! The devices of an attempt that is about to start: chosen among those that no other one here holds, and written down
//! before a keeper hears of them.

use std::io;

use super::super::Attempt;
use super::Round;
use crate::devices::{DeviceGrant, DeviceUnits, GPU};

impl Round<'_> {
    /// The GPUs that an attempt gets now.
    pub(super) fn take_gpus(&self, attempt: &Attempt) -> io::Result<DeviceGrant> {
        let count = gpus_of(attempt);
        if count == 0 {
            return Ok(DeviceGrant::Ids(Vec::new()));
        }
        let mut units = DeviceUnits::new(&self.tasks.options.terms.gpus);
        for one in self.tasks.attempts() {
            self.count_held(&one, &mut units)?;
        }
        let taken = units.take(&attempt.folder.name(), count);
        if let DeviceGrant::Ids(ids) = &taken {
            attempt.folder.write_devices(GPU, ids)?;
        }
        Ok(taken)
    }

    /// Counts the devices that an attempt holds: until its end, after which nothing of it runs.
    fn count_held(&self, attempt: &Attempt, units: &mut DeviceUnits<'_>) -> io::Result<()> {
        // Work that this version cannot read may be of a later one, which wrote down what it gave.
        if attempt.work().is_some() && gpus_of(attempt) == 0 {
            return Ok(());
        }
        let folder = &attempt.folder;
        // Looked for before its end: its keeper may tell that meanwhile.
        let is_kept = folder.is_kept()?;
        let progress = attempt.progress()?;
        if progress.end.is_some() {
            return Ok(());
        }
        match folder.devices(GPU)? {
            Some(ids) => units.hold(&folder.name(), ids),
            None if is_kept || progress.begun => units.hold_first(&folder.name(), gpus_of(attempt)),
            None => {}
        }
        Ok(())
    }
}

fn gpus_of(attempt: &Attempt) -> usize {
    let count = attempt.work().and_then(|work| work.gpu).unwrap_or(0);
    usize::try_from(count).unwrap_or(usize::MAX)
}

/// The refusal of a task that needs more than there are.
pub(super) fn too_few(attempt: &Attempt, most: usize) -> String {
    format!(
        "it needs gpu:{}, and the agent on this node knows of {most}; `--device gpu=ID,…` of the agent lists all",
        gpus_of(attempt)
    )
}

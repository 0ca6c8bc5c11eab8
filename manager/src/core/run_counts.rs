//! How often each registration has run and failed on all nodes together, counted from the reports of agents.
//!
//! An agent counts from its start, so a report says by how much its counts have grown since the one before. The counts
//! here only grow while this manager leads; a new leader begins at 0 and counts nothing that its predecessor may have
//! counted.

use std::collections::BTreeMap;

use estimand_api::names::DataName;
use estimand_api::slot::Status;

/// The counts of one registration.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RunCount {
    pub runs: u64,
    pub failures: u64,
    pub timeouts: u64,
    pub quarantined: u64,
    pub superseded: u64,
}

#[derive(Debug, Default)]
pub struct RunCounts(BTreeMap<DataName, RunCount>);

impl RunCounts {
    /// Counts what a status says beyond the one before it.
    pub fn take(&mut self, before: Option<&Status>, status: &Status) {
        // Lower counts are those of another start of the agent, or of the slot.
        let before = before.filter(|before| before.runs <= status.runs);
        let grown = |count: fn(&Status) -> u64| count(status).saturating_sub(before.map_or(0, count));
        let of = self.0.entry(status.data_name.clone()).or_default();
        of.runs += grown(|status| status.runs);
        of.failures += grown(|status| status.failures);
        of.timeouts += grown(|status| status.timeouts);
        of.quarantined += grown(|status| status.quarantined);
        of.superseded += grown(|status| status.superseded);
    }

    pub fn of(&self, name: &DataName) -> RunCount {
        self.0.get(name).copied().unwrap_or_default()
    }

    pub fn forget(&mut self, name: &DataName) {
        self.0.remove(name);
    }
}

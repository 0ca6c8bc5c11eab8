//! Reports of agents on counted registrations that do not run well on their nodes.
//!
//! A report outlives the instance that it is about: else an instance that moved away from a node that cannot run it
//! could come back to it. It is forgotten when the registration changes, when the agent is started again, and when
//! the node is removed. It is not stored: a new leader hears it again where the instance is by then.

use std::collections::BTreeMap;

use estimand_api::names::{DataName, NodeName};
use estimand_api::problem::shorten;
use estimand_api::slot::{FAILING_AFTER, SlotActivity, Status};

use super::place::Suitability;

/// The nodes that are not suitable, by name.
#[derive(Debug, Default)]
pub(super) struct RunReports(BTreeMap<DataName, BTreeMap<NodeName, RunReport>>);

#[derive(Debug)]
struct RunReport {
    suitability: Suitability,
    /// Why it does not run well there, for people.
    reason: String,
    /// The node has nothing that it could measure, which is no trouble.
    absence: bool,
}

impl RunReports {
    pub fn suitability(&self, name: &DataName, node: &NodeName) -> Suitability {
        let reported = self.0.get(name).and_then(|nodes| nodes.get(node));
        reported.map_or(Suitability::Suitable, |report| report.suitability)
    }

    /// The nodes that cannot run a name, with their reasons.
    pub fn unsuitable(&self, name: &DataName) -> impl Iterator<Item = (&NodeName, &str)> {
        self.reports_of_unsuitable(name).map(|(node, report)| (node, report.reason.as_str()))
    }

    /// True if a node reported that it has nothing that a name could measure.
    pub fn is_absent(&self, name: &DataName, node: &NodeName) -> bool {
        self.reports_of_unsuitable(name).any(|(of, report)| of == node && report.absence)
    }

    fn reports_of_unsuitable(&self, name: &DataName) -> impl Iterator<Item = (&NodeName, &RunReport)> {
        let all = self.0.get(name).into_iter().flatten();
        all.filter(|(_, report)| report.suitability == Suitability::Unsuitable)
    }

    /// Takes the report that a status makes on the registered version; true if it is news.
    pub fn take(&mut self, node: &NodeName, status: &Status) -> bool {
        let name = &status.data_name;
        let Some(reported) = reported(status) else { return false };
        let before = self.suitability(name, node);
        if reported != Suitability::Suitable {
            let reason =
                status.last_error.as_deref().or(status.note.as_deref()).unwrap_or("no reason is known");
            let absence = status.doing == SlotActivity::Unavailable;
            let report = RunReport { suitability: reported, reason: shorten(reason), absence };
            self.0.entry(name.clone()).or_default().insert(node.clone(), report);
        } else if before != Suitability::Suitable {
            self.forget(name, node);
        }
        before != reported
    }

    pub fn forget_name(&mut self, name: &DataName) {
        self.0.remove(name);
    }

    pub fn forget_node(&mut self, node: &NodeName) {
        self.0.retain(|_, nodes| {
            nodes.remove(node);
            !nodes.is_empty()
        });
    }

    fn forget(&mut self, name: &DataName, node: &NodeName) {
        if let Some(nodes) = self.0.get_mut(name) {
            nodes.remove(node);
            if nodes.is_empty() {
                self.0.remove(name);
            }
        }
    }
}

/// None if the status says neither: it has not run yet, runs just now, or failed a few times only.
fn reported(status: &Status) -> Option<Suitability> {
    match status.doing {
        SlotActivity::Refused | SlotActivity::Unavailable => Some(Suitability::Unsuitable),
        _ if status.missing => Some(Suitability::Unsuitable),
        _ if status.failing >= FAILING_AFTER => Some(Suitability::Failing),
        SlotActivity::Idle if status.failing == 0 && status.runs > 0 => Some(Suitability::Suitable),
        // A stream runs for ever, and counts the values that it gave.
        SlotActivity::Running if status.failing == 0 && status.last_good.is_some() => {
            Some(Suitability::Suitable)
        }
        _ => None,
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_report_counts_until_a_good_run_or_something_else_is_asked_for() {
        let (name, node) = (DataName::parse("a").unwrap(), NodeName::parse("n").unwrap());
        let status = |doing, runs, failing| Status { doing, runs, failing, ..Status::new(name.clone(), 1) };
        let mut reports = RunReports::default();
        for (doing, runs, failing, expected, news) in [
            (SlotActivity::Pending, 0, 0, Suitability::Suitable, false),
            (SlotActivity::Idle, 2, 2, Suitability::Suitable, false),
            (SlotActivity::Idle, 3, FAILING_AFTER, Suitability::Failing, true),
            (SlotActivity::Refused, 3, 4, Suitability::Unsuitable, true),
            (SlotActivity::Refused, 3, 5, Suitability::Unsuitable, false),
            (SlotActivity::Running, 3, 5, Suitability::Failing, true),
            (SlotActivity::Running, 4, 0, Suitability::Failing, false),
            (SlotActivity::Idle, 4, 0, Suitability::Suitable, true),
            (SlotActivity::Unavailable, 4, 0, Suitability::Unsuitable, true),
        ] {
            assert_eq!(reports.take(&node, &status(doing, runs, failing)), news, "{doing:?} {failing}");
            assert_eq!(reports.suitability(&name, &node), expected, "{doing:?} {failing}");
        }
        reports.forget_node(&node);
        assert_eq!(reports.suitability(&name, &node), Suitability::Suitable);
        reports.take(&node, &status(SlotActivity::Refused, 0, 1));
        reports.forget_name(&name);
        assert!(reports.0.is_empty());
    }
}

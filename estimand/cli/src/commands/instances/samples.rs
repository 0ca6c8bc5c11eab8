//! Instances for the tests of whatever shows them.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::sync::LazyLock;

use chrono::{DateTime, TimeDelta, Utc};
use estimand_api::names::{DataName, NodeName};
use estimand_api::node::NodeState;
use estimand_api::slot::{Instance, NextVersion, SlotActivity, Status};

/// When it is.
pub static NOW: LazyLock<DateTime<Utc>> = LazyLock::new(|| "2026-01-31T12:00:05Z".parse().unwrap());

/// One that runs well.
pub fn instance(name: &str, node: &str) -> Instance {
    let status = Status {
        doing: SlotActivity::Idle,
        runs: 120,
        overruns: 1,
        last_start: Some(*NOW - TimeDelta::milliseconds(2_100)),
        last_duration_ms: Some(12.3),
        last_exit: Some("exit 0".to_owned()),
        last_good: Some(*NOW - TimeDelta::milliseconds(2_087)),
        ..Status::new(DataName::parse(name).unwrap(), 3)
    };
    Instance {
        node_name: NodeName::parse(node).unwrap(),
        node_state: NodeState::Ready,
        registered: Some(3),
        passed_over: BTreeMap::new(),
        status,
    }
}

/// Some of each kind.
pub fn instances() -> Vec<Instance> {
    let mut all = vec![instance("cpu", "node-1"), instance("cpu", "node-2")];
    let mut failing = instance("disk", "node-1");
    failing.status.doing = SlotActivity::Running;
    (failing.status.failures, failing.status.failing, failing.status.timeouts) = (40, 12, 4);
    failing.status.last_exit = Some("exit 1".to_owned());
    failing.status.last_error = Some("exit 1: df: /mnt/data: Transport endpoint is not connected".to_owned());
    failing.status.stderr_tail = "df: /mnt/data: Transport endpoint is not connected\n".to_owned();
    let mut refused = instance("disk", "node-2");
    refused.status = Status {
        doing: SlotActivity::Refused,
        last_error: Some("`./disk` does not lie in a folder that is allowed here".to_owned()),
        ..Status::new(refused.status.data_name, 3)
    };
    let mut lost = instance("disk", "node-3");
    lost.node_state = NodeState::Lost;
    let mut changing = instance("disk", "node-4");
    let error = Some("the output is no number".to_owned());
    changing.status.version = 2;
    changing.status.next = Some(NextVersion { version: 3, failures: 1, last_error: error });
    all.extend([failing, refused, lost, changing, instance("load", "node-2")]);
    all
}

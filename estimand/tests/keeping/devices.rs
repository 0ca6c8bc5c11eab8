//! Tasks with GPUs beside each other: each has its own, whatever dies meanwhile.

use std::collections::BTreeSet;

use estimand_testkit::docker;
use estimand_testkit::wait::{self, PATIENCE};
use serde_json::{Value, json};

use crate::containers::containers_of;
use crate::endings::with;
use crate::node::{Node, texts};

/// Says its devices, and waits until the test ends it.
const SAYS: &str = "echo \"$ESTIMAND_TASK_DEVICES ${CUDA_VISIBLE_DEVICES-unset}\"; \
                    while [ ! -e \"$0/end-$ESTIMAND_TASK_ID\" ]; do sleep 0.05; done";

fn task(id: &str, work: Value, gpus: u64) -> Value {
    let work = if gpus == 0 { work } else { with(work, &json!({"gpu": gpus})) };
    json!({"id": id, "attempt": 1, "work": work})
}

/// The one device that a task said.
fn device_of(node: &Node, id: &str) -> String {
    let heard = node.until(&format!("{id}.1"), "say its device", |heard| !heard.lines.is_empty());
    let line = texts(&heard).remove(0);
    let (devices, visible) = line.rsplit_once(' ').unwrap();
    assert_eq!(serde_json::from_str::<Value>(devices).unwrap(), json!({"gpu": [visible]}));
    visible.to_owned()
}

#[test]
fn tasks_with_a_gpu_have_different_ones_though_their_agent_is_killed() {
    let mut node = Node::with("devices", &["--device", "gpu=A,B,C"]);
    let mut assigned = Vec::new();
    let mut devices = BTreeSet::new();
    for round in 0..3 {
        let id = format!("g-{round}");
        assigned.push(task(&id, node.shell(SAYS), 1));
        node.services.assign(json!(assigned));
        // At another moment each time, from before it has a device to after it runs.
        let folder = node.tasks_folder().join(format!("{id}.1"));
        let step = ["accepted.json", "devices.json", "begun"][round];
        wait::until(PATIENCE, step, || folder.join(step).exists().then_some(()));
        node.agent.kill9();
        node.agent.restart_on_same_port();
        devices.insert(device_of(&node, &id));
    }
    assert_eq!(devices, ["A", "B", "C"].map(str::to_owned).into());
    // A task more than there are devices waits for the first to end, and has its device.
    let first = device_of(&node, "g-0");
    assigned.push(task("g-3", node.shell(SAYS), 1));
    assigned.push(task("none", node.shell(SAYS), 0));
    assigned.push(task("many", node.shell(SAYS), 4));
    node.services.assign(json!(assigned));
    node.until_said("none.1", " ");
    let heard = node.until("many.1", "end", |heard| heard.lines_at_end.is_some());
    let ending = heard.stages.last().unwrap()["ended"]["ending"]["notStarted"].to_string();
    assert!(ending.contains("gpu:4") && ending.contains("--device"), "{ending}");
    let heard = node.until("g-3.1", "be accepted", |heard| heard.stages.contains(&json!("accepted")));
    assert!(heard.lines.is_empty(), "{heard:?}");
    node.put("end-g-0");
    node.until_ended("g-0.1", json!({"exit": 0}));
    assert_eq!(device_of(&node, "g-3"), first);
    node.end();
}

#[test]
fn containers_with_a_gpu_have_different_ones() {
    let node = Node::with_engine("con-devices", docker::shared(), &["--device", "gpu=/dev/full,/dev/zero"]);
    let ids = ["con-g-0", "con-g-1"];
    let works = ids.map(|id| task(id, node.container(SAYS), 1));
    node.services.assign(json!(works));
    let devices = ids.map(|id| {
        let heard = node.until(&format!("{id}.1"), "say its device", |heard| !heard.lines.is_empty());
        let name = containers_of(docker::shared(), id).remove(0);
        let device = docker::shared().inspect(&name)["HostConfig"]["Devices"][0]["PathOnHost"].clone();
        assert_eq!(texts(&heard)[0], format!("{} unset", json!({"gpu": [device]})));
        device.as_str().unwrap().to_owned()
    });
    assert_eq!(BTreeSet::from(devices), ["/dev/full", "/dev/zero"].map(str::to_owned).into());
    node.end();
}

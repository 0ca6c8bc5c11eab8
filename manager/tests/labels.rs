//! Labels that operators set and that follow from values: kept over leaderships, and told to the data service.

#![allow(clippy::unwrap_used)]

mod support;

use estimand_testkit::wait;
use serde_json::{Value, json};
use support::{Agent, PATIENCE, Running, World, registration, sqlite};

fn wait_for_labels(manager: &Running, world: &World, expected: &Value) {
    let mut expected = expected.clone();
    expected["node"] = json!("n1");
    wait::until_ok(PATIENCE, "the labels of the node", || {
        let (known, told) = (manager.node("n1")["labels"].clone(), world.labels()["n1"].clone());
        if known == expected && told == expected { Ok(()) } else { Err(format!("{known} {told}")) }
    });
}

#[test]
fn labels_that_an_operator_sets_are_kept_over_leaderships_and_told_to_the_data_service() {
    let (world, (_folder, store)) = (World::start(), sqlite());
    world.register(&[registration("a", 1, &json!({ "nodes": "zone=a" }))]);
    let manager = Running::start(&store, &world);
    let agent = Agent::new(manager.serving.address, "n1");
    agent.beat(0);
    let set = json!({ "zone": "a" });
    manager.serving.http.send_json("PATCH", "/api/nodes/n1/labels", &set).expect_status(200);
    agent.wait_for(&["a"]);
    wait_for_labels(&manager, &world, &set);
    manager.stop();
    let manager = Running::start(&store, &world);
    // Before its agent is heard of.
    wait_for_labels(&manager, &world, &set);
    assert_eq!(manager.node("n1")["labelSources"], json!({ "node": "credential", "zone": "operator" }));
    Agent::new(manager.serving.address, "n1").wait_for(&["a"]);
    manager.stop();
}

#[test]
fn labels_follow_from_values_also_while_the_data_service_is_away() {
    let (world, (_folder, store)) = (World::start(), sqlite());
    world.register(&[registration("a", 1, &json!({ "nodes": "gpu,cores=8" }))]);
    let manager = Running::start(&store, &world);
    let agent = Agent::new(manager.serving.address, "n1");
    agent.beat(0);
    let values = |gpu: Value| {
        world.has_label_values(&[
            ("label:gpu", "n1", gpu),
            ("label:cores", "n1", json!(8)),
            ("label:no", "n1", json!({ "an": "object" })),
            ("label:off", "n1", json!(false)),
            ("label:gpu", "n2", json!(true)),
        ]);
    };
    values(json!(true));
    agent.wait_for(&["a"]);
    wait_for_labels(&manager, &world, &json!({ "gpu": "", "cores": "8" }));
    assert_eq!(manager.node("n1")["labelSources"]["gpu"], "value");
    // A new leadership has them before the data service answers.
    manager.stop();
    world.take_data_away(true);
    let manager = Running::start(&store, &world);
    Agent::new(manager.serving.address, "n1").wait_for(&["a"]);
    values(json!(false));
    world.take_data_away(false);
    wait_for_labels(&manager, &world, &json!({ "cores": "8" }));
    Agent::new(manager.serving.address, "n1").wait_for(&[]);
    manager.stop();
}

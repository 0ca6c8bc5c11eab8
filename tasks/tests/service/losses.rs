//! Nodes that are lost: a task is not started again before nothing of it can run there, and as its document says.

use serde_json::{Value, json};

use crate::support::{Running, World, node, sqlite, with};

fn lost(mut node: Value) -> Value {
    node["state"] = json!("lost");
    node
}

fn two() -> [Value; 2] {
    [node("n1", 1, &json!({ "first": "" })), node("n2", 1, &json!({}))]
}

#[test]
fn a_task_of_a_lost_node_goes_where_its_document_says() {
    let [first, second] = two();
    let (world, (_folder, store)) = (World::start(std::slice::from_ref(&first)), sqlite());
    let running = Running::start(&store, &world);
    let submit = |on_loss: &str| running.submit(&with(&json!({ "onLoss": on_loss })));
    let (restarts, fails, waits) = (submit("restart"), submit("fail"), submit("wait"));
    for id in [&restarts, &fails, &waits] {
        running.wait_for(id, "PLACED");
        running.report(id, 1, &json!("running"));
    }
    assert_eq!(world.assignment("n1", &waits).get("leased"), None, "it runs on without a lease");

    world.set_nodes(&[lost(first.clone()), second.clone()]);
    assert_eq!(running.wait_for(&fails, "FAILED")["ending"], "nodeLost");
    world.wait_told("n2", &[(&restarts, 2, false)]);
    let waiting = running.wait_for(&waits, "LOST");
    assert!(waiting["waits"].as_str().unwrap().contains("`n1`"), "{waiting}");
    // Its node is back, and has heard of nothing.
    world.set_nodes(&[first, second]);
    running.wait_for(&waits, "RUNNING");
    world.wait_told("n1", &[(&waits, 1, false)]);
    // The end of the first attempt is late.
    running.ends(&restarts, 1, &json!({ "exit": 0 }));
    assert_eq!(running.task(&restarts)["state"], "PLACED");
    running.ends(&restarts, 2, &json!({ "exit": 0 }));
    running.wait_for(&restarts, "SUCCEEDED");
    running.ends(&waits, 1, &json!({ "exit": 0 }));
    running.wait_for(&waits, "SUCCEEDED");
    running.stop();
}

#[test]
fn a_node_that_is_away_gets_nothing_and_keeps_what_it_has() {
    let [first, second] = two();
    let (world, (_folder, store)) = (World::start(&[first.clone(), second.clone()]), sqlite());
    let running = Running::start(&store, &world);
    let asks = |more: &Value| {
        let mut document = with(&json!({ "resources": { "cpu": 1 }, "nodes": "first", "onLoss": "wait" }));
        document.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        document
    };
    let stays = running.submit(&asks(&json!({})));
    running.wait_for(&stays, "PLACED");
    world.set_nodes(&[lost(first.clone()), second.clone()]);
    running.wait_for(&stays, "LOST");
    let later = running.submit(&asks(&json!({})));
    let capacity = running.get("/api/capacity").expect_status(200).json();
    assert_eq!((&capacity[0]["node"], &capacity[0]["standing"]), (&json!("n1"), &json!("lost")));
    // Back, it is as full as it was: what waits for it goes on waiting.
    world.set_nodes(&[first.clone(), second]);
    running.wait_for(&stays, "PLACED");
    let capacity = running.get("/api/capacity").expect_status(200).json();
    assert_eq!(capacity[0]["free"]["cpu"], 0, "{capacity}");
    assert_eq!(running.task(&later)["state"], "QUEUED");
    running.ends(&stays, 1, &json!({ "exit": 0 }));
    running.wait_for(&later, "PLACED");
    running.stop();
}

#[test]
fn a_task_without_a_lease_that_is_cancelled_meanwhile_ends_when_its_node_is_back() {
    let [first, _] = two();
    let (world, (_folder, store)) = (World::start(std::slice::from_ref(&first)), sqlite());
    let running = Running::start(&store, &world);
    let id = running.submit(&with(&json!({ "onLoss": "wait" })));
    running.wait_for(&id, "PLACED");
    world.set_nodes(&[lost(first.clone())]);
    running.wait_for(&id, "LOST");
    running.cancel(&id);
    world.set_nodes(std::slice::from_ref(&first));
    world.wait_told("n1", &[(&id, 1, true)]);
    running.ends(&id, 1, &json!("cancelled"));
    running.wait_for(&id, "CANCELLED");
    running.stop();
}

/// The manager forgets what it was told of a node that is lost, also if nobody else saw that.
#[test]
fn a_node_is_told_anew_when_it_is_back_and_not_while_it_is_lost() {
    let [first, second] = two();
    let (world, (_folder, store)) = (World::start(&[first.clone(), second.clone()]), sqlite());
    let running = Running::start(&store, &world);
    let submit = |nodes: &str| running.submit(&with(&json!({ "onLoss": "wait", "nodes": nodes })));
    let id = submit("first");
    world.wait_told("n1", &[(&id, 1, false)]);
    world.forget("n1");
    world.wait_told("n1", &[(&id, 1, false)]);

    world.set_nodes(&[lost(first.clone()), second.clone()]);
    running.wait_for(&id, "LOST");
    world.forget("n1");
    running.cancel(&id);
    let other = submit("!first");
    world.wait_told("n2", &[(&other, 1, false)]);
    assert_eq!(world.told("n1"), None);
    world.set_nodes(&[first, second]);
    world.wait_told("n1", &[(&id, 1, true)]);
    running.stop();
}

//! Nodes that are lost: a task is not started again before nothing of it can run there, and as its document says.

use std::time::Duration;

use serde_json::{Value, json};

use crate::support::{Running, World, node, sqlite, with};

on_each_engine!(
    a_task_of_a_lost_node_goes_where_its_document_says,
    a_node_that_is_away_gets_nothing_and_keeps_what_it_has,
    a_task_without_a_lease_that_is_cancelled_meanwhile_ends_when_its_node_is_back,
    a_node_is_told_anew_when_it_is_back_and_not_while_it_is_lost,
    a_task_on_a_silent_node_stays_there_until_its_own_lease_is_over,
    a_loss_that_is_known_is_not_waited_for,
    another_agent_of_a_node_is_not_given_the_tasks_of_the_former,
);

/// Longer than any test.
const LONG: Duration = Duration::from_secs(3600);

fn lost(mut node: Value) -> Value {
    node["state"] = json!("lost");
    node
}

fn two() -> [Value; 2] {
    [node("n1", 1, &json!({ "first": "" })), node("n2", 1, &json!({}))]
}

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

fn of_agent(mut node: Value, agent: &str) -> Value {
    node["agent"] = json!(agent);
    node
}

fn a_task_on_a_silent_node_stays_there_until_its_own_lease_is_over() {
    let [first, second] = two();
    let (world, (_folder, store)) = (World::start(std::slice::from_ref(&first)), sqlite());
    let running = Running::start_leasing(&store, &world, LONG);
    let stays = running.submit(&with(&json!({})));
    let moves = running.submit(&with(&json!({ "lease": "1.5s" })));
    for id in [&stays, &moves] {
        running.wait_for(id, "PLACED");
        running.report(id, 1, &json!("running"));
    }
    let lease = |id: &str| world.assignment("n1", id)["leaseMs"].clone();
    assert_eq!((lease(&stays), lease(&moves)), (json!(3_600_000), json!(1_500)));

    world.set_nodes(&[lost(first.clone()), second.clone()]);
    world.wait_told("n2", &[(&moves, 2, false)]);
    let waiting = running.wait_for(&stays, "LOST");
    let waits = waiting["waits"].as_str().unwrap();
    assert!(waits.contains("`n1`") && waits.contains("it may run there until 20"), "{waits}");
    // Another start of the service knows no more than that it is lost.
    running.stop();
    let running = Running::start_leasing(&store, &world, LONG);
    let again = running.submit(&with(&json!({})));
    running.wait_for(&again, "PLACED");
    assert_eq!(running.task(&stays)["state"], "LOST");
    world.set_nodes(&[first, second]);
    running.wait_for(&stays, "RUNNING");
    assert_eq!(running.task(&stays)["attempt"], 1);
    running.stop();
}

fn a_loss_that_is_known_is_not_waited_for() {
    let [first, second] = two().map(|node| of_agent(node, "a"));
    let (world, (_folder, store)) = (World::start(std::slice::from_ref(&first)), sqlite());
    let running = Running::start_leasing(&store, &world, LONG);
    let told = running.submit(&with(&json!({})));
    let unknown = running.submit(&with(&json!({})));
    for id in [&told, &unknown] {
        running.wait_for(id, "PLACED");
    }
    // Its agent says so, although nobody hears of the node now.
    running.report(&told, 1, &json!("running"));
    world.set_nodes(&[lost(first.clone())]);
    running.wait_for(&told, "LOST");
    running.ends(&told, 1, &json!("nodeLost"));
    running.wait_for(&told, "QUEUED");
    // An agent that leaves has nothing, so it never had the other one.
    let mut left = lost(first);
    left["left"] = json!(true);
    world.set_nodes(&[left, second]);
    for id in [&told, &unknown] {
        assert_eq!(running.wait_for(id, "PLACED")["node"], "n2");
    }
    running.stop();
}

/// The former one may run on where it is, while nobody hears of it.
fn another_agent_of_a_node_is_not_given_the_tasks_of_the_former() {
    let [first, _] = two();
    let former = of_agent(first.clone(), "former");
    let later = of_agent(first, "later");
    let (world, (_folder, store)) = (World::start(&[former]), sqlite());
    let running = Running::start_leasing(&store, &world, LONG);
    let stays = running.submit(&with(&json!({})));
    let moves = running.submit(&with(&json!({ "lease": "1s" })));
    for id in [&stays, &moves] {
        running.wait_for(id, "PLACED");
    }
    let waits = running.submit(&with(&json!({ "onLoss": "wait" })));
    running.wait_for(&waits, "PLACED");
    world.set_nodes(&[later]);
    world.forget("n1");
    world.wait_told("n1", &[(&moves, 2, false)]);
    for id in [&stays, &waits] {
        assert_eq!(running.wait_for(id, "LOST")["attempt"], 1);
    }
    // Nobody else can end it.
    running.cancel(&waits);
    world.wait_told("n1", &[(&moves, 2, false), (&waits, 1, true)]);
    running.ends(&waits, 1, &json!("cancelled"));
    running.wait_for(&waits, "CANCELLED");
    running.stop();
}

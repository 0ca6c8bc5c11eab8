//! The reason why a task waits, in lists as in single tasks.

use estimand_testkit::wait;
use serde_json::{Value, json};

use crate::support::{PATIENCE, Running, World, node, sqlite, with};

on_each_engine!(
    a_task_that_was_just_submitted_is_about_to_be_placed,
    a_list_has_the_reasons_that_single_tasks_have,
    a_pause_is_the_reason_only_while_it_lasts,
    a_user_who_has_most_places_waits_for_their_own_and_is_told_so,
);

fn waits(task: &Value) -> &str {
    task["waits"].as_str().unwrap_or_default()
}

fn a_task_that_was_just_submitted_is_about_to_be_placed() {
    let (world, (_folder, store)) = (World::start(&[node("n1", 4, &json!({}))]), sqlite());
    let running = Running::start(&store, &world);
    wait::until(PATIENCE, "the node to be known", || {
        (running.get("/api/capacity").status == 200).then_some(())
    });
    let asks = with(&json!({ "resources": { "cpu": 1 } }));
    let answer = running.post("/api/tasks", &asks).expect_status(201).json();
    assert_eq!(waits(&answer), "it is about to be placed", "{answer}");
    running.stop();
}

fn a_list_has_the_reasons_that_single_tasks_have() {
    let (world, (_folder, store)) = (World::start(&[node("n1", 2, &json!({}))]), sqlite());
    let running = Running::start(&store, &world);
    let submit = |id: &str, more: &Value| {
        let mut document = with(more);
        document["id"] = json!(id);
        running.submit(&document)
    };
    submit("first", &json!({ "resources": { "cpu": 2 } }));
    running.wait_for("first", "PLACED");
    for id in ["second", "third"] {
        submit(id, &json!({ "resources": { "cpu": 1.5 } }));
    }
    submit("never", &json!({ "resources": { "gpu": 1 } }));
    submit("later", &json!({ "after": ["second"] }));
    let full = "no node has room now: it needs cpu:1.5, and none is free";
    let behind = format!("{full}; `second` is in front of it");
    wait::until_ok(PATIENCE, "the queue to be looked at", || {
        let task = running.task("third");
        if waits(&task) == behind { Ok(()) } else { Err(task) }
    });
    let page = running.get("/api/tasks").expect_status(200).json();
    let reasons: Vec<&str> = page["tasks"].as_array().unwrap().iter().map(waits).collect();
    let never = "it fits on no node: it needs gpu:1; the most any node has is 0";
    assert_eq!(reasons, ["it comes after `second`, which is not over", never, &behind, full, ""]);
    for task in page["tasks"].as_array().unwrap() {
        assert_eq!(waits(task), waits(&running.task(task["id"].as_str().unwrap())), "{task}");
    }
    running.stop();
}

fn a_user_who_has_most_places_waits_for_their_own_and_is_told_so() {
    let (world, (_folder, store)) = (World::start(&[node("n1", 4, &json!({ "tasks": "4" }))]), sqlite());
    let running = Running::start(&store, &world);
    running.submit(&with(&json!({ "id": "eves", "user": "eve", "count": 5 })));
    (0..3).for_each(|index| drop(running.wait_for(&format!("eves.{index}"), "PLACED")));
    running.crash();
    let running = Running::start(&store, &world);
    let check_waits = |id: &str, has: u32| {
        let kept = "node `n1` has room, but its last place for tasks is kept for users who have none";
        let said = format!("{kept}; `eve` has {has} of all 4");
        wait::until_ok(PATIENCE, "the reason to be told", || {
            let task = running.task(id);
            if waits(&task) == said { Ok(()) } else { Err(task) }
        });
    };
    check_waits("eves.3", 3);
    running.submit(&with(&json!({ "id": "bobs", "user": "bob" })));
    running.wait_for("bobs", "PLACED");
    running.ends("eves.0", 1, &json!({ "exit": 0 }));
    // All places were taken: the one that is free again is the last one.
    check_waits("eves.3", 2);
    running.ends("bobs", 1, &json!({ "exit": 0 }));
    running.wait_for("eves.3", "PLACED");
    check_waits("eves.4", 3);
    running.stop();
}

fn a_pause_is_the_reason_only_while_it_lasts() {
    let (world, (_folder, store)) = (World::start(&[node("n1", 1, &json!({}))]), sqlite());
    let running = Running::start(&store, &world);
    let fails = |back_off: &str| {
        let retries = json!({ "count": 1, "backOff": back_off });
        let id = running.submit(&with(&json!({ "resources": { "cpu": 1 }, "retries": retries })));
        running.wait_for(&id, "PLACED");
        running.ends(&id, 1, &json!({ "exit": 7 }));
        id
    };
    let long = fails("1h");
    let said = running.task(&long);
    assert!(waits(&said).starts_with("it is tried again after a pause, at 2"), "{said}");
    // Another task has the node when the pause of the second one is over.
    let taker = with(&json!({ "resources": { "cpu": 1 }, "priority": 1000 }));
    let short = running
        .submit(&with(&json!({ "resources": { "cpu": 1 }, "retries": { "count": 1, "backOff": "50ms" } })));
    running.wait_for(&short, "PLACED");
    running.submit(&taker);
    running.ends(&short, 1, &json!({ "exit": 7 }));
    let full = "no node has room now: it needs cpu:1, and none is free";
    wait::until_ok(PATIENCE, "the pause to be over", || {
        let task = running.task(&short);
        if waits(&task) == full { Ok(()) } else { Err(task) }
    });
    running.stop();
}

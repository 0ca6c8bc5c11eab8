//! Tasks that come after others: placed when those are over as they should be, and ended at once when they are not.

use serde_json::{Value, json};

use crate::support::{Running, World, node, refused, sqlite, with};

on_each_engine!(
    a_task_runs_after_those_that_it_names,
    what_can_never_run_ends_at_once_along_the_chain,
    after_an_array_is_after_all_of_it,
    nothing_comes_after_itself_or_what_is_not_there,
);

fn after(id: &str, others: &Value) -> Value {
    with(&json!({ "id": id, "after": others }))
}

fn is_cancelled_by(running: &Running, id: &str, by: &str) {
    let task = running.task(id);
    assert_eq!(
        (&task["state"], &task["ending"]),
        (&json!("CANCELLED"), &json!({ "dependency": by })),
        "{task}"
    );
    assert!(task["endedAt"].is_string());
}

fn a_task_runs_after_those_that_it_names() {
    let (world, (_folder, store)) = (World::start(&[node("n1", 8, &json!({}))]), sqlite());
    let running = Running::start(&store, &world);
    running.submit(&with(&json!({ "id": "a" })));
    running.submit(&with(&json!({ "id": "b" })));
    running.submit(&after("c", &json!(["a", { "id": "b", "on": "end" }])));
    running.submit(&after("d", &json!("c")));
    world.wait_told("n1", &[("a", 1, false), ("b", 1, false)]);
    let waiting = running.task("c");
    assert_eq!((&waiting["state"], &waiting["awaits"]), (&json!("QUEUED"), &json!(["a", "b"])));
    assert_eq!(waiting["waits"], "it comes after `a`, `b`, which are not over");
    running.ends("b", 1, &json!({ "exit": 9 }));
    assert_eq!(running.task("c")["waits"], "it comes after `a`, which is not over");
    // It is remembered, whatever becomes of that task, and of the service.
    running.serving.http.request("DELETE", "/api/tasks/b", &[], b"").expect_status(204);
    running.crash();
    let running = Running::start(&store, &world);
    assert_eq!(running.task("c")["awaits"], json!(["a"]));
    running.ends("a", 1, &json!({ "exit": 0 }));
    world.wait_told("n1", &[("c", 1, false)]);
    let causes: Vec<Value> = running.task("c")["transitions"]
        .as_array()
        .unwrap()
        .iter()
        .map(|transition| json!([transition["cause"]["event"], transition["cause"]["task"]]))
        .collect();
    assert_eq!(causes, [json!(["dependency", "b"]), json!(["dependency", "a"]), json!(["place", null])]);
    running.ends("c", 1, &json!({ "exit": 0 }));
    world.wait_told("n1", &[("d", 1, false)]);
    running.stop();
}

fn what_can_never_run_ends_at_once_along_the_chain() {
    let (world, (_folder, store)) = (World::start(&[node("n1", 8, &json!({}))]), sqlite());
    let running = Running::start(&store, &world);
    running.submit(&with(&json!({ "id": "a", "retries": { "count": 1, "backOff": "10ms" } })));
    running.submit(&after("b", &json!("a")));
    running.submit(&after("c", &json!("b")));
    running.submit(&after("end", &json!({ "id": "c", "on": "end" })));
    world.wait_told("n1", &[("a", 1, false)]);
    running.ends("a", 1, &json!({ "exit": 1 }));
    world.wait_told("n1", &[("a", 2, false)]);
    assert_eq!(running.task("b")["state"], "QUEUED", "a retry is left");
    running.ends("a", 2, &json!({ "exit": 1 }));
    is_cancelled_by(&running, "b", "a");
    is_cancelled_by(&running, "c", "b");
    world.wait_told("n1", &[("end", 1, false)]);
    assert_eq!(running.figure("estimand_tasks_ended_total{ending=\"dependency\"}"), Some(2.0));
    // The same when it is submitted too late for that, or the other is cancelled.
    running.submit(&after("late", &json!("a")));
    is_cancelled_by(&running, "late", "a");
    running.submit(&with(&json!({ "id": "large", "resources": { "cpu": 99 } })));
    running.submit(&after("follower", &json!("large")));
    running.cancel("large");
    is_cancelled_by(&running, "follower", "large");
    running.stop();
}

fn after_an_array_is_after_all_of_it() {
    let (world, (_folder, store)) = (World::start(&[node("n1", 8, &json!({}))]), sqlite());
    let running = Running::start(&store, &world);
    for id in ["good", "bad"] {
        running.submit(&with(&json!({ "id": id, "count": 2 })));
        running.submit(&after(&format!("{id}-sum"), &json!(id)));
        running.submit(&after(&format!("{id}-end"), &json!({ "id": id, "on": "end" })));
        running.wait_for(&format!("{id}.1"), "PLACED");
    }
    running.ends("good.1", 1, &json!({ "exit": 0 }));
    running.ends("bad.1", 1, &json!({ "exit": 1 }));
    is_cancelled_by(&running, "bad-sum", "bad.1");
    for id in ["good-sum", "good-end", "bad-end"] {
        assert_eq!(running.task(id)["state"], "QUEUED", "{id}");
    }
    running.ends("good.0", 1, &json!({ "exit": 0 }));
    running.ends("bad.0", 1, &json!({ "exit": 0 }));
    for id in ["good-sum", "good-end", "bad-end"] {
        running.wait_for(id, "PLACED");
    }
    // An array that comes after another one.
    running.submit(&with(&json!({ "id": "next", "count": 2, "after": ["good", "bad"] })));
    is_cancelled_by(&running, "next.1", "bad.1");
    running
        .submit(&with(&json!({ "id": "then", "count": 2, "after": ["good", { "id": "bad", "on": "end" }] })));
    running.wait_for("then.1", "PLACED");
    running.stop();
}

fn nothing_comes_after_itself_or_what_is_not_there() {
    let (world, (_folder, store)) = (World::start(&[]), sqlite());
    let running = Running::start(&store, &world);
    let gone = running.submit(&with(&json!({})));
    running.cancel(&gone);
    running.serving.http.request("DELETE", &format!("/api/tasks/{gone}"), &[], b"").expect_status(204);
    for id in ["nobody", &gone] {
        let said = refused(running.post("/api/tasks", &after("x", &json!([id]))), 409);
        assert_eq!(
            said,
            format!("there is no task or array `{id}` to come after: it was deleted, or never submitted")
        );
    }
    for (wrong, part) in [
        (json!("x"), "no task comes after itself"),
        (json!([{ "id": "a", "on": "failure" }]), "neither success nor end"),
        (json!([{ "on": "end" }]), "after.id"),
        (json!(["a", { "id": "a", "on": "end" }]), "twice"),
        (json!([7]), "after"),
    ] {
        let answer = running.post("/api/tasks", &after("x", &wrong)).expect_status(400);
        assert!(answer.text().contains(part), "{answer}");
    }
    running.stop();
}

//! Tasks: from a submission by way of the manager to an agent and back, on every store; and who may say what.

use estimand_testkit::http::Response;
use estimand_testkit::wait::{self, PATIENCE};
use serde_json::{Value, json};

use crate::access::token_with;
use crate::answers::{problem, unknown_input, wrong_field};
use crate::fake::Fake;
use crate::target::Target;

on_every_target!(
    a_task_goes_to_an_agent_and_its_log_comes_back,
    what_happens_to_a_task_is_in_the_feed,
    a_task_that_may_run_elsewhere_is_leased,
    an_agent_speaks_for_its_node_only,
    a_submission_is_one_task_however_often_it_is_sent,
    wrong_documents_are_refused_with_every_error,
    wrong_questions_about_tasks_are_refused,
);

/// A task for the node of this agent alone, which waits for it should the agent be slow to be heard of.
pub fn document(fake: &Fake<'_>) -> Value {
    json!({ "command": ["/bin/true"], "nodes": format!("fake={}", fake.node), "onLoss": "wait" })
}

pub fn submit(target: &Target, document: &Value) -> Value {
    target.tasks.send_json("POST", "/api/tasks", document).expect_status(201).json()
}

pub fn task(target: &Target, id: &str) -> Value {
    target.tasks.get(&format!("/api/tasks/{id}")).expect_status(200).json()
}

fn report(id: &str, stage: &Value) -> Value {
    json!({ "reports": [{ "id": id, "attempt": 1, "at": 1, "stage": stage }] })
}

pub fn tell(target: &Target, news: &Value) -> Response {
    target.tasks.send_json("POST", "/api/tasks/news", news)
}

/// Does as an agent does until a task is among those of its node, and returns the assignment.
pub fn assigned(fake: &Fake<'_>, id: &str) -> Value {
    wait::until(PATIENCE, "the task to be assigned", || {
        fake.beat().expect_status(200);
        let desired = fake.ask("&revision=0");
        let tasks = (desired.status == 200).then(|| desired.json())?["tasks"].clone();
        tasks.as_array()?.iter().find(|task| task["id"] == id).cloned()
    })
}

fn a_task_goes_to_an_agent_and_its_log_comes_back(target: &Target) {
    let fake = Fake::known(target);
    let mut asked = document(&fake);
    asked["environment"] = json!({ "PASSWORD": "hidden" });
    asked["secrets"] = json!(["PASSWORD"]);
    asked["resources"] = json!({ "cpu": 1.5 });
    let id = submit(target, &asked)["id"].as_str().unwrap().to_owned();
    let assignment = assigned(&fake, &id);
    assert_eq!((&assignment["attempt"], &assignment["leased"]), (&json!(1), &Value::Null));
    assert_eq!(assignment["work"]["environment"]["PASSWORD"], "hidden");
    assert_eq!(task(target, &id)["document"]["environment"]["PASSWORD"], "");
    let capacity = target.tasks.get("/api/capacity").expect_status(200).json();
    let own = capacity.as_array().unwrap().iter().find(|node| node["node"] == fake.node.as_str()).unwrap();
    assert_eq!((&own["capacity"]["cpu"], &own["free"]["cpu"]), (&json!(4000), &json!(2500)), "{own}");

    let line = |text: &str| json!({ "at": 1_000_000, "stream": "STDOUT", "text": text });
    let log = json!({ "id": id, "attempt": 1, "first": 0, "lines": [line("grüße \u{1F980}"), line("")] });
    tell(target, &json!({ "logs": [log], "reports": [] })).expect_status(200);
    fake.beat().expect_status(200);
    tell(target, &report(&id, &json!("running"))).expect_status(200);
    assert_eq!(task(target, &id)["state"], "RUNNING");
    let page = target.tasks.get(&format!("/api/tasks/{id}/logs")).expect_status(200).json();
    let first = json!({ "line": 0, "attempt": 1, "at": "1970-01-01T00:00:01.000000Z", "stream": "STDOUT",
        "text": "grüße \u{1F980}" });
    assert_eq!((&page["lines"][0], &page["next"], &page["over"]), (&first, &json!(2), &json!(false)));
    tell(target, &report(&id, &json!({ "ended": { "ending": { "exit": 3 } } }))).expect_status(200);
    let over = target.tasks.get(&format!("/api/tasks/{id}?waitMs=30000")).expect_status(200).json();
    assert_eq!((&over["state"], &over["ending"]), (&json!("FAILED"), &json!({ "exit": 3 })));
    target.tasks.request("DELETE", &format!("/api/tasks/{id}"), &[], b"").expect_status(204);
    problem(&target.tasks.get(&format!("/api/tasks/{id}")), 404);
}

fn what_happens_to_a_task_is_in_the_feed(target: &Target) {
    let (fake, id) = (Fake::new(target), target.name("told"));
    let mut asked = document(&fake);
    asked["id"] = json!(id);
    asked["labels"] = json!({ "of": id });
    let list = target.tasks.get("/api/tasks?limit=1").expect_status(200);
    let begin = list.header("estimand-revision").unwrap().to_owned();
    let mut watch =
        target.tasks.sse(&format!("/api/tasks/watch?labels=of%3D{id}"), &[("Last-Event-ID", &begin)]);
    submit(target, &asked);
    target.tasks.request("POST", &format!("/api/tasks/{id}/cancel"), &[], b"").expect_status(200);
    target.tasks.request("DELETE", &format!("/api/tasks/{id}"), &[], b"").expect_status(204);
    let page =
        target.tasks.get(&format!("/api/tasks/events?after={begin}&id={id}")).expect_status(200).json();
    let told: Vec<&Value> = page["events"].as_array().unwrap().iter().map(|event| &event["to"]).collect();
    assert_eq!(told, ["QUEUED", "CANCELLED", "DELETED"]);
    for event in page["events"].as_array().unwrap() {
        let watched = wait::until(PATIENCE, "a change", || {
            let event = watch.next_event(PATIENCE);
            (event.event == "change").then(|| event.json())
        });
        assert_eq!(watched, *event);
    }
    assert!(page["next"].as_u64() <= page["revision"].as_u64(), "{page}");
}

fn a_task_that_may_run_elsewhere_is_leased(target: &Target) {
    let fake = Fake::known(target);
    let mut asked = document(&fake);
    asked["onLoss"] = json!("restart");
    let assigned = |asked: &Value| assigned(&fake, submit(target, asked)["id"].as_str().unwrap());
    let by_default = assigned(&asked);
    assert_eq!((&by_default["leased"], &by_default["leaseMs"]), (&json!(true), &json!(600_000)));
    asked["lease"] = json!("2h");
    assert_eq!(assigned(&asked)["leaseMs"], 7_200_000);
}

fn an_agent_speaks_for_its_node_only(target: &Target) {
    let (fake, stranger) = (Fake::known(target), target.name("stranger"));
    let id = submit(target, &document(&fake))["id"].as_str().unwrap().to_owned();
    assigned(&fake, &id);
    let news = report(&id, &json!({ "ended": { "ending": { "exit": 0 } } })).to_string();
    let tell = |node: &str| {
        let token = token_with(target, &json!({ "role": "node", "node": node }));
        let shown = format!("Bearer {token}");
        let headers = [("Authorization", shown.as_str()), ("Content-Type", "application/json")];
        target.tasks.request("POST", "/api/tasks/news", &headers, news.as_bytes()).expect_status(200);
    };
    tell(&stranger);
    assert_eq!(
        task(target, &id)["ending"],
        Value::Null,
        "what another node's agent says of it is passed over"
    );
    tell(&fake.node);
    assert_eq!(task(target, &id)["state"], "SUCCEEDED");
}

fn a_submission_is_one_task_however_often_it_is_sent(target: &Target) {
    let (fake, key) = (Fake::new(target), target.name("key"));
    let send = |document: &Value| {
        let headers = [("Idempotency-Key", key.as_str()), ("Content-Type", "application/json")];
        target.tasks.request("POST", "/api/tasks", &headers, document.to_string().as_bytes())
    };
    // Of a service that has just started; before that no task fits or does not.
    wait::until(PATIENCE, "the nodes to be known", || {
        (target.tasks.get("/api/capacity").status == 200).then_some(())
    });
    let first = send(&document(&fake)).expect_status(201).json();
    assert!(first["waits"].as_str().unwrap().contains("fits on no node"), "{first}");
    assert_eq!(send(&document(&fake)).expect_status(200).json()["id"], first["id"]);
    problem(&send(&json!({ "command": "other" })), 409);
    let id = first["id"].as_str().unwrap();
    let cancelled = target.tasks.request("POST", &format!("/api/tasks/{id}/cancel"), &[], b"");
    assert_eq!(cancelled.expect_status(200).json()["state"], "CANCELLED");
}

fn wrong_documents_are_refused_with_every_error(target: &Target) {
    let send = |document: &Value| target.tasks.send_json("POST", "/api/tasks", document);
    unknown_input(&send(&json!({ "command": "x", "comand": "y" })), "comand", "command");
    let several = send(&json!({ "priority": "high", "nodes": "=", "environment": { "ESTIMAND_X": "1" } }));
    for field in ["priority", "nodes", "environment", "command"] {
        wrong_field(&several, field);
    }
    let large = send(&json!({ "command": "x", "labels": { "a": "b".repeat(300_000) } }));
    problem(&large, 413);
}

fn wrong_questions_about_tasks_are_refused(target: &Target) {
    for (path, field) in [
        ("/api/tasks?state=happy", "state"),
        ("/api/tasks?limit=x", "limit"),
        ("/api/tasks?labels=%3D", "labels"),
        ("/api/tasks/any?waitMs=soon", "waitMs"),
        ("/api/tasks/events?after=now", "after"),
        ("/api/tasks/events?state=happy", "state"),
        ("/api/tasks/watch?labels=%3D", "labels"),
        ("/api/tasks/any/logs?stream=other", "stream"),
        ("/api/tasks/any/logs?from=-1", "from"),
    ] {
        wrong_field(&target.tasks.get(path), field);
    }
    unknown_input(&target.tasks.get("/api/tasks?node=n"), "node", "state");
    problem(&target.tasks.get("/api/tasks/nobody"), 404);
    problem(&target.tasks.get("/api/tasks/events?after=999999999999"), 410);
    problem(&target.tasks.get("/api/tasks/watch?after=999999999999"), 410);
    problem(&target.tasks.get("/api/tasks/nobody/logs"), 404);
    for how in ["cancel", "yield"] {
        let path = format!("/api/tasks/nobody/{how}");
        problem(&target.tasks.request("POST", &path, &[], b""), 404);
        wrong_field(&target.tasks.send_json("POST", &path, &json!({ "grace": "2d" })), "grace");
    }
    problem(&target.tasks.request("DELETE", "/api/tasks/nobody", &[], b""), 404);
    let tasks = |body: &Value| target.manager.send_json("PUT", "/api/mng/nodes/nobody/tasks", body);
    wrong_field(&tasks(&json!({ "tasks": {} })), "tasks");
    problem(&tasks(&json!({ "tasks": [] })), 404);
}

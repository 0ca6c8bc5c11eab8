//! The manager's own paths: the paper's two, what runs where, and runs by hand.

use std::thread;

use estimand_testkit::http::Response;
use estimand_testkit::wait::{self, PATIENCE};
use serde_json::{Value, json};

use crate::answers::{column, fields_of, problem, unknown_input, wrong_field, wrong_input};
use crate::fake::Fake;
use crate::target::Target;

on_every_target!(
    the_papers_manager_is_told_of_registrations,
    a_deletion_waits_for_those_who_can_confirm,
    unconfirmed_nodes_are_named,
    placement_follows_the_registry_not_the_request,
    a_wrong_registration_is_refused,
    names_given_to_the_manager_are_checked,
    instances_are_found_by_name_and_node,
    wrong_filters_are_refused,
    a_run_by_hand_is_what_the_agent_reports,
    an_agent_may_refuse_a_run,
    a_run_that_cannot_be_is_explained,
    a_trial_is_what_the_agent_reports,
    a_trial_that_cannot_be_is_explained,
);

fn delete(target: &Target, name: &str) -> Response {
    target.manager.request("DELETE", &format!("/api/mng/{name}"), &[], b"")
}

fn unregister(target: &Target, name: &str) -> Response {
    target.registry.request("DELETE", &format!("/api/registry/{name}"), &[], b"").expect_status(204)
}

fn run(target: &Target, name: &str, node: &str) -> Response {
    target.manager.request("POST", &format!("/api/mng/instances/{name}/{node}/run"), &[], b"")
}

fn instances(target: &Target, query: &str) -> Vec<Value> {
    let answer = target.manager.get(&format!("/api/mng/instances?{query}")).expect_status(200);
    serde_json::from_slice(&answer.body).unwrap()
}

/// Table 1 of the paper: the registration as it was sent to the registry, and the name of one that is gone.
fn the_papers_manager_is_told_of_registrations(target: &Target) {
    let (fake, name) = (Fake::known(target), target.name("told"));
    let body = json!({"dataName": name, "cmd": "true", "max-Time": 5});
    target.register(&body);
    for path in ["/api/mng", "/api/mng/"] {
        let answer = target.manager.send_json("POST", path, &body).expect_status(200).json();
        assert_eq!(fields_of(&answer), ["dataName", "nodes"].into());
        assert_eq!(answer["dataName"], name.as_str());
        assert!(answer["nodes"].as_array().unwrap().contains(&json!(fake.node)), "{answer}");
    }
    // As the registry gives it, it is taken as well.
    let registered = target.registry.get(&format!("/api/registry/{name}")).json();
    target.manager.send_json("POST", "/api/mng", &registered).expect_status(200);
    let refused = problem(&delete(target, &name), 409);
    let detail = refused["detail"].as_str().unwrap();
    assert!(detail.contains(&format!("DELETE /api/registry/{name}")), "it says what to do: {detail}");
    fake.leave().expect_status(200);
    unregister(target, &name);
    let answer = delete(target, &name).expect_status(200).json();
    assert_eq!(fields_of(&answer), ["dataName", "ended", "unreachable"].into());
    assert_eq!(answer["dataName"], name.as_str());
    problem(&target.manager.send_json("POST", "/api/mng", &body), 404);
}

/// Registers for an agent, which runs it then.
fn running(target: &Target, fake: &Fake<'_>, stem: &str) -> String {
    let name = target.name(stem);
    let body = fake.registration(&name);
    target.register(&body);
    let placed = target.manager.send_json("POST", "/api/mng", &body).expect_status(200).json();
    assert_eq!(placed["nodes"], json!([fake.node]));
    fake.follow_until("the slot to be taken over", |_| (fake.applied.get() > 0).then_some(()));
    name
}

fn a_deletion_waits_for_those_who_can_confirm(target: &Target) {
    let fake = Fake::known(target);
    let name = running(target, &fake, "ending");
    let (gone, told) = thread::scope(|scope| {
        let gone = scope.spawn(|| unregister(target, &name));
        let told = scope.spawn(|| {
            wait::until(PATIENCE, "the registry to have forgotten it", || match delete(target, &name) {
                answer if answer.status == 409 => None,
                answer => Some(answer),
            })
        });
        fake.follow_until("the deletion to be answered", |_| {
            (gone.is_finished() && told.is_finished()).then_some(())
        });
        (gone.join().unwrap(), told.join().unwrap())
    });
    let own = |list: &Value| list.as_array().unwrap().contains(&json!(fake.node));
    let answer = told.expect_status(200).json();
    assert!(!own(&answer["unreachable"]), "{answer}");
    let hint = gone.header("estimand-hint").unwrap_or_default();
    assert!(!hint.contains(&fake.node), "it was confirmed: {hint}");
    assert_eq!(instances(target, &format!("dataName={name}")), Vec::<Value>::new());
}

fn unconfirmed_nodes_are_named(target: &Target) {
    let fake = Fake::known(target);
    let name = running(target, &fake, "lost");
    // It says nothing any more, and is lost after a while.
    let gone = unregister(target, &name);
    let hint = gone.header("estimand-hint").unwrap_or_else(|| panic!("no hint: {gone}"));
    assert!(hint.contains(&fake.node), "{hint}");
    let answer = delete(target, &name).expect_status(200).json();
    assert!(answer["unreachable"].as_array().unwrap().contains(&json!(fake.node)), "{answer}");
    assert!(!answer["ended"].as_array().unwrap().contains(&json!(fake.node)), "{answer}");
}

fn placement_follows_the_registry_not_the_request(target: &Target) {
    let (fake, name) = (Fake::known(target), target.name("registered"));
    let refused = problem(&target.manager.send_json("POST", "/api/mng", &fake.registration(&name)), 404);
    assert!(refused["detail"].as_str().unwrap().contains(&name), "{refused}");
    target.register(&fake.registration(&name));
    // The fields beside the name are not those that are registered.
    let other = json!({"dataName": name, "cmd": "false", "max-Time": 1, "nodes": "nowhere"});
    let answer = target.manager.send_json("POST", "/api/mng", &other).expect_status(200).json();
    assert_eq!(answer["nodes"], json!([fake.node]));
    let asked = wait::until(PATIENCE, "the slot to be desired", || {
        let desired = fake.ask("").expect_status(200).json();
        let slots = desired["slots"].as_array().unwrap();
        slots.iter().find(|slot| slot["registration"]["dataName"] == name.as_str()).cloned()
    });
    assert_eq!(asked["registration"]["cmd"], "true");
}

fn a_wrong_registration_is_refused(target: &Target) {
    let post = |body: &Value| target.manager.send_json("POST", "/api/mng", body);
    wrong_field(&post(&json!({"cmd": "true", "max-Time": 5})), "dataName");
    wrong_input(
        &post(&json!({"dataName": "a b", "cmd": "true", "max-Time": 5})),
        "dataName",
        "a b",
        "letter",
    );
    wrong_field(&post(&json!({"dataName": "a", "cmd": "true"})), "max-Time");
    wrong_field(&post(&json!({"dataName": "a", "cmd": "", "max-Time": 5})), "cmd");
    let body = json!({"dataName": "a", "cmd": "true", "max-time": 5});
    wrong_input(&post(&body), "max-time", "5", "`max-Time`?");
    let answer = target.manager.send_json("POST", "/api/mng?wait=1", &body);
    unknown_input(&answer, "wait", "no parameters");
}

fn names_given_to_the_manager_are_checked(target: &Target) {
    for (segment, given) in [("a%20b", "a b"), ("1a", "1a"), ("gr%C3%BC%C3%9Fe", "grüße"), ("*", "*")] {
        wrong_input(&delete(target, segment), "dataName", given, "letter");
        wrong_input(&run(target, segment, "n"), "dataName", given, "letter");
    }
    wrong_input(&run(target, "a", "n%20m"), "node", "n m", "letters");
    unknown_input(&delete(target, "a?force=1"), "force", "no parameters");
    let answer = target.manager.request("POST", "/api/mng/instances/a/n/run?wait=1", &[], b"");
    unknown_input(&answer, "wait", "no parameters");
    // The one name whose path is also that of a list.
    let answer = delete(target, "instances").expect_status(200).json();
    assert_eq!(answer["dataName"], "instances");
    unknown_input(&delete(target, "instances?dataName=a"), "dataName", "no parameters");
}

fn instances_are_found_by_name_and_node(target: &Target) {
    let (one, other) = (Fake::known(target), Fake::known(target));
    let names = [running(target, &one, "instance"), running(target, &one, "instance")];
    let elsewhere = running(target, &other, "instance");
    let status = json!({
        "dataName": names[0], "version": 1, "doing": "idle", "runs": 3, "failures": 1, "timeouts": 1, "overruns": 2,
        "restarts": 0, "quarantined": 0, "failing": 0, "withoutValue": 0, "lastStart": "2026-01-31T12:00:00.000000Z", "lastDurationMs": 1.5,
        "lastExit": "exit 0", "stderrTail": "ä\n",
    });
    one.beat_with(&json!({"statuses": [status]})).expect_status(200);

    let mut expected = status.clone();
    expected["nodeName"] = json!(one.node);
    expected["nodeState"] = json!("ready");
    expected["registered"] = json!(1);
    assert_eq!(instances(target, &format!("dataName={}", names[0])), [expected.clone()]);
    for parameter in ["dataNode", "nodeName"] {
        let query = format!("dataName={}&{parameter}={}", names[0], one.node);
        assert_eq!(instances(target, &query), [expected.clone()]);
        let query = format!("dataName={elsewhere}&{parameter}={}", one.node);
        assert_eq!(instances(target, &query), Vec::<Value>::new());
    }
    // An instance that belongs there and was not reported yet is there as well.
    let pending = &instances(target, &format!("dataName={}", names[1]))[0];
    assert_eq!((&pending["doing"], &pending["runs"]), (&json!("pending"), &json!(0)));
    let of_node = column(&instances(target, &format!("dataNode={}", one.node)), "dataName");
    assert!(names.iter().all(|name| of_node.contains(name)) && !of_node.contains(&elsewhere), "{of_node:?}");
    assert!(of_node.is_sorted(), "{of_node:?}");
    let all = instances(target, "");
    let places: Vec<(String, String)> =
        column(&all, "nodeName").into_iter().zip(column(&all, "dataName")).collect();
    assert!(places.is_sorted() && places.contains(&(other.node.clone(), elsewhere)), "{places:?}");
    for query in
        [format!("dataName={}", target.name("nothing")), format!("dataNode={}", target.name("nobody"))]
    {
        assert_eq!(instances(target, &query), Vec::<Value>::new());
    }
}

fn wrong_filters_are_refused(target: &Target) {
    let get = |query: &str| target.manager.get(&format!("/api/mng/instances?{query}"));
    wrong_input(&get("dataName=a%20b"), "dataName", "a b", "letter");
    wrong_input(&get("dataName="), "dataName", "", "letter");
    wrong_input(&get("dataName=a,b"), "dataName", "a,b", "letter");
    wrong_input(&get("dataName=*"), "dataName", "*", "letter");
    wrong_input(&get("dataNode=n%20m"), "dataNode", "n m", "letters");
    wrong_field(&get("dataNode=n&nodeName=n"), "nodeName");
    unknown_input(&get("node=n"), "node", "dataNode");
    unknown_input(&get("failing=1"), "failing", "dataName");
    let refused = problem(&get("dataName=a&dataName=b"), 400);
    assert!(refused["detail"].as_str().unwrap().contains("more than once"), "{refused}");
}

/// Somebody asks for a run; the agent finds it beside its slots and answers with `outcome`.
fn run_answered(target: &Target, fake: &Fake<'_>, name: &str, outcome: &Value) -> Response {
    let node = fake.node.clone();
    answered(target, fake, name, outcome, || run(target, name, &node))
}

fn answered(
    target: &Target,
    fake: &Fake<'_>,
    name: &str,
    outcome: &Value,
    ask: impl FnOnce() -> Response + Send,
) -> Response {
    thread::scope(|scope| {
        let asked = scope.spawn(ask);
        let given = fake.follow_until("the run to be asked for", |runs| runs.into_iter().next());
        assert_eq!(given["registration"]["dataName"], name);
        let path = fake.path(&format!("/runs/{}", given["id"]));
        assert_eq!(target.manager.send_json("POST", &path, outcome).expect_status(200).json(), json!({}));
        let answer = asked.join().unwrap();
        problem(&target.manager.send_json("POST", &path, outcome), 404);
        answer
    })
}

fn a_run_by_hand_is_what_the_agent_reports(target: &Target) {
    let fake = Fake::known(target);
    let name = running(target, &fake, "by_hand");
    let report = json!({
        "argv": ["true", "ü"], "exit": "exit 0", "durationMs": 1.5, "cpuMs": 0.5, "maxMemory": 4096, "stdout": "1\n",
        "stdoutBytes": 2, "stderr": "", "values": [{"nodeName": fake.node, "dataValue": {"a": [1, null]}}],
    });
    let answer = run_answered(target, &fake, &name, &json!({"report": report})).expect_status(200);
    assert_eq!(answer.json(), report);
    assert_eq!(target.values(&format!("dataName={name}")), Vec::<Value>::new(), "nothing is stored");
}

fn an_agent_may_refuse_a_run(target: &Target) {
    let fake = Fake::known(target);
    let name = running(target, &fake, "by_hand");
    let answer = run_answered(target, &fake, &name, &json!({"refused": "it is Sunday"}));
    let detail = problem(&answer, 409)["detail"].as_str().unwrap().to_owned();
    assert!(["it is Sunday", &name, &fake.node].iter().all(|part| detail.contains(part)), "{detail}");
}

fn a_run_that_cannot_be_is_explained(target: &Target) {
    let fake = Fake::known(target);
    let (name, nobody) = (running(target, &fake, "by_hand"), target.name("nobody"));
    let unknown = target.name("unknown");
    let refused = problem(&run(target, &unknown, &fake.node), 404);
    assert!(refused["detail"].as_str().unwrap().contains(&unknown), "{refused}");
    let refused = problem(&run(target, &name, &nobody), 404);
    assert!(refused["detail"].as_str().unwrap().contains(&nobody), "{refused}");
    fake.leave().expect_status(200);
    let answer = run(target, &name, &fake.node);
    let refused = problem(&answer, 503);
    assert!(refused["detail"].as_str().unwrap().contains("lost"), "{refused}");
    assert!(answer.header("retry-after").is_some(), "{answer}");
}

fn trial(target: &Target, node: &str, body: &Value) -> Response {
    target.manager.send_json("POST", &format!("/api/mng/nodes/{node}/try"), body)
}

fn a_trial_is_what_the_agent_reports(target: &Target) {
    let (fake, name) = (Fake::known(target), target.name("tried"));
    let body = fake.registration(&name);
    let report = json!({
        "argv": ["true"], "exit": "exit 0", "durationMs": 1.5, "cpuMs": 0.5, "maxMemory": 4096, "stdout": "1\n",
        "stdoutBytes": 2, "stderr": "", "values": [{"nodeName": fake.node, "dataValue": 1}],
    });
    let node = fake.node.clone();
    let answer = answered(target, &fake, &name, &json!({"report": report}), || trial(target, &node, &body));
    assert_eq!(answer.expect_status(200).json(), report);
    assert_eq!(target.registry.get(&format!("/api/registry/{name}")).status, 404, "nothing is registered");
    assert_eq!(target.values(&format!("dataName={name}")), Vec::<Value>::new(), "nothing is stored");
    let audit = target.registry.get("/api/audit?limit=100").expect_status(200);
    let lines: Vec<Value> = serde_json::from_slice(&audit.body).unwrap();
    let line = lines.iter().find(|line| line["action"] == "tried" && line["subject"] == fake.node.as_str());
    assert!(line.is_some_and(|line| line["detail"]["dataName"] == name.as_str()), "{line:?}");
}

fn a_trial_that_cannot_be_is_explained(target: &Target) {
    let (fake, name, nobody) = (Fake::known(target), target.name("tried"), target.name("nobody"));
    let body = fake.registration(&name);
    let refused = problem(&trial(target, &nobody, &body), 404);
    assert!(refused["detail"].as_str().unwrap().contains(&nobody), "{refused}");
    wrong_field(
        &trial(target, &fake.node, &json!({"dataName": name, "cmd": "x", "max-Time": -1})),
        "max-Time",
    );
    let mut secret = body.clone();
    secret["env"] = json!({"KEY": null});
    secret["secrets"] = json!(["KEY"]);
    wrong_field(&trial(target, &fake.node, &secret), "env.KEY");
    fake.leave().expect_status(200);
    let refused = problem(&trial(target, &fake.node, &body), 503);
    assert!(refused["detail"].as_str().unwrap().contains("lost"), "{refused}");
}

//! Requests of agents: the one that is accepted for a node, and errors in what agents send.

use serde_json::{Value, json};

use estimand_testkit::http::Response;
use estimand_testkit::wait::{self, PATIENCE};

use crate::answers::{fields_of, problem, unknown_input, wrong_field, wrong_input};
use crate::fake::Fake;
use crate::target::Target;

on_every_target!(
    a_heartbeat_makes_a_node_known,
    the_desired_state_is_told_by_revision,
    a_heartbeat_comes_before_everything_else,
    an_earlier_start_is_superseded,
    a_nodes_name_is_held_by_one_agent,
    an_agent_that_leaves_is_over,
    a_heartbeat_that_is_none_is_refused,
    a_newer_agents_fields_are_ignored,
    labels_and_facts_are_checked,
    a_question_that_is_wrong_is_refused,
    a_report_that_nobody_waits_for_is_refused,
    wrong_reports_are_refused,
);

/// Checks that an answer is a 409 of this kind that names the node.
#[track_caller]
fn conflict(answer: &Response, kind: &str, node: &str) {
    let refused = problem(answer, 409);
    assert_eq!(refused["type"], kind, "{refused}");
    assert!(refused["detail"].as_str().unwrap().contains(node), "{refused}");
}

fn a_heartbeat_makes_a_node_known(target: &Target) {
    let fake = Fake::new(target);
    problem(&target.manager.get(&fake.path("")), 404);
    let answer = fake.beat().expect_status(200).json();
    assert_eq!(fields_of(&answer), ["intervalMs", "leaseMs", "now", "resend"].into());
    let (interval, lease) = (answer["intervalMs"].as_u64().unwrap(), answer["leaseMs"].as_u64().unwrap());
    assert!((100..=60_000).contains(&interval), "{answer}");
    // No lease is given to whoever may still follow something older.
    assert!(lease == 0 || lease > interval, "{answer}");
    let mut node = target.manager.get(&fake.path("")).expect_status(200).json();
    for instant in ["lastHeartbeat", "knownSince"] {
        let at = node[instant].take();
        assert!(at.as_str().is_some_and(|text| text.ends_with('Z')), "{instant}: {at}");
    }
    let instances = node["instances"].take();
    assert!(instances.is_u64(), "{instances}");
    let expected = json!({
        "nodeName": fake.node, "state": "ready", "agent": format!("agent-of-{}", fake.node), "cordoned": false,
        "labels": {"fake": fake.node, "node": fake.node},
        "labelSources": {"fake": "credential", "node": "credential"},
        "facts": {"hostname": "host", "cores": 4, "memory": 1024, "arch": "", "kernel": "", "version": "",
            "containment": "", "allow": ["/opt"]},
        "delivery": {"delivered": 0, "waiting": 0, "spooledBytes": 0, "dropped": 0, "refused": 0},
        "lastHeartbeat": null, "knownSince": null, "instances": null,
    });
    assert_eq!(node, expected);
    let delivery = json!({"delivered": 7, "waiting": 2, "failing": "nobody answers"});
    let more = json!({"delivery": delivery, "labels": {}, "clockAheadMs": -30_000});
    fake.beat_with(&more).expect_status(200);
    let node = target.manager.get(&fake.path("")).json();
    assert_eq!(node["clockAheadMs"], -30_000);
    assert_eq!(
        (&node["delivery"]["failing"], &node["labels"]),
        (&delivery["failing"], &json!({ "node": fake.node }))
    );
}

fn the_desired_state_is_told_by_revision(target: &Target) {
    let fake = Fake::known(target);
    let name = target.name("desired");
    let registered = target.register(&fake.registration(&name)).json();
    let slot = wait::until(PATIENCE, "the slot to be desired", || {
        let desired = fake.ask("&revision=0&waitMs=1000").expect_status(200).json();
        // Tasks, while another check has some, and how old they are.
        let may_lack = ["dataServer", "taskServer", "tasks", "tasksAgeMs"].into();
        assert_eq!(fields_of(&desired).difference(&may_lack).count(), 2, "{desired}");
        let slots = desired["slots"].as_array().unwrap();
        slots.iter().find(|slot| slot["registration"]["dataName"] == name.as_str()).cloned()
    });
    assert_eq!(fields_of(&slot), ["epoch", "registration"].into(), "what runs on all nodes has no lease");
    assert_eq!((&slot["registration"], slot["epoch"].as_u64()), (&registered, Some(1 << 24)));
    // An agent that has it already is told that there is nothing new. Others register meanwhile.
    wait::until(PATIENCE, "nothing new to be said", || {
        let revision = fake.ask("").expect_status(200).json()["revision"].as_u64().unwrap();
        let again = fake.ask(&format!("&revision={revision}"));
        (again.status == 204 && again.body.is_empty()).then_some(())
    });
    // A question may wait longer than anybody lets it.
    fake.ask("&waitMs=18446744073709551615").expect_status(200);
}

fn a_heartbeat_comes_before_everything_else(target: &Target) {
    let fake = Fake::new(target);
    conflict(&fake.ask(""), "unknown-node", &fake.node);
    // A goodbye of somebody who is not known makes nobody known.
    fake.leave().expect_status(200);
    conflict(&fake.ask(""), "unknown-node", &fake.node);
    problem(&target.manager.get(&fake.path("")), 404);
}

fn an_earlier_start_is_superseded(target: &Target) {
    let fake = Fake::known(target);
    let later = fake.booted(7);
    later.beat().expect_status(200);
    conflict(&fake.beat(), "superseded", &fake.node);
    conflict(&fake.ask(""), "superseded", &fake.node);
    // Nor can it say goodbye for the later one.
    conflict(&fake.leave(), "superseded", &fake.node);
    later.beat().expect_status(200);
    later.ask("").expect_status(200);
    assert_eq!(target.manager.get(&fake.path("")).json()["state"], "ready");
}

fn a_nodes_name_is_held_by_one_agent(target: &Target) {
    let fake = Fake::known(target);
    let rival = fake.rival();
    fake.beat().expect_status(200);
    conflict(&rival.beat(), "node-taken", &fake.node);
    conflict(&rival.leave(), "node-taken", &fake.node);
    fake.beat().expect_status(200);
    conflict(&rival.ask(""), "node-taken", &fake.node);
    assert_eq!(target.manager.get(&fake.path("")).json()["state"], "ready");
    // Once it is free another agent may be the node.
    fake.leave().expect_status(200);
    rival.beat().expect_status(200);
    rival.ask("").expect_status(200);
    conflict(&fake.beat(), "node-taken", &fake.node);
}

fn an_agent_that_leaves_is_over(target: &Target) {
    let fake = Fake::known(target);
    let state = || target.manager.get(&fake.path("")).expect_status(200).json()["state"].clone();
    let answer = fake.leave().expect_status(200).json();
    assert_eq!((&answer["leaseMs"], state()), (&json!(0), json!("lost")));
    // Sent again because its answer was lost.
    fake.leave().expect_status(200);
    conflict(&fake.beat(), "superseded", &fake.node);
    conflict(&fake.ask(""), "superseded", &fake.node);
    assert_eq!(state(), "lost");
    let again = fake.booted(2);
    again.beat().expect_status(200);
    assert_eq!(state(), "ready");
}

fn a_heartbeat_that_is_none_is_refused(target: &Target) {
    let fake = Fake::new(target);
    let post = |body: &[u8]| target.manager.request("POST", &fake.path("/heartbeat"), &[], body);
    for (body, says) in [
        (&b""[..], "empty"),
        (b"[]", "an array"),
        (b"\"boot\"", "a string"),
        (b"agent=a&boot=1", "not JSON"),
        (b"{\"agent\":\"a\",", "not JSON"),
        (b"{\"agent\":\"\xff\"}", "UTF-8"),
        (b"{\"agent\":\"a\",\"boot\":1,\"boot\":2,\"applied\":0}", "`boot` twice"),
        (b"[\"a\",1,{},{},{},0,[],false,[],false]", "an array"),
    ] {
        let error = wrong_field(&post(body), "body");
        assert!(error["message"].as_str().unwrap().contains(says), "{says}: {error}");
        assert!(error["expected"].as_str().is_some_and(|text| text.contains("JSON")), "{error}");
    }
    for missing in ["agent", "boot", "applied"] {
        let error = wrong_field(&fake.beat_with(&json!({missing: null})), "body");
        assert!(error["message"].as_str().unwrap().contains(&format!("`{missing}`")), "{error}");
    }
    for (changes, field, says) in [
        (json!({"boot": "1"}), "boot", "string"),
        (json!({"boot": -1}), "boot", "-1"),
        (json!({"boot": 1.5}), "boot", "1.5"),
        (json!({"applied": true}), "applied", "boolean"),
        (json!({"leaving": "yes"}), "leaving", "string"),
        (json!({"stopping": ["a", "a b"]}), "stopping[1]", "a b"),
        (json!({"statuses": [{"dataName": "a"}]}), "statuses[0]", "`version`"),
        (
            json!({"statuses": [{"dataName": "a", "version": 1, "doing": "flying"}]}),
            "statuses[0].doing",
            "flying",
        ),
    ] {
        let error = wrong_field(&fake.beat_with(&changes), field);
        assert!(error["message"].as_str().unwrap().contains(says), "{changes}: {error}");
    }
    for agent in ["", "a b", "ü", &"a".repeat(129)] {
        let error = wrong_field(&fake.beat_with(&json!({"agent": agent})), "agent");
        assert!(error["expected"].as_str().unwrap().contains("visible ASCII"), "{error}");
    }
    wrong_input(&fake.beat_with(&json!({"boot": 0})), "boot", "0", "from 1 on");
    unknown_input(
        &target.manager.send_json("POST", &fake.path("/heartbeat?boot=1"), &json!({})),
        "boot",
        "no parameters",
    );
    problem(&target.manager.get(&fake.path("")), 404);
}

fn a_newer_agents_fields_are_ignored(target: &Target) {
    let fake = Fake::new(target);
    for changes in
        [json!({"aNewField": {"deep": [1]}}), json!({"facts": {"ram": 1}}), json!({"delivery": {"lost": 1}})]
    {
        fake.beat_with(&changes).expect_status(200);
    }
    let shown = target.manager.get(&fake.path("")).expect_status(200).json();
    assert!(shown["facts"].get("ram").is_none() && shown["delivery"].get("lost").is_none(), "{shown}");
}

fn labels_and_facts_are_checked(target: &Target) {
    let fake = Fake::new(target);
    wrong_input(&fake.beat_with(&json!({"labels": {"a b": "c"}})), "labels", "a b", "letter");
    wrong_input(&fake.beat_with(&json!({"labels": {"zone": "a b"}})), "labels.zone", "a b", "letter");
    wrong_field(&fake.beat_with(&json!({"labels": {"zone": 1}})), "labels.zone");
    let many: Value =
        (0..65).map(|place| (format!("l{place}"), json!("x"))).collect::<serde_json::Map<_, _>>().into();
    let error = wrong_field(&fake.beat_with(&json!({"labels": many})), "labels");
    assert!(error["message"].as_str().unwrap().contains("64"), "{error}");
    let error = wrong_field(&fake.beat_with(&json!({"facts": {"kernel": "k".repeat(40_000)}})), "facts");
    assert!(error["message"].as_str().unwrap().contains("bytes"), "{error}");
    problem(&target.manager.get(&fake.path("")), 404);
}

fn a_question_that_is_wrong_is_refused(target: &Target) {
    let fake = Fake::known(target);
    let get = |query: &str| target.manager.get(&fake.path(&format!("/slots{query}")));
    let named = format!("?agent={}", fake.agent);
    wrong_field(&get(""), "agent");
    wrong_field(&get("?boot=1"), "agent");
    wrong_field(&get(&named), "boot");
    wrong_input(&get("?agent=a%20b&boot=1"), "agent", "a b", "visible ASCII");
    for boot in ["0", "-1", "x", "", "1.5", "18446744073709551616"] {
        wrong_input(&get(&format!("{named}&boot={boot}")), "boot", boot, "from");
    }
    for (parameter, given) in [
        ("revision", "x"),
        ("revision", "-1"),
        ("revision", "18446744073709551616"),
        ("waitMs", "-1"),
        ("waitMs", "1s"),
        ("waitMs", "1e3"),
        ("waitMs", ""),
        ("waitMs", "18446744073709551616"),
    ] {
        wrong_input(&fake.ask(&format!("&{parameter}={given}")), parameter, given, "a whole number");
    }
    unknown_input(&fake.ask("&wait=5"), "wait", "waitMs");
    problem(&fake.ask("&boot=1"), 400);
    wrong_input(&target.manager.get("/api/nodes/a%20b/slots?agent=a&boot=1"), "node", "a b", "letters");
}

fn a_report_that_nobody_waits_for_is_refused(target: &Target) {
    let fake = Fake::known(target);
    for id in ["0", "7", "18446744073709551615"] {
        let path = fake.path(&format!("/runs/{id}"));
        let refused = problem(&target.manager.send_json("POST", &path, &json!({"refused": "no"})), 404);
        let detail = refused["detail"].as_str().unwrap();
        assert!(detail.contains(id) && detail.contains(&fake.node), "{detail}");
    }
    for id in ["x", "-1", "1.5", "18446744073709551616"] {
        let path = fake.path(&format!("/runs/{id}"));
        wrong_input(
            &target.manager.send_json("POST", &path, &json!({"refused": "no"})),
            "id",
            id,
            "a whole number",
        );
    }
}

fn wrong_reports_are_refused(target: &Target) {
    let fake = Fake::new(target);
    let post = |body: Value| target.manager.send_json("POST", &fake.path("/runs/7"), &body);
    let report = json!({"argv": ["a"], "durationMs": 1, "cpuMs": 1, "maxMemory": 1, "stdout": "", "stdoutBytes": 0,
        "stderr": "", "values": []});
    let changed = |field: &str, value: Value| {
        let mut changed = report.clone();
        changed[field] = value;
        json!({"report": changed})
    };
    wrong_field(&post(json!({})), "report");
    wrong_field(&post(json!({"report": report, "refused": "no"})), "report");
    wrong_field(&post(json!({"refused": 1})), "refused");
    wrong_field(&post(json!({"reports": {}})), "report");
    for (body, says) in [
        (json!({"report": {"argv": []}}), "durationMs"),
        (changed("argv", json!([1])), "argv[0]"),
        (changed("values", json!([{"nodeName": "a b", "dataValue": 1}])), "values[0].nodeName"),
    ] {
        let error = wrong_field(&post(body.clone()), "report");
        assert!(error["message"].as_str().unwrap().contains(says), "{body}: {error}");
    }
    // A right one has only nobody who waits for it.
    problem(&post(json!({"report": report})), 404);
    // A field of a newer agent does not make it a wrong one.
    problem(&post(changed("code", json!(1))), 404);
}

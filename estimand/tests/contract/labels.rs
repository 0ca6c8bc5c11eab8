//! Labels of nodes: those that operators set, those that a token binds, and those that an agent only claims.

use estimand_testkit::http::Response;
use estimand_testkit::wait::{self, PATIENCE};
use serde_json::{Value, json};

use crate::access::token_with;
use crate::answers::{problem, wrong_field, wrong_input};
use crate::fake::Fake;
use crate::target::Target;

on_every_target!(
    labels_that_an_operator_sets_outlast_and_outweigh_the_agents_own,
    changes_of_labels_are_in_the_audit_trail,
    wrong_labels_are_rejected,
    labels_that_are_only_claimed_get_no_secrets,
    labels_that_are_only_claimed_give_no_say_for_other_nodes,
    labels_of_a_token_are_bound_to_its_node,
    a_node_is_chosen_by_its_name_which_no_other_can_claim,
);

fn label(target: &Target, fake: &Fake<'_>, changes: &Value) -> Response {
    target.manager.send_json("PATCH", &fake.path("/labels"), changes)
}

/// The names that the node should run.
fn names(fake: &Fake<'_>) -> Vec<String> {
    let answer = fake.ask("");
    let slots = answer.expect_status(200).json()["slots"].take();
    let name = |slot: &Value| slot["registration"]["dataName"].as_str().unwrap().to_owned();
    slots.as_array().unwrap().iter().map(name).collect()
}

fn wait_for(fake: &Fake<'_>, name: &str, wanted: bool) {
    wait::until_ok(PATIENCE, "the node's desired state", || {
        let names = names(fake);
        if names.iter().any(|there| there == name) == wanted { Ok(()) } else { Err(names.join(" ")) }
    });
}

/// The reason why the node is not given the registration.
fn refusal(target: &Target, name: &str, fake: &Fake<'_>) -> Option<String> {
    let query = format!("/api/mng/instances?dataName={name}&dataNode={}", fake.node);
    let instances = target.manager.get(&query).expect_status(200).json();
    let refused = instances.as_array().unwrap().iter().find(|one| one["doing"] == "refused")?;
    Some(refused["lastError"].as_str().unwrap().to_owned())
}

fn labels_that_an_operator_sets_outlast_and_outweigh_the_agents_own(target: &Target) {
    let fake = Fake::known(target);
    let changes = json!({ "zone": "a", "fake": "operators", "ssd": "" });
    let node = label(target, &fake, &changes).expect_status(200).json();
    let has = |labels: Value| {
        let mut all = labels;
        all["node"] = json!(fake.node);
        all
    };
    assert_eq!(node["labels"], has(changes));
    let sources = json!({ "node": "credential", "zone": "operator", "fake": "operator", "ssd": "operator" });
    assert_eq!(node["labelSources"], sources);
    fake.beat().expect_status(200);
    let again = fake.booted(2);
    again.beat_with(&json!({ "labels": { "zone": "b", "own": "x" } })).expect_status(200);
    let node = target.manager.get(&fake.path("")).json();
    assert_eq!(node["labels"], has(json!({ "zone": "a", "fake": "operators", "ssd": "", "own": "x" })));
    let name = target.name("zoned");
    target.register(
        &json!({ "dataName": name, "cmd": "true", "max-Time": 5, "nodes": "zone=a,fake=operators,ssd" }),
    );
    wait_for(&again, &name, true);
    // A label that is taken away uncovers what the agent claims.
    let node = label(target, &again, &json!({ "zone": null, "fake": null, "never": null }))
        .expect_status(200)
        .json();
    assert_eq!(node["labels"], has(json!({ "zone": "b", "ssd": "", "own": "x" })));
    wait_for(&again, &name, false);
}

fn changes_of_labels_are_in_the_audit_trail(target: &Target) {
    let fake = Fake::known(target);
    label(target, &fake, &json!({ "zone": "a", "old": null })).expect_status(200);
    let trail = target.registry.get("/api/audit?limit=100").expect_status(200).json();
    let entry =
        trail.as_array().unwrap().iter().find(|entry| entry["subject"] == fake.node.as_str()).unwrap();
    assert_eq!((&entry["kind"], &entry["action"]), (&json!("node"), &json!("labelled")));
    assert_eq!(entry["detail"], json!({ "zone": "a", "old": null }));
}

fn wrong_labels_are_rejected(target: &Target) {
    let fake = Fake::known(target);
    for (body, field, given, expected) in [
        (json!({ "a b": "c" }), "a b", "a b", "label key"),
        (json!({ "zone": "a b" }), "zone", "a b", "label value"),
        (json!({ "zone": 1 }), "zone", "1", "value"),
    ] {
        wrong_input(&label(target, &fake, &body), field, given, expected);
    }
    let error = wrong_field(&label(target, &fake, &json!({ "node": "n2" })), "node");
    assert!(error["message"].as_str().unwrap().contains("every node has with its name"), "{error}");
    problem(&label(target, &fake, &json!({})), 400);
    let many = |from: usize| Value::from_iter((from..from + 64).map(|at| (format!("k{at}"), json!("v"))));
    label(target, &fake, &many(0)).expect_status(200);
    let detail = problem(&label(target, &fake, &many(64)), 409)["detail"].to_string();
    assert!(detail.contains("128 labels") && detail.contains("at most 64"), "{detail}");
    let nobody = format!("/api/nodes/{}/labels", target.name("nobody"));
    problem(&target.manager.send_json("PATCH", &nobody, &json!({ "a": "b" })), 404);
}

/// Registers for `KEY=VALUE`, which the node claims of itself with a token that binds nothing; returns the refusal.
fn claims(target: &Target, registration: Value) -> (Fake<'_>, String) {
    let fake = Fake::new(target);
    let token = token_with(target, &json!({ "role": "node", "node": fake.node }));
    let fake = fake.with_token(&token);
    let value = target.name("value");
    fake.set_labels(json!({ "role": value }));
    fake.beat().expect_status(200);
    let name = target.name("wanted");
    let plain = target.name("plain");
    let mut registration = registration;
    registration["dataName"] = json!(name);
    registration["nodes"] = json!(format!("role={value}"));
    target.register(
        &json!({ "dataName": plain, "cmd": "true", "max-Time": 5, "nodes": format!("role={value}") }),
    );
    target.register(&registration);
    // A node that has neither is chosen by what the agent claims.
    wait_for(&fake, &plain, true);
    assert!(!names(&fake).contains(&name), "a claimed label was believed");
    let refusal = wait::until(PATIENCE, "the refusal", || refusal(target, &name, &fake));
    assert!(refusal.contains(&format!("estimand nodes label {} role={value}", fake.node)), "{refusal}");
    label(target, &fake, &json!({ "role": value })).expect_status(200);
    wait_for(&fake, &name, true);
    (fake, refusal)
}

fn labels_that_are_only_claimed_get_no_secrets(target: &Target) {
    let registration = json!({ "cmd": "true", "max-Time": 5, "env": { "KEY": "hush" }, "secrets": ["KEY"] });
    let (_fake, refusal) = claims(target, registration);
    assert!(refusal.contains("has secrets"), "{refusal}");
}

fn labels_that_are_only_claimed_give_no_say_for_other_nodes(target: &Target) {
    let (_fake, refusal) =
        claims(target, json!({ "cmd": "true", "max-Time": 5, "format": "nodes", "replicas": "all" }));
    assert!(refusal.contains("other nodes"), "{refusal}");
}

fn labels_of_a_token_are_bound_to_its_node(target: &Target) {
    let fake = Fake::new(target);
    let value = target.name("value");
    let labels = json!({ "role": value });
    let token = token_with(target, &json!({ "role": "node", "node": fake.node, "labels": labels }));
    let fake = fake.with_token(&token);
    // It cannot say otherwise.
    fake.set_labels(json!({ "role": "web" }));
    fake.beat().expect_status(200);
    let node = target.manager.get(&fake.path("")).json();
    let all = json!({ "node": fake.node, "role": value });
    assert_eq!((&node["labels"], &node["labelSources"]["role"]), (&all, &json!("credential")));
    let name = target.name("secret");
    let nodes = format!("role={value}");
    target.register(&json!({ "dataName": name, "cmd": "true", "max-Time": 5, "nodes": nodes,
        "env": { "KEY": "hush" }, "secrets": ["KEY"] }));
    wait_for(&fake, &name, true);
}

fn a_node_is_chosen_by_its_name_which_no_other_can_claim(target: &Target) {
    let (meant, other) = (Fake::known(target), Fake::new(target));
    // A heartbeat of an agent that does not know better is taken, but not believed in this.
    other.set_labels(json!({ "node": meant.node }));
    other.beat().expect_status(200);
    let node = target.manager.get(&other.path("")).json();
    assert_eq!(
        (&node["labels"]["node"], &node["labelSources"]["node"]),
        (&json!(other.node), &json!("credential"))
    );
    let (plain, secret) = (target.name("plain"), target.name("secret"));
    let nodes = format!("node={}", meant.node);
    let registration = |name: &str| json!({ "dataName": name, "cmd": "true", "max-Time": 5, "nodes": nodes });
    target.register(&registration(&plain));
    let mut with_secret = registration(&secret);
    with_secret["env"] = json!({ "KEY": "hush" });
    with_secret["secrets"] = json!(["KEY"]);
    target.register(&with_secret);
    wait_for(&meant, &plain, true);
    wait_for(&meant, &secret, true);
    let others = names(&other);
    assert!(!others.contains(&plain) && !others.contains(&secret), "{others:?}");
    for fake in [&meant, &other] {
        target.write(&plain, &fake.node, 1);
    }
    let read = format!("/api/data?dataName={plain}&nodes={nodes}");
    wait::until_ok(PATIENCE, "the value of the node that is named", || {
        let values = target.data.get(&read).json();
        let found =
            values.as_array().filter(|all| all.len() == 1 && all[0]["nodeName"] == meant.node.as_str());
        found.map(drop).ok_or(values.clone())
    });
}

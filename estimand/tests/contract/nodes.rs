//! Nodes as people look at them: listed, cordoned, removed.

use serde_json::{Value, json};

use crate::answers::{column, problem, unknown_input, wrong_input};
use crate::fake::Fake;
use crate::target::Target;

on_every_target!(
    nodes_are_listed_in_order,
    a_cordon_is_put_and_taken_away,
    a_node_that_is_heard_of_is_not_removed,
    a_removed_node_takes_its_values_with_it,
    a_node_that_is_not_there_is_missed,
    node_names_in_paths_are_checked,
    requests_about_nodes_have_no_parameters,
    a_slash_at_the_end_changes_nothing,
    methods_that_are_not_offered_are_refused,
);

fn request(target: &Target, method: &str, path: &str) -> estimand_testkit::http::Response {
    target.manager.request(method, path, &[], b"")
}

fn nodes_are_listed_in_order(target: &Target) {
    let (one, other) = (Fake::known(target), Fake::known(target));
    let listed = target.manager.get("/api/nodes").expect_status(200);
    let nodes: Vec<Value> = serde_json::from_slice(&listed.body).unwrap();
    let names = column(&nodes, "nodeName");
    let mut sorted = names.clone();
    sorted.sort();
    assert_eq!(names, sorted);
    for fake in [&one, &other] {
        let of_list = nodes.iter().find(|node| node["nodeName"] == fake.node.as_str()).unwrap();
        let mut alone = target.manager.get(&fake.path("")).expect_status(200).json();
        // Others register meanwhile.
        alone["instances"] = of_list["instances"].clone();
        assert_eq!(of_list, &alone);
    }
}

fn a_cordon_is_put_and_taken_away(target: &Target) {
    let fake = Fake::known(target);
    for (method, cordoned) in
        [("PUT", true), ("PUT", true), ("DELETE", false), ("DELETE", false), ("PUT", true)]
    {
        let answer = request(target, method, &fake.path("/cordon")).expect_status(200).json();
        assert_eq!((&answer["nodeName"], &answer["cordoned"]), (&json!(fake.node), &json!(cordoned)));
        assert_eq!(target.manager.get(&fake.path("")).json()["cordoned"], cordoned);
    }
    // It is the operator's, whatever the agent does.
    fake.beat().expect_status(200);
    fake.booted(2).beat().expect_status(200);
    assert_eq!(target.manager.get(&fake.path("")).json()["cordoned"], true);
}

fn a_node_that_is_heard_of_is_not_removed(target: &Target) {
    let (fake, name) = (Fake::known(target), target.name("value"));
    target.write(&name, &fake.node, 1);
    fake.beat().expect_status(200);
    let refused = problem(&request(target, "DELETE", &fake.path("")), 409);
    let detail = refused["detail"].as_str().unwrap();
    assert!(detail.contains(&fake.node) && detail.contains("agent"), "it says what to do: {detail}");
    assert_eq!(target.values(&format!("dataName={name}")), [1]);
    target.manager.get(&fake.path("")).expect_status(200);
}

fn a_removed_node_takes_its_values_with_it(target: &Target) {
    let (fake, other) = (Fake::known(target), Fake::known(target));
    let names = [target.name("value"), target.name("value")];
    for name in &names {
        target.write(name, &fake.node, 1);
        target.write(name, &other.node, 2);
    }
    fake.leave().expect_status(200);
    request(target, "DELETE", &fake.path("")).expect_status(204);
    problem(&target.manager.get(&fake.path("")), 404);
    problem(&request(target, "DELETE", &fake.path("")), 404);
    for name in &names {
        assert_eq!(target.values(&format!("dataName={name}")), [2], "those of other nodes stay");
    }
    // It may come again, with whatever start.
    fake.beat().expect_status(200);
    assert_eq!(target.manager.get(&fake.path("")).json()["state"], "ready");
}

fn a_node_that_is_not_there_is_missed(target: &Target) {
    let node = target.name("nobody");
    for (method, rest) in [("GET", ""), ("DELETE", ""), ("PUT", "/cordon"), ("DELETE", "/cordon")] {
        let refused = problem(&request(target, method, &format!("/api/nodes/{node}{rest}")), 404);
        let detail = refused["detail"].as_str().unwrap();
        assert!(detail.contains(&format!("`{node}`")), "it says what is missing: {detail}");
    }
}

fn node_names_in_paths_are_checked(target: &Target) {
    for (segment, given) in [("a%20b", "a b"), ("a:b", "a:b"), ("gr%C3%BC%C3%9Fe", "grüße"), ("a%00", "a")]
    {
        for (method, rest) in [
            ("GET", ""),
            ("DELETE", ""),
            ("PUT", "/cordon"),
            ("DELETE", "/cordon"),
            ("GET", "/slots?agent=a&boot=1"),
            ("POST", "/heartbeat"),
            ("POST", "/runs/1"),
        ] {
            let answer = request(target, method, &format!("/api/nodes/{segment}{rest}"));
            wrong_input(&answer, "node", given, "letters");
        }
    }
}

fn requests_about_nodes_have_no_parameters(target: &Target) {
    for (method, path) in [
        ("GET", "/api/nodes?state=ready"),
        ("GET", "/api/nodes/n?state=ready"),
        ("DELETE", "/api/nodes/n?state=ready"),
        ("PUT", "/api/nodes/n/cordon?state=ready"),
        ("DELETE", "/api/nodes/n/cordon?state=ready"),
    ] {
        unknown_input(&request(target, method, path), "state", "no parameters");
    }
}

fn a_slash_at_the_end_changes_nothing(target: &Target) {
    let fake = Fake::known(target);
    assert!(target.manager.get("/api/nodes/").expect_status(200).json().is_array());
    assert_eq!(target.manager.get(&fake.path("/")).expect_status(200).json()["nodeName"], fake.node.as_str());
    for method in ["PUT", "DELETE"] {
        request(target, method, &fake.path("/cordon/")).expect_status(200);
    }
    let query = format!("/slots/?agent={}&boot=1", fake.agent);
    target.manager.get(&fake.path(&query)).expect_status(200);
    let body = json!({"agent": fake.agent, "boot": 1, "applied": 0});
    target.manager.send_json("POST", &fake.path("/heartbeat/"), &body).expect_status(200);
    assert!(target.manager.get("/api/mng/instances/?dataNode=n").expect_status(200).json().is_array());
    fake.leave().expect_status(200);
    request(target, "DELETE", &fake.path("/")).expect_status(204);
}

fn methods_that_are_not_offered_are_refused(target: &Target) {
    for (method, path, allowed) in [
        ("POST", "/api/nodes", "GET"),
        ("DELETE", "/api/nodes", "GET"),
        ("PUT", "/api/nodes/n", "DELETE"),
        ("POST", "/api/nodes/n", "GET"),
        ("GET", "/api/nodes/n/cordon", "PUT"),
        ("POST", "/api/nodes/n/cordon", "DELETE"),
        ("GET", "/api/nodes/n/heartbeat", "POST"),
        ("POST", "/api/nodes/n/slots", "GET"),
        ("GET", "/api/nodes/n/runs/1", "POST"),
        ("GET", "/api/mng", "POST"),
        ("PUT", "/api/mng", "POST"),
        ("GET", "/api/mng/a", "DELETE"),
        ("POST", "/api/mng/instances", "GET"),
        ("GET", "/api/mng/instances/a/n/run", "POST"),
    ] {
        let answer = request(target, method, path);
        let refused = problem(&answer, 405);
        assert!(answer.header("allow").is_some_and(|methods| methods.contains(allowed)), "{answer}");
        let detail = refused["detail"].as_str().unwrap();
        assert!(detail.contains(method) && detail.contains(allowed), "{detail}");
    }
    for path in ["/api/nodes/n/runs", "/api/nodes/n/cordon/x", "/api/mng/a/b", "/api/mng/instances/a/n"] {
        problem(&target.manager.get(path), 404);
    }
}

//! Paths and queries that are wrong, and requests about what is not there.

use serde_json::{Value, json};

use crate::answers::{problem, unknown_input, wrong_field, wrong_input};
use crate::target::Target;

on_every_target!(
    an_unknown_parameter_is_named,
    a_parameter_twice_is_refused,
    a_missing_name_is_asked_for,
    names_in_queries_are_checked,
    names_in_paths_are_checked,
    filters_are_checked,
    a_missing_value_or_binding_is_not_found,
    unicode_and_percent_signs_do_no_harm,
);

fn an_unknown_parameter_is_named(target: &Target) {
    let data = |method: &str, path: &str| target.data.request(method, path, &[], b"");
    unknown_input(&data("GET", "/api/data?dataName=a&node=n"), "node", "dataNode");
    unknown_input(&data("GET", "/api/data?dataname=a"), "dataname", "dataName");
    unknown_input(&data("GET", "/api/data?dataName=a&count=1"), "count", "maxAge");
    unknown_input(&data("DELETE", "/api/data?dataName=a&all=1"), "all", "dataNode");
    unknown_input(&data("GET", "/api/data/history?dataName=a&from=1h"), "from", "since");
    unknown_input(&data("GET", "/api/data/watch?dataName=a&node=n"), "node", "dataName");
    let name = target.name("query");
    target.write(&name, "n", 1);
    unknown_input(&data("GET", &format!("/api/data/{name}/n?pretty")), "pretty", "explain");
    unknown_input(&target.registry.get("/api/registry?name=a"), "name", "no parameters");
}

fn a_parameter_twice_is_refused(target: &Target) {
    // A parameter that is a list may be given in pieces; these are none.
    for query in
        ["dataName=a&limit=1&limit=1", "dataName=a&field=/a&field=/a", "dataName=a&maxAge=1s&maxAge=2s"]
    {
        let refused = problem(&target.data.get(&format!("/api/data?{query}")), 400);
        assert!(refused["detail"].as_str().unwrap().contains("more than once"), "{refused}");
    }
    wrong_field(&target.data.get("/api/data?dataName=a&dataNode=n&nodeName=n"), "nodeName");
}

fn a_missing_name_is_asked_for(target: &Target) {
    for query in ["", "?", "?dataNode=n", "?dataName", "?dataName="] {
        let error = wrong_field(&target.data.get(&format!("/api/data{query}")), "dataName");
        assert!(error["expected"].as_str().is_some_and(|text| text.contains('*')), "{error}");
        let delete = target.data.request("DELETE", &format!("/api/data{query}"), &[], b"");
        wrong_field(&delete, "dataName");
    }
    // Nothing is deleted by a star.
    let name = target.name("query");
    target.write(&name, "n", 1);
    wrong_field(&target.data.request("DELETE", "/api/data?dataName=*", &[], b""), "dataName");
    wrong_field(
        &target.data.request("DELETE", &format!("/api/data?dataName={name},b"), &[], b""),
        "dataName",
    );
    assert_eq!(target.values(&format!("dataName={name}")), [1]);
}

fn names_in_queries_are_checked(target: &Target) {
    for (query, given) in [
        ("a%20b", "a b"),
        ("a+b", "a b"),
        ("gr%C3%BC%C3%9Fe", "grüße"),
        ("1a", "1a"),
        ("a,%2C", ""),
        ("a,,b", ""),
        ("*,a", "*"),
        ("a%00", "a"),
    ] {
        wrong_input(&target.data.get(&format!("/api/data?dataName={query}")), "dataName", given, "letter");
    }
    for (node, given) in [("n%20m", "n m"), ("", ""), ("%F0%9F%A6%80", "🦀"), ("a%2Fb", "a/b")] {
        wrong_input(
            &target.data.get(&format!("/api/data?dataName=a&dataNode={node}")),
            "dataNode",
            given,
            "letters",
        );
    }
    let many: Vec<String> = (0..257).map(|place| format!("n{place}")).collect();
    let error = wrong_field(&target.data.get(&format!("/api/data?dataName={}", many.join(","))), "dataName");
    assert!(error["expected"].as_str().unwrap().contains("256"), "{error}");
}

fn names_in_paths_are_checked(target: &Target) {
    for (path, field, given) in [
        ("/api/data/a%20b/n", "dataName", "a b"),
        ("/api/data/gr%C3%BC%C3%9Fe/n", "dataName", "grüße"),
        ("/api/data/1a/n", "dataName", "1a"),
        ("/api/data/a/n%20m", "nodeName", "n m"),
        ("/api/data/a/%F0%9F%A6%80", "nodeName", "🦀"),
        ("/api/data/a/n:m", "nodeName", "n:m"),
    ] {
        wrong_input(&target.data.get(path), field, given, "letters");
    }
}

fn filters_are_checked(target: &Target) {
    let get = |rest: &str| target.data.get(&format!("/api/data?dataName=a&{rest}"));
    for state in ["old", "", "fresh,", "fresh,old", "Fresh"] {
        let error = wrong_field(&get(&format!("state={state}")), "state");
        assert!(error["expected"].as_str().unwrap().contains("node-lost"), "{error}");
    }
    for age in ["5x", "-5s", "", "soon", "101y"] {
        let error = wrong_field(&get(&format!("maxAge={age}")), "maxAge");
        assert!(error["expected"].as_str().unwrap().contains("5s"), "{error}");
    }
    let name = target.name("query");
    target.write(&name, "n", 1);
    wrong_input(&target.data.get(&format!("/api/data/{name}/n?explain=maybe")), "explain", "maybe", "1");
}

fn a_missing_value_or_binding_is_not_found(target: &Target) {
    let name = target.name("query");
    let missing = |answer: &estimand_testkit::http::Response| {
        let refused = problem(answer, 404);
        assert!(refused["detail"].as_str().unwrap().contains(&name), "it says what is missing: {refused}");
    };
    missing(&target.data.get(&format!("/api/data/{name}/n")));
    target.write(&name, "n", 1);
    missing(&target.data.get(&format!("/api/data/{name}/m")));
    target.delete(&format!("dataName={name}"));
    missing(&target.data.get(&format!("/api/data/{name}/n")));
    missing(&target.data.get(&format!("/api/data/{name}/n?explain=1")));
    missing(&target.data.request("DELETE", &format!("/api/bindings/{name}"), &[], b""));
    missing(&target.registry.send_json(
        "PUT",
        "/api/registry",
        &json!({"dataName": name, "cmd": "true", "max-Time": 5}),
    ));
    missing(&target.registry.request("DELETE", &format!("/api/registry/{name}"), &[], b""));
}

fn unicode_and_percent_signs_do_no_harm(target: &Target) {
    for path in [
        "/api/data?dataName=%",
        "/api/data?dataName=%zz",
        "/api/data?dataName=%ff",
        "/api/data?dataName=%C3",
        "/api/data/%/n",
        "/api/data/%zz/n",
        "/api/data/%ff/n",
        "/api/data/a/%C3%28",
        "/api/data/a%2Fb/n",
        "/api/data/%2e%2e/n",
        "/api/data/a%00b/n",
        "/api/registry/%ff",
        "/api/registry/%E2%80%AE",
        "/api/registry/%252F",
    ] {
        for http in [&target.data, &target.registry] {
            let answer = http.get(path);
            assert!(matches!(answer.status, 400 | 404), "{path}: {answer}");
            problem(&answer, answer.status);
        }
    }
    // Bytes beyond ASCII without any encoding, as a careless client sends them.
    let raw = "GET /api/data?dataName=grüße HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    let answer = target.data.raw(raw.as_bytes());
    assert_eq!(answer.status, 400, "{answer}");
    assert_eq!(target.values("dataName=gr"), Vec::<Value>::new());
}

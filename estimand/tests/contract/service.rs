//! Common to every service: health, figures, errors of one shape.

use std::collections::HashSet;

use serde_json::json;

use crate::answers::{problem, wrong_field};
use crate::target::Target;

on_every_target!(
    services_are_alive_and_ready,
    figures_are_valid_exposition,
    every_number_is_a_series,
    a_value_with_too_many_numbers_shows_some_and_counts_the_others,
    unknown_paths_and_methods_are_problems,
    a_request_keeps_its_name,
    malformed_http_is_refused,
);

fn services_are_alive_and_ready(target: &Target) {
    for http in target.services() {
        for path in ["/healthz", "/readyz", "/readyz/"] {
            let answer = http.get(path).expect_status(200);
            assert_eq!(answer.header("content-type"), Some("application/json"), "{path}");
            assert!(answer.json().is_object());
        }
    }
}

fn figures_are_valid_exposition(target: &Target) {
    let name = target.name("figure");
    target.write(&name, "n", "no number");
    for http in target.services() {
        let answer = http.get("/metrics").expect_status(200);
        assert!(answer.header("content-type").unwrap().starts_with("text/plain; version=0.0.4"), "{answer}");
        check_exposition(answer.text());
        assert!(answer.text().contains("estimand_http_requests"), "requests are counted");
    }
    let numbers = format!("estimand_value{{data_name=\"{name}\"");
    assert!(!target.data.get("/metrics").text().contains(&numbers), "a text is no number");
    target.data.get(&format!("/api/data?dataName={name}"));
    for figure in ["estimand_commits_total ", "estimand_values ", "estimand_revision "] {
        let text = target.data.get("/metrics").text().to_owned();
        assert!(text.lines().any(|line| line.starts_with(figure)), "{figure}");
    }
}

/// Each family is announced once before its samples, and each sample is a name, labels and a number.
fn check_exposition(text: &str) {
    assert!(text.ends_with('\n'));
    let (mut typed, mut family, mut samples) = (HashSet::new(), String::new(), HashSet::new());
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("# TYPE ") {
            let (name, kind) = rest.split_once(' ').unwrap();
            assert!(["counter", "gauge", "histogram"].contains(&kind), "{line}");
            assert!(typed.insert(name.to_owned()), "announced twice: {line}");
            family = name.to_owned();
        } else if !line.starts_with("# HELP ") {
            let (series, number) = line.rsplit_once(' ').unwrap_or_else(|| panic!("no number: {line:?}"));
            assert!(matches!(number, "+Inf" | "-Inf" | "NaN") || number.parse::<f64>().is_ok(), "{line}");
            let name = series.split('{').next().unwrap();
            let suffixes = ["", "_bucket", "_sum", "_count"].map(|suffix| format!("{family}{suffix}"));
            assert!(suffixes.iter().any(|suffixed| name == suffixed), "{line} stands among {family}");
            let labels = series.strip_prefix(name).unwrap();
            assert!(labels.is_empty() || (labels.starts_with('{') && labels.ends_with('}')), "{line}");
            assert!(samples.insert(series.to_owned()), "twice: {line}");
        }
    }
}

/// The series of a name, without those that change by themselves.
fn series(target: &Target, path: &str, name: &str) -> Vec<String> {
    let text = target.data.get(path).expect_status(200).text().to_owned();
    check_exposition(&text);
    let of_name = text.lines().filter(|line| line.contains(&format!("data_name=\"{name}\"")));
    let mut found: Vec<String> =
        of_name.map(|line| line.replace(&format!("data_name=\"{name}\","), "")).collect();
    for line in found.iter_mut().filter(|line| line.starts_with("estimand_value_age_seconds")) {
        let (series, age) = line.rsplit_once(' ').unwrap();
        assert!((0.0..600.0).contains(&age.parse::<f64>().unwrap()), "{line}");
        *line = series.to_owned();
    }
    found.sort_unstable();
    found
}

fn every_number_is_a_series(target: &Target) {
    let name = target.name("figure");
    for (node, value) in [
        ("n1", json!(0.42)),
        ("n2", json!({"used": {"/": -3, "ok": true}, "text": "1", "list": [{"x": 1e3}], "none": null})),
        ("n3", json!("0.42")),
    ] {
        target.write(&name, node, value);
    }
    target.put(&json!({"dataName": name, "nodeName": "n2", "state": "failed"}));
    let of_n2 = [
        "estimand_value_age_seconds{node=\"n2\"}",
        "estimand_value_state{node=\"n2\"} 2",
        "estimand_value{node=\"n2\",path=\"/list/0/x\"} 1000.0",
        "estimand_value{node=\"n2\",path=\"/used/ok\"} 1",
        "estimand_value{node=\"n2\",path=\"/used/~1\"} -3",
    ];
    let mut expected: Vec<&str> = of_n2.to_vec();
    expected.extend([
        "estimand_value_age_seconds{node=\"n1\"}",
        "estimand_value_age_seconds{node=\"n3\"}",
        "estimand_value_state{node=\"n1\"} 0",
        "estimand_value_state{node=\"n3\"} 0",
        "estimand_value{node=\"n1\"} 0.42",
    ]);
    expected.sort_unstable();
    assert_eq!(series(target, "/metrics", &name), expected);
    let of_name = series(target, &format!("/api/data/metrics?dataName={name}"), &name);
    assert_eq!(of_name, expected);
    assert_eq!(series(target, "/api/data/metrics?dataNode=n2", &name), of_n2);
    let other = target.data.get("/api/data/metrics?dataName=nothing").expect_status(200).text().to_owned();
    assert!(!other.contains(&name), "only what is asked for");
    wrong_field(&target.data.get("/api/data/metrics?dataName=a%20b"), "dataName");
}

fn a_value_with_too_many_numbers_shows_some_and_counts_the_others(target: &Target) {
    let name = target.name("figure");
    target.write(&name, "n", json!({"all": (0..300).collect::<Vec<_>>(), "top": 7}));
    let path = format!("/api/data/metrics?dataName={name}");
    let numbers = series(target, &path, &name).into_iter().filter(|line| line.starts_with("estimand_value{"));
    assert_eq!(numbers.count(), 256);
    let text = target.data.get(&path).expect_status(200).text().to_owned();
    assert!(text.contains("path=\"/top\"} 7\n"), "what is nearest to the top is shown first");
    assert!(text.ends_with("\nestimand_value_left_out 45\n"), "{text}");
}

fn unknown_paths_and_methods_are_problems(target: &Target) {
    for http in target.services() {
        for path in ["/api/nothing", "/api", "/api/data/a/b/c", "/../etc/passwd", "/api/data/%ff/x%00"] {
            let answer = http.get(path);
            assert!(matches!(answer.status, 400 | 404), "{path}: {answer}");
            problem(&answer, answer.status);
        }
    }
    for (http, method, path, allowed) in [
        (&target.data, "PATCH", "/api/data", "PUT"),
        (&target.data, "DELETE", "/api/data/batch", "POST"),
        (&target.data, "POST", "/api/data/watch?dataName=a", "GET"),
        (&target.data, "PUT", "/api/bindings", "GET"),
        (&target.registry, "DELETE", "/api/registry", "POST"),
        (&target.registry, "POST", "/api/registry/a", "DELETE"),
        (&target.registry, "POST", "/metrics", "GET"),
    ] {
        let answer = http.request(method, path, &[], b"");
        let refused = problem(&answer, 405);
        assert!(answer.header("allow").is_some_and(|methods| methods.contains(allowed)), "{answer}");
        let detail = refused["detail"].as_str().unwrap();
        assert!(detail.contains(method) && detail.contains(allowed), "{detail}");
    }
}

fn a_request_keeps_its_name(target: &Target) {
    for http in target.services() {
        let answer = http.request("GET", "/api/nothing", &[("X-Request-Id", "my-request-7")], b"");
        assert_eq!(problem(&answer, 404)["requestId"], "my-request-7");
        let answer = http.request("GET", "/healthz", &[("X-Request-Id", "my-request-8")], b"");
        assert_eq!(answer.header("x-request-id"), Some("my-request-8"));
    }
}

fn malformed_http_is_refused(target: &Target) {
    for http in target.services() {
        http.raw(b"NOT HTTP AT ALL\r\n\r\n").expect_status(400);
        let endless = format!("GET / HTTP/1.1\r\nHost: a\r\nX: {}\r\n\r\n", "x".repeat(300_000));
        let answer = http.try_raw(endless.as_bytes());
        assert!(answer.is_err() || matches!(answer.unwrap().status, 400 | 413 | 414 | 431));
        http.get("/healthz").expect_status(200);
    }
}

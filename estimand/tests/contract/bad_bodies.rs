//! Bodies that are broken before they mean anything: each is refused with the reason, by every path that
//! takes one, and nothing of it is done.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::Duration;

use estimand_testkit::http::Http;
use serde_json::{Value, json};

use crate::answers::{problem, wrong_field};
use crate::target::Target;

on_every_target!(
    malformed_json_is_refused,
    another_kind_of_json_is_refused,
    a_key_twice_is_refused,
    json_that_no_reader_could_hold_is_refused,
    deep_nesting_is_refused,
    invalid_utf8_is_refused,
    ten_megabytes_are_refused,
    a_body_cut_short_does_nothing,
);

/// Everything that takes a body and may refuse ten megabytes: service, method, path, and whether it takes an array.
fn takers(target: &Target) -> [(&Http, &'static str, &'static str, bool); 12] {
    [
        (&target.registry, "POST", "/api/registry", false),
        (&target.registry, "PUT", "/api/registry", false),
        (&target.data, "POST", "/api/data", false),
        (&target.data, "PUT", "/api/data", false),
        (&target.data, "POST", "/api/data/batch", true),
        (&target.data, "PUT", "/api/data/state", false),
        (&target.data, "PUT", "/api/data/retention", false),
        (&target.data, "PUT", "/api/bindings/bad_body", false),
        (&target.manager, "POST", "/api/mng", false),
        (&target.tasks, "POST", "/api/tasks", false),
        (&target.tasks, "POST", "/api/tasks/news", false),
        (&target.manager, "POST", "/api/nodes/bad_body/runs/1", false),
    ]
}

/// Checks that everything that takes a body refuses this one and says these words about it.
fn refused_by_all(target: &Target, body: &[u8], says: &str) {
    for (http, method, path, _) in takers(target) {
        let answer = http.request(method, path, &[("Content-Type", "application/json")], body);
        let error = wrong_field(&answer, "body");
        let message = error["message"].as_str().unwrap();
        assert!(message.contains(says), "{method} {path}: {message}");
        assert!(error["expected"].as_str().is_some_and(|text| text.contains("JSON")), "{error}");
    }
}

fn malformed_json_is_refused(target: &Target) {
    refused_by_all(target, b"", "empty");
    refused_by_all(target, b" \r\n", "empty");
    refused_by_all(target, b"dataName=a&nodeName=n", "not JSON");
    refused_by_all(target, b"{\"dataName\":\"a\",", "not JSON");
    refused_by_all(target, b"{\"dataName\":NaN}", "not JSON");
    refused_by_all(target, b"{\"dataName\":\"a\"} {}", "not JSON");
    refused_by_all(target, b"{'dataName':'a'}", "not JSON");
    refused_by_all(target, b"\xEF\xBB\xBF{}", "not JSON");
}

fn another_kind_of_json_is_refused(target: &Target) {
    for (http, method, path, array) in takers(target) {
        let wrong = if array {
            [json!({}), json!("a"), json!(7), json!(null)]
        } else {
            [json!([]), json!("a"), json!(7), json!(null)]
        };
        for body in wrong {
            let error = wrong_field(&http.send_json(method, path, &body), "body");
            let expected = error["expected"].as_str().unwrap();
            assert!(expected.contains(if array { "array" } else { "object" }), "{method} {path}: {error}");
        }
    }
}

fn a_key_twice_is_refused(target: &Target) {
    refused_by_all(
        target,
        br#"{"dataName":"a","nodeName":"n","dataName":"b","dataValue":1}"#,
        "`dataName` twice",
    );
    refused_by_all(target, br#"{"a":{"b":[{"c":1,"c":1}]}}"#, "`c` twice");
    let name = target.name("twice");
    let inside =
        format!("{{\"dataName\":\"{name}\",\"nodeName\":\"n\",\"dataValue\":{{\"k\":1,\"\\u006b\":2}}}}");
    for (method, path, body) in [
        ("POST", "/api/data", inside.clone()),
        ("PUT", "/api/data", inside.clone()),
        ("POST", "/api/data/batch", format!("[{inside}]")),
    ] {
        let error = wrong_field(&target.data.request(method, path, &[], body.as_bytes()), "body");
        assert!(error["message"].as_str().unwrap().contains("`k` twice"), "{error}");
    }
    assert_eq!(target.values(&format!("dataName={name}")), Vec::<Value>::new());
}

/// Its syntax is right, yet a reader that parses it fails, and with it the reading of everything beside it.
fn json_that_no_reader_could_hold_is_refused(target: &Target) {
    let name = target.name("unreadable");
    let texts =
        ["1e400", "-1e309", "[{\"a\":1e999}]", "\"\\ud83e\"", "{\"\\udc00\":1}", "[\"\\ud83e\\ud83e\"]"];
    for text in texts {
        let body = format!("{{\"dataName\":\"{name}\",\"nodeName\":\"n\",\"dataValue\":{text}}}");
        for (method, path, body) in [
            ("POST", "/api/data", body.clone()),
            ("PUT", "/api/data", body.clone()),
            ("POST", "/api/data/batch", format!("[{body}]")),
        ] {
            wrong_field(&target.data.request(method, path, &[], body.as_bytes()), "body");
        }
    }
    assert_eq!(target.values(&format!("dataName={name}")), Vec::<Value>::new());
}

fn deep_nesting_is_refused(target: &Target) {
    let nested = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
    let write = |name: &str, value: &str| {
        let body = format!("{{\"dataName\":\"{name}\",\"nodeName\":\"n\",\"dataValue\":{value}}}");
        target.data.request("PUT", "/api/data", &[], body.as_bytes())
    };
    let name = target.name("deep");
    for depth in [65, 127, 128, 129, 10_000] {
        wrong_field(&write(&name, &nested(depth)), "body");
        let objects = format!("{}1{}", "{\"a\":".repeat(depth), "}".repeat(depth));
        wrong_field(&write(&name, &objects), "body");
    }
    for (http, method, path, _) in takers(target) {
        wrong_field(&http.request(method, path, &[], nested(10_000).as_bytes()), "body");
        // Never closed: whoever recurses into it has no end to find.
        wrong_field(&http.request(method, path, &[], "[".repeat(50_000).as_bytes()), "body");
    }
    assert_eq!(target.values(&format!("dataName={name}")), Vec::<Value>::new());
    write(&name, &nested(60)).expect_status(201);
    assert_eq!(target.one(&name, "n")["dataValue"].to_string(), nested(60));
}

fn invalid_utf8_is_refused(target: &Target) {
    refused_by_all(target, b"{\"dataName\":\"a\xff\"}", "not UTF-8");
    refused_by_all(target, b"\xff\xfe{\x00}\x00", "not UTF-8");
    // Half a surrogate pair, as some encoders write it.
    refused_by_all(target, b"{\"dataName\":\"\xed\xa0\x80\"}", "not UTF-8");
}

fn ten_megabytes_are_refused(target: &Target) {
    let large = vec![b' '; 10 << 20];
    for (http, method, path, _) in takers(target) {
        let refused = problem(&http.request(method, path, &[], &large), 413);
        assert!(refused["detail"].as_str().unwrap().contains("bytes"), "it says the limit: {refused}");
    }
    // Without an announced length the limit is noticed on the way.
    let chunk = format!("10000\r\n{}\r\n", " ".repeat(0x10000));
    let head = "POST /api/data/batch HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n";
    let body = format!("{head}{}0\r\n\r\n", chunk.repeat(160));
    problem(&target.data.raw(body.as_bytes()), 413);
    target.data.get("/healthz").expect_status(200);
}

fn a_body_cut_short_does_nothing(target: &Target) {
    let name = target.name("short");
    // The body is complete JSON; only the announced length says that there should be more.
    let write = json!({"dataName": name, "nodeName": "n", "dataValue": 1});
    let registration = json!({"dataName": name, "cmd": "true", "max-Time": 5});
    let authorization = format!("Authorization: Bearer {}\r\n", estimand_testkit::TOKEN);
    for (address, path, body) in [
        (&target.data_address, "/api/data", write.to_string()),
        (&target.data_address, "/api/data/batch", json!([write]).to_string()),
        (&target.registry_address, "/api/registry", registration.to_string()),
    ] {
        let length = body.len() + 10;
        let head = format!(
            "POST {path} HTTP/1.1\r\nHost: localhost\r\n{authorization}Content-Length: {length}\r\n\r\n"
        );
        let answer = send_and_close(address, &(head + &body));
        assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 400"), "{path}: {answer}");
    }
    assert_eq!(target.values(&format!("dataName={name}")), Vec::<Value>::new());
    problem(&target.registry.get(&format!("/api/registry/{name}")), 404);
}

/// Sends, closes the sending half, and returns whatever comes back until the other end closes.
fn send_and_close(address: &str, request: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    stream.write_all(request.as_bytes()).unwrap();
    stream.shutdown(Shutdown::Write).unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    String::from_utf8_lossy(&answer).into_owned()
}

//! The description of the interface: valid in its own terms, complete, and pinned.
//!
//! The pinned document is that of `up`. A change of the interface shows in the snapshot's difference; accept
//! it with `cargo insta accept`, or `INSTA_UPDATE=always`.

use std::collections::BTreeSet;

use estimand_testkit::http::Http;
use serde_json::Value;

use crate::target::{self, Target};

on_every_target!(
    the_description_is_complete,
    references_lead_somewhere,
    every_operation_says_what_a_caller_must_show
);

/// The paths that the parts that exist so far promise.
const PATHS: [(&str, &[&str]); 87] = [
    ("/api/registry", &["get", "patch", "post", "put"]),
    ("/api/registry/{dataName}", &["delete", "get", "patch"]),
    ("/api/registry/{dataName}/rename", &["post"]),
    ("/api/registry/{dataName}/history", &["get"]),
    ("/api/data", &["delete", "get", "post", "put"]),
    ("/api/data/{dataName}/{nodeName}", &["get"]),
    ("/api/data/names", &["get"]),
    ("/api/data/batch", &["post"]),
    ("/api/v2/write", &["post"]),
    ("/write", &["post"]),
    ("/v1/metrics", &["post"]),
    ("/ping", &["get"]),
    ("/health", &["get"]),
    ("/ready", &["get"]),
    ("/api/data/watch", &["get"]),
    ("/api/data/history", &["get"]),
    ("/api/data/metrics", &["get"]),
    ("/api/data/epochs", &["put"]),
    ("/api/data/producers", &["put"]),
    ("/api/prometheus-targets", &["get"]),
    ("/api/bindings", &["get"]),
    ("/api/bindings/{dataName}", &["delete", "get", "put"]),
    ("/api/bindings/{dataName}/history", &["get"]),
    ("/api/bindings/{dataName}/rollback", &["post"]),
    ("/api/mng/nodes/{node}/try", &["post"]),
    ("/api/nodes", &["get"]),
    ("/api/nodes/{node}", &["delete", "get"]),
    ("/api/nodes/{node}/cordon", &["delete", "put"]),
    ("/api/nodes/{node}/heartbeat", &["post"]),
    ("/api/nodes/{node}/slots", &["get"]),
    ("/api/nodes/{node}/runs/{id}", &["post"]),
    ("/api/mng", &["post"]),
    ("/api/mng/instances", &["get"]),
    ("/api/mng/instances/{dataName}/{node}/run", &["post"]),
    ("/api/mng/instances/summary", &["get"]),
    ("/api/mng/{dataName}", &["delete"]),
    ("/api/mng/nodes/tasks", &["get"]),
    ("/api/mng/nodes/{node}/tasks", &["put"]),
    ("/api/tasks", &["get", "post"]),
    ("/api/tasks/{id}", &["delete", "get"]),
    ("/api/tasks/{id}/cancel", &["post"]),
    ("/api/tasks/{id}/yield", &["post"]),
    ("/api/tasks/{id}/logs", &["get"]),
    ("/api/tasks/events", &["get"]),
    ("/api/tasks/progress", &["get"]),
    ("/api/tasks/watch", &["get"]),
    ("/api/tasks/news", &["post"]),
    ("/api/tasks/{id}/tunnel", &["get"]),
    ("/api/tasks/{id}/web/{rest}", &["delete", "get", "patch", "post", "put"]),
    ("/api/tasks/tunnels", &["get"]),
    ("/api/tasks/tunnels/{number}", &["get", "post"]),
    ("/api/usage", &["get"]),
    ("/api/images", &["get", "post"]),
    ("/api/images/{name}", &["delete", "get"]),
    ("/api/capacity", &["get"]),
    ("/api/capacity/timeline", &["get"]),
    ("/api/capacity/promises", &["get", "post"]),
    ("/api/capacity/promises/{id}", &["delete", "get"]),
    ("/api/capacity/promises/{id}/resize", &["post"]),
    ("/api/capacity/releases", &["post"]),
    ("/api/reservations", &["get", "post"]),
    ("/api/reservations/{id}", &["get"]),
    ("/api/reservations/prices", &["get"]),
    ("/api/reservations/{id}/bid", &["post"]),
    ("/api/reservations/{id}/cancel", &["post"]),
    ("/api/credits", &["get"]),
    ("/api/credits/journal", &["get"]),
    ("/api/credits/grants", &["post"]),
    ("/api/studies", &["get", "post"]),
    ("/api/studies/{id}", &["delete", "get"]),
    ("/api/studies/{id}/pause", &["post"]),
    ("/api/studies/{id}/resume", &["post"]),
    ("/api/studies/{id}/stop", &["post"]),
    ("/api/studies/{id}/ask", &["post"]),
    ("/api/studies/{id}/trials", &["get"]),
    ("/api/studies/{id}/trials/{number}", &["get"]),
    ("/api/studies/{id}/trials/{number}/report", &["post"]),
    ("/api/studies/{id}/trials/{number}/tell", &["post"]),
    ("/api/studies/{id}/best", &["get"]),
    ("/api/studies/{id}/importance", &["get"]),
    ("/", &["get"]),
    ("/assets/{file}", &["get"]),
    ("/assets/{folder}/{file}", &["get"]),
    ("/metrics", &["get"]),
    ("/openapi.json", &["get"]),
    ("/healthz", &["get"]),
    ("/readyz", &["get"]),
];

fn description(http: &Http) -> Value {
    let answer = http.get("/openapi.json").expect_status(200);
    assert_eq!(answer.header("content-type"), Some("application/json"));
    answer.json()
}

fn the_description_is_complete(target: &Target) {
    let documents = target.services().map(description);
    for document in &documents {
        assert!(document["openapi"].as_str().unwrap().starts_with("3.1"));
        assert!(document["info"]["title"].is_string() && document["info"]["version"].is_string());
    }
    let mut names = BTreeSet::new();
    for (path, methods) in PATHS {
        let found = documents.iter().find_map(|document| document["paths"].get(path));
        let found = found.unwrap_or_else(|| panic!("{path} is not described"));
        for method in methods {
            let operation = found.get(*method).unwrap_or_else(|| panic!("{method} {path} is not described"));
            assert!(operation["x-role"].is_string(), "{method} {path} names no role");
            let name =
                operation["operationId"].as_str().unwrap_or_else(|| panic!("{method} {path} has no name"));
            assert!(names.insert(name.to_owned()), "{name} is the name of two operations");
            assert!(operation["responses"].as_object().is_some_and(|all| !all.is_empty()), "{method} {path}");
        }
    }
}

fn references_lead_somewhere(target: &Target) {
    for http in target.services() {
        let document = description(http);
        let mut references = BTreeSet::new();
        collect(&document, &mut references);
        for reference in &references {
            let pointer = reference.strip_prefix('#').unwrap_or_else(|| panic!("{reference} leads outside"));
            assert!(document.pointer(pointer).is_some(), "{reference} leads nowhere");
        }
        assert!(!references.is_empty());
    }
}

/// A caller that shows nothing is refused where the description says so, and nowhere else.
fn every_operation_says_what_a_caller_must_show(target: &Target) {
    for http in target.services() {
        let document = description(http);
        assert_eq!(document["components"]["securitySchemes"]["token"]["scheme"], "bearer");
        let nobody = Http::new(&format!("http://{}", http.authority())).showing(None);
        let mut asked = 0;
        for (path, operations) in document["paths"].as_object().unwrap() {
            for (method, operation) in operations.as_object().unwrap() {
                let security =
                    operation["security"].as_array().unwrap_or_else(|| panic!("{method} {path}: nothing"));
                let is_free = security.is_empty() || security.contains(&serde_json::json!({}));
                if method == "get" && path.ends_with("watch") {
                    continue;
                }
                let path = path.replace(['{', '}'], "");
                let status = nobody.request(&method.to_uppercase(), &path, &[], b"").status;
                assert_eq!(status == 401, !is_free, "{method} {path}: {status}, but {security:?}");
                asked += 1;
            }
        }
        assert!(asked > 4);
    }
}

/// Generators of clients do not know `const`.
#[test]
fn a_choice_of_one_value_is_an_enum() {
    fn check(value: &Value) {
        match value {
            Value::Object(map) => {
                assert!(!matches!(map.get("const"), Some(Value::String(_))), "{value}");
                map.values().for_each(check);
            }
            Value::Array(items) => items.iter().for_each(check),
            _ => {}
        }
    }
    check(&description(&target::SQLITE_UP.data));
}

/// As programs that check descriptions ask for, such as redocly and spectral (`tests/clients/lint`).
#[test]
fn the_description_names_its_servers_and_tags_and_says_what_is_in_an_array() {
    fn check(value: &Value, at: &str) {
        match value {
            Value::Object(map) => {
                let is_array = map.get("type").is_some_and(|kind| match kind {
                    Value::Array(kinds) => kinds.contains(&"array".into()),
                    kind => kind == "array",
                });
                assert!(!is_array || map.contains_key("items"), "{at}: {value}");
                map.iter().for_each(|(name, inner)| check(inner, &format!("{at}/{name}")));
            }
            Value::Array(items) => items.iter().for_each(|inner| check(inner, at)),
            _ => {}
        }
    }
    let document = description(&target::SQLITE_UP.data);
    check(&document["paths"], "paths");
    check(&document["components"], "components");
    assert_eq!(document["servers"], serde_json::json!([{ "url": "/" }]));
    let declared: Vec<&Value> = document["tags"].as_array().unwrap().iter().map(|tag| &tag["name"]).collect();
    for operations in document["paths"].as_object().unwrap().values() {
        for operation in operations.as_object().unwrap().values() {
            operation["tags"]
                .as_array()
                .unwrap()
                .iter()
                .for_each(|tag| assert!(declared.contains(&tag), "{tag}"));
        }
    }
    let push = &document["paths"]["/v1/metrics"]["post"]["requestBody"]["content"]["application/x-protobuf"];
    assert_eq!(push["schema"], serde_json::json!({ "type": "string", "format": "binary" }));
}

fn collect(value: &Value, references: &mut BTreeSet<String>) {
    match value {
        Value::Object(map) => {
            references.extend(map.get("$ref").and_then(Value::as_str).map(str::to_owned));
            map.values().for_each(|inner| collect(inner, references));
        }
        Value::Array(items) => items.iter().for_each(|inner| collect(inner, references)),
        _ => {}
    }
}

#[test]
fn the_pinned_document_is_the_served_one() {
    let served = target::SQLITE_UP.data.get("/openapi.json").expect_status(200);
    insta::assert_snapshot!("openapi", served.text());
}

#[test]
fn every_store_serves_the_same_description() {
    let served = |target: &Target| target.data.get("/openapi.json").expect_status(200).text().to_owned();
    assert_eq!(served(&target::SQLITE_UP), served(&target::POSTGRES_UP));
    assert_eq!(served(&target::SQLITE_UP), served(&target::MARIADB_UP));
}

//! Table 1 of the paper, path by path, as a client would send it that was written from the paper alone.

use serde_json::json;

use crate::answers::problem;
use crate::target::Target;

on_every_target!(the_papers_registrations, the_papers_data);

fn the_papers_registrations(target: &Target) {
    let (http, name) = (&target.registry, target.name("cpu_usage"));
    let path = format!("/api/registry/{name}");

    let body = json!({"dataName": name, "cmd": "./cpu_usage.sh", "max-Time": 5});
    let created = http.send_json("POST", "/api/registry", &body).expect_status(201);
    assert_eq!(created.header("location"), Some(path.as_str()));

    let one = http.get(&path).expect_status(200).json();
    assert_eq!((&one["dataName"], &one["cmd"]), (&body["dataName"], &body["cmd"]));
    assert_eq!(one["max-Time"], 5);
    let all = http.get("/api/registry").expect_status(200).json();
    assert!(all.as_array().unwrap().contains(&one), "{all}");

    let body = json!({"dataName": name, "cmd": "./faster.sh", "max-Time": 0.5});
    http.send_json("PUT", "/api/registry", &body).expect_status(200);
    let one = http.get(&path).expect_status(200).json();
    assert_eq!((&one["cmd"], &one["max-Time"]), (&json!("./faster.sh"), &json!(0.5)));

    let gone = http.request("DELETE", &path, &[], b"");
    assert!(matches!(gone.status, 200 | 204), "{gone}");
    problem(&http.get(&path), 404);
}

fn the_papers_data(target: &Target) {
    let (http, name) = (&target.data, target.name("cpu_usage"));
    let of_name = format!("/api/data/?dataName={name}");
    let of_node = |node: &str| format!("{of_name}&dataNode={node}");
    let body = |node: &str, data: &str| json!({"dataName": name, "nodeName": node, "dataValue": data});
    assert_eq!(http.get(&of_name).expect_status(200).json(), json!([]));

    http.send_json("POST", "/api/data", &body("node-1", "data")).expect_status(201);
    http.send_json("POST", "/api/data", &body("node-2", "0.7")).expect_status(201);
    http.send_json("POST", "/api/data/", &body("node-3", "0.3")).expect_status(201);
    let all = http.get(&of_name).expect_status(200).json();
    assert_eq!(all.as_array().unwrap().len(), 3);
    assert_eq!((&all[0]["nodeName"], &all[0]["dataValue"]), (&json!("node-1"), &json!("data")));

    let one = http.get(&of_node("node-2")).expect_status(200).json();
    assert_eq!(one, json!([all[1]]));
    assert_eq!(one[0]["dataValue"], "0.7", "a string stays a string");
    assert_eq!(http.get(&of_node("node-9")).expect_status(200).json(), json!([]));

    http.send_json("PUT", "/api/data", &body("node-2", "0.9")).expect_status(200);
    assert_eq!(http.get(&of_node("node-2")).json()[0]["dataValue"], "0.9");

    http.request("DELETE", &of_node("node-2"), &[], b"").expect_status(200);
    assert_eq!(http.get(&of_node("node-2")).expect_status(200).json(), json!([]));
    assert_eq!(http.get(&of_name).json().as_array().unwrap().len(), 2);
    http.request("DELETE", &of_name, &[], b"").expect_status(200);
    assert_eq!(http.get(&of_name).expect_status(200).json(), json!([]));
}

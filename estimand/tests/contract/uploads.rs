//! Uploaded files: what is taken, who reads it, and registrations that name it.

use serde_json::json;

use crate::target::Target;

on_every_target!(
    what_can_be_run_is_stored_once_under_its_digest,
    what_cannot_be_run_is_refused,
    a_registration_names_a_file_that_is_there,
);

const SCRIPT: &[u8] = b"#!/bin/sh\necho \xff\x00 1\n";

fn what_can_be_run_is_stored_once_under_its_digest(target: &Target) {
    let content = [SCRIPT, target.name("own").as_bytes()].concat();
    let first = target.registry.request("POST", "/api/uploads", &[], &content).expect_status(201).json();
    assert_eq!(first["bytes"], content.len());
    let again = target.registry.request("POST", "/api/uploads", &[], &content).expect_status(200).json();
    assert_eq!(again, first);
    let path = format!("/api/uploads/{}", first["sha256"].as_str().unwrap());
    assert_eq!(target.registry.get(&path).expect_status(200).body, content);
    target.registry.get(&format!("/api/uploads/{}", "0".repeat(64))).expect_status(404);
    target.registry.get("/api/uploads/abc").expect_status(400);
}

fn what_cannot_be_run_is_refused(target: &Target) {
    for content in [&b""[..], b"echo 1", b" #!/bin/sh"] {
        target.registry.request("POST", "/api/uploads", &[], content).expect_status(400);
    }
    let mut large = SCRIPT.to_vec();
    large.resize((1 << 20) + 1, b' ');
    target.registry.request("POST", "/api/uploads", &[], &large).expect_status(413);
}

fn a_registration_names_a_file_that_is_there(target: &Target) {
    let name = target.name("uploaded");
    let registration = |digest: &str| json!({ "dataName": name, "cmd": "probe", "max-Time": 5, "upload": { "sha256": digest } });
    let missing =
        target.registry.send_json("POST", "/api/registry", &registration(&"1".repeat(64))).expect_status(400);
    assert_eq!(missing.json()["errors"][0]["field"], "upload.sha256");
    let stored = target.registry.request("POST", "/api/uploads", &[], SCRIPT).json();
    let digest = stored["sha256"].as_str().unwrap();
    let registered =
        target.registry.send_json("POST", "/api/registry", &registration(digest)).expect_status(201).json();
    assert_eq!(registered["upload"], json!({ "sha256": digest }));
}

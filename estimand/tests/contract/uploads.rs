//! Uploaded files: what is taken, who reads it, and registrations that name it.

use serde_json::json;

use crate::access::token_with;
use crate::fake::Fake;
use crate::target::Target;

on_every_target!(
    what_can_be_run_is_stored_once_under_its_digest,
    what_cannot_be_run_is_refused,
    a_registration_names_a_file_that_is_there,
    a_file_is_known_by_its_digest_alone,
    a_node_is_given_only_what_it_runs,
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

fn a_file_is_known_by_its_digest_alone(target: &Target) {
    let stored = target.registry.request("POST", "/api/uploads", &[], SCRIPT).json();
    let digest = stored["sha256"].as_str().unwrap();
    let name = target.name("spelled");
    for spelled in [
        "..",
        "%2e%2e",
        "../../../etc/passwd",
        "..%2f..%2f..%2fetc%2fpasswd",
        "%2fetc%2fpasswd",
        "*",
        "%25",
        "'%20OR%20'1'='1",
        &digest[..63],
        &format!("{digest}0"),
        &format!("{digest}%00"),
        &format!("{digest}%2f"),
        &format!("sha256:{digest}"),
        &format!("%20{digest}"),
    ] {
        let answer = target.registry.get(&format!("/api/uploads/{spelled}"));
        assert!(matches!(answer.status, 400 | 404), "{spelled}: {answer}");
        let registration =
            json!({ "dataName": name, "cmd": "probe", "max-Time": 5, "upload": { "sha256": spelled } });
        let refused = target.registry.send_json("POST", "/api/registry", &registration).expect_status(400);
        assert_eq!(refused.json()["errors"][0]["field"], "upload.sha256", "{spelled}");
    }
}

/// Files may hold what is meant for one node, as secrets are.
fn a_node_is_given_only_what_it_runs(target: &Target) {
    let fake = Fake::new(target);
    let own = token_with(target, &json!({ "role": "node", "node": fake.node }));
    let fake = fake.with_token(&own);
    fake.beat().expect_status(200);
    let upload = |content: String| {
        let stored = target.registry.request("POST", "/api/uploads", &[], content.as_bytes()).json();
        stored["sha256"].as_str().unwrap().to_owned()
    };
    let (mine, other) = (upload(format!("#!{}", fake.node)), upload(format!("#!other {}", fake.node)));
    let name = target.name("uploaded");
    let registration = json!({
        "dataName": name, "cmd": "probe", "max-Time": 5, "upload": { "sha256": mine },
        "nodes": format!("fake={}", fake.node),
    });
    target.register(&registration);
    let shown = format!("Bearer {own}");
    let get = |node: &str, sha256: &str| {
        let path = format!("/api/nodes/{node}/uploads/{sha256}");
        target.manager.request("GET", &path, &[("Authorization", &shown)], b"")
    };
    let given =
        fake.follow_until("the file", |_| Some(get(&fake.node, &mine)).filter(|got| got.status == 200));
    assert_eq!(given.body, format!("#!{}", fake.node).as_bytes());
    get(&fake.node, &other).expect_status(404);
    get(&target.name("another"), &mine).expect_status(403);
    for spelled in ["..", "%2e%2e%2fslots", &mine[..63]] {
        let status = get(&fake.node, spelled).status;
        assert!(matches!(status, 400 | 404), "{spelled}: {status}");
    }
    // The registry has all of them, and is asked by managers only.
    let path = format!("/api/uploads/{mine}");
    target.registry.request("GET", &path, &[("Authorization", &shown)], b"").expect_status(403);
}

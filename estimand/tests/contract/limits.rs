//! The limits of users: operators set them at the registry, every service counts by them.

use estimand_testkit::http::{Http, Response};
use estimand_testkit::wait::{self, PATIENCE};
use serde_json::{Value, json};

use crate::access::token_with;
use crate::answers::{problem, wrong_field, wrong_input};
use crate::target::Target;

on_every_target!(a_limit_counts_at_every_service, limits_are_operators_to_set);

/// The tasks of one user, which wait for a node that is not there.
pub struct Submitter<'t> {
    target: &'t Target,
    pub user: String,
    pub http: Http,
}

impl<'t> Submitter<'t> {
    pub fn new(target: &'t Target) -> Self {
        let user = target.name("user").to_lowercase();
        let token = token_with(target, &json!({ "role": "user", "user": user }));
        let http = Http::new(&format!("http://{}", target.tasks.authority())).showing(Some(&token));
        Submitter { target, user, http }
    }

    pub fn submit(&self, more: &Value) -> Response {
        let mut document = json!({ "command": ["/bin/true"], "nodes": "node=nowhere" });
        document.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        self.http.send_json("POST", "/api/tasks", &document)
    }

    /// The user's own share, as the task service has it.
    pub fn share(&self, kind: &str) -> Value {
        let all = self.http.get("/api/shares").expect_status(200).json();
        assert_eq!(all.as_array().unwrap().len(), 1, "others are not seen: {all}");
        assert_eq!(all[0]["user"], self.user.as_str());
        all[0]["shares"][kind].clone()
    }

    /// Sets a limit, and waits until the task service has it.
    pub fn limit(&self, kind: &str, limit: u64) {
        let path = format!("/api/users/{}", self.user);
        let set = self.target.registry.send_json("PATCH", &path, &json!({ kind: limit })).expect_status(200);
        assert_eq!(set.json()["limits"][kind], limit);
        wait::until_ok(PATIENCE, "the limit to travel", || match self.share(kind) {
            share if share["limit"] == limit && share["set"] == true => Ok(()),
            share => Err(share),
        });
    }
}

fn a_limit_counts_at_every_service(target: &Target) {
    let (alice, bob) = (Submitter::new(target), Submitter::new(target));
    let nothing = json!({});
    alice.limit("tasks", 2);
    alice.submit(&nothing).expect_status(201);
    problem(&alice.submit(&json!({ "count": 2 })), 409);
    let last = alice.submit(&nothing).expect_status(201).json();
    let refused = problem(&alice.submit(&nothing), 409);
    assert_eq!(refused["type"], "share-full");
    let command = format!("estimand users set {} --tasks 4", alice.user);
    let detail = refused["detail"].as_str().unwrap();
    assert!(detail.contains("has 2 of at most 2") && detail.contains(&command), "{detail}");
    bob.submit(&nothing).expect_status(201);
    let cancel = format!("/api/tasks/{}/cancel", last["id"].as_str().unwrap());
    alice.http.request("POST", &cancel, &[], b"").expect_status(200);
    alice.submit(&nothing).expect_status(201);
    assert_eq!(alice.share("tasks")["used"], 2);
    // An operator has no share, and may give her more than that.
    let for_her =
        json!({ "command": ["/bin/true"], "nodes": "node=nowhere", "user": alice.user, "priority": 9 });
    target.tasks.send_json("POST", "/api/tasks", &for_her).expect_status(201);

    let high = json!({ "priority": 5 });
    wrong_input(&bob.submit(&high), "priority", "5", "at most 0");
    bob.submit(&json!({ "priority": -5 })).expect_status(201);
    bob.limit("priority", 5);
    bob.submit(&high).expect_status(201);
    wrong_input(&bob.submit(&json!({ "priority": 6 })), "priority", "6", "at most 5");

    bob.limit("memory", 100_000);
    let document = |bytes: usize| json!({ "environment": { "V": "x".repeat(bytes) } });
    let kept = bob.submit(&document(50_000)).expect_status(201).json()["id"].clone();
    problem(&bob.submit(&document(50_000)), 409);
    let path = format!("/api/tasks/{}", kept.as_str().unwrap());
    bob.http.request("POST", &format!("{path}/cancel"), &[], b"").expect_status(200);
    bob.submit(&document(50_000)).expect_status(201);
    problem(&bob.http.get(&path), 404);
    let figures = String::from_utf8(target.tasks.get("/metrics").expect_status(200).body).unwrap();
    let line = format!("estimand_share_limit{{user=\"{}\",kind=\"memory\"}} 100000", bob.user);
    assert!(figures.contains(&line), "{line}");
}

fn limits_are_operators_to_set(target: &Target) {
    let alice = Submitter::new(target);
    let (path, registry) = (format!("/api/users/{}", alice.user), &target.registry);
    let change = |body: &Value| registry.send_json("PATCH", &path, body);
    assert_eq!(registry.get(&path).expect_status(200).json(), json!({ "user": alice.user, "limits": {} }));
    let set = change(&json!({ "memory": "2GiB", "watches": 3, "priority": 7 })).expect_status(200).json();
    assert_eq!(set["limits"], json!({ "memory": 2_147_483_648_u64, "watches": 3, "priority": 7 }));
    let set = change(&json!({ "memory": null })).expect_status(200).json();
    assert_eq!(set["limits"], json!({ "watches": 3, "priority": 7 }));
    let listed = registry.get("/api/users").expect_status(200).json();
    assert!(listed.as_array().unwrap().contains(&set), "{listed}");
    for (body, field) in [
        (json!({ "memory": "2 bags" }), "memory"),
        (json!({ "tasks": -1 }), "tasks"),
        (json!({ "task": 1 }), "task"),
    ] {
        wrong_field(&change(&body), field);
    }
    wrong_field(&registry.get("/api/users/ALICE"), "name");
    let of_alice = Http::new(&format!("http://{}", target.registry_address)).showing(alice.http.token());
    problem(&of_alice.get("/api/users"), 403);
    problem(&of_alice.send_json("PATCH", &path, &json!({ "tasks": 1_000_000 })), 403);
    problem(&of_alice.request("DELETE", &path, &[], b""), 403);
    let reset = registry.request("DELETE", &path, &[], b"").expect_status(200).json();
    assert_eq!(reset["limits"], json!({}));
    let trail = registry.get("/api/audit?limit=1000").expect_status(200).json();
    let of_alice = trail.as_array().unwrap().iter().filter(|entry| entry["subject"] == alice.user.as_str());
    let actions: Vec<&Value> =
        of_alice.filter(|entry| entry["kind"] == "user").map(|entry| &entry["action"]).collect();
    assert_eq!(actions, ["unlimited", "limited", "limited"]);
}

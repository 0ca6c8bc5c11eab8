//! A manager that does not lead: it is alive and ready, and sends everybody to the one that leads.

use estimand_testkit::process;
use estimand_testkit::wait::{self, PATIENCE};
use serde_json::json;

use crate::answers::problem;
use crate::fake::Fake;
use crate::target::{self, Target};

#[test]
fn postgres() {
    a_manager_that_stands_by_says_who_leads(&target::POSTGRES_ALONE);
}

#[test]
fn mariadb() {
    a_manager_that_stands_by_says_who_leads(&target::MARIADB_ALONE);
}

fn a_manager_that_stands_by_says_who_leads(target: &Target) {
    let base = |address: &str| format!("http://{address}");
    let (registry, data) = (base(&target.registry_address), base(&target.data_address));
    let args = ["manager", "--registry", &registry, "--data-service", &data];
    // Ready although it stands by: nobody should start another one instead of it.
    let standby = process::estimand().args(args).store(&target.store).start();
    let http = standby.http();
    let leader = base(&target.manager_address);
    wait::until_ok(PATIENCE, "the one that leads to be known", || {
        let refused = problem(&http.get("/api/nodes"), 503);
        let detail = refused["detail"].as_str().unwrap();
        if detail.contains(&leader) { Ok(()) } else { Err(detail.to_owned()) }
    });
    let (fake, name) = (Fake::known(target), target.name("standby"));
    let registration = fake.registration(&name);
    let beat = json!({"agent": fake.agent, "boot": 1, "applied": 0});
    for (method, path, body) in [
        ("GET", "/api/nodes".to_owned(), None),
        ("GET", fake.path(""), None),
        ("DELETE", fake.path(""), None),
        ("PUT", fake.path("/cordon"), None),
        ("DELETE", fake.path("/cordon"), None),
        ("POST", fake.path("/heartbeat"), Some(&beat)),
        ("GET", fake.path(&format!("/slots?agent={}&boot=1", fake.agent)), None),
        ("POST", "/api/mng".to_owned(), Some(&registration)),
        ("DELETE", format!("/api/mng/{name}"), None),
        ("GET", "/api/mng/instances".to_owned(), None),
        ("POST", format!("/api/mng/instances/{name}/{}/run", fake.node), None),
    ] {
        let body = body.map(ToString::to_string).unwrap_or_default();
        let answer = http.request(method, &path, &[], body.as_bytes());
        let refused = problem(&answer, 503);
        assert_eq!(refused["type"], "standing-by", "{method} {path}: {refused}");
        assert!(refused["detail"].as_str().unwrap().contains(&leader), "{method} {path}: {refused}");
        assert!(answer.header("retry-after").is_some(), "{answer}");
    }
    for path in ["/healthz", "/readyz", "/metrics", "/openapi.json"] {
        http.get(path).expect_status(200);
    }
    // Invalid input is rejected by a standby too, and nothing of all this has reached the one that does.
    problem(&http.get("/api/nodes/a%20b"), 400);
    assert_eq!(target.manager.get(&fake.path("")).json()["cordoned"], false);
}

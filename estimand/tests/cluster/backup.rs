//! A database is copied while a service uses it, with its own tools as the documents say, and a service over the copy has
//! what was acknowledged before.

use std::process::Command;

use estimand_testkit::databases::{mariadb, postgres};
use estimand_testkit::plane::Plane;
use estimand_testkit::process::{Estimand, estimand};
use serde_json::{Value, json};
use tempfile::TempDir;

fn over(url: &str) -> Estimand {
    estimand().args(["up", "--no-agent", "--defaults", "none"]).store(url).start()
}

fn write(services: &Estimand, name: &str, value: u64) {
    let value = json!({ "dataName": name, "nodeName": "n1", "dataValue": value });
    assert!([200, 201].contains(&services.http().send_json("POST", "/api/data", &value).status));
}

/// The state that a backup must bring back, as it is read.
fn state(services: &Estimand) -> Value {
    let plane = Plane::of(services);
    let value = |name: &str| plane.value(name, "n1").map(|value| value["dataValue"].clone());
    json!({
        "registrations": plane.registrations(),
        "value": value("measured").unwrap(),
        "bound": value("served").unwrap(),
        "token": services.http().get("/api/tokens").expect_status(200).text().contains("kept_token"),
    })
}

fn a_backup_brings_everything_back(url: &str, backup: impl FnOnce() -> String) {
    let mut services = over(url);
    Plane::of(&services).register(&json!({ "dataName": "kept", "cmd": "true", "max-Time": 60 }));
    write(&services, "measured", 1);
    services.http().send_json("PUT", "/api/bindings/served", &json!({ "to": "measured" })).expect_status(200);
    let token = json!({ "name": "kept_token", "role": "read" });
    services.http().send_json("POST", "/api/tokens", &token).expect_status(201);
    let before = state(&services);
    let copy = backup();
    write(&services, "measured", 2);
    assert!(services.terminate().success());

    let restored = over(&copy);
    assert_eq!(state(&restored), before);
    write(&restored, "measured", 3);
    assert_eq!(state(&restored)["bound"], json!(3));
}

#[test]
fn a_backup_of_sqlite_in_use_brings_everything_back() {
    let folder = TempDir::new().unwrap();
    let place = |name: &str| folder.path().join(name).display().to_string();
    let (used, copy) = (place("used.db"), place("copy.db"));
    a_backup_brings_everything_back(&format!("sqlite://{used}"), || {
        let done = Command::new("sqlite3").args([&used, &format!(".backup {copy}")]).status();
        assert!(done.expect("sqlite3 is installed").success());
        format!("sqlite://{copy}")
    });
}

#[test]
fn a_backup_of_postgresql_in_use_brings_everything_back() {
    let url = postgres().fresh_url();
    a_backup_brings_everything_back(&url, || postgres().backup(&url));
}

#[test]
fn a_backup_of_mariadb_in_use_brings_everything_back() {
    let url = mariadb().fresh_url();
    a_backup_brings_everything_back(&url, || mariadb().backup(&url));
}

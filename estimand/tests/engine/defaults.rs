//! The default registrations of a fresh `up`, which are made only once.

use estimand_testkit::http::Http;
use estimand_testkit::process::{self, Estimand, free_port};
use estimand_testkit::wait::{self, PATIENCE};
use serde_json::{Value, json};

/// Measured on every machine.
const EVERYWHERE: [&str; 7] = ["cpu", "memory", "load", "network", "processes", "system", "node_utilization"];
/// Where there is something to measure.
const PERHAPS: [&str; 5] = ["disk", "disk_io", "cgroup", "gpu", "hdfs"];
const NODE: &str = "fresh";
/// Logged when each of them was registered or left alone.
const DONE: &str = "the default collectors are registered";

fn up() -> Estimand {
    let args = ["up", "--defaults", "standard", "--node", NODE];
    process::estimand().args(args).port(free_port()).start()
}

fn value(http: &Http, name: &str) -> Option<Value> {
    let answer = http.get(&format!("/api/data/{name}/{NODE}"));
    (answer.status == 200).then(|| answer.json()["dataValue"].clone())
}

fn instance(http: &Http, name: &str) -> Option<Value> {
    http.get(&format!("/api/mng/instances?dataName={name}")).json().as_array()?.first().cloned()
}

fn shown(instance: Option<Value>) -> String {
    instance.map_or_else(|| "no instance".to_owned(), |instance| instance.to_string())
}

fn registered(http: &Http) -> Vec<String> {
    let all = http.get("/api/registry").expect_status(200).json();
    all.as_array().unwrap().iter().map(|one| one["dataName"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn a_fresh_node_tells_what_it_is_without_being_asked() {
    let up = up();
    let http = up.http();
    for name in EVERYWHERE {
        wait::until_ok(PATIENCE, &format!("a value of `{name}`"), || {
            value(&http, name).ok_or_else(|| shown(instance(&http, name)))
        });
    }
    for name in PERHAPS {
        wait::until_ok(PATIENCE, &format!("`{name}` to say something"), || match instance(&http, name) {
            Some(slot) if slot["doing"] == "unavailable" && slot["note"].is_string() => Ok(()),
            Some(_) if value(&http, name).is_some() => Ok(()),
            other => Err(shown(other)),
        });
    }
    // As the kernel has it.
    let meminfo = std::fs::read_to_string("/proc/meminfo").unwrap();
    let total: u64 = meminfo.split_whitespace().nth(1).unwrap().parse().unwrap();
    assert_eq!(value(&http, "memory").unwrap()["totalBytes"], total * 1024);
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap();
    assert_eq!(value(&http, "system").unwrap()["bootId"], boot.trim());
    let free = value(&http, "cpu").unwrap()["freeFraction"].as_f64().unwrap();
    assert!((0.0..=1.0).contains(&free), "{free}");
    let used = value(&http, "node_utilization").unwrap().as_f64().unwrap();
    assert!(used > 0.0 && used <= 1.0, "{used}");
    for name in EVERYWHERE.into_iter().chain(PERHAPS) {
        let slot = instance(&http, name).unwrap();
        assert_eq!(slot["failures"], 0, "{slot}");
    }
}

#[test]
fn defaults_that_were_changed_or_deleted_stay_so() {
    let mut up = up();
    let http = up.http();
    let all = EVERYWHERE.len() + PERHAPS.len();
    wait::until(PATIENCE, "the default registrations", || (registered(&http).len() == all).then_some(()));
    http.request("DELETE", "/api/registry/load", &[], b"").expect_status(204);
    let slower = json!({ "dataName": "cpu", "cmd": "cpu", "mode": "builtin", "max-Time": 60 });
    http.send_json("PUT", "/api/registry", &slower).expect_status(200);
    assert!(up.terminate().success());
    up.restart_on_same_port();
    let http = up.http();
    wait::until(PATIENCE, "the defaults to be done with", || up.stderr_tail().contains(DONE).then_some(()));
    assert!(!registered(&http).contains(&"load".to_owned()));
    assert_eq!(http.get("/api/registry/cpu").json()["max-Time"], 60);
}

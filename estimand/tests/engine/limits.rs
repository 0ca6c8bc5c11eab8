//! The limits of a registration hold for every process that its runs start.

use estimand_testkit::disk::Disk;
use serde_json::json;

use crate::plane::{Agent, Plane};

#[test]
fn limits_hold() {
    let plane = Plane::with_agent("limits", Agent::Within, &[]);
    let memory = |limit: &str| json!({"limits": {"memory": limit}, "max-Time": 1});
    plane.register("modest", &["eat-memory:16MiB", "print:1"], memory("256MiB"));
    plane.register("greedy", &["eat-memory:256MiB", "print:1"], memory("32MiB"));
    let spawning = plane.script("spawning", "sleep 5 & sleep 5 & sleep 5 & sleep 5 & echo started");
    plane.register_cmd("few", json!([spawning]), json!({"limits": {"processes": 3}, "timeout": 2}));
    plane.register_cmd("enough", json!([spawning]), json!({"limits": {"processes": 20}, "timeout": 2}));
    let files = plane.script("files", "ulimit -n");
    plane.register_cmd("files", json!([files]), json!({"limits": {"openFiles": 17}}));
    plane.until_is("modest", 1);
    plane.until_error("greedy", "it was killed because it reached its limit of memory");
    assert_eq!(plane.read("greedy"), None);
    plane.until_is("enough", "started");
    // The shell says on stderr that it cannot fork.
    let slot = plane.until_instance("few", "to have failed", |slot| slot["failures"].as_u64() >= Some(1));
    assert!(slot["stderrTail"].as_str().unwrap().contains("fork"), "{slot}");
    plane.until_is("files", 17);
    for name in ["modest", "greedy", "few", "files"] {
        let slot = plane.instance(name).unwrap();
        assert_eq!(slot.get("unenforced"), None, "{slot}");
    }
    plane.end();
}

/// Where there are no cgroups, what can be done is done, and what cannot is said.
#[test]
fn limits_without_cgroups_hold_as_far_as_they_can() {
    let plane = Plane::with_agent("limits-without", Agent::WithoutCgroups, &[]);
    let limits = json!({"memory": "32MiB", "processes": 30, "cpu": 0.5, "openFiles": 17});
    plane.register("greedy", &["eat-memory:256MiB", "print:1"], json!({"limits": limits, "max-Time": 1}));
    plane.register("bomb", &["fork-bomb"], json!({"limits": {"processes": 30}, "timeout": 5, "max-Time": 5}));
    let slot = plane.until_error("greedy", "out of memory");
    let unenforced = slot["unenforced"].as_array().unwrap();
    for word in ["memory", "processes", "cpu"] {
        assert!(unenforced.iter().any(|what| what.as_str().unwrap().starts_with(word)), "{word}: {slot}");
    }
    assert!(!unenforced.iter().any(|what| what.as_str().unwrap().contains("file")), "{slot}");
    let slot = plane.until_error("bomb", "processes");
    assert!(slot["lastDurationMs"].as_f64() < Some(4_000.0), "killed before its timeout: {slot}");
    plane.end();
}

#[test]
fn no_run_begins_on_a_disk_without_a_reserve() {
    let disk = Disk::in_memory("32m");
    let at = disk.path().display().to_string();
    let plane = Plane::with_agent("reserve", Agent::Within, &["--slots-dir", &at, "--reserve", "8"]);
    plane.register_cmd("where", json!([plane.script("where-script", "pwd")]), json!({}));
    let value = plane.until_value("where", "there", |_| true);
    assert!(value["dataValue"].as_str().unwrap().starts_with(&at), "{value}");
    let full = disk.fill();
    plane.until_error("where", "less than the reserve of 8.0 MiB (--reserve)");
    drop(full);
    let freed = plane.read("where").unwrap();
    plane.until_value("where", "renewed", |value| {
        value["collectedAt"].as_str() > freed["collectedAt"].as_str()
    });
    plane.end();
}

//! The limits of a registration hold for every process that its runs start.

use std::fs;

use estimand_testkit::disk::Disk;
use serde_json::{Value, json};

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

/// A slot may take so much of its disk, and the others go on beside it.
#[test]
fn a_slot_that_fills_its_folder_is_ended_and_its_folder_emptied() {
    let disk = Disk::in_memory("256m");
    let at = disk.path();
    let plane = Plane::with_agent("limits-disk", Agent::Within, &["--slots-dir", &at.display().to_string()]);
    let folder = |name: &str| {
        let agents = fs::read_dir(&at).unwrap().map(|entry| entry.unwrap().path().join(name));
        agents.into_iter().find(|folder| folder.is_dir()).unwrap_or_else(|| panic!("{name} has a folder"))
    };
    // Deep down, and in a folder that is closed.
    let fill = "mkdir -p a/b/c; exec 3> a/b/c/endless; chmod 0 a/b/c
                while head -c 1048576 /dev/zero >&3; do sleep 0.02; done";
    let endless = json!([plane.script("endless-script", fill)]);
    let stream =
        json!([plane.script("stream-script", "echo 1; head -c 3000000 /dev/zero > kept; sleep 600")]);
    let left = json!([plane.script("left-script", "head -c 3000000 /dev/zero > $$; echo 1")]);
    let limit = |limit: &str, more: Value| {
        let mut registration = json!({"limits": {"disk": limit}, "max-Time": 3600});
        registration.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        registration
    };
    plane.register_cmd("free", left.clone(), json!({"max-Time": 3600}));
    plane.register_cmd("enough", left.clone(), limit("4MiB", json!({})));
    plane.register_cmd("left", left, limit("1MiB", json!({})));
    plane.register_cmd("stream", stream, limit("1MiB", json!({"mode": "stream"})));
    plane.register("beside", &["print:1"], json!({}));
    plane.register_cmd("endless", endless, limit("16MiB", json!({"timeout": 60})));

    let slot = plane.until_error("endless", "MiB of disk, and may take 16.0 MiB (limits.disk)");
    assert!(slot["lastDurationMs"].as_f64() < Some(50_000.0), "ended before its timeout: {slot}");
    // A folder that is looked at while the program writes has less than all that it writes.
    for name in ["left", "stream"] {
        plane.until_error(name, "MiB of disk, and may take 1.0 MiB (limits.disk)");
    }
    plane.until_is("enough", 1);
    plane.until_is("free", 1);
    let seen = plane.until_value("beside", "there", |_| true);
    plane.until_value("beside", "renewed", |value| value["collectedAt"] != seen["collectedAt"]);
    assert_eq!(plane.read("left"), None, "a run that leaves too much gives no value");

    for (name, files) in [("endless", 0), ("left", 0), ("enough", 1), ("free", 1)] {
        assert_eq!(fs::read_dir(folder(name)).unwrap().count(), files, "{name}");
    }
    plane.end();
}

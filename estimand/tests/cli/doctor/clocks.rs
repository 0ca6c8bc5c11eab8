//! The clock of a service that is not that of this machine, and of a node that is not that of its manager.

use estimand_testkit::clock::Clock;
use estimand_testkit::plane::Plane;
use estimand_testkit::process;
use estimand_testkit::wait::{self, PATIENCE};
use serde_json::json;

use super::Diagnosis;

#[test]
fn a_clock_that_is_off_is_told_by_how_much() {
    let clock = Clock::right();
    let services = clock.give_to(process::estimand().args(["up", "--no-agent"])).start();
    let diagnose = || {
        let mut command = process::command(process::binary());
        command.args(["doctor", "--json"]).env("ESTIMAND_SERVER", services.base_url());
        Diagnosis::of(&command.output().unwrap())
    };
    for (by, level, part, code) in [
        ("+0", "ok", "agree", 0),
        ("-10m", "failure", "behind the one here", 1),
        ("+10m", "failure", "ahead of the one here", 1),
        ("+20s", "warning", "ahead of the one here", 0),
        ("-20s", "warning", "behind the one here", 0),
    ] {
        clock.shift(by);
        let has = |found: &Diagnosis| found.find("clock", part).is_some_and(|one| one["level"] == level);
        let found =
            wait::until(PATIENCE, &format!("the clock to be off by {by}"), || Some(diagnose()).filter(has));
        assert_eq!(found.code, code, "{found:?}");
        let remedy = found.has(level, "clock", part);
        assert_eq!(remedy.contains("timedatectl"), level != "ok", "{found:?}");
    }
}

/// Half a minute is less than what a service takes out of a sender's times, and more than these values hold.
#[test]
fn a_node_whose_clock_is_off_has_fresh_values_and_is_told() {
    let services = process::estimand().args(["up", "--no-agent"]).start();
    let clock = Clock::right();
    clock.shift("-30s");
    let agent = process::estimand().args(["agent", "--server", services.base_url(), "--node", "late"]);
    let agent = clock.give_to(agent.args(["--allow-all"]).without_http()).start();
    let plane = Plane::of(&services);
    plane.register(&json!({"dataName": "pulse", "cmd": ["/bin/echo", "1"], "max-Time": 1}));
    let diagnose = || {
        let mut command = process::command(process::binary());
        command.args(["doctor", "--json"]).env("ESTIMAND_SERVER", services.base_url());
        Diagnosis::of(&command.output().unwrap())
    };
    // Also if it is set while the agent runs.
    for (by, word) in [("-30s", "behind"), ("+40s", "ahead of")] {
        clock.shift(by);
        plane.wait_fresh("pulse", &["late"]);
        let off = |found: &Diagnosis| found.find("clock", word).is_some();
        let found = wait::until(PATIENCE, "the node's clock to be told", || Some(diagnose()).filter(off));
        assert!(found.has("warning", "clock", "`late`").contains("timedatectl"), "{found:?}");
        let ahead = services.http().get("/api/nodes").expect_status(200).json()[0]["clockAheadMs"].as_i64();
        let expected = if by == "-30s" { -30_000 } else { 40_000 };
        assert!((ahead.unwrap() - expected).abs() < 1_000, "{ahead:?}");
        // It goes on being renewed.
        let before = plane.value("pulse", "late").unwrap()["revision"].as_u64();
        wait::until(PATIENCE, "values to go on", || {
            let value = plane.value("pulse", "late").ok()?;
            (value["revision"].as_u64() > before && value["state"] == "fresh").then_some(())
        });
    }
    drop(agent);
}

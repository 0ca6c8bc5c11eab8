//! However the agent ends, nothing of what it ran is left; and then it goes on where it was.

use std::time::{Duration, Instant};

use estimand_testkit::processes;
use estimand_testkit::wait::{self, PATIENCE};
use serde_json::json;

use crate::plane::{Agent, Plane};

/// After the agent was killed.
const GONE_WITHIN: Duration = Duration::from_secs(2);
/// After the agent was asked to end.
const END_WITHIN: Duration = Duration::from_secs(10);

/// Registers what is hard to get rid of, and waits until all of it runs.
fn run_all_kinds(plane: &Plane) {
    let long = || json!({"timeout": 600, "max-Time": 600});
    plane.register("ticks", &["print:1"], json!({"max-Time": 0.1}));
    plane.register("hangs", &["hang"], long());
    plane.register("deaf", &["ignore-term", "grandchild-keeps-pipe", "hang"], long());
    plane.register("daemon", &["ignore-term", "daemonize", "hang"], long());
    plane.register("stream", &["ignore-term", "stream:100ms"], json!({"mode": "stream"}));
    for (name, count) in [("hangs", 1), ("deaf", 2), ("daemon", 2), ("stream", 1)] {
        wait::until(PATIENCE, &format!("{count} processes of `{name}`"), || {
            (plane.running_of(name).len() >= count).then_some(())
        });
    }
    plane.until_is("ticks", 1);
}

/// Waits until everything runs, also what was not yet there before.
fn until_all_run(plane: &Plane, since: &serde_json::Value) {
    plane.until_value("ticks", "renewed", |value| {
        value["collectedAt"].as_str() > since["collectedAt"].as_str()
    });
    for (name, word) in [("hangs", "hang"), ("deaf", "hang"), ("daemon", "hang"), ("stream", "stream:100ms")]
    {
        plane.until_runs(name, word);
    }
}

#[test]
fn a_killed_agent_leaves_nothing_and_goes_on() {
    for agent in [Agent::Within, Agent::WithoutCgroups] {
        let mut plane = Plane::with_agent("killed", agent, &[]);
        run_all_kinds(&plane);
        let last = plane.read("ticks").unwrap();
        match &mut plane.beside {
            Some(agent) => agent.kill9(),
            None => plane.services.kill9(),
        }
        processes::none_with(&plane.mark, GONE_WITHIN);
        match &mut plane.beside {
            Some(agent) => agent.restart_on_same_port(),
            None => plane.services.restart_on_same_port(),
        }
        until_all_run(&plane, &last);
        plane.end();
    }
}

#[test]
fn a_killed_launcher_is_replaced() {
    for agent in [Agent::Within, Agent::WithoutCgroups] {
        let plane = Plane::with_agent("launcher", agent, &[]);
        run_all_kinds(&plane);
        let before = plane.running();
        let launcher = plane.launcher();
        processes::kill9(launcher);
        let is_gone = || before.iter().all(|process| !processes::is_alive(process.pid)).then_some(());
        wait::until(PATIENCE, "all that it ran to be gone", is_gone);
        let last = plane.read("ticks").unwrap();
        wait::until(PATIENCE, "another launcher", || (plane.launcher() != launcher).then_some(()));
        plane.until_value("ticks", "renewed", |value| {
            value["collectedAt"].as_str() > last["collectedAt"].as_str()
        });
        plane.until_runs("stream", "stream:100ms");
        // A run that is due once in ten minutes was lost with the launcher, and says so.
        plane.until_error("hangs", "the launcher died");
        plane.end();
    }
}

#[test]
fn an_agent_that_is_asked_to_end_takes_everything_along() {
    for agent in [Agent::Within, Agent::WithoutCgroups] {
        let plane = Plane::with_agent("asked-to-end", agent, &[]);
        run_all_kinds(&plane);
        let began = Instant::now();
        plane.end();
        assert!(began.elapsed() < END_WITHIN, "{:?}", began.elapsed());
    }
}

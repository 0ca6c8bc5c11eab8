//! Restarts by an operator, and the cuts that every network has, cost no task anything: by default a task goes on for
//! minutes while nobody hears of its node. By default each story has one round; with `ESTIMAND_LONG` rounds go on for an hour, or
//! for as many seconds as `ESTIMAND_LEASES_SECONDS` says.

use std::fs;
use std::time::{Duration, Instant};

use estimand_testkit::disk::Disk;
use estimand_testkit::wait::{self, PATIENCE};
use serde_json::json;

use crate::plane::Plane;

const TASKS: usize = 6;
/// The rounds of the long form.
const LONG: Duration = Duration::from_secs(3_600);
/// A node that is silent for so long is lost.
const LOST_AFTER: Duration = Duration::from_secs(6);

fn is_long() -> bool {
    std::env::var_os("ESTIMAND_LONG").is_some()
}

/// The numbers of the rounds.
fn rounds(story: &str) -> impl Iterator<Item = usize> {
    let began = Instant::now();
    let given = std::env::var("ESTIMAND_LEASES_SECONDS").ok().map(|seconds| seconds.parse().unwrap());
    let time = if is_long() { given.map_or(LONG, Duration::from_secs) } else { Duration::ZERO };
    (0..).take_while(move |round| {
        println!("{story}: {round} rounds in {} s", began.elapsed().as_secs());
        *round == 0 || began.elapsed() < time
    })
}

/// How long something is away: always longer than a lease of slots, up to a minute in the long form.
fn away() -> Duration {
    let more = if is_long() { Duration::from_secs(54).mul_f64(fastrand::f64()) } else { Duration::ZERO };
    LOST_AFTER + more
}

/// Tasks that say nothing of losses, and note each of their beginnings.
struct Running<'p> {
    plane: &'p mut Plane,
    ids: Vec<String>,
}

impl<'p> Running<'p> {
    fn start(plane: &'p mut Plane) -> Self {
        let script = "echo $$ >> \"$0/begun-$ESTIMAND_TASK_ID\"; \
                      while [ ! -e \"$0/end\" ]; do touch \"$0/lives-$ESTIMAND_TASK_ID\"; sleep 0.2; done";
        let document =
            json!({ "command": ["/bin/sh", "-c", script, plane.folder.path()], "policy": "spread" });
        let ids = (0..TASKS).map(|_| plane.submit(&document)).collect();
        let running = Running { plane, ids };
        running.until_all_go_on();
        running
    }

    /// Waits until each has done something after this moment.
    fn until_all_go_on(&self) {
        let lives = self.ids.iter().map(|id| self.plane.folder.path().join(format!("lives-{id}")));
        let lives: Vec<_> = lives.collect();
        lives.iter().for_each(|file| drop(fs::remove_file(file)));
        wait::until_ok(PATIENCE, "all tasks to go on", || {
            let missing = lives.iter().filter(|file| !file.exists()).count();
            if missing == 0 { Ok(()) } else { Err(missing) }
        });
    }

    /// Waits until the services say that all tasks run.
    fn until_all_are_told(&self) {
        for id in &self.ids {
            wait::until_ok(PATIENCE, &format!("{id} to run"), || {
                let answer = self.plane.http.try_request("GET", &format!("/api/tasks/{id}"), &[], b"");
                match answer {
                    Ok(answer) if answer.status == 200 && answer.json()["state"] == "RUNNING" => Ok(()),
                    // A request that stood still with the services may be answered 408.
                    Ok(answer) => Err(answer.to_string()),
                    Err(error) => Err(error.to_string()),
                }
            });
        }
    }

    /// Ends all, and checks that each was begun once, so none was begun anew, and none ran twice.
    #[track_caller]
    fn end(self) {
        self.until_all_go_on();
        fs::write(self.plane.folder.path().join("end"), "").unwrap();
        for id in &self.ids {
            let task = self.plane.over(id);
            assert_eq!((&task["state"], &task["attempt"]), (&json!("SUCCEEDED"), &json!(1)), "{task}");
        }
        self.check_begun();
    }

    #[track_caller]
    fn check_begun(&self) {
        for id in &self.ids {
            let begun = fs::read_to_string(self.plane.folder.path().join(format!("begun-{id}"))).unwrap();
            assert_eq!(begun.lines().count(), 1, "{id} was begun {} times", begun.lines().count());
        }
    }
}

#[test]
fn restarts_and_cuts_end_no_task() {
    let mut plane = Plane::start(&["n1", "n2"]);
    let running = Running::start(&mut plane);
    for round in rounds("restarts and cuts") {
        let agent = round % 2;
        // Services first: a node that they cannot hear of is not lost to them.
        running.plane.services.kill9();
        wait::pass(away());
        running.plane.services.restart_on_same_port();
        running.until_all_go_on();
        running.plane.services.terminate();
        running.plane.services.restart_on_same_port();
        running.plane.agents[agent].terminate();
        running.plane.agents[agent].restart_on_same_port();
        running.until_all_go_on();
        running.plane.agents[1 - agent].restart_on_same_port();
        running.until_all_go_on();
        running.plane.services.pause();
        wait::pass(away());
        running.plane.services.resume();
        running.until_all_are_told();

        // The manager says that this node is lost; a task on it waits, and says for how long.
        running.plane.agents[agent].pause();
        wait::pass(away());
        let name = format!("n{}", agent + 1);
        let silent = |id: &&String| running.plane.task(id)["node"] == name.as_str();
        let silent: Vec<&String> = running.ids.iter().filter(silent).collect();
        assert!(!silent.is_empty(), "no task is on {name}");
        for id in silent {
            wait::until_ok(PATIENCE, "the task to wait for its node", || {
                let task = running.plane.task(id);
                let waits = task["waits"].as_str().unwrap_or_default();
                if waits.contains("it may run there") { Ok(()) } else { Err(task) }
            });
        }
        running.until_all_go_on();
        running.plane.agents[agent].resume();
        running.until_all_are_told();
        running.check_begun();
    }
    running.end();
}

#[test]
fn a_full_disk_on_the_node_ends_no_task() {
    let disk = Disk::in_memory("32m");
    let mut plane = Plane::on_disk("n1", &disk);
    let running = Running::start(&mut plane);
    for _ in rounds("full disks") {
        let full = disk.fill();
        wait::pass(away());
        running.until_all_go_on();
        drop(full);
        running.check_begun();
    }
    running.until_all_are_told();
    running.end();
}

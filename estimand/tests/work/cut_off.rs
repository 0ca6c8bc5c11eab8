//! A node that is not heard of for longer than its lease: what it had runs elsewhere then, and never in both places.

use estimand_testkit::wait::{self, PATIENCE};
use serde_json::json;

use crate::long_or;
use crate::plane::{PLACES, Plane};
use crate::runs::{self, Kind};

/// Two runs that are there at once would meet.
const LINES: u32 = 15;

/// It was told of tasks that it did not hear of before its lease was over, and reads of them as soon as it is back.
#[test]
fn a_node_that_is_back_begins_nothing_that_was_placed_elsewhere_meanwhile() {
    let mut plane = Plane::start("cut-off", &["n1", "n2"]);
    runs::watching(&mut plane, |plane| {
        for _ in 0..long_or(20, 2) {
            // Some that run there, and some that it has not heard of.
            let submit = |kind| {
                let mut document = runs::document(plane, kind, LINES);
                document["policy"] = json!("spread");
                plane.submit(&document)
            };
            let running: Vec<String> = (0..4).map(|_| submit(Kind::Plain)).collect();
            running.iter().for_each(|id| plane.wait_been(id, &["RUNNING"]));
            plane.agents[0].pause();
            let unheard: Vec<String> = (0..PLACES).map(|_| submit(Kind::Plain)).collect();
            unheard.iter().for_each(|id| plane.wait_been(id, &["PLACED"]));
            let there = |id: &&String| {
                plane.try_get(&format!("/api/tasks/{id}")).is_ok_and(|task| task["node"] == "n1")
            };
            let placed_there: Vec<&String> = unheard.iter().filter(there).collect();
            assert!(!placed_there.is_empty(), "nothing was placed on the node that does not listen");
            // As soon as one of them is placed elsewhere, it listens.
            wait::until(PATIENCE, "the node to be lost", || {
                let attempt =
                    |id: &&String| Some(plane.try_get(&format!("/api/tasks/{id}")).ok()?["attempt"].clone());
                placed_there.iter().any(|id| attempt(id) == Some(json!(2))).then_some(())
            });
            plane.agents[0].resume();
            for id in running.iter().chain(&unheard) {
                let task = plane.over(id);
                runs::check(plane, id, &task, Kind::Plain, LINES);
            }
            runs::check_alone(plane);
            plane.wait_nodes(2);
        }
    });
    runs::check_free(&plane);
}

/// The same when it is back in the moment in which it is lost, before the task service has seen that.
#[test]
fn a_node_that_is_back_at_once_is_told_anew() {
    let plane = Plane::start("back", &["n1", "n2"]);
    for _ in 0..long_or(20, 2) {
        plane.agents[0].pause();
        let mut document = runs::document(&plane, Kind::Plain, LINES);
        document["policy"] = json!("spread");
        let ids: Vec<String> = (0..PLACES).map(|_| plane.submit(&document)).collect();
        let manager = plane.services.manager.http();
        wait::until(PATIENCE, "the node to be lost", || {
            (manager.get("/api/nodes/n1").json()["state"] == "lost").then_some(())
        });
        plane.agents[0].resume();
        for id in &ids {
            let task = plane.over(id);
            runs::check(&plane, id, &task, Kind::Plain, LINES);
        }
        runs::check_alone(&plane);
        plane.wait_nodes(2);
    }
}

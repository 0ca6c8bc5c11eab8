//! The manager is away, once for long and then again and again: what runs goes on, and follows the registry
//! afterwards.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use estimand_testkit::place::{Agent, INTERVAL, Place};
use estimand_testkit::plane::{Apart, Plane, text};
use estimand_testkit::wait::{self, PATIENCE};
use serde_json::{Value, json};

use crate::{is_long, outage};

#[test]
fn slots_keep_their_time_without_a_manager() {
    let place = Place::new("outage");
    let mut services = Apart::start(&place);
    let agents = ["n1", "n2"].map(|node| place.agent(node, services.manager.base_url()));
    let plane = &services.plane;
    for registration in [place.counting("pulse"), place.counting("doomed"), place.single("only")] {
        plane.register(&registration);
    }
    plane.wait_fresh("pulse", &["n1", "n2"]);
    plane.wait_fresh("doomed", &["n1", "n2"]);
    let on = plane.wait_placed("only", &["n1", "n2"]);

    let (before, begun) = (due_times(plane, "n1").unwrap(), Instant::now());
    services.manager.kill9();
    let answer = plane.unregister("doomed");
    assert!(answer.header("estimand-hint").is_some(), "it is said that nobody confirmed the end: {answer}");
    plane.register(&place.counting("late"));
    let doomed = ["n1", "n2"].map(|node| place.runs(node, "doomed"));
    place.while_it_runs("n1", "pulse", outage());
    for node in ["n1", "n2"] {
        plane.check_history("pulse", node, place.runs(node, "pulse"));
        assert_eq!(place.runs(node, "late"), 0);
    }
    let ran_on = ["n1", "n2"].map(|node| place.runs(node, "doomed"));
    assert!(ran_on.iter().zip(doomed).all(|(now, then)| *now > then + 4), "nobody told the agents to end it");
    assert_eq!(place.processes("only"), [], "what may run once has ended with its lease");

    services.manager.restart_on_same_port();
    plane.wait_fresh("late", &["n1", "n2"]);
    // Each due time was a run, or one that was left out because the run before it still went on.
    wait::until_ok(PATIENCE, "as many due times as there were since the manager was killed", || {
        let due = begun.elapsed().as_secs_f64() / INTERVAL.as_secs_f64();
        let since = (due_times(plane, "n1")? - before) as f64;
        if (since - due).abs() <= 4.0 { Ok(()) } else { Err(format!("{since} instead of {due}")) }
    });
    wait::until_ok(PATIENCE, "the deletion to take effect", || {
        let listed = plane.instances()?.iter().any(|instance| instance["dataName"] == "doomed");
        let left = place.processes("doomed");
        if !listed && left.is_empty() { Ok(()) } else { Err(format!("listed: {listed}; {left:?}")) }
    });
    let ended = ["n1", "n2"].map(|node| place.runs(node, "doomed"));
    assert_eq!(plane.wait_placed("only", &["n1", "n2"]), on, "what runs once is where it was");
    place.while_it_runs("n2", "pulse", INTERVAL * 3);
    assert_eq!(["n1", "n2"].map(|node| place.runs(node, "doomed")), ended, "it runs no more");
    assert!(agents.iter().any(|agent| place.runs_below(agent, "only")));
    place.check_alone("only");
}

/// How long a manager may be away while a lease of three seconds, renewed every second, surely lasts.
const BLINK: Duration = Duration::from_millis(800);
const BLINKS: usize = 3;
const MAX_BLINKS: usize = 10;

#[test]
fn a_manager_that_is_soon_back_ends_nothing() {
    let place = Place::new("blink");
    let Apart { registry: _registry, data: _data, mut manager, plane } = Apart::start(&place);
    let _agents = ["n1", "n2"].map(|node| place.agent(node, manager.base_url()));
    plane.register(&place.counting("pulse"));
    plane.register(&place.single("only"));
    plane.wait_fresh("pulse", &["n1", "n2"]);
    let mut blinks = 0;
    for _ in 0..MAX_BLINKS {
        plane.wait_placed("only", &["n1", "n2"]);
        let (before, begun) = (place.processes("only"), Instant::now());
        assert_eq!(before.len(), 2, "a stream and its child: {before:?}");
        manager.kill9();
        manager.restart_on_same_port();
        let away = begun.elapsed();
        place.while_it_runs("n1", "pulse", INTERVAL * 4);
        // On a busy machine it may be away for nearly as long as a lease lasts.
        if away < BLINK {
            assert_eq!(place.processes("only"), before, "its lease was not over");
            blinks += 1;
        }
        if blinks == BLINKS {
            break;
        }
    }
    assert!(blinks > 0, "the manager was never back within {BLINK:?}");
    place.check_alone("only");
}

/// How often the pulse was due on the node, as far as the manager has heard.
fn due_times(plane: &Plane, node: &str) -> Result<i64, String> {
    let instances = plane.instances()?;
    let pulse = instances.iter().find(|one| one["dataName"] == "pulse" && one["nodeName"] == node);
    let Some(pulse) = pulse else { return Err("nothing is known of it".to_owned()) };
    Ok(["runs", "overruns"].iter().filter_map(|count| pulse[count].as_i64()).sum())
}

/// Says when it is dropped, also by a panic, that it is over.
struct Ending<'a>(&'a AtomicBool);

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// How often the manager is killed at least.
const KILLS: usize = 5;

/// How many changes there are at least.
fn changes() -> usize {
    if is_long() { 300 } else { 80 }
}

#[test]
fn slots_follow_the_registry_however_often_the_manager_is_killed() {
    let place = Place::new("kills");
    let Apart { registry: _registry, data: _data, mut manager, plane } = Apart::start(&place);
    let agents = ["n1", "n2"].map(|node| place.agent(node, manager.base_url()));
    plane.register(&place.counting("pulse"));
    plane.wait_fresh("pulse", &["n1", "n2"]);

    let (done, kills, over) = (AtomicUsize::new(0), AtomicUsize::new(0), AtomicBool::new(false));
    let mut marks = BTreeMap::new();
    thread::scope(|scope| {
        scope.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                let next = done.load(Ordering::Relaxed) + fastrand::usize(2..10);
                wait::until(PATIENCE * 2, "the next kill", || {
                    (done.load(Ordering::Relaxed) >= next || over.load(Ordering::Relaxed)).then_some(())
                });
                manager.kill9();
                manager.restart_on_same_port();
                kills.fetch_add(1, Ordering::Relaxed);
            }
        });
        let ended = Ending(&over);
        for number in 0.. {
            if number >= changes() && kills.load(Ordering::Relaxed) >= KILLS {
                break;
            }
            change(&place, &plane, &mut marks, number);
            done.fetch_add(1, Ordering::Relaxed);
        }
        drop(ended);
    });
    println!("the manager was killed {kills:?} times during {done:?} changes");

    let registered: BTreeMap<String, u64> = plane
        .registrations()
        .iter()
        .map(|one| (text(&one["dataName"]), one["version"].as_u64().unwrap()))
        .collect();
    assert_eq!(registered.len(), marks.len() + 1, "besides the pulse");
    wait::until_ok(PATIENCE, "what runs to be what is registered", || {
        for agent in &agents {
            check_instances(&plane, &agent.node, &registered)?;
            check_processes(&place, agent, &marks)?;
        }
        Ok::<(), String>(())
    });
    for node in ["n1", "n2"] {
        plane.check_history("pulse", node, place.runs(node, "pulse"));
    }
}

/// Registers, replaces or deletes one of thirty names; `marks` says which of them there are, and how what they
/// run is marked.
fn change(place: &Place, plane: &Plane, marks: &mut BTreeMap<String, String>, number: usize) {
    let name = format!("m_{:02}", fastrand::u8(0..30));
    let mark = format!("{name}.{number}");
    let registration = json!({
        "dataName": name, "cmd": place.command(&mark, &["stream:5s"]), "max-Time": 5, "mode": "stream",
    });
    match marks.get(&name) {
        None => plane.register(&registration),
        Some(_) if fastrand::bool() => plane.replace(&registration),
        Some(_) => {
            plane.unregister(&name);
            marks.remove(&name);
            return;
        }
    }
    marks.insert(name, mark);
}

fn check_instances(plane: &Plane, node: &str, registered: &BTreeMap<String, u64>) -> Result<(), String> {
    let on_node = |instance: &Value| instance["nodeName"] == node;
    let instances: Vec<Value> = plane.instances()?.into_iter().filter(on_node).collect();
    let running: BTreeMap<String, u64> = instances
        .iter()
        .filter_map(|instance| Some((text(&instance["dataName"]), instance["version"].as_u64()?)))
        .collect();
    let is_new = |instance: &&Value| !instance["next"].is_null() || instance["runs"] == 0;
    match instances.iter().find(is_new) {
        None if running == *registered && instances.len() == registered.len() => Ok(()),
        None => Err(format!("{node} has {running:?} instead of {registered:?}")),
        Some(new) => Err(format!("not yet good: {new}")),
    }
}

fn check_processes(place: &Place, agent: &Agent, marks: &BTreeMap<String, String>) -> Result<(), String> {
    let mut running = place.marks_below(agent);
    running.retain(|mark| mark != "pulse");
    let expected: Vec<String> = marks.values().cloned().collect::<BTreeSet<_>>().into_iter().collect();
    match running == expected {
        true => Ok(()),
        false => Err(format!("on {} run {running:?} instead of {expected:?}", agent.node)),
    }
}

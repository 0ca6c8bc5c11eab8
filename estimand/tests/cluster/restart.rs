//! Everything dies at once, and is started again, the agents first.

use estimand_testkit::place::{INTERVAL, Place};
use estimand_testkit::plane::{Plane, Together, local, text, up};
use estimand_testkit::process::free_port;
use estimand_testkit::wait::{self, PATIENCE};
use serde_json::Value;

const NODES: [&str; 3] = ["n1", "n2", "n3"];

#[test]
fn after_a_whole_restart_all_is_as_before() {
    let place = Place::new("restart");
    let port = free_port();
    // There is no service yet.
    let mut agents = NODES.map(|node| place.agent(node, &local(port)));
    let mut services = Together::of(up(&place, port).start());
    for registration in
        [place.counting("pulse"), place.streaming("flow"), place.single("only"), place.single("other")]
    {
        services.plane.register(&registration);
    }
    let ready = |plane: &Plane| {
        plane.wait_fresh("pulse", &NODES);
        plane.wait_fresh("flow", &NODES);
        ["only", "other"].map(|name| plane.wait_placed(name, &NODES))
    };
    let placed = ready(&services.plane);
    let registered = services.plane.registrations();
    let kept = NODES.map(|node| services.plane.history("pulse", node).unwrap());

    services.up.kill9();
    agents.iter_mut().for_each(|agent| agent.process.kill9());
    let runs = NODES.map(|node| place.runs(node, "pulse"));
    agents.iter_mut().for_each(|agent| agent.process.restart_on_same_port());
    // They go on with what they ran, except for what may run once, of which nobody has told them anything.
    for (node, before) in NODES.into_iter().zip(runs) {
        wait::until(PATIENCE, "the slots to go on", || {
            (place.runs(node, "pulse") >= before + 3).then_some(())
        });
    }
    assert_eq!(place.processes("only"), [], "without a manager nothing says that it may");

    services.up.restart_on_same_port();
    assert_eq!(services.plane.registrations(), registered);
    for (node, kept) in NODES.into_iter().zip(&kept) {
        let found = services.plane.history("pulse", node).unwrap();
        assert!(found.starts_with(kept), "{node}: {found:?} does not begin with {kept:?}");
    }
    assert_eq!(ready(&services.plane), placed, "what runs once is where it was");
    for node in NODES {
        // A run that was under way at the end may be missing; nothing comes twice or in another order, and what
        // was collected without the services is there.
        let last = place.while_it_runs(node, "pulse", INTERVAL);
        let history = wait::until_ok(PATIENCE, "the history to go on", || {
            let history = services.plane.history("pulse", node)?;
            let end = history.last().map_or(0, |(number, _)| *number);
            if end >= last { Ok(history) } else { Err(format!("it ends with {end}")) }
        });
        let numbers: Vec<u64> = history.iter().map(|(number, _)| *number).collect();
        assert!(numbers.is_sorted_by(|a, b| a < b), "{node}: {numbers:?}");
        let after = runs[NODES.iter().position(|n| *n == node).unwrap()];
        let resumed: Vec<u64> = numbers.iter().copied().filter(|number| *number > after + 1).collect();
        assert_eq!(resumed, (resumed[0]..=*numbers.last().unwrap()).collect::<Vec<_>>(), "{node}");
        assert_eq!(resumed[0], after + 2, "{node}: {numbers:?}");
    }
    for value in services.plane.values("pulse").unwrap() {
        assert_eq!(text(&value["state"]), "fresh", "{value}");
    }
    ["only", "other"].iter().for_each(|name| place.check_alone(name));
    let versions = |all: &[Value]| all.iter().map(|one| one["version"].clone()).collect::<Vec<_>>();
    assert_eq!(versions(&services.plane.registrations()), versions(&registered));
}

//! Clocks that jump: an hour back, some seconds, a day forward, and home again.

use std::time::Duration;

use estimand_testkit::clock::Clock;
use estimand_testkit::place::{Agent, Place};
use estimand_testkit::plane::{Together, up};
use estimand_testkit::process::free_port;
use estimand_testkit::wait::{self, PATIENCE};

use crate::{pass, side_by_side};

/// The story for one clock, which some processes have.
fn jumps(place: &Place, services: &Together, clock: &Clock, what: &str) {
    let plane = &services.plane;
    for by in ["-1h", "+0", "-30s", "+45s", "+1d", "+0"] {
        clock.shift(by);
        // Slots keep their interval: neither a flood nor a pause.
        let before = place.runs("n1", "pulse");
        pass(Duration::from_secs(4));
        let runs = place.runs("n1", "pulse") - before;
        assert!((2..=12).contains(&runs), "{what} by {by}: {runs} runs in 4 seconds, at 2 a second");
        // Values collected now come, in order, and are fresh.
        let last = plane.last_number("flow", "n1");
        wait::until_ok(PATIENCE, &format!("{what} by {by}: values to come"), || {
            let value = plane.value("flow", "n1")?;
            let number = value["dataValue"].as_u64().unwrap_or(0);
            if number > last + 3 && value["state"] == "fresh" {
                Ok(())
            } else {
                Err(format!("{last}: {value}"))
            }
        });
        plane.wait_fresh("pulse", &["n1"]);
        plane.wait_node_state("n1", "ready");
        println!("{what} by {by}: {runs} runs in 4 seconds");
    }
}

fn check_order(services: &Together) {
    for name in ["pulse", "flow"] {
        let mut found = services.plane.history(name, "n1").unwrap();
        found.sort();
        found.dedup();
        let numbers: Vec<u64> = found.iter().map(|(number, _)| *number).collect();
        let expected: Vec<u64> = (numbers[0]..numbers[0] + numbers.len() as u64).collect();
        assert_eq!(numbers, expected, "{name}: all of it is kept, once");
    }
}

#[test]
fn jumping_clocks_change_nothing() {
    side_by_side(&[
        (
            "a_jumping_clock_of_the_services_changes_nothing",
            a_jumping_clock_of_the_services_changes_nothing as fn(),
        ),
        ("a_jumping_clock_of_an_agent_changes_nothing", a_jumping_clock_of_an_agent_changes_nothing as fn()),
    ]);
}

fn a_jumping_clock_of_the_services_changes_nothing() {
    let place = Place::new("clock");
    let clock = Clock::right();
    let services = Together::of(clock.give_to(up(&place, free_port())).start());
    let agent = place.agent("n1", services.url());
    begin(&place, &services);
    jumps(&place, &services, &clock, "the services' clock");
    check_order(&services);

    // A value that is not renewed turns stale within its time, wherever the clock has jumped meanwhile.
    services.plane.wait_fresh("pulse", &["n1"]);
    agent.process.pause();
    clock.shift("-1h");
    services.plane.wait_value_state("pulse", "n1", "stale");
    agent.process.resume();
    services.plane.wait_fresh("pulse", &["n1"]);
}

fn a_jumping_clock_of_an_agent_changes_nothing() {
    let place = Place::new("clock");
    let clock = Clock::right();
    let services = Together::start(&place);
    let builder = clock.give_to(place.builder("n1", &[services.url()]));
    let _agent = Agent { node: "n1".to_owned(), process: builder.start() };
    begin(&place, &services);
    jumps(&place, &services, &clock, "the agent's clock");
    check_order(&services);
}

fn begin(place: &Place, services: &Together) {
    services.plane.register(&place.counting("pulse"));
    services.plane.register(&place.streaming("flow"));
    services.plane.wait_fresh("pulse", &["n1"]);
    services.plane.wait_fresh("flow", &["n1"]);
}

//! The network of one node is cut, and mended.

use std::collections::BTreeSet;

use estimand_testkit::netns::Network;
use estimand_testkit::place::{Agent, INTERVAL, Place};
use estimand_testkit::plane::Together;
use estimand_testkit::wait::{self, PATIENCE};

use crate::outage;

#[test]
fn a_node_that_is_cut_off_goes_on_by_itself() {
    let place = Place::new("network");
    let network = Network::new();
    let [far, near] = ["far", "near"].map(|name| network.host(name));
    let services = Together::start_on(&place, network.address());
    let plane = &services.plane;
    let on_host = |host| {
        let builder = place.builder(estimand_testkit::netns::Host::name(host), &[services.url()]);
        Agent { node: host.name().to_owned(), process: builder.inside(host).start() }
    };
    plane.register(&place.counting("pulse"));
    plane.register(&place.streaming("flow"));
    plane.register(&place.single("only"));
    let cut_off = on_host(&far);
    plane.wait_placed("only", &["far"]);
    let _connected = on_host(&near);
    plane.wait_fresh("pulse", &["far", "near"]);
    plane.wait_fresh("flow", &["far", "near"]);
    assert!(place.runs_below(&cut_off, "only"));

    let flown = plane.last_number("flow", "far");
    far.cut();
    plane.wait_node_state("far", "lost");
    plane.wait_value_state("pulse", "far", "node-lost");
    plane.wait_placed("only", &["near"]);
    assert!(!place.runs_below(&cut_off, "only"), "its lease is over");
    place.check_alone("only");
    place.while_it_runs("far", "pulse", outage());
    far.restore();

    plane.wait_node_state("far", "ready");
    plane.check_history("pulse", "far", place.runs("far", "pulse"));
    plane.check_history("flow", "far", flown + outage().as_secs() * 2);
    plane.check_history("pulse", "near", place.runs("near", "pulse"));
    plane.wait_fresh("pulse", &["far", "near"]);
    place.while_it_runs("far", "pulse", INTERVAL * 4);
    let stays = BTreeSet::from(["near".to_owned()]);
    wait::until_ok(PATIENCE, "only to stay where it is", || {
        let nodes = plane.nodes_of("only")?;
        if nodes == stays { Ok(()) } else { Err(format!("{nodes:?}")) }
    });
    assert!(!place.runs_below(&cut_off, "only"));
    place.check_alone("only");
}

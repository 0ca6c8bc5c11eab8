//! The data service is away: nothing that was collected is lost, and its order is kept.

use estimand_testkit::place::{INTERVAL, Place};
use estimand_testkit::plane::Apart;
use estimand_testkit::process::free_port;
use estimand_testkit::proxy::Proxy;

use crate::outage;

#[test]
fn nothing_is_lost_while_the_data_service_is_away() {
    let place = Place::new("data");
    let port = free_port();
    let proxy = Proxy::to(([127, 0, 0, 1], port).into());
    let mut services = Apart::start_behind(&place, port, &proxy.url());
    let _agents = ["n1", "n2"].map(|node| place.agent(node, services.manager.base_url()));
    let plane = &services.plane;
    plane.register(&place.counting("pulse"));
    plane.register(&place.streaming("flow"));
    plane.wait_fresh("pulse", &["n1", "n2"]);
    plane.wait_fresh("flow", &["n1", "n2"]);
    let check = |flown: [u64; 2]| {
        for (node, flown) in ["n1", "n2"].into_iter().zip(flown) {
            services.plane.check_history("pulse", node, place.runs(node, "pulse"));
            services.plane.check_history("flow", node, flown);
        }
    };
    let flown = || ["n1", "n2"].map(|node| services.plane.last_number("flow", node));

    // Killed.
    place.while_it_runs("n1", "pulse", INTERVAL * 4);
    let before = flown();
    services.data.kill9();
    place.while_it_runs("n1", "pulse", outage());
    services.data.restart_on_same_port();
    check(before.map(|number| number + lines()));

    // Stuck: connections stay open, and nothing comes through.
    let before = flown();
    proxy.pause();
    place.while_it_runs("n2", "pulse", outage());
    proxy.resume();
    check(before.map(|number| number + lines()));

    // Connections that break again and again, each perhaps between a write and its answer.
    for _ in 0..5 {
        place.while_it_runs("n1", "pulse", INTERVAL * 2);
        proxy.cut();
    }
    check(flown());
}

/// How many lines a stream surely writes during an outage, at about three a second.
fn lines() -> u64 {
    outage().as_secs() * 2
}

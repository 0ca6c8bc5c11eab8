//! An agent dies, or stands still: what must run once in the cluster goes on elsewhere, and never twice at once.

use std::collections::BTreeSet;

use estimand_testkit::databases::{self, Server};
use estimand_testkit::place::{Agent, INTERVAL, Place};
use estimand_testkit::plane::{Plane, Together, up};
use estimand_testkit::process::free_port;
use estimand_testkit::processes;
use estimand_testkit::wait::{self, PATIENCE};
use serde_json::Value;

const ONCE: [&str; 2] = ["only", "role"];

/// A node that has what may run once, and two more.
fn cluster(place: &Place, services: &Together) -> [Agent; 3] {
    let plane = &services.plane;
    plane.register(&place.counting("pulse"));
    plane.register(&place.single("only"));
    plane.register(&place.single_for_everyone("role"));
    let first = place.agent("n1", services.url());
    wait::until_ok(PATIENCE, "the first node to have it all", || {
        said_by(&plane.value("role", "everyone")?, "n1")
    });
    plane.wait_placed("only", &["n1"]);
    let others = ["n2", "n3"].map(|node| place.agent(node, services.url()));
    plane.wait_fresh("pulse", &["n1", "n2", "n3"]);
    let [second, third] = others;
    [first, second, third]
}

fn said_by(value: &Value, node: &str) -> Result<(), String> {
    let is_so = value["state"] == "fresh" && value["dataValue"] == node;
    if is_so { Ok(()) } else { Err(value.to_string()) }
}

/// Each single run is on one of the other nodes; the node by name.
#[track_caller]
fn moved(services: &Together) -> [String; 2] {
    let plane = &services.plane;
    let on = ONCE.map(|name| {
        wait::until_ok(PATIENCE, &format!("{name} to belong to another node"), || {
            let nodes = plane.nodes_of(name)?;
            let others = ["n2", "n3"].map(str::to_owned);
            let found = others.into_iter().find(|node| nodes == BTreeSet::from([node.clone()]));
            found.ok_or_else(|| format!("it belongs on {nodes:?}"))
        })
    });
    plane.wait_value_state("only", &on[0], "fresh");
    wait::until_ok(PATIENCE, "its values to go on", || said_by(&plane.value("role", "everyone")?, &on[1]));
    on
}

#[test]
fn a_single_run_of_a_killed_agent_goes_on_elsewhere() {
    let place = Place::new("killed");
    let (server, url) = (databases::postgres(), databases::postgres().fresh_url());
    let services = Together::of(up(&place, free_port()).store(&url).start());
    let plane = &services.plane;
    let mut agents = cluster(&place, &services);
    let stored = || epoch_of_role(server, &url);
    let epoch = wait::until(PATIENCE, "the value to be in t_data", stored);
    let ran_there: Vec<u32> =
        processes::descendants(agents[0].process.pid()).iter().map(|process| process.pid).collect();
    assert!(ran_there.len() >= 3, "the launcher, a stream and its child at least");

    agents[0].process.kill9();
    plane.wait_node_state("n1", "lost");
    plane.wait_value_state("pulse", "n1", "node-lost");
    let left: Vec<_> = ran_there.into_iter().filter(|pid| processes::is_alive(*pid)).collect();
    assert_eq!(left, Vec::<u32>::new(), "a killed agent leaves nothing");
    let on = moved(&services);
    wait::until(PATIENCE, "the former value of what has moved to be dropped", || {
        plane.value("only", "n1").is_err().then_some(())
    });
    wait::until(PATIENCE, "what moved to come after what was before, whatever the clocks say", || {
        stored().filter(|now| *now > epoch)
    });

    agents[0].process.restart_on_same_port();
    plane.wait_fresh("pulse", &["n1", "n2", "n3"]);
    place.while_it_runs("n1", "pulse", INTERVAL * 4);
    assert_eq!(placed(plane), on, "what has moved stays");
    assert!(!place.runs_below(&agents[0], "only"));
    ONCE.iter().for_each(|name| place.check_alone(name));
}

#[test]
fn a_single_run_of_a_stopped_agent_ends_before_it_begins_elsewhere() {
    let place = Place::new("stopped");
    let services = Together::start(&place);
    let plane = &services.plane;
    let agents = cluster(&place, &services);

    agents[0].process.pause();
    plane.wait_node_state("n1", "lost");
    let on = moved(&services);
    ONCE.iter().for_each(|name| place.check_alone(name));

    agents[0].process.resume();
    plane.wait_node_state("n1", "ready");
    plane.wait_fresh("pulse", &["n1", "n2", "n3"]);
    place.while_it_runs("n1", "pulse", INTERVAL * 4);
    assert_eq!(placed(plane), on, "what has moved stays");
    assert!(!place.runs_below(&agents[0], "only"));
    ONCE.iter().for_each(|name| place.check_alone(name));
}

/// Where what may run once belongs now.
#[track_caller]
fn placed(plane: &Plane) -> [String; 2] {
    ONCE.map(|name| plane.nodes_of(name).unwrap().into_iter().collect::<Vec<_>>().join(" and "))
}

/// The database's own word for it, once it is in `t_data`.
fn epoch_of_role(server: &Server, url: &str) -> Option<u64> {
    let found =
        server.query(url, "SELECT epoch FROM t_data WHERE data_name = 'role' AND node_name = 'everyone'");
    found.trim().parse().ok()
}

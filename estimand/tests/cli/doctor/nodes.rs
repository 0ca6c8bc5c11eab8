//! Nodes that are lost, and values that wait on their disks.

use estimand_testkit::place::Place;
use estimand_testkit::plane::Apart;
use estimand_testkit::process;
use estimand_testkit::wait::{self, PATIENCE};

use super::Diagnosis;

fn diagnose(servers: &[&str]) -> Diagnosis {
    let mut command = process::command(process::binary());
    command.args(["doctor", "--json"]).env("ESTIMAND_SERVER", servers.join(","));
    Diagnosis::of(&command.output().unwrap())
}

#[test]
fn lost_nodes_and_values_that_wait_are_told_until_they_are_back() {
    let place = Place::new("doctor");
    let mut apart = Apart::start(&place);
    let urls = [&apart.registry, &apart.data, &apart.manager].map(|one| one.base_url().to_owned());
    let [registry, data, manager] = urls.each_ref().map(String::as_str);
    let all = [registry, data, manager];
    let mut agents = ["n1", "n2"].map(|node| place.agent(node, manager));
    apart.plane.register(&place.counting("pulse"));
    apart.plane.wait_fresh("pulse", &["n1", "n2"]);
    let found = diagnose(&all);
    found.has("ok", "nodes", "2 nodes, all ready");
    found.has("ok", "delivery", "no value waits");
    assert_eq!(found.code, 0, "{found:?}");

    // Values wait on the disk of each node, and the service that is away is named.
    apart.data.kill9();
    let waits = |found: &Diagnosis, node: &str| {
        found.find("delivery", &format!("`{node}` cannot deliver")).is_some_and(|one| {
            let text = one["found"].as_str().unwrap();
            one["level"] == "failure" && text.contains("on its disk") && !text.contains("(0 B on its disk)")
        })
    };
    let found = wait::until(PATIENCE, "values to wait on both disks", || {
        Some(diagnose(&all)).filter(|found| waits(found, "n1") && waits(found, "n2"))
    });
    assert_eq!(found.code, 1, "{found:?}");
    found.has("failure", "server", data);
    found.has("ok", "nodes", "2 nodes, all ready");
    assert!(found.has("failure", "delivery", "`n1`").contains("data service"), "{found:?}");
    apart.data.restart_on_same_port();
    wait::until(PATIENCE, "nothing to wait any more", || {
        diagnose(&all).find("delivery", "no value waits").map(|_| ())
    });

    agents[1].process.kill9();
    let found = wait::until(PATIENCE, "the node to be lost", || {
        Some(diagnose(&all)).filter(|found| found.find("nodes", "`n2` is lost").is_some())
    });
    assert_eq!(found.code, 1, "{found:?}");
    let remedy = found.has("failure", "nodes", "nothing was heard of it for");
    assert!(remedy.contains("estimand nodes remove n2"), "{remedy}");
    assert!(found.find("nodes", "`n1`").is_none(), "{found:?}");
    // One cause is one finding: what is registered there is well elsewhere.
    found.has("ok", "registrations", "1 registration without trouble");
    agents[1].process.restart_on_same_port();
    wait::until(PATIENCE, "the node to be back", || {
        diagnose(&all).find("nodes", "2 nodes, all ready").map(|_| ())
    });
}

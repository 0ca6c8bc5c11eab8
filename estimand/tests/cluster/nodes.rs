//! Nodes come and go.

use std::collections::BTreeSet;

use estimand_testkit::place::{Agent, Place};
use estimand_testkit::plane::{Together, text};
use estimand_testkit::wait::{self, PATIENCE};
use serde_json::{Value, json};

#[test]
fn a_registration_runs_on_every_node_that_it_is_for() {
    let place = Place::new("nodes");
    let services = Together::start(&place);
    let plane = &services.plane;
    let zoned = |node: &str, zone: &str| -> Agent {
        let label = format!("zone={zone}");
        let builder = place.builder(node, &[services.url()]).args(["--label", &label]);
        Agent { node: node.to_owned(), process: builder.start() }
    };
    let mut agents: Vec<Agent> =
        [("n1", "a"), ("n2", "a"), ("n3", "b"), ("n4", "b"), ("n5", "c")].map(|(n, z)| zoned(n, z)).into();

    plane.register(&place.counting("everywhere"));
    plane.wait_fresh("everywhere", &["n1", "n2", "n3", "n4", "n5"]);
    let mut chosen = place.counting("chosen");
    chosen["nodes"] = json!("zone in (a, c)");
    plane.register(&chosen);
    plane.wait_fresh("chosen", &["n1", "n2", "n5"]);

    agents.push(zoned("n6", "c"));
    plane.wait_fresh("everywhere", &["n1", "n2", "n3", "n4", "n5", "n6"]);
    plane.wait_fresh("chosen", &["n1", "n2", "n5", "n6"]);
    for agent in &agents {
        let expected = if ["n3", "n4"].contains(&agent.node.as_str()) { 0 } else { 1 };
        assert_eq!(plane.values("chosen").map(|all| of(&all, &agent.node)), Ok(expected));
        plane.check_history("everywhere", &agent.node, 3);
    }

    plane.remove_node("n5").expect_status(409);
    agents[4].process.terminate();
    plane.wait_node_state("n5", "lost");
    plane.wait_value_state("everywhere", "n5", "node-lost");
    assert_eq!(plane.values("everywhere").map(|all| all.len()), Ok(6), "what is lost is not deleted");
    plane.remove_node("n5").expect_status(204);
    plane.remove_node("n5").expect_status(404);
    for name in ["everywhere", "chosen"] {
        assert_eq!(plane.values(name).map(|all| of(&all, "n5")), Ok(0), "{name}");
    }
    plane.wait_fresh("everywhere", &["n1", "n2", "n3", "n4", "n6"]);

    agents[4].process.restart_on_same_port();
    plane.wait_fresh("chosen", &["n1", "n2", "n5", "n6"]);
}

#[test]
fn a_replaced_and_a_deleted_registration_change_what_runs_everywhere() {
    let place = Place::new("changes");
    let services = Together::start(&place);
    let plane = &services.plane;
    let agents = ["n1", "n2"].map(|node| place.agent(node, services.url()));
    plane.register(&place.counting("pulse"));
    plane.register(&place.single("only"));
    plane.wait_fresh("pulse", &["n1", "n2"]);
    plane.wait_placed("only", &["n1", "n2"]);

    let mut replaced = place.single("only");
    replaced["dataName"] = json!("only");
    replaced["max-Time"] = json!(2);
    plane.replace(&replaced);
    wait::until_ok(PATIENCE, "the new version to run", || {
        let versions: BTreeSet<String> = plane
            .instances()?
            .iter()
            .filter(|instance| instance["dataName"] == "only")
            .map(|instance| format!("{} of {}", instance["version"], instance["registered"]))
            .collect();
        if versions == BTreeSet::from(["2 of 2".to_owned()]) { Ok(()) } else { Err(format!("{versions:?}")) }
    });

    let answer = plane.unregister("only");
    assert_eq!(answer.header("estimand-hint"), None, "it is certain that all of it has ended");
    assert_eq!(place.processes("only"), [], "when a deletion is answered nothing runs any more");
    plane.unregister("pulse");
    assert_eq!(place.processes("pulse"), []);
    for agent in &agents {
        assert_eq!(place.marks_below(agent), Vec::<String>::new());
    }
}

fn of(values: &[Value], node: &str) -> usize {
    values.iter().filter(|value| text(&value["nodeName"]) == node).count()
}

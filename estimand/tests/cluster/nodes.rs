//! Nodes come and go.

use std::collections::BTreeSet;
use std::os::unix::fs::PermissionsExt as _;

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

/// Only one of the nodes has the program, so that is where each of these comes to run.
#[test]
fn a_counted_instance_goes_where_its_program_is_and_if_it_is_nowhere_every_node_says_why() {
    let place = Place::new("suitable");
    let services = Together::start(&place);
    let plane = &services.plane;
    let tools = tempfile::tempdir().unwrap();
    let tool = tools.path().join("only-here");
    std::fs::write(&tool, "#!/bin/sh\necho 1\n").unwrap();
    std::fs::set_permissions(&tool, std::fs::Permissions::from_mode(0o755)).unwrap();
    let with_tools =
        place.builder("n2", &[services.url()]).args(["--allow".into(), tools.path().as_os_str().to_owned()]);
    let _agents = [
        place.agent("n1", services.url()),
        Agent { node: "n2".to_owned(), process: with_tools.start() },
        place.agent("n3", services.url()),
    ];
    for node in ["n1", "n2", "n3"] {
        plane.wait_node_state(node, "ready");
    }
    let counted = |name: &str, cmd: Value| {
        plane.register(
            &json!({ "dataName": name, "cmd": cmd, "max-Time": 0.5, "timeout": 10, "replicas": 1 }),
        );
    };
    for (name, cmd) in
        [("by_name", json!(["only-here"])), ("by_path", json!([tool])), ("other", json!(["only-here", "x"]))]
    {
        counted(name, cmd);
        plane.wait_fresh(name, &["n2"]);
        assert_eq!(plane.nodes_of(name), Ok(BTreeSet::from(["n2".to_owned()])), "{name}");
    }
    // Nobody has this one: the instance stays on some node, and tells what all of them say.
    counted("nowhere", json!(["no-such-tool"]));
    wait::until_ok(PATIENCE, "each node to say why", || {
        let all = plane.instances()?;
        let of =
            all.iter().find(|instance| instance["dataName"] == "nowhere").ok_or("there is no instance")?;
        let passed_over = of["passedOver"].as_object().map_or(0, |reasons| reasons.len());
        let names = of["passedOver"].to_string() + &of["lastError"].to_string();
        if passed_over == 2 && names.matches("no-such-tool").count() == 3 {
            Ok(())
        } else {
            Err(of.to_string())
        }
    });
}

fn of(values: &[Value], node: &str) -> usize {
    values.iter().filter(|value| text(&value["nodeName"]) == node).count()
}

//! The engine dies under containers and comes back: what went on has its whole log, what ended has its true end, and what
//! must not go on does not. A line that the engine has read and not written when it dies is lost in it, so each of these
//! containers says nothing at that moment; it says more while the engine is away.

use estimand_testkit::docker::Docker;
use estimand_testkit::processes;
use estimand_testkit::wait::{self, PATIENCE};
use serde_json::json;

use crate::containers::containers_of;
use crate::deaths::check_count;
use crate::leases::LEASE;
use crate::node::{Node, texts};

/// Counts, and is silent for as long as the test holds it: its next number is in a file then.
const COUNTS: &str = "echo $$; i=0; while [ ! -e \"$0/end\" ]; do echo $i; i=$((i+1)); \
                      if [ -e \"$0/hold\" ]; then echo $i > \"$0/next\"; while [ -e \"$0/hold\" ]; do sleep 0.01; done; fi; \
                      sleep 0.01; done; echo total $i; exit 7";

/// Kills the engine while the container is silent and all that it said is known, and lets it go on.
fn kill_in_silence(docker: &Docker, node: &Node, attempt: &str) {
    node.put("hold");
    let next = node.folder.path().join("next");
    let next = wait::until(PATIENCE, "the container to be silent", || {
        std::fs::read_to_string(&next).ok()?.strip_suffix('\n')?.parse::<u32>().ok()
    });
    node.until_said(attempt, &(next - 1).to_string());
    docker.kill9();
    for file in ["next", "hold"] {
        std::fs::remove_file(node.folder.path().join(file)).unwrap();
    }
}

#[test]
fn a_container_that_outlives_its_engine_loses_no_line() {
    let docker = Docker::start_own(true);
    let node = Node::with_engine("engine-live", &docker, &[]);
    node.assign("live", node.container(COUNTS));
    for round in 1..3 {
        node.until_said("live.1", &(round * 30).to_string());
        kill_in_silence(&docker, &node, "live.1");
        assert_eq!(node.running().len(), 1);
        docker.start_again();
    }
    node.until_said("live.1", "120");
    check_count(&node, "live.1");
    assert!(containers_of(&docker, "live").is_empty());
    // One that ends while the engine is away.
    node.assign(
        "away",
        node.container("echo there; while [ ! -e \"$0/end2\" ]; do sleep 0.01; done; exit 5"),
    );
    node.until_said("away.1", "there");
    docker.kill9();
    node.put("end2");
    processes::none_with(&node.mark, PATIENCE);
    docker.start_again();
    let heard = node.until_ended("away.1", json!({"exit": 5}));
    assert_eq!(texts(&heard), ["there"]);
    node.end();
}

#[test]
fn a_container_that_ends_with_its_engine_is_not_begun_again() {
    let docker = Docker::start_own(false);
    let node = Node::with_engine("engine-dead", &docker, &[]);
    let script = format!("echo x >> \"$0/begun\"; {COUNTS}");
    node.assign("dead", node.container(&script));
    node.until_said("dead.1", "30");
    kill_in_silence(&docker, &node, "dead.1");
    docker.start_again();
    let heard = node.until("dead.1", "end", |heard| heard.lines_at_end.is_some());
    let ending = &heard.stages.last().unwrap()["ended"]["ending"];
    assert!(ending["exit"].as_i64().is_some_and(|code| code != 0), "{ending}");
    let counted: Vec<String> = (0..heard.lines.len() - 1).map(|number| number.to_string()).collect();
    assert_eq!(texts(&heard)[1..], counted, "no line twice, and none missing");
    assert_eq!(std::fs::read_to_string(node.folder.path().join("begun")).unwrap(), "x\n");
    assert!(containers_of(&docker, "dead").is_empty());
    node.end();
}

/// Neither its agent nor its engine is there to end it.
#[test]
fn a_lease_ends_a_container_while_its_engine_is_away() {
    let docker = Docker::start_own(true);
    let mut node = Node::with_engine("engine-lease", &docker, &[]);
    node.services.give_leases_of(LEASE);
    let work = node.container("echo there; while :; do sleep 0.05; done");
    node.services.assign(json!([{"id": "leased", "attempt": 1, "leased": true, "work": work}]));
    node.until_said("leased.1", "there");
    node.agent.kill9();
    docker.kill9();
    assert!(!node.running().is_empty());
    processes::none_with(&node.mark, LEASE * 4);
    docker.start_again();
    wait::until(PATIENCE, "the container to be removed", || {
        containers_of(&docker, "leased").is_empty().then_some(())
    });
    node.agent.restart_on_same_port();
    node.until_ended("leased.1", json!("nodeLost"));
    node.end();
}

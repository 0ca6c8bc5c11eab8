//! The agent that a node's name stands for.

use estimand_testkit::place::Place;
use estimand_testkit::plane::{Together, text};
use estimand_testkit::wait::{self, PATIENCE};

#[test]
fn a_name_is_one_agents_until_that_is_gone() {
    let place = Place::new("names");
    let services = Together::start(&place);
    let plane = &services.plane;
    plane.register(&place.counting("pulse"));
    plane.register(&place.single("only"));
    let mut first = place.agent("n1", services.url());
    plane.wait_fresh("pulse", &["n1"]);
    plane.wait_placed("only", &["n1"]);

    // The same folder: the same agent, which runs already.
    let refused = place.builder("n1", &[services.url()]).try_start().err().unwrap();
    let named = format!("is used by another agent, process {}", first.process.pid());
    assert!(refused.contains(&named), "{refused}");

    // The same name from elsewhere.
    let elsewhere = place.builder("n1", &[services.url()]).data_dir(place.agent_folder("another"));
    let second = estimand_testkit::place::Agent { node: "n1".to_owned(), process: elsewhere.start() };
    wait::until_ok(PATIENCE, "the second agent to say why it runs nothing", || {
        let said = second.process.stderr_tail();
        if said.contains("belongs to another agent") { Ok(()) } else { Err(said) }
    });
    assert_eq!(place.marks_below(&second), Vec::<String>::new());

    // Killed and started again at once, it is the same node: nothing was lost, nothing moved.
    let since = text(&plane.node("n1").unwrap()["knownSince"]);
    let upto = place.runs("n1", "pulse");
    first.process.restart_on_same_port();
    wait::until_ok(PATIENCE, "it to go on", || {
        let runs = place.runs("n1", "pulse");
        if runs > upto && place.runs_below(&first, "only") { Ok(()) } else { Err(format!("{runs} runs")) }
    });
    let node = plane.node("n1").unwrap();
    assert_eq!((text(&node["knownSince"]), text(&node["state"])), (since, "ready".to_owned()), "{node}");
    assert_eq!(place.marks_below(&second), Vec::<String>::new());

    // When the first one is gone for good, the name is free.
    first.process.kill9();
    wait::until_ok(PATIENCE, "the second agent to be the node", || {
        let marks = place.marks_below(&second);
        if marks.contains(&"only".to_owned()) { Ok(()) } else { Err(second.process.stderr_tail()) }
    });
    plane.wait_fresh("pulse", &["n1"]);
    place.check_alone("only");
}

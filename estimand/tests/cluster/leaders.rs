//! Two managers over one PostgreSQL: one leads, the other one takes over.

use std::fs;
use std::time::{Duration, Instant};

use estimand_testkit::databases;
use estimand_testkit::http::Http;
use estimand_testkit::place::{Agent, INTERVAL, Place};
use estimand_testkit::plane::{Plane, local};
use estimand_testkit::process::{Estimand, estimand, free_port};
use estimand_testkit::wait::{self, PATIENCE};

/// A lead without a beat is over after three seconds; some for a busy machine.
const TAKEN_OVER_WITHIN: Duration = Duration::from_secs(10);
const NODES: [&str; 2] = ["n1", "n2"];

/// The first of the managers leads.
struct Pair {
    leader: Estimand,
    other: Estimand,
    agents: [Agent; 2],
    /// As the one manager and as the other one see it.
    plane: Plane,
    other_plane: Plane,
    /// Where what runs once is.
    on: String,
    _services: [Estimand; 2],
}

fn pair(place: &Place) -> Pair {
    let store = databases::postgres().fresh_url();
    let ports = [free_port(), free_port()];
    let addresses = ports.map(local);
    let service = |name: &str| estimand().store(&store).data_dir(place.service_folder(name));
    let data = service("data").args(["data"]).port(free_port()).start();
    let registry = service("registry")
        .args(["registry", "--data-service", data.base_url()])
        .args(["--manager", &addresses[0], "--manager", &addresses[1]])
        .port(free_port())
        .start();
    let manager = |number: usize| {
        service(&format!("manager-{number}"))
            .args(["manager", "--registry", registry.base_url(), "--data-service", data.base_url()])
            .port(ports[number])
            .start()
    };
    let leader = manager(0);
    wait::until(PATIENCE, "the first manager to lead", || leads(&addresses[0]).then_some(()));
    let other = manager(1);
    let agents = NODES.map(|node| Agent {
        node: node.to_owned(),
        process: place.builder(node, &[&addresses[0], &addresses[1]]).start(),
    });
    let [plane, other_plane] =
        addresses.each_ref().map(|manager| Plane::at(registry.base_url(), data.base_url(), manager));
    for registration in [place.counting("pulse"), place.single("only")] {
        plane.register(&registration);
    }
    plane.wait_fresh("pulse", &NODES);
    let on = plane.wait_placed("only", &NODES);
    assert!(!leads(&addresses[1]));
    Pair { leader, other, agents, plane, other_plane, on, _services: [registry, data] }
}

impl Pair {
    /// The other one has taken over: all is as before.
    fn check_taken_over(&self, place: &Place) {
        let begun = Instant::now();
        wait::until(TAKEN_OVER_WITHIN, "the other manager to lead", || {
            leads(self.other.base_url()).then_some(())
        });
        println!("the other manager led after {:?}", begun.elapsed());
        let plane = &self.other_plane;
        for node in NODES {
            plane.wait_node_state(node, "ready");
        }
        assert_eq!(plane.wait_placed("only", &NODES), self.on, "what runs once is where it was");
        plane.register(&place.counting("later"));
        plane.wait_fresh("later", &NODES);
        for node in NODES {
            plane.check_history("pulse", node, place.runs(node, "pulse"));
        }
        self.check_once(place);
    }

    fn check_once(&self, place: &Place) {
        for agent in &self.agents {
            let expected = agent.node == self.on;
            wait::until_ok(PATIENCE, "what runs once to run where it belongs", || {
                let marks = place.marks_below(agent);
                let is_so = marks.iter().any(|mark| mark == "only") == expected;
                if is_so { Ok(()) } else { Err(format!("{} has {marks:?}", agent.node)) }
            });
        }
        place.check_alone("only");
    }
}

#[test]
fn when_the_leader_is_killed_the_other_manager_leads() {
    let place = Place::new("leader-killed");
    let mut pair = pair(&place);
    pair.leader.kill9();
    pair.check_taken_over(&place);

    pair.leader.restart_on_same_port();
    place.while_it_runs("n1", "pulse", INTERVAL * 4);
    assert!(!leads(pair.leader.base_url()), "it stands by");
    pair.other.kill9();
    wait::until(TAKEN_OVER_WITHIN, "the first manager to lead again", || {
        leads(pair.leader.base_url()).then_some(())
    });
    assert_eq!(pair.plane.wait_placed("only", &NODES), pair.on);
    pair.check_once(&place);
}

#[test]
fn a_leader_that_stood_still_leads_no_more() {
    let place = Place::new("leader-stopped");
    let pair = pair(&place);
    let leader = pair.leader.base_url().to_owned();
    pair.leader.pause();
    wait::until(PATIENCE, "the leader to stand still", || stands_still(pair.leader.pid()).then_some(()));
    // The leader reads this the moment it goes on, before anything can have told it, or finds that it has waited too long (408).
    let question =
        std::thread::spawn(move || Http::new(&leader).with_deadline(PATIENCE * 2).get("/api/nodes").status);
    pair.check_taken_over(&place);

    pair.leader.resume();
    let answered = question.join().unwrap();
    assert!(matches!(answered, 408 | 503), "{answered}: an answer on behalf of a lead that is over");
    let begun = place.runs("n1", "pulse");
    wait::until(PATIENCE, "some time in which only one leads", || {
        assert!(!leads(pair.leader.base_url()), "two managers lead");
        (place.runs("n1", "pulse") >= begun + 8).then_some(())
    });
    assert!(leads(pair.other.base_url()));
    assert_eq!(pair.other_plane.wait_placed("only", &NODES), pair.on);
    pair.check_once(&place);
}

/// True if all of its threads are stopped. One that was not told yet could answer a last time.
fn stands_still(pid: u32) -> bool {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).unwrap().flatten();
    let status = tasks.map(|task| fs::read_to_string(task.path().join("status")).unwrap_or_default());
    status.into_iter().all(|text| text.contains("State:\tT"))
}

fn leads(manager: &str) -> bool {
    let http = Http::new(manager).with_deadline(PATIENCE);
    http.try_request("GET", "/api/nodes", &[], b"").is_ok_and(|answer| answer.status == 200)
}

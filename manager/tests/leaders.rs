//! Two managers over one PostgreSQL: one leads, and only one, whatever happens to it or to its database.

#![allow(clippy::unwrap_used)]

mod support;

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use estimand_testkit::databases::{Kind, Server, postgres};
use estimand_testkit::wait;
use serde_json::json;
use support::{Agent, PATIENCE, Pipe, Running, World, refused, registration, settings};

fn pair(store: &str, world: &World) -> (Running, Running) {
    let first = Running::launch(store, world, false, settings());
    first.wait_leading();
    let second = Running::launch(store, world, false, settings());
    wait::until_ok(PATIENCE, "the second one to stand by", || match second.get("/readyz") {
        ready if ready.status == 200 => Ok(()),
        other => Err(other),
    });
    (first, second)
}

#[test]
fn a_standby_says_which_manager_leads() {
    let (world, store) = (World::start(), postgres().fresh_url());
    world.register(&[registration("a", 1, &json!({ "kind": "processor" }))]);
    let (first, second) = pair(&store, &world);
    first.get("/readyz").expect_status(200);
    assert!(!second.manager.is_leading());
    let answer = second.get("/api/nodes");
    let address = first.serving.address.to_string();
    assert!(answer.json()["detail"].as_str().unwrap().contains(&address), "{answer}");
    assert_eq!(refused(answer, 503), "standing-by");
    let to_second = Agent::new(second.serving.address, "n1");
    assert_eq!(refused(to_second.ask(0, 5_000), 503), "standing-by");
    assert_eq!(refused(to_second.beat_with(&json!({})), 503), "standing-by");
    assert_eq!(second.figure("estimand_manager_leading"), Some(0.0));

    let agent = Agent::new(first.serving.address, "n1");
    agent.beat(0);
    let revision = agent.wait_for(&["a"]);
    agent.beat(revision);
    // An orderly stop hands over at once, and placed instances stay where they are.
    let stopped = Instant::now();
    first.stop();
    second.wait_leading();
    assert!(stopped.elapsed() < Duration::from_secs(5), "{:?}", stopped.elapsed());
    to_second.beat(revision);
    let newer = to_second.wait_for(&["a"]);
    assert!(newer > revision);
    second.stop();
}

#[test]
fn a_leader_that_died_is_followed_within_seconds() {
    let (world, store) = (World::start(), postgres().fresh_url());
    let (mut first, second) = pair(&store, &world);
    Agent::new(first.serving.address, "n1").beat(0);
    wait::until(PATIENCE, "the node to be stored", || {
        (first.figure("estimand_manager_commits_total") >= Some(1.0)).then_some(())
    });
    let died = Instant::now();
    first.serving.crash();
    second.wait_leading();
    assert!(died.elapsed() < Duration::from_secs(10), "{:?}", died.elapsed());
    assert_eq!(second.node("n1")["state"], "ready");
    second.stop();
}

/// The database of the leader hangs: no call of it returns. Grants are watched from outside: none of the old
/// leader may have been asked for after the new one has given its first.
#[test]
fn a_leader_that_is_cut_off_grants_nothing_any_more() {
    let server = postgres();
    let (world, store) = (World::start(), server.fresh_url());
    let pipe = Pipe::to(server.port());
    let through_pipe = store.replace(&format!(":{}/", server.port()), &format!(":{}/", pipe.port));
    assert_ne!(store, through_pipe);
    let first = Running::launch(&through_pipe, &world, false, settings());
    first.wait_leading();
    let second = Running::launch(&store, &world, false, settings());
    let agents = [Agent::new(first.serving.address, "n1"), Agent::new(second.serving.address, "n1")];
    agents[0].beat(0);
    agents[0].slots();
    let (enough, asked) = (AtomicBool::new(false), AtomicUsize::new(0));
    let (last_of_first, first_of_second) = std::thread::scope(|scope| {
        let beating = scope.spawn(|| {
            let mut last = None;
            while !enough.load(Ordering::SeqCst) {
                let sent = Instant::now();
                asked.fetch_add(1, Ordering::SeqCst);
                if agents[0].beat_with(&json!({})).status == 200 {
                    last = Some(sent);
                }
            }
            last.unwrap()
        });
        // Also when a wait fails: else the scope waits for its thread for ever.
        let _ends = SetAtTheEnd(&enough);
        pipe.hang();
        let granted = wait::until(PATIENCE, "the second one to grant", || {
            (agents[1].beat_with(&json!({})).status == 200).then(Instant::now)
        });
        // The first one is asked a while longer, and must go on refusing.
        let before = asked.load(Ordering::SeqCst);
        wait::until(PATIENCE, "more questions", || {
            (asked.load(Ordering::SeqCst) > before + 200).then_some(())
        });
        enough.store(true, Ordering::SeqCst);
        (beating.join().unwrap(), granted)
    });
    assert!(last_of_first < first_of_second, "{:?} after", last_of_first - first_of_second);
    assert_eq!(refused(agents[0].ask(0, 0), 503), "standing-by");
    // Back again, it finds that it is not the leader any more, and stands by.
    pipe.flow();
    wait::until(PATIENCE, "the first one to know who leads", || {
        let detail = first.get("/api/nodes").json()["detail"].as_str().unwrap().to_owned();
        detail.contains(&second.serving.address.to_string()).then_some(())
    });
    assert!(second.manager.is_leading() && !first.manager.is_leading());
    first.stop();
    second.stop();
}

#[test]
fn waiting_agents_hear_of_the_end_of_a_leadership() {
    let server = postgres();
    let (world, store) = (World::start(), server.fresh_url());
    let pipe = Pipe::to(server.port());
    let store = store.replace(&format!(":{}/", server.port()), &format!(":{}/", pipe.port));
    let manager = Running::launch(&store, &world, false, settings());
    manager.wait_leading();
    let agent = Agent::new(manager.serving.address, "n1");
    agent.beat(0);
    let (_, revision) = agent.slots();
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| (agent.ask(revision, 60_000), Instant::now()));
        wait::until(PATIENCE, "the question to wait", || {
            (manager.figure("estimand_manager_waiting_agents") == Some(1.0)).then_some(())
        });
        let hung = Instant::now();
        pipe.hang();
        let (answer, at) = waiting.join().unwrap();
        assert_eq!(refused(answer, 503), "standing-by");
        assert!(at - hung < Duration::from_secs(10), "{:?}", at - hung);
    });
    // When the database answers again, one manager leads.
    pipe.flow();
    manager.wait_leading();
    agent.beat(revision);
    manager.stop();
}

#[test]
fn a_manager_leads_again_when_the_database_comes_back() {
    let server = Server::start_own(Kind::Postgres);
    let (world, store) = (World::start(), server.fresh_url());
    let (first, second) = pair(&store, &world);
    let agents = [Agent::new(first.serving.address, "n1"), Agent::new(second.serving.address, "n1")];
    agents[0].beat(0);
    server.kill9();
    wait::until(PATIENCE, "the leader to step down", || (!first.manager.is_leading()).then_some(()));
    assert_eq!(refused(agents[0].beat_with(&json!({})), 503), "standing-by");
    server.start_again();
    wait::until(PATIENCE, "somebody to lead", || {
        agents.iter().any(|agent| agent.beat_with(&json!({})).status == 200).then_some(())
    });
    assert!(first.manager.is_leading() != second.manager.is_leading());
    first.stop();
    second.stop();
}

#[test]
fn a_manager_without_its_database_is_not_ready() {
    let folder = tempfile::tempdir().unwrap();
    let in_the_way = folder.path().join("store");
    std::fs::write(&in_the_way, "a file where a folder should be").unwrap();
    let (world, store) = (World::start(), format!("sqlite://{}", in_the_way.join("store.db").display()));
    let manager = Running::launch(&store, &world, true, settings());
    wait::until(PATIENCE, "the reason", || {
        let detail = manager.get("/readyz").expect_status(503).json()["detail"].as_str().unwrap().to_owned();
        detail.contains("manager: the database does not answer").then_some(())
    });
    assert_eq!(refused(manager.get("/api/nodes"), 503), "standing-by");
    std::fs::remove_file(&in_the_way).unwrap();
    manager.wait_leading();
    manager.get("/readyz").expect_status(200);
    manager.stop();
}

struct SetAtTheEnd<'a>(&'a AtomicBool);

impl Drop for SetAtTheEnd<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

use std::future::ready;

use estimand_api::names::NodeName;
use estimand_api::node::Node;
use estimand_api::task::{NodeTasks, NodesTold};
use estimand_api::task_document::TaskDocument;
use estimand_runtime::tunnel::pair;

use super::*;
use crate::core::state::Progress;
use crate::engines::{EngineError, EngineReply};
use crate::task::LogEnd;

fn task(number: u64, state: State, port: &str) -> Task {
    let document = format!(r#"{{"command": "x", "port": {port}}}"#);
    Task {
        number: TaskNumber(number),
        id: format!("t{number}"),
        key: None,
        array: None,
        document: Arc::new(TaskDocument::parse(document.as_bytes()).unwrap()),
        image: None,
        progress: Progress { attempt: 2, state, node: Some("n1".to_owned()), ..Progress::default() },
        why: None,
        log: LogEnd::default(),
        events: 0,
        submitted_at: 0,
        submitted_by: String::new(),
        ended_at: None,
    }
}

/// An engine of this test, which only connects: to itself, or not at all.
struct FakeEngine {
    listens: bool,
}

impl FakeEngine {
    fn nothing<T: Send + 'static>(&self) -> EngineReply<'_, T> {
        Box::pin(ready(Err(EngineError::Failed("nothing listens".to_owned()))))
    }
}

impl Engine for FakeEngine {
    fn nodes(&self) -> EngineReply<'_, Vec<Node>> {
        self.nothing()
    }

    fn assigned(&self) -> EngineReply<'_, NodesTold> {
        self.nothing()
    }

    fn assign<'e>(&'e self, _: &'e NodeName, _: &'e NodeTasks) -> EngineReply<'e, NodesTold> {
        self.nothing()
    }

    fn connect<'e>(&'e self, attempt: &'e PlacedAttempt) -> EngineReply<'e, Half> {
        assert_eq!((attempt.node.as_str(), attempt.id.as_str(), attempt.attempt), ("n1", "t1", 2));
        if self.listens { Box::pin(ready(Ok(pair().0))) } else { self.nothing() }
    }
}

#[tokio::test]
async fn a_connection_counts_until_it_ends() {
    let tunnels = Arc::new(Tunnels::default());
    let running = task(1, State::Running, "80");
    let problem = tunnels.open(&FakeEngine { listens: false }, &running, None).await.err().unwrap();
    assert_eq!((problem.status, problem.detail.as_str(), tunnels.count()), (503, "nothing listens", 0));
    let tunnel = tunnels.open(&FakeEngine { listens: true }, &running, None).await.unwrap();
    assert_eq!(tunnels.count(), 1);
    drop(tunnel);
    assert_eq!((tunnels.count(), tunnels.opened.get(), tunnels.failed.get()), (0, 1, 1));
}

#[tokio::test]
async fn a_task_that_cannot_be_reached_says_why() {
    let tunnels = Arc::new(Tunnels::default());
    for (state, port, status, part) in [
        (State::Running, "null", 409, "has no port"),
        (State::Queued, "0", 503, "it is QUEUED"),
        (State::Preparing, "0", 503, "does not run yet"),
        (State::Lost, "0", 503, "its node `n1` is lost"),
        (State::Failed, "0", 409, "is over: it is FAILED"),
    ] {
        let problem =
            tunnels.open(&FakeEngine { listens: true }, &task(1, state, port), None).await.err().unwrap();
        assert!(problem.status == status && problem.detail.contains(part), "{problem}");
    }
}

#[test]
fn a_task_takes_not_all_connections() {
    let tunnels = Arc::new(Tunnels::default());
    let permits = |number, count: usize| -> Vec<Permit> {
        (0..count).map(|_| tunnels.permit(&task(number, State::Running, "80"), None).unwrap()).collect()
    };
    let first = permits(1, MAX_OF_A_TASK);
    let problem = tunnels.permit(&task(1, State::Running, "80"), None).unwrap_err();
    assert!(problem.detail.contains("`t1` has 128 connections"), "{problem}");
    let others: Vec<_> = (2..5).flat_map(|number| permits(number, MAX_OF_A_TASK)).collect();
    assert!(
        tunnels.permit(&task(9, State::Running, "80"), None).unwrap_err().detail.contains("there are 512")
    );
    drop((first, others));
    assert_eq!(tunnels.count(), 0);
}

#[test]
fn a_user_has_a_part_of_all_connections() {
    let tunnels = Arc::new(Tunnels::default());
    let users = estimand_web::Users::default();
    let (alice, bob) = (users.admit("alice"), users.admit("bob"));
    let share = MAX_OF_ALL / 8;
    let held: Vec<Permit> =
        (0..share).map(|_| tunnels.permit(&task(1, State::Running, "80"), Some(&alice)).unwrap()).collect();
    let problem = tunnels.permit(&task(2, State::Running, "80"), Some(&alice)).unwrap_err();
    assert!(problem.status == 503 && problem.detail.contains("`alice` has 64 of at most 64"), "{problem}");
    drop(tunnels.permit(&task(2, State::Running, "80"), Some(&bob)).unwrap());
    drop(held);
    assert_eq!((alice.held(ShareKind::Tunnels), tunnels.count()), (0, 0));
}

use std::sync::Arc;

use estimand_api::task_document::TaskDocument;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use super::*;
use crate::core::state::Progress;
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

#[tokio::test]
async fn the_agent_of_the_node_makes_the_tunnel_and_no_other() {
    let tunnels = Tunnels::new(1_000);
    let running = task(1, State::Running, "80");
    let agent = async {
        let mut bell = tunnels.listen();
        while tunnels.orders("n1", 0).is_empty() {
            bell.changed().await.unwrap();
        }
        let order = tunnels.orders("n1", 0).remove(0);
        assert_eq!((order.number, order.id.as_str(), order.attempt), (1_001, "t1", 2));
        // It is read again as long as nobody has made it, and by nobody else.
        assert_eq!(tunnels.orders("n1", 1_000).len(), 1);
        assert!(tunnels.orders("n1", 1_001).is_empty() && tunnels.orders("n2", 0).is_empty());
        assert_eq!(tunnels.make(order.number, |node| node == "n2").unwrap_err().status, 404);
        let half = tunnels.make(order.number, |node| node == "n1").unwrap();
        assert_eq!(tunnels.make(order.number, |_| true).unwrap_err().status, 404);
        half
    };
    let (opened, mut agents) = tokio::join!(tunnels.open(&running, None), agent);
    let mut tunnel = opened.unwrap();
    tunnel.half.write_all(b"hello").await.unwrap();
    tunnel.half.shutdown().await.unwrap();
    let mut got = String::new();
    agents.read_to_string(&mut got).await.unwrap();
    assert_eq!((got.as_str(), tunnels.count()), ("hello", 1));
    drop(tunnel);
    assert_eq!(tunnels.count(), 0);
}

#[tokio::test]
async fn an_agent_that_says_nothing_or_no_is_told_of() {
    let tunnels = Tunnels::new(0);
    let running = task(1, State::Running, "80");
    let problem = tunnels.open_within(&running, None, Duration::from_millis(50)).await.err().unwrap();
    assert!(problem.detail.contains("agent of `n1`") && problem.status == 503, "{problem}");
    assert!(tunnels.orders("n1", 0).is_empty());
    let mut bell = tunnels.listen();
    let refuse = async {
        bell.changed().await.unwrap();
        tunnels.refuse(2, "nothing listens".to_owned(), |_| true).unwrap();
    };
    let (opened, ()) = tokio::join!(tunnels.open(&running, None), refuse);
    assert_eq!(opened.err().unwrap().detail, "nothing listens");
    assert_eq!(tunnels.count(), 0);
}

#[tokio::test]
async fn a_task_that_cannot_be_reached_says_why() {
    let tunnels = Tunnels::new(0);
    for (state, port, status, part) in [
        (State::Running, "null", 409, "has no port"),
        (State::Queued, "0", 503, "it is QUEUED"),
        (State::Preparing, "0", 503, "does not run yet"),
        (State::Lost, "0", 503, "its node `n1` is lost"),
        (State::Failed, "0", 409, "is over: it is FAILED"),
    ] {
        let problem = tunnels.open(&task(1, state, port), None).await.err().unwrap();
        assert!(problem.status == status && problem.detail.contains(part), "{problem}");
    }
}

#[test]
fn a_task_takes_not_all_connections() {
    let tunnels = Tunnels::new(0);
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
    let tunnels = Tunnels::new(0);
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

#![allow(clippy::unwrap_used)]

use chrono::{DateTime, Utc};
use estimand_api::value::{State, Value};
use estimand_client::Event;
use serde_json::{Value as Json, json};

use super::board::{Board, Rest, SortKey};
use super::screen::{rooms, screen, whole};
use crate::output::Style;

fn now() -> DateTime<Utc> {
    "2026-01-31T12:00:05Z".parse().unwrap()
}

fn value(name: &str, node: &str, value: &Json, state: State) -> Value {
    let text = json!({
        "dataName": name, "nodeName": node, "dataValue": value, "collectedAt": "2026-01-31T12:00:00Z",
        "receivedAt": "2026-01-31T12:00:00Z", "validFor": null, "state": state, "revision": 1,
    });
    serde_json::from_value(text).unwrap()
}

fn task(id: &str, state: &str) -> Json {
    json!({
        "id": id, "state": state, "attempt": 1, "node": "n1", "submittedAt": "2026-01-31T11:59:00Z",
        "submittedBy": "ada", "document": {},
    })
}

/// Nodes n0 … with rising load.
fn board(nodes: usize) -> Board {
    let columns = ["load/one", "memory/usedFraction"].map(|text| text.parse().unwrap());
    let mut board = Board::new(columns.into());
    for place in 0..nodes {
        let node = format!("n{place:02}");
        board.show(&value("load", &node, &json!({ "one": place as f64 / 10.0 }), State::Fresh));
        board.show(&value("memory", &node, &json!({ "usedFraction": 0.5 }), State::Stale));
    }
    board
}

fn first(board: &Board) -> String {
    board.rows()[0].0.to_string()
}

#[test]
fn a_screen_is_never_larger_than_the_terminal() {
    let mut board = board(50);
    let tasks = (0..40).map(|id| serde_json::from_value(task(&format!("t{id}"), "RUNNING")).unwrap());
    let long = "x".repeat(200);
    board.show(&value("load", &long, &json!({ "one": 3 }), State::Fresh));
    board.tasks = tasks.collect();
    for (width, height) in [(80, 24), (40, 10), (20, 6), (132, 60), (80, 3)] {
        let style = Style { width: Some(width), colours: false };
        let lines = screen(&board, "http://127.0.0.1:7070", style, height, now());
        assert!(lines.len() <= height, "{height}: {}", lines.len());
        let widest = lines.iter().map(|line| line.chars().count()).max().unwrap();
        assert!(widest <= width.max(40), "{width}: {widest}\n{}", lines.join("\n"));
    }
}

#[test]
fn all_of_it_is_shown_where_there_is_no_terminal() {
    let mut board = board(3);
    board.refresh(Rest {
        tasks: vec![serde_json::from_value(task("t1", "RUNNING")).unwrap()],
        ..Rest::default()
    });
    insta::assert_snapshot!(whole(&board, Style::default(), now()).join("\n"));
}

#[test]
fn nodes_are_sorted_by_the_chosen_column() {
    let mut board = board(12);
    assert_eq!(first(&board), "n11");
    board.reversed = true;
    assert_eq!(first(&board), "n00");
    board.reversed = false;
    board.sort = SortKey::Node;
    assert_eq!(first(&board), "n00");
    // One without a value is the last.
    board.show(&value("memory", "a", &json!({ "usedFraction": 0.1 }), State::Fresh));
    board.sort = board.key("load").unwrap();
    assert_eq!(board.rows().last().unwrap().0.as_str(), "a");
    assert!(board.key("lod").unwrap_err().contains("node, state, load, memory, tasks"));
    // Each column has its turn.
    let mut seen = Vec::new();
    for _ in 0..5 {
        board.sort_by_next();
        seen.push(board.sorted_by());
    }
    assert_eq!(seen, ["memory", "tasks", "node", "state", "load"]);
}

#[test]
fn events_of_the_watch_change_what_is_shown() {
    let mut board = board(2);
    let shown = |board: &Board, node: &str| {
        board.nodes.iter().find(|(name, _)| name.as_str() == node).unwrap().1.clone()
    };
    board.take(Event::Change(Box::new(value("load", "n00", &json!({ "one": 9 }), State::NodeLost))));
    assert!(shown(&board, "n00").is_lost() && !shown(&board, "n01").is_lost());
    let gone = value("load", "n00", &json!(0), State::Fresh);
    board.take(Event::Delete { data_name: gone.data_name, node_name: gone.node_name, revision: 2 });
    assert!(shown(&board, "n00").values[0].is_none() && shown(&board, "n00").values[1].is_some());
    let values = vec![value("load", "n01", &json!({ "one": 1 }), State::Fresh)];
    board.take(Event::Snapshot { revision: 3, reason: "start".to_owned(), values });
    assert!(shown(&board, "n01").values[0].is_some() && shown(&board, "n01").values[1].is_none());
    board.refresh(Rest::default());
    assert_eq!(board.nodes.len(), 1, "a node of which nothing is known any more goes");
}

#[test]
fn paging_stays_within_the_nodes() {
    let mut board = board(50);
    let (room, _) = rooms(&board, 24);
    board.scroll(1_000, room);
    assert_eq!(board.first, 50 - room);
    board.scroll(-1_000, room);
    assert_eq!(board.first, 0);
}

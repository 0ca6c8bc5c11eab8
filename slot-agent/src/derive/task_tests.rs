//! The times at which the task evaluates: it is told as by its watch, and the clock stands still.

#![allow(clippy::unwrap_used)]

use std::sync::Mutex;

use chrono::DateTime;
use estimand_api::registration::Registration;
use estimand_api::value::{State, Value as Stored};
use estimand_runtime::{SystemClock, stop};
use serde_json::json;

use super::*;
use crate::deliver::OutboxOptions;

/// Keeps the number of values that each round gave.
#[derive(Default)]
struct Rounds(Mutex<Vec<usize>>);

impl Sink for Rounds {
    fn take(&self, round: Round, _: Moment, _: Duration) -> Vec<Write> {
        self.0.lock().unwrap().push(round.answers.len());
        Vec::new()
    }
}

/// A task with the expression `load + 1` for every node, of which it is about to be told.
struct ExpressionTask {
    task: Task,
    rounds: Arc<Rounds>,
    revision: u64,
    _folder: tempfile::TempDir,
}

impl ExpressionTask {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let outbox = Arc::new(Outbox::open(OutboxOptions::new(folder.path())).unwrap());
        let (_, server) = watch::channel(String::new());
        let own = NodeName::parse("n0").unwrap();
        let clock = Arc::new(SystemClock);
        let (_, mut task) = Task::new(own, server, client::Options::default(), outbox, clock);
        let rounds = Arc::new(Rounds::default());
        let body = json!({
            "dataName": "more", "mode": "expr", "cmd": "load + 1", "inputs": ["load"], "replicas": 1, "max-Time": 5,
        });
        let serde_json::Value::Object(map) = body else { panic!() };
        let registration = Registration::from_map(map).unwrap().registration;
        let formula = Box::new(Formula::read(&registration).unwrap());
        task.take(Message::Put { key: 1, formula, valid_for: 15_000_000, sink: rounds.clone() });
        ExpressionTask { task, rounds, revision: 0, _folder: folder }
    }

    fn change(&mut self, node: &str) {
        self.revision += 1;
        let at = DateTime::from_timestamp_micros(SystemClock.now_micros()).unwrap();
        let value = Stored {
            data_name: DataName::parse("load").unwrap(),
            node_name: NodeName::parse(node).unwrap(),
            data_value: json!(self.revision),
            collected_at: at,
            received_at: at,
            valid_for: Some(10.0),
            state: State::Fresh,
            revision: self.revision,
            note: None,
            provenance: None,
        };
        self.hear(Some(Event::Change(Box::new(value))));
    }

    fn hear(&mut self, event: Option<Event>) {
        self.task.take(Message::Heard { watch: 0, event });
    }

    /// The time until the next round; none if there is nothing to evaluate.
    fn wait(&self) -> Option<Duration> {
        self.task.round_at.map(|at| at - Instant::now())
    }

    async fn round(&mut self) {
        let (_trigger, stop) = stop::pair();
        self.task.round(&stop).await;
    }

    fn rounds(&self) -> Vec<usize> {
        std::mem::take(&mut *self.rounds.0.lock().unwrap())
    }
}

#[tokio::test(start_paused = true)]
async fn a_complete_change_is_evaluated_at_once_also_right_after_a_round() {
    let mut told = ExpressionTask::new();
    told.round().await;
    told.rounds();
    for node in ["n1", "n2"] {
        told.change(node);
        assert_eq!(told.wait(), Some(SETTLES_WITHIN), "more may belong to it");
        told.hear(None);
        assert_eq!(told.wait(), Some(Duration::ZERO));
        told.round().await;
        assert_eq!((told.rounds(), told.wait()), (vec![1], None));
    }
}

#[tokio::test(start_paused = true)]
async fn changes_that_are_heard_of_meanwhile_make_one_round() {
    let mut told = ExpressionTask::new();
    told.round().await;
    told.rounds();
    for node in ["n1", "n2", "n1", "n3"] {
        told.change(node);
        told.hear(None);
    }
    told.round().await;
    assert_eq!((told.rounds(), told.wait()), (vec![3], None));
}

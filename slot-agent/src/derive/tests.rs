//! The engine without a clock and without a network: what a change makes it compute, and from what.

#![allow(clippy::unwrap_used, clippy::needless_pass_by_value)]

use std::collections::BTreeMap;

use chrono::DateTime;
use estimand_api::names::{DataName, NodeName};
use estimand_api::registration::Registration;
use estimand_api::value::{State, Value as Stored};
use estimand_expressions::PastPart;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::engine::{Engine, Round};
use super::formula::Formula;
use super::table::Moment;

const VALID_US: i64 = 15_000_000;

fn name(text: &str) -> DataName {
    DataName::parse(text).unwrap()
}

fn node(text: &str) -> NodeName {
    NodeName::parse(text).unwrap()
}

fn at(seconds: f64) -> Moment {
    let us = (seconds * 1e6) as i64;
    Moment { wall_us: 1_700_000_000_000_000 + us, mono_us: us }
}

fn formula(data_name: &str, inputs: &[&str], text: &str, more: Value) -> Formula {
    let mut body = json!({
        "dataName": data_name, "mode": "expr", "cmd": text, "inputs": inputs, "max-Time": 5,
    });
    body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    let Value::Object(map) = body else { panic!() };
    let registration = Registration::from_map(map).unwrap().registration;
    Formula::read(&registration).unwrap()
}

/// An engine on node `n1` that is told values, and what its rounds gave.
struct Bench {
    engine: Engine,
    revision: u64,
    now: Moment,
}

impl Bench {
    fn new() -> Self {
        Bench { engine: Engine::new(node("n1")), revision: 0, now: at(100.0) }
    }

    fn put(mut self, key: u64, formula: Formula) -> Self {
        self.engine.put(key, formula, VALID_US);
        self
    }

    fn at(&mut self, seconds: f64) {
        self.now = at(seconds);
    }

    fn tell(&mut self, input: &str, on: &str, value: Value) {
        self.tell_as(input, on, value, State::Fresh);
    }

    fn tell_as(&mut self, input: &str, on: &str, value: Value, state: State) {
        self.revision += 1;
        let at = DateTime::from_timestamp_micros(self.now.wall_us).unwrap();
        let stored = Stored {
            data_name: name(input),
            node_name: node(on),
            data_value: value,
            collected_at: at,
            received_at: at,
            valid_for: Some(10.0),
            state,
            revision: self.revision,
            note: None,
            provenance: None,
        };
        self.engine.change(stored, self.now);
    }

    fn round(&mut self) -> Vec<(u64, Round)> {
        let (mut rounds, mut last) = (Vec::new(), None);
        while let Some((key, round)) = self.engine.next(last, self.now) {
            last = Some(key);
            rounds.push((key, round));
        }
        rounds
    }

    /// The values of a round, as `key node value`.
    fn values(&mut self) -> Vec<String> {
        let answers = |(key, round): &(u64, Round)| {
            let shown = |a: &super::NodeAnswer| format!("{key} {} {}", a.node, a.value);
            round.answers.iter().map(shown).collect::<Vec<_>>()
        };
        self.round().iter().flat_map(answers).collect()
    }
}

#[test]
fn a_change_concerns_what_reads_it_on_that_node() {
    let mut bench = Bench::new()
        .put(1, formula("own", &["cpu"], "cpu * 2", json!({})))
        .put(2, formula("all", &["cpu"], "cpu + 1", json!({ "replicas": 1 })))
        .put(3, formula("other", &["gpu"], "gpu", json!({})));
    assert_eq!(bench.values(), Vec::<String>::new());
    bench.tell("cpu", "n1", json!(0.5));
    bench.tell("cpu", "n2", json!(3));
    assert_eq!(bench.values(), ["1 n1 1", "2 n1 1.5", "2 n2 4"]);
    assert!(!bench.engine.is_due());
    bench.tell("cpu", "n2", json!(5));
    assert_eq!(bench.values(), ["2 n2 6"]);
    bench.tell("gpu", "n2", json!(1));
    assert_eq!(bench.values(), Vec::<String>::new(), "another node's is not this agent's");
}

#[test]
fn a_value_that_is_heard_again_is_no_change() {
    let mut bench = Bench::new().put(1, formula("a", &["x"], "x", json!({})));
    bench.tell("x", "n1", json!(1));
    assert_eq!(bench.values().len(), 1);
    bench.revision -= 1;
    bench.tell("x", "n1", json!(1));
    assert!(!bench.engine.is_due());
}

#[test]
fn a_round_goes_in_the_order_of_dependence_and_evaluates_each_once() {
    // Put in the wrong order, and a diamond: d reads b and c, which both read a.
    let mut bench = Bench::new()
        .put(1, formula("d", &["b", "c"], "b + c", json!({})))
        .put(2, formula("c", &["a"], "a * 10", json!({})))
        .put(3, formula("b", &["a"], "a + 1", json!({})))
        .put(4, formula("a", &["x"], "x", json!({})));
    bench.tell("x", "n1", json!(1));
    let values = bench.values();
    assert_eq!((values[0].as_str(), values[3].as_str(), values.len()), ("4 n1 1", "1 n1 12", 4));
    assert!(!bench.engine.is_due());
    // The data service tells what was computed: nobody computes that again.
    for (input, value) in [("a", 1), ("b", 2), ("c", 10)] {
        bench.tell(input, "n1", json!(value));
    }
    assert!(!bench.engine.is_due());
    bench.at(101.0);
    bench.tell("c", "n1", json!(50));
    assert_eq!(bench.values(), ["1 n1 52"], "somebody else wrote it");
}

#[test]
fn nothing_is_computed_from_what_is_not_fresh_unless_that_is_looked_at() {
    let mut bench = Bench::new()
        .put(1, formula("plain", &["x"], "x", json!({})))
        .put(2, formula("careful", &["x"], "state(x) == 'stale' ? 0.0 : x", json!({})));
    bench.tell_as("x", "n1", json!(7), State::Stale);
    let rounds = bench.round();
    assert_eq!(rounds[0].1.failures, [(node("n1"), "`x` of n1 is stale".to_owned())]);
    assert_eq!(rounds[1].1.answers[0].value, json!(0));
    // Nobody says that it is stale, because nobody can: its own time says so.
    bench.at(200.0);
    bench.tell("x", "n1", json!(8));
    assert_eq!(bench.values(), ["1 n1 8", "2 n1 8"]);
    bench.at(211.5);
    bench.engine.fall_due(1);
    assert_eq!(bench.round()[0].1.failures.len(), 1);
}

#[test]
fn a_missing_input_is_waited_for() {
    let mut bench = Bench::new().put(1, formula("a", &["x", "y"], "x + y", json!({})));
    bench.tell("x", "n1", json!(1));
    let rounds = bench.round();
    assert_eq!((rounds[0].1.waits.0, rounds[0].1.failures.len()), (1, 0));
    assert!(rounds[0].1.waits.1[0].contains('y'), "{:?}", rounds[0].1.waits);
    bench.tell("y", "n1", json!(2));
    assert_eq!(bench.values(), ["1 n1 3"]);
    bench.engine.delete(&name("x"), &node("n1"));
    assert_eq!(bench.round()[0].1.waits.0, 1);
}

#[test]
fn a_failure_is_that_of_its_node_and_says_where() {
    let mut bench = Bench::new().put(1, formula("a", &["x"], "1 / x", json!({ "replicas": 1 })));
    bench.tell("x", "n1", json!(0));
    bench.tell("x", "n2", json!(2));
    let round = &bench.round()[0].1;
    assert_eq!(round.answers[0].value, json!(0.5));
    let (of, reason) = &round.failures[0];
    assert_eq!(of, &node("n1"));
    assert!(reason.contains("1:3"), "{reason}");
}

#[test]
fn a_whole_cluster_is_one_evaluation() {
    let text = "across(x).exists(n, across(x)[n] > 2) ? {'n1': 1, 'n2': 0} : {}";
    let mut bench = Bench::new().put(1, formula("a", &["x"], text, json!({ "format": "nodes" })));
    bench.tell("x", "n9", json!(3));
    assert_eq!(bench.values(), ["1 n1 1", "1 n2 0"]);
    let mut bench = Bench::new().put(1, formula("a", &["x"], "total(x)", json!({ "format": "nodes" })));
    bench.tell("x", "n9", json!(3));
    let broken = bench.round().remove(0).1.broken.unwrap();
    assert!(broken.contains("map"), "{broken}");
}

#[test]
fn other_nodes_are_seen_by_those_who_ask() {
    let share = formula("share", &["x"], "x / total(x)", json!({ "replicas": 1 }));
    let mut bench = Bench::new().put(1, share);
    bench.tell("x", "n1", json!(1));
    bench.tell("x", "n2", json!(3));
    assert_eq!(bench.values(), ["1 n1 0.25", "1 n2 0.75"]);
    bench.tell("x", "n2", json!(1));
    assert_eq!(bench.values(), ["1 n1 0.5", "1 n2 0.5"], "a change anywhere concerns all");
    assert!(bench.engine.reads_other_nodes());
}

#[test]
fn the_past_is_what_came_and_what_was_kept() {
    let mut bench = Bench::new().put(1, formula("a", &["x"], "mean(x, '10s')", json!({})));
    bench.tell("x", "n1", json!(1));
    bench.at(105.0);
    bench.tell("x", "n1", json!(3));
    assert_eq!(bench.values(), ["1 n1 2"]);
    bench.at(112.0);
    bench.tell("x", "n1", json!(5));
    assert_eq!(bench.values(), ["1 n1 4"], "what is older than the window is out");
    let past = vec![(at(104.0).wall_us, json!(13)), (at(1.0).wall_us, json!(1_000))];
    let part = PastPart { fields: Vec::new(), is_number: true };
    bench.engine.recall(&name("x"), &part, BTreeMap::from([(node("n1"), past)]));
    assert_eq!(bench.values(), ["1 n1 7"], "kept history counts once it is read");
}

#[test]
fn the_inputs_of_an_answer_are_shown() {
    let mut bench = Bench::new()
        .put(1, formula("a", &["x"], "x", json!({})))
        .put(2, formula("b", &["a", "x"], "a + x", json!({})));
    bench.tell("x", "n1", json!(1));
    let rounds = bench.round();
    let read: Vec<(String, Option<u64>)> =
        rounds[1].1.answers[0].read.iter().map(|read| (read.data_name.to_string(), read.revision)).collect();
    assert_eq!(read, [("a".to_owned(), None), ("x".to_owned(), Some(1))]);
}

#[test]
fn a_snapshot_voids_what_it_does_not_have() {
    let mut bench = Bench::new().put(1, formula("a", &["x"], "known(x) ? x : -1.0", json!({})));
    bench.tell("x", "n1", json!(1));
    assert_eq!(bench.values(), ["1 n1 1"]);
    bench.engine.snapshot(Vec::new(), bench.now);
    assert_eq!(bench.values(), ["1 n1 -1"]);
}

#[test]
fn a_cycle_that_nobody_saw_ends() {
    let mut bench = Bench::new()
        .put(1, formula("a", &["b"], "b + 1", json!({})))
        .put(2, formula("b", &["a"], "a + 1", json!({})));
    bench.tell("a", "n1", json!(0));
    assert!(bench.round().len() <= 2);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]
    /// However changes are cut into rounds, the last values are those of the last inputs.
    #[test]
    fn rounds_may_be_cut_anywhere(changes in prop::collection::vec((0..3_usize, 0..50_i64, any::<bool>()), 1..40)) {
        let mut bench = Bench::new()
            .put(1, formula("s", &["p", "q"], "p + q", json!({})))
            .put(2, formula("p", &["x", "y"], "x - y", json!({})))
            .put(3, formula("q", &["z"], "z * z", json!({})));
        let mut last = [0, 0, 0];
        for (place, input) in ["x", "y", "z"].into_iter().enumerate() {
            bench.tell(input, "n1", json!(last[place]));
        }
        let mut known: BTreeMap<u64, Value> = BTreeMap::new();
        let mut seconds = 100.0;
        for (place, value, cut) in changes {
            seconds += 1.0;
            bench.at(seconds);
            last[place] = value;
            for (place, input) in ["x", "y", "z"].into_iter().enumerate() {
                bench.tell(input, "n1", json!(last[place]));
            }
            if cut {
                known.extend(bench.round().into_iter().filter_map(|(key, r)| Some((key, r.answers.first()?.value.clone()))));
            }
        }
        known.extend(bench.round().into_iter().filter_map(|(key, r)| Some((key, r.answers.first()?.value.clone()))));
        let (p, q) = (last[0] - last[1], last[2] * last[2]);
        let number = |key: u64| known[&key].as_f64().unwrap();
        prop_assert_eq!((number(2), number(3), number(1)), (p as f64, q as f64, (p + q) as f64));
    }
}

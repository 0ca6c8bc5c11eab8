//! The values as Prometheus reads them: their numbers, their state and their age, each a series of its own.
//!
//! A state is no label of a number: a number that turns stale would then end one series and begin another. A scrape is
//! made in pieces, each of the snapshot that is published then, so that a slow reader keeps no snapshot alive. What does
//! not fit into a scrape is counted.

use std::collections::BTreeSet;
use std::ops::Bound::{Excluded, Unbounded};
use std::sync::Arc;

use estimand_api::names::{DataName, NodeName};
use estimand_api::numbers::numbers;
use estimand_api::pointer::Pointer;
use estimand_api::value::State;
use estimand_runtime::metrics::{Exposition, Kind};

use crate::DataService;

use crate::core::snapshot::Snapshot;
use crate::core::view::ShownValue;

/// The most numbers in one scrape.
pub const MAX_SAMPLES: usize = 500_000;
/// A piece is as long as that or a little longer.
const PIECE_BYTES: usize = 256 * 1024;

const FAMILIES: [(Family, &str, &str); 3] = [
    (
        Family::Numbers,
        "estimand_value",
        "A number of a value, or a boolean as 1 or 0; `path` says where it stands in the value.",
    ),
    (
        Family::State,
        "estimand_value_state",
        "The state of a value: 0 fresh, 1 stale, 2 failed (the last good value), 3 node-lost.",
    ),
    (Family::Age, "estimand_value_age_seconds", "Time since a value was collected."),
];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Family {
    Numbers,
    State,
    Age,
}

/// The values that are asked for.
#[derive(Debug, Clone, Default)]
pub struct Selection {
    /// None: all.
    pub names: Option<Vec<DataName>>,
    /// None: of all.
    pub nodes: Option<BTreeSet<NodeName>>,
}

/// The values of one scrape, in pieces.
pub struct ValueFigures {
    service: DataService,
    names: Vec<DataName>,
    nodes: Option<BTreeSet<NodeName>>,
    /// The family that is written.
    family: usize,
    /// The place among the names, and the last node of that name that is written.
    at: usize,
    after: Option<NodeName>,
    samples: usize,
    left_out: usize,
    is_over: bool,
}

impl ValueFigures {
    pub fn new(service: DataService, selection: Selection) -> Self {
        let names = selection.names.unwrap_or_else(|| {
            // Also those that are bound, so that the series of a stable name goes on over swaps.
            let snapshot = service.snapshot().unwrap_or_default();
            let own = snapshot.own_names().into_iter().chain(snapshot.bindings().keys());
            own.cloned().collect()
        });
        ValueFigures {
            service,
            names,
            nodes: selection.nodes,
            family: 0,
            at: 0,
            after: None,
            samples: 0,
            left_out: 0,
            is_over: false,
        }
    }

    /// Writes on from where the last piece ended; true at the end of the family.
    fn write_family(&mut self, text: &mut String, snapshot: &Snapshot, now: i64) -> bool {
        let (family, metric, help) = FAMILIES[self.family];
        if self.at == 0 && self.after.is_none() {
            Exposition::new(text).family(metric, Kind::Gauge, help);
        }
        while let Some(name) = self.names.get(self.at).cloned() {
            let table = snapshot.table(name.as_str());
            let nodes = self.nodes.clone();
            let shown: Box<dyn Iterator<Item = ShownValue<'_>>> = match (table, &nodes) {
                (None, _) => Box::new(std::iter::empty()),
                (Some(table), Some(nodes)) => {
                    let from = self.after.clone().map_or(Unbounded, Excluded);
                    Box::new(
                        nodes.range((from, Unbounded)).filter_map(move |node| table.shown(node.as_str())),
                    )
                }
                (Some(table), None) => Box::new(table.after(self.after.as_ref())),
            };
            for shown in shown {
                self.write_value(text, family, metric, &name, &shown, now);
                self.after = Some(shown.facts().node.clone());
                if text.len() > PIECE_BYTES {
                    return false;
                }
            }
            (self.at, self.after) = (self.at + 1, None);
        }
        true
    }

    fn write_value(
        &mut self,
        text: &mut String,
        family: Family,
        metric: &str,
        name: &DataName,
        shown: &ShownValue<'_>,
        now: i64,
    ) {
        let (mut out, facts) = (Exposition::new(text), shown.facts());
        let labels = [("data_name", name.as_str()), ("node", facts.node.as_str())];
        match family {
            Family::State => out.sample(metric, &labels, code(facts.marks.state())),
            Family::Age => {
                out.sample(metric, &labels, now.saturating_sub(facts.known_since()).max(0) as f64 / 1e6);
            }
            Family::Numbers => {
                let numbers = numbers(shown.text());
                let room = MAX_SAMPLES.saturating_sub(self.samples).min(numbers.shown.len());
                self.samples += room;
                self.left_out += numbers.left_out + numbers.shown.len() - room;
                for number in &numbers.shown[..room] {
                    let [name, node] = labels;
                    let all = [name, node, ("path", &*number.place)];
                    // The value itself stands at no place, and a label that is empty is none.
                    let labels = if number.place.is_empty() { &all[..2] } else { &all };
                    out.written(metric, labels, number.number);
                }
            }
        }
    }

    fn write_end(&self, text: &mut String) {
        let help = "Numbers of values that this scrape leaves out, because they are too many.";
        Exposition::new(text).single("estimand_value_left_out", Kind::Gauge, help, self.left_out as f64);
    }
}

impl Iterator for ValueFigures {
    type Item = String;

    fn next(&mut self) -> Option<String> {
        if std::mem::replace(&mut self.is_over, self.family == FAMILIES.len()) {
            return None;
        }
        let mut text = String::with_capacity(PIECE_BYTES + 4096);
        if self.family == FAMILIES.len() {
            self.write_end(&mut text);
            return Some(text);
        }
        let snapshot = self.service.snapshot().unwrap_or_else(|_| Arc::new(Snapshot::default()));
        while text.len() <= PIECE_BYTES && self.family < FAMILIES.len() {
            if self.write_family(&mut text, &snapshot, self.service.now()) {
                (self.family, self.at, self.after) = (self.family + 1, 0, None);
            }
        }
        Some(text)
    }
}

fn code(state: State) -> f64 {
    match state {
        State::Fresh => 0.0,
        State::Stale => 1.0,
        State::Failed => 2.0,
        State::NodeLost => 3.0,
    }
}

/// The bindings.
pub fn write_bindings(text: &mut String, snapshot: &Snapshot) {
    let (mut out, metric) = (Exposition::new(text), "estimand_binding");
    out.family(metric, Kind::Gauge, "The name whose values a name serves, or the part of each; always 1.");
    for (name, bound) in snapshot.bindings() {
        let field = bound.served.field.as_ref().map_or("", Pointer::as_str);
        out.sample(
            metric,
            &[("data_name", name.as_str()), ("to", bound.served.to.as_str()), ("field", field)],
            1.0,
        );
    }
}

//! The content of `top`: nodes by chosen values, and tasks. It takes in news and knows neither service nor terminal.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use estimand_api::names::NodeName;
use estimand_api::node::{Node, NodeState};
use estimand_api::task_record::{NodeCapacity, TaskRecord};
use estimand_api::value::{State, Value};
use estimand_client::Event;
use serde_json::{Value as Json, json};

use crate::arguments::top::Column;

/// Nodes and tasks, of which no watch tells.
#[derive(Debug, Default)]
pub struct Rest {
    pub nodes: Vec<Node>,
    pub capacity: Vec<NodeCapacity>,
    /// Those that are not over.
    pub tasks: Vec<TaskRecord>,
}

/// A node on the board.
#[derive(Debug, Default, Clone)]
pub struct Row {
    /// None: values are known of it, and no manager told it.
    pub state: Option<NodeState>,
    pub cordoned: bool,
    /// None: no task service told it.
    pub tasks: Option<u32>,
    /// One for each column.
    pub values: Vec<Option<ShownValue>>,
}

#[derive(Debug, Clone)]
pub struct ShownValue {
    pub value: Json,
    pub state: State,
}

/// The order of the nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SortKey {
    Node,
    State,
    Value(usize),
    Tasks,
}

#[derive(Debug)]
pub struct Board {
    pub columns: Vec<Column>,
    pub nodes: BTreeMap<NodeName, Row>,
    pub tasks: Vec<TaskRecord>,
    pub sort: SortKey,
    pub reversed: bool,
    /// The first node that is shown.
    pub first: usize,
    /// Why nodes and tasks are not told any more.
    pub trouble: Option<String>,
}

impl Board {
    pub fn new(columns: Vec<Column>) -> Self {
        Board {
            columns,
            nodes: BTreeMap::new(),
            tasks: Vec::new(),
            sort: SortKey::Value(0),
            reversed: false,
            first: 0,
            trouble: None,
        }
    }

    /// Takes in an event of the watch. A value that has no part that is asked for is not there.
    pub fn take(&mut self, event: Event) {
        match event {
            Event::Snapshot { values, .. } => {
                self.nodes.values_mut().for_each(|row| row.values.fill(None));
                values.into_iter().for_each(|value| self.show(&value));
            }
            Event::Change(value) => self.show(&value),
            Event::Delete { data_name, node_name, .. } => {
                let Some(row) = self.nodes.get_mut(&node_name) else { return };
                let gone = self.columns.iter().zip(&mut row.values).filter(|(one, _)| one.name == data_name);
                gone.for_each(|(_, shown)| *shown = None);
            }
        }
    }

    pub fn show(&mut self, value: &Value) {
        let count = self.columns.len();
        let row = self.nodes.entry(value.node_name.clone()).or_insert_with(|| Row::of(count));
        for (column, shown) in self.columns.iter().zip(&mut row.values) {
            if column.name == value.data_name {
                let part = match &column.field {
                    Some(field) => value.data_value.pointer(field.as_str()),
                    None => Some(&value.data_value),
                };
                *shown = part.map(|part| ShownValue { value: part.clone(), state: value.state });
            }
        }
    }

    /// Takes in nodes and tasks. A node that is not among them any more goes, unless it has values.
    pub fn refresh(&mut self, rest: Rest) {
        let count = self.columns.len();
        for row in self.nodes.values_mut() {
            (row.state, row.cordoned, row.tasks) = (None, false, None);
        }
        for node in rest.nodes {
            let row = self.nodes.entry(node.node_name).or_insert_with(|| Row::of(count));
            (row.state, row.cordoned) = (Some(node.state), node.cordoned);
        }
        for capacity in rest.capacity {
            if let Ok(name) = NodeName::parse(&capacity.node)
                && let Some(row) = self.nodes.get_mut(&name)
            {
                row.tasks = Some(capacity.tasks);
            }
        }
        self.nodes.retain(|_, row| row.state.is_some() || row.values.iter().any(Option::is_some));
        self.tasks = rest.tasks;
        self.trouble = None;
    }

    /// The columns by which nodes can be sorted, with their titles.
    fn keys(&self) -> Vec<(SortKey, String)> {
        let values = self.columns.iter().enumerate();
        let values = values.map(|(place, column)| (SortKey::Value(place), column.name.to_string()));
        let mut keys = vec![(SortKey::Node, "node".to_owned()), (SortKey::State, "state".to_owned())];
        keys.extend(values);
        keys.push((SortKey::Tasks, "tasks".to_owned()));
        keys
    }

    /// The key of that title.
    pub fn key(&self, title: &str) -> Result<SortKey, String> {
        let keys = self.keys();
        let found = keys.iter().find(|(_, known)| known == title).map(|(key, _)| *key);
        found.ok_or_else(|| {
            let known: Vec<&str> = keys.iter().map(|(_, title)| title.as_str()).collect();
            format!("`{title}` is no column; there are {}", known.join(", "))
        })
    }

    pub fn sorted_by(&self) -> String {
        self.keys().into_iter().find(|(key, _)| *key == self.sort).map(|(_, title)| title).unwrap_or_default()
    }

    /// Sorts by the next column.
    pub fn sort_by_next(&mut self) {
        let keys: Vec<SortKey> = self.keys().into_iter().map(|(key, _)| key).collect();
        let next = keys.iter().position(|key| *key == self.sort).map_or(0, |at| (at + 1) % keys.len());
        self.sort = keys[next];
        self.first = 0;
    }

    /// The nodes in their order: names from A to Z, states and figures from the worst and largest on.
    pub fn rows(&self) -> Vec<(&NodeName, &Row)> {
        let mut rows: Vec<(&NodeName, &Row)> = self.nodes.iter().collect();
        // The order by name stays among equals.
        rows.sort_by(|(_, one), (_, other)| match self.sort {
            SortKey::Node => Ordering::Equal,
            SortKey::State => other.badness().cmp(&one.badness()),
            SortKey::Tasks => other.tasks.cmp(&one.tasks),
            SortKey::Value(place) => falling(&one.values[place], &other.values[place]),
        });
        if self.reversed {
            rows.reverse();
        }
        rows
    }

    /// Moves the first node that is shown, of which `room` are.
    pub fn scroll(&mut self, by: isize, room: usize) {
        let last = self.nodes.len().saturating_sub(room);
        self.first = self.first.saturating_add_signed(by).min(last);
    }

    pub fn as_json(&self) -> Json {
        let nodes = self.rows().into_iter().map(|(name, row)| {
            let values = self.columns.iter().zip(&row.values).filter_map(|(column, shown)| {
                let ShownValue { value, state } = shown.as_ref()?;
                Some((column.to_string(), json!({ "value": value, "state": state })))
            });
            json!({
                "nodeName": name,
                "state": row.state,
                "cordoned": row.cordoned,
                "tasks": row.tasks,
                "values": values.collect::<serde_json::Map<_, _>>(),
            })
        });
        json!({ "nodes": nodes.collect::<Vec<_>>(), "tasks": self.tasks })
    }
}

impl Row {
    fn of(columns: usize) -> Self {
        Row { values: vec![None; columns], ..Row::default() }
    }

    /// Its values tell that it is lost before the manager is asked again.
    pub fn is_lost(&self) -> bool {
        let told = self.values.iter().flatten().any(|shown| shown.state == State::NodeLost);
        self.state == Some(NodeState::Lost) || told
    }

    fn badness(&self) -> u8 {
        if self.is_lost() { 2 } else { u8::from(self.cordoned) }
    }
}

/// Large numbers first, then texts, then what is not there.
fn falling(one: &Option<ShownValue>, other: &Option<ShownValue>) -> Ordering {
    let number = |shown: &Option<ShownValue>| shown.as_ref().and_then(|shown| shown.value.as_f64());
    let text = |shown: &Option<ShownValue>| shown.as_ref().map(|shown| shown.value.to_string());
    match (number(one), number(other)) {
        (Some(one), Some(other)) => other.total_cmp(&one),
        (Some(_), None) => Ordering::Less,
        (None, Some(_)) => Ordering::Greater,
        (None, None) => text(other).cmp(&text(one)),
    }
}

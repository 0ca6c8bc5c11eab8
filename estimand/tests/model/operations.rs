//! The operations, and sequences of them that meet often: few names, few nodes, few places in an order.

use proptest::prelude::*;
use serde_json::{Value, json};

/// A data name and a node by number; a case gives them their real names.
pub type Name = usize;
pub type Node = usize;

/// The target of a binding: a data name, and the part of its values.
pub type Target = (Name, Option<&'static str>);

pub const NAMES: usize = 4;
pub const NODES: usize = 2;

#[derive(Debug, Clone)]
pub enum Operation {
    Write(Item),
    Batch(Vec<Item>),
    Delete {
        name: Name,
        node: Option<Node>,
    },
    Mark {
        node: Node,
        lost: bool,
    },
    Bind {
        name: Name,
        target: Target,
    },
    RollBack {
        name: Name,
    },
    Unbind {
        name: Name,
    },
    /// SIGTERM, and a start on the same data.
    Restart,
    /// SIGKILL, and a start on the same data.
    Kill,
}

/// One write, alone or in a batch.
#[derive(Debug, Clone)]
pub struct Item {
    pub name: Name,
    pub node: Node,
    /// None reports a failure.
    pub value: Option<Value>,
    pub order: Option<(u64, u64)>,
}

pub fn sequence() -> impl Strategy<Value = Vec<Operation>> {
    let operation = prop_oneof![
        20 => item().prop_map(Operation::Write),
        6 => prop::collection::vec(item(), 0..6).prop_map(Operation::Batch),
        4 => (0..NAMES, prop::option::weighted(0.7, 0..NODES))
            .prop_map(|(name, node)| Operation::Delete { name, node }),
        4 => (0..NODES, any::<bool>()).prop_map(|(node, lost)| Operation::Mark { node, lost }),
        5 => (0..NAMES, 0..NAMES, field()).prop_map(|(name, to, field)| Operation::Bind { name, target: (to, field) }),
        2 => (0..NAMES).prop_map(|name| Operation::RollBack { name }),
        2 => (0..NAMES).prop_map(|name| Operation::Unbind { name }),
        1 => Just(Operation::Restart),
        2 => Just(Operation::Kill),
    ];
    prop::collection::vec(operation, 40..60)
}

/// Of some values a part, of others nothing.
fn field() -> impl Strategy<Value = Option<&'static str>> {
    prop_oneof![3 => Just(None), 1 => Just(Some("/a")), 1 => Just(Some("/a/0"))]
}

fn item() -> impl Strategy<Value = Item> {
    let order = prop::option::weighted(0.5, (0..2u64, 0..5u64));
    (0..NAMES, 0..NODES, prop::option::weighted(0.7, value()), order)
        .prop_map(|(name, node, value, order)| Item { name, node, value, order })
}

fn value() -> impl Strategy<Value = Value> {
    prop_oneof![
        any::<i64>().prop_map(Value::from),
        // Quarters are exact, in binary and in decimal.
        any::<i32>().prop_map(|quarters| Value::from(f64::from(quarters) / 4.0)),
        ".{0,8}".prop_map(Value::from),
        Just(Value::Null),
        ("[a-c]", any::<bool>()).prop_map(|(key, flag)| json!({key: [flag, {}]})),
    ]
}

//! The manager's answers when it is told of a changed registration, or of one that is gone.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::names::{DataName, NodeName};

/// Where an instance of a registration belongs now.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Placement {
    pub data_name: DataName,
    pub nodes: BTreeSet<NodeName>,
}

/// Where a data name's slots have ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Termination {
    pub data_name: DataName,
    /// Their agents say that the slots are gone, with all their processes.
    pub ended: BTreeSet<NodeName>,
    /// Lost nodes, and those whose agents did not say so in time.
    pub unreachable: BTreeSet<NodeName>,
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, from_value, json};

    use super::*;

    #[test]
    fn an_answer_that_does_not_say_which_nodes_confirmed_is_none() {
        let answer = |unreachable: Value| {
            from_value::<Termination>(
                json!({ "dataName": "a", "ended": [], "unreachable": unreachable, "new": 1 }),
            )
        };
        assert!(answer(json!([])).is_ok_and(|answer| answer.unreachable.is_empty()));
        assert!(answer(json!(["n1"])).is_ok_and(|answer| answer.unreachable.len() == 1));
        for other in [json!(null), json!("a"), json!([1])] {
            assert!(answer(other.clone()).is_err(), "{other}");
        }
        assert!(from_value::<Termination>(json!({ "dataName": "a", "ended": [] })).is_err());
    }
}

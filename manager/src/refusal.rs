//! How a manager says no: the kinds of problems that agents and people tell apart.

use estimand_api::names::{DataName, NodeName};
use estimand_api::problem::{Problem, kind};

use crate::cluster::{Refused, RemoveRefused};

/// `leader`: where the one that leads can be reached, if that is known.
pub fn standing_by(leader: Option<&str>) -> Problem {
    let detail = match leader {
        Some(address) => format!("this manager stands by; the one at {address} leads"),
        None => "this manager stands by, and does not know which one leads".to_owned(),
    };
    let problem = Problem::new(503, kind::STANDING_BY, "This manager does not lead", detail);
    Problem { retry_after: Some(1), ..problem }
}

pub fn of_agent(refused: &Refused) -> Problem {
    let (kind, title) = match refused {
        Refused::Unknown(_) => (kind::UNKNOWN_NODE, "Send a heartbeat first"),
        Refused::Superseded { .. } => (kind::SUPERSEDED, "This agent was started again"),
        Refused::Taken(_) => (kind::NODE_TAKEN, "The node has another agent"),
    };
    Problem::new(409, kind, title, refused.to_string())
}

pub fn of_removal(refused: &RemoveRefused) -> Problem {
    match refused {
        RemoveRefused::Unknown(node) => no_such_node(node),
        RemoveRefused::HeardOf(node) => Problem::conflict(format!(
            "node `{node}` is heard of: end its agent first, and remove the node when it is lost"
        )),
    }
}

pub fn no_such_node(node: &NodeName) -> Problem {
    Problem::not_found(format!("there is no node `{node}`"))
}

pub fn not_registered(name: &DataName) -> Problem {
    Problem::not_found(format!("`{name}` is not registered"))
}

pub fn registry_unread() -> Problem {
    Problem::unavailable("the registry was not read yet; what should run is not known", 1)
}

pub fn registry_slow() -> Problem {
    Problem::unavailable("the registry could not be read in time; it is read as soon as it answers", 1)
}

/// What was changed is in effect as soon as it is stored.
pub fn store_slow() -> Problem {
    Problem::outcome_unknown("the database has not taken this in time, and still may", 1)
}

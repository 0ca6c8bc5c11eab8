//! The problems of a manager: here and nowhere else its errors become problems.

use estimand_api::names::{DataName, NodeName};
use estimand_api::problem::{Problem, kind};
use estimand_web::Failure;

use crate::core::{AgentError, LabelError, RemoveError};
use crate::leadership::{LeadershipError, RemovalError, TooManyRuns};

impl From<LeadershipError> for Problem {
    fn from(LeadershipError { leader }: LeadershipError) -> Self {
        let detail = match leader {
            Some(address) => format!("this manager stands by; the one at {address} leads"),
            None => "this manager stands by, and does not know which one leads".to_owned(),
        };
        let problem = Problem::new(503, kind::STANDING_BY, "This manager does not lead", detail);
        Problem { retry_after: Some(1), ..problem }
    }
}

impl From<AgentError> for Problem {
    fn from(error: AgentError) -> Self {
        let (kind, title) = match error {
            AgentError::UnknownNode(_) => (kind::UNKNOWN_NODE, "Send a heartbeat first"),
            AgentError::Superseded { .. } => (kind::SUPERSEDED, "This agent was started again"),
            AgentError::NodeTaken(_) => (kind::NODE_TAKEN, "The node has another agent"),
        };
        Problem::new(409, kind, title, error.to_string())
    }
}

impl From<RemoveError> for Problem {
    fn from(error: RemoveError) -> Self {
        match error {
            RemoveError::UnknownNode(node) => no_such_node(&node),
            RemoveError::NotLost(_) => Problem::conflict(error.to_string()),
        }
    }
}

impl From<LabelError> for Problem {
    fn from(error: LabelError) -> Self {
        match error {
            LabelError::UnknownNode(node) => no_such_node(&node),
            LabelError::TooMany { .. } => Problem::conflict(error.to_string()),
        }
    }
}

impl From<RemovalError> for Problem {
    fn from(error: RemovalError) -> Self {
        match error {
            RemovalError::Rejected(error) => error.into(),
            RemovalError::Postponed(_) => Problem::unavailable(error.to_string(), 5),
        }
    }
}

impl From<TooManyRuns> for Problem {
    fn from(error: TooManyRuns) -> Self {
        Problem::unavailable(error.to_string(), 5)
    }
}

macro_rules! failures {
    ($($error:ty),+) => {
        $(impl From<$error> for Failure {
            fn from(error: $error) -> Self {
                Problem::from(error).into()
            }
        })+
    };
}

failures!(LeadershipError, AgentError, LabelError, RemoveError, RemovalError);

pub fn no_such_node(node: &NodeName) -> Problem {
    Problem::not_found(format!("there is no node `{node}`"))
}

pub fn node_is_lost(node: &NodeName) -> Problem {
    Problem::conflict(format!("node `{node}` is lost: it is told when it is heard of again"))
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

/// A change is in effect as soon as it is stored.
pub fn store_slow() -> Problem {
    Problem::outcome_unknown("the database has not taken this in time, and still may", 1)
}

pub fn no_answer(detail: String) -> Problem {
    Problem::new(504, kind::NO_ANSWER, "The agent did not answer in time", detail)
}

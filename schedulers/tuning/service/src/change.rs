//! A change of studies, which is stored whole or not at all, and the reasons why there is none.

use std::sync::Arc;

use estimand_api::problem::{Problem, kind};
use estimand_tuning::{Report, TrialNumber};

use crate::study::{Definition, StudyProgress};
use crate::trial::{Trial, TrialProgress};

/// The state of this service, for people.
pub const NAME: &str = "the studies";

/// A part of a change. Studies are named by their numbers.
#[derive(Debug, Clone, PartialEq)]
pub enum Edit {
    Made(Arc<Definition>),
    /// The progress afterwards.
    Study {
        study: u64,
        progress: StudyProgress,
    },
    Asked {
        study: u64,
        trials: Vec<Arc<Trial>>,
    },
    Reported {
        study: u64,
        trial: TrialNumber,
        report: Report,
        at: i64,
    },
    Stop {
        study: u64,
        trial: TrialNumber,
    },
    Ended {
        study: u64,
        trial: TrialNumber,
        progress: TrialProgress,
        at: i64,
    },
    /// Trials of a deleted study, from a number on, are no more.
    Cut {
        study: u64,
        from: TrialNumber,
    },
    /// A deleted study without trials is no more.
    Gone(u64),
}

impl Edit {
    pub fn study(&self) -> u64 {
        match self {
            Edit::Made(definition) => definition.number,
            Edit::Study { study, .. }
            | Edit::Asked { study, .. }
            | Edit::Reported { study, .. }
            | Edit::Stop { study, .. }
            | Edit::Ended { study, .. }
            | Edit::Cut { study, .. }
            | Edit::Gone(study) => *study,
        }
    }
}

/// Edits that are stored together.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Change(pub Vec<Edit>);

/// The reason why a request is rejected.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Rejection {
    #[error("there is no study `{0}`")]
    Unknown(String),
    #[error("study `{study}` has no trial {trial}")]
    UnknownTrial { study: String, trial: TrialNumber },
    #[error("there is a study `{0}` with another document: give another id, or delete that one first")]
    Taken(String),
    #[error("study `{0}` is over: only one that runs or is paused can be paused or resumed")]
    Over(String),
    #[error("trial {trial} is {state}: only one that is running reports")]
    NotRunning { trial: TrialNumber, state: &'static str },
    #[error("trial {trial}: {reason}")]
    Report { trial: TrialNumber, reason: String },
    #[error("trial {trial} has {most} reports, and no more are kept: report less often")]
    TooManyReports { trial: TrialNumber, most: usize },
    #[error("trial {trial} has another result already: it is {state}{value}")]
    Told { trial: TrialNumber, state: &'static str, value: String },
    #[error("there are {0} studies, and no more are kept: delete some")]
    Full(usize),
    #[error("all studies have {} MiB together, and no more are kept: delete some", .0 >> 20)]
    TooManyBytes(u64),
    /// The share of a user is used up.
    #[error("{}", .0.detail)]
    Share(Box<Problem>),
}

impl From<Rejection> for Problem {
    fn from(rejection: Rejection) -> Self {
        let detail = rejection.to_string();
        match rejection {
            Rejection::Unknown(_) | Rejection::UnknownTrial { .. } => Problem::not_found(detail),
            Rejection::Share(problem) => *problem,
            Rejection::TooManyBytes(_) => Problem::unavailable(detail, 60),
            Rejection::Taken(_)
            | Rejection::Over(_)
            | Rejection::NotRunning { .. }
            | Rejection::Report { .. }
            | Rejection::TooManyReports { .. }
            | Rejection::Told { .. }
            | Rejection::Full(_) => Problem::conflict(detail),
        }
    }
}

/// No trial is complete yet: 404.
pub fn nothing_complete(id: &str) -> Problem {
    let detail = format!("study `{id}` has no complete trial yet");
    Problem::new(404, kind::NOT_AS_ASKED, "There is no result yet", detail)
}

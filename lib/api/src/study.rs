//! Studies of tuning as readers see them, and what is sent to them.
//!
//! A study proposes parameters to whoever asks, and is told what came of them. Parameters are JSON values by name: numbers,
//! texts, true and false.

use std::collections::BTreeMap;

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// The parameters of a trial by name. Those whose condition does not hold are absent.
pub type TrialParameters = BTreeMap<String, Value>;

/// A search for good parameters.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct StudyRecord {
    pub id: String,
    /// `RUNNING`, `PAUSED` (it proposes nothing until it is resumed) or `OVER`.
    pub state: String,
    /// The reason for which it is over: `trials`, `target`, `plateau` or `time` (the rule that stopped it), `space` (a grid has no more points),
    /// or `stopped` (by a request).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// The seed that all its proposals come from, given or drawn when it was made.
    pub seed: u64,
    pub trials: TrialCounts,
    /// The best result so far.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub best: Option<BestResult>,
    #[serde(with = "crate::instant::wire")]
    #[schema(value_type = String, format = DateTime)]
    pub made_at: DateTime<Utc>,
    pub made_by: String,
    #[serde(default, with = "crate::instant::optional", skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub ended_at: Option<DateTime<Utc>>,
    /// The document as it was given.
    #[schema(value_type = Object)]
    pub document: Map<String, Value>,
}

impl StudyRecord {
    /// True if it proposes nothing more.
    pub fn is_over(&self) -> bool {
        self.state == "OVER"
    }
}

/// The trials of a study by state.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct TrialCounts {
    pub running: u64,
    pub complete: u64,
    pub pruned: u64,
    pub failed: u64,
}

impl TrialCounts {
    pub fn all(self) -> u64 {
        self.running + self.complete + self.pruned + self.failed
    }
}

/// The trial with the best value.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct BestResult {
    pub number: u64,
    pub value: f64,
}

/// Studies, the newest first.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct StudyPage {
    pub studies: Vec<StudyRecord>,
    /// The value of `before` that gives the next page; absent on the last one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}

/// A set of parameters, and what came of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct TrialRecord {
    /// Its place among the proposals of its study, from 0.
    pub number: u64,
    /// `RUNNING`, `COMPLETE` (it has a value), `PRUNED` (ended early) or `FAILED`.
    pub state: String,
    #[schema(value_type = Object)]
    pub parameters: TrialParameters,
    /// The number of results that its proposal was made with: the first so many by `place`.
    pub seen: u64,
    /// The value of one that is complete; the last report of one that was pruned.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<f64>,
    /// The place of its result among those of its study, in the order in which they were stored, from 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub place: Option<u64>,
    /// The reason for which it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The pruner has said that it should stop.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub stop: bool,
    /// The step of its last report.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_step: Option<u64>,
    /// Reports by ascending step; absent in lists.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reports: Option<Vec<TrialReport>>,
    #[serde(with = "crate::instant::wire")]
    #[schema(value_type = String, format = DateTime)]
    pub asked_at: DateTime<Utc>,
    #[serde(default, with = "crate::instant::optional", skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub ended_at: Option<DateTime<Utc>>,
}

/// A value that a trial reported on its way.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct TrialReport {
    pub step: u64,
    pub value: f64,
}

/// Trials of a study by ascending number.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct TrialPage {
    pub trials: Vec<TrialRecord>,
    /// The value of `after` that gives the next page; absent on the last one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<u64>,
}

/// A question for trials.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct TrialQuestion {
    /// The number of trials, from 1 to 100; 1 if it is absent.
    #[schema(minimum = 1, maximum = 100)]
    pub count: u64,
}

impl Default for TrialQuestion {
    fn default() -> Self {
        TrialQuestion { count: 1 }
    }
}

/// The trials that were asked for; fewer than that, or none, where the study has no more or has not proposed so many yet.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct TrialsAsked {
    pub trials: Vec<TrialRecord>,
    /// The study never proposes again: whoever asks in a loop ends it. A paused study has no trials, and may go on.
    pub done: bool,
    /// The state of the study.
    pub state: String,
}

/// The answer to a report.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct ReportAnswer {
    /// The trial should stop, and be told as pruned.
    pub stop: bool,
}

/// The one result of a trial: exactly one of the fields is given.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct TrialEnd {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<f64>,
    /// True if it ended early, as a report was answered; its last report is its value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pruned: Option<bool>,
    /// The reason for which it has no value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failed: Option<String>,
}

/// The importance of each parameter of a study.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct StudyImportance {
    /// The number of results that it was computed from.
    pub results: u64,
    /// The most important first; empty where there are too few results, or they do not differ.
    pub parameters: Vec<ParameterImportance>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ParameterImportance {
    pub name: String,
    /// A part of 1.
    pub importance: f64,
}

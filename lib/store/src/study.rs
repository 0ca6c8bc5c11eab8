//! `t_study`, the studies of tuning; `t_trial`, their trials; and `t_trial_report`, what trials reported on their way.
//!
//! A change is one transaction, under the claim of the tuning service. The revision of that claim is the highest number that
//! a study ever had.

use diesel::prelude::*;

use crate::backend::on;
use crate::owner::advance;
use crate::schema::{t_study, t_trial, t_trial_report};
use crate::statement::{Fixed, Keys, Rows, Value, write_all};
use crate::{Claim, Connection, Error};

#[derive(Clone, Debug, PartialEq, Eq, Queryable)]
pub struct StudyRow {
    pub number: i64,
    pub id: String,
    pub user: Option<String>,
    /// JSON; so `progress`.
    pub document: String,
    pub seed: i64,
    pub progress: String,
    pub made_at: i64,
    pub made_by: String,
    pub ended_at: Option<i64>,
}

#[derive(Clone, Debug, PartialEq, Eq, Queryable)]
pub struct TrialRow {
    pub study: i64,
    pub number: i64,
    /// JSON; so `progress`.
    pub parameters: String,
    pub seen: i64,
    pub idempotency_key: Option<String>,
    pub progress: String,
    pub asked_at: i64,
    pub ended_at: Option<i64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Queryable)]
pub struct TrialReportRow {
    pub study: i64,
    pub trial: i64,
    pub step: i64,
    pub value: f64,
    pub at: i64,
}

/// Trials of a study that are deleted: those from a number on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TrialTail {
    pub study: i64,
    pub from: i64,
}

/// Everything that one transaction changes. Trials are deleted after all others are written.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StudyGroup {
    /// New or changed; so `trials`.
    pub studies: Vec<StudyRow>,
    pub trials: Vec<TrialRow>,
    pub reports: Vec<TrialReportRow>,
    pub deleted_trials: Vec<TrialTail>,
    /// The numbers of studies without trials.
    pub deleted_studies: Vec<i64>,
    /// The highest number that a study ever had.
    pub highest: i64,
}

/// Everything that is kept, each by ascending numbers.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StoredStudies {
    pub studies: Vec<StudyRow>,
    pub trials: Vec<TrialRow>,
    pub reports: Vec<TrialReportRow>,
}

static STUDIES: Rows = Rows {
    table: "t_study",
    columns: &["number", "id", "user_name", "document", "seed", "progress", "made_at", "made_by", "ended_at"],
    replaced_by: 1,
};
static TRIALS: Rows = Rows {
    table: "t_trial",
    columns: &[
        "study",
        "number",
        "parameters",
        "seen",
        "idempotency_key",
        "progress",
        "asked_at",
        "ended_at",
    ],
    replaced_by: 2,
};
static REPORTS: Rows =
    Rows { table: "t_trial_report", columns: &["study", "trial", "step", "value", "at"], replaced_by: 0 };
static NUMBERS: Keys = Keys { table: "t_study", columns: &["number"] };

impl Connection {
    pub fn load_studies(&mut self) -> Result<StoredStudies, Error> {
        self.read("loading the studies", |backend| {
            Ok(StoredStudies {
                studies: on!(backend, connection => t_study::table.order(t_study::number).load(connection))?,
                trials: on!(backend, connection => t_trial::table
                    .order((t_trial::study, t_trial::number))
                    .load(connection))?,
                reports: on!(backend, connection => t_trial_report::table
                    .order((t_trial_report::study, t_trial_report::trial, t_trial_report::step))
                    .load(connection))?,
            })
        })
    }

    /// Stores changes, all or nothing.
    pub fn commit_studies(&mut self, claim: &Claim, group: &StudyGroup) -> Result<(), Error> {
        self.write("storing studies", |backend| {
            advance(backend, claim, group.highest)?;
            write_all(backend, &STUDIES, &group.studies, |row, values| values.extend(row.values()))?;
            write_all(backend, &TRIALS, &group.trials, |row, values| values.extend(row.values()))?;
            write_all(backend, &REPORTS, &group.reports, |row, values| values.extend(row.values()))?;
            for TrialTail { study, from } in &group.deleted_trials {
                let values = &[Value::Int(*study), Value::Int(*from)];
                let sql = "DELETE FROM t_trial_report WHERE study = ? AND trial >= ?";
                Fixed { sql, values }.execute_on(backend)?;
                let sql = "DELETE FROM t_trial WHERE study = ? AND number >= ?";
                Fixed { sql, values }.execute_on(backend)?;
            }
            let deleted: Vec<Value<'_>> = group.deleted_studies.iter().copied().map(Value::Int).collect();
            NUMBERS.delete(backend, &deleted)?;
            Ok(())
        })
    }
}

impl StudyRow {
    fn values(&self) -> [Value<'_>; 9] {
        [
            Value::Int(self.number),
            Value::Text(&self.id),
            Value::OptText(self.user.as_deref()),
            Value::Text(&self.document),
            Value::Int(self.seed),
            Value::Text(&self.progress),
            Value::Int(self.made_at),
            Value::Text(&self.made_by),
            Value::OptInt(self.ended_at),
        ]
    }
}

impl TrialRow {
    fn values(&self) -> [Value<'_>; 8] {
        [
            Value::Int(self.study),
            Value::Int(self.number),
            Value::Text(&self.parameters),
            Value::Int(self.seen),
            Value::OptText(self.idempotency_key.as_deref()),
            Value::Text(&self.progress),
            Value::Int(self.asked_at),
            Value::OptInt(self.ended_at),
        ]
    }
}

impl TrialReportRow {
    fn values(&self) -> [Value<'_>; 5] {
        [
            Value::Int(self.study),
            Value::Int(self.trial),
            Value::Int(self.step),
            Value::OptReal(Some(self.value)),
            Value::Int(self.at),
        ]
    }
}

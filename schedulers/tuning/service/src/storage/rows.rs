//! Translates between rows of the store and studies.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use estimand_api::json::parse_object;
use estimand_service::rows::cause;
pub use estimand_service::rows::{column, known};
use estimand_store::{StoredStudies, StudyGroup, StudyRow, TrialReportRow, TrialRow, TrialTail, actor};
use estimand_tuning::{Curve, Measure, Report};
use serde_json::Value;

use crate::change::{Change, Edit};
use crate::document::Document;
use crate::study::{Definition, Study};
use crate::table::Table;
use crate::trial::Trial;

/// The rows of changes; `after` has all of them.
pub fn group(changes: &[Change], after: &Table) -> StudyGroup {
    let mut group = StudyGroup { highest: column(after.highest), ..StudyGroup::default() };
    let mut studies = BTreeSet::new();
    let mut trials = BTreeSet::new();
    for edit in changes.iter().flat_map(|change| &change.0) {
        let study = edit.study();
        match edit {
            Edit::Made(_) | Edit::Study { .. } => drop(studies.insert(study)),
            Edit::Asked { trials: asked, .. } => {
                trials.extend(asked.iter().map(|trial| (study, trial.number)));
            }
            Edit::Stop { trial, .. } | Edit::Ended { trial, .. } => drop(trials.insert((study, *trial))),
            Edit::Reported { trial, report, at, .. } => group.reports.push(TrialReportRow {
                study: column(study),
                trial: column(*trial),
                step: column(report.step),
                value: report.measure.get(),
                at: *at,
            }),
            Edit::Cut { from, .. } => {
                group.deleted_trials.push(TrialTail { study: column(study), from: column(*from) });
            }
            Edit::Gone(study) => group.deleted_studies.push(column(*study)),
        }
    }
    group.studies = studies.into_iter().filter_map(|study| Some(study_row(after.get(study)?))).collect();
    let row = |(study, trial)| Some(trial_row(study, after.get(study)?.trials.get(trial)?));
    group.trials = trials.into_iter().filter_map(row).collect();
    group
}

fn study_row(study: &Study) -> StudyRow {
    let Definition { number, document, proposer, made_at, made_by } = &*study.definition;
    StudyRow {
        number: column(*number),
        id: document.id.clone(),
        user: document.user.clone(),
        document: Value::Object(document.map.clone()).to_string(),
        seed: column(proposer.seed),
        progress: serde_json::to_string(&study.progress).unwrap_or_default(),
        made_at: *made_at,
        made_by: actor(made_by),
        ended_at: study.progress.ended_at,
    }
}

fn trial_row(study: u64, trial: &Trial) -> TrialRow {
    TrialRow {
        study: column(study),
        number: column(trial.number),
        parameters: serde_json::to_string(&*trial.parameters).unwrap_or_default(),
        seen: column(trial.seen),
        idempotency_key: trial.key.clone(),
        progress: serde_json::to_string(&trial.progress).unwrap_or_default(),
        asked_at: trial.asked_at,
        ended_at: trial.ended_at,
    }
}

/// The table of what is stored. A study that cannot be read, or whose trials cannot, is left alone, which is logged.
pub fn table(stored: StoredStudies, highest: u64, now: i64) -> Table {
    let mut reports: BTreeMap<(i64, i64), Vec<TrialReportRow>> = BTreeMap::new();
    for row in stored.reports {
        reports.entry((row.study, row.trial)).or_default().push(row);
    }
    let mut trials: BTreeMap<i64, Vec<TrialRow>> = BTreeMap::new();
    for row in stored.trials {
        trials.entry(row.study).or_default().push(row);
    }
    let studies = stored.studies.iter().filter_map(|row| {
        let own = trials.remove(&row.number).unwrap_or_default();
        let read = study(row, own, &mut reports, now);
        let unread = |cause: &String| {
            tracing::error!(id = row.id, cause, "a stored study cannot be read; it is left alone");
        };
        read.inspect_err(unread).ok()
    });
    Table::new(studies.collect(), highest)
}

fn study(
    row: &StudyRow,
    trials: Vec<TrialRow>,
    reports: &mut BTreeMap<(i64, i64), Vec<TrialReportRow>>,
    now: i64,
) -> Result<Study, String> {
    let map = parse_object(row.document.as_bytes()).map_err(|problem| cause(&problem))?;
    let document = Document::from_map(map).map_err(|problem| cause(&problem))?;
    let progress = serde_json::from_str(&row.progress).map_err(|error| error.to_string())?;
    let definition = Definition {
        number: known(row.number),
        proposer: document.study(known(row.seed)),
        document,
        made_at: row.made_at,
        made_by: row.made_by.clone(),
    };
    let mut study = Study::new(Arc::new(definition), progress);
    for row in trials {
        let reports = reports.remove(&(row.study, row.number)).unwrap_or_default();
        let trial = trial(&row, &reports, now).map_err(|cause| format!("trial {}: {cause}", row.number))?;
        if trial.number != study.trials.next() {
            return Err(format!("trial {} is missing", study.trials.next()));
        }
        study.add(Arc::new(trial));
    }
    Ok(study)
}

fn trial(row: &TrialRow, reports: &[TrialReportRow], now: i64) -> Result<Trial, String> {
    let mut curve = Curve::default();
    for report in reports {
        let measure = Measure::new(report.value).map_err(|error| error.to_string())?;
        curve.add(Report { step: known(report.step), measure }).map_err(|error| error.to_string())?;
    }
    Ok(Trial {
        number: known(row.number),
        parameters: Arc::new(serde_json::from_str(&row.parameters).map_err(|error| error.to_string())?),
        seen: known(row.seen),
        token: 0,
        key: row.idempotency_key.clone(),
        asked_at: row.asked_at,
        // Trials could not be heard while nobody listened.
        heard_at: now,
        ended_at: row.ended_at,
        progress: serde_json::from_str(&row.progress).map_err(|error| error.to_string())?,
        curve,
    })
}

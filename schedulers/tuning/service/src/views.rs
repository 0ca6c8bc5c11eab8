//! Studies and trials as readers see them.

use estimand_api::study::{BestResult, StudyRecord, TrialRecord, TrialReport};
use estimand_service::rows;
use estimand_tuning::space::Scalar;
use serde_json::Value;

use crate::study::{Study, StudyProgress};
use crate::trial::Trial;

pub fn study(study: &Study) -> StudyRecord {
    study_at(study, study.progress)
}

/// A study that is as far as this.
pub fn study_at(study: &Study, progress: StudyProgress) -> StudyRecord {
    let definition = &study.definition;
    StudyRecord {
        id: definition.document.id.clone(),
        state: progress.state.as_str().to_owned(),
        reason: progress.reason.map(|reason| reason.as_str().to_owned()),
        user: definition.document.user.clone(),
        seed: definition.proposer.seed,
        trials: study.counts,
        best: study.best.map(|best| BestResult { number: best.number, value: best.value }),
        made_at: rows::instant(definition.made_at),
        made_by: definition.made_by.clone(),
        ended_at: progress.ended_at.map(rows::instant),
        document: definition.document.map.clone(),
    }
}

/// A trial without its reports.
pub fn trial(trial: &Trial) -> TrialRecord {
    let progress = &trial.progress;
    let parameters = trial.parameters.iter().map(|(name, scalar)| (name.clone(), value(scalar)));
    TrialRecord {
        number: trial.number,
        state: progress.state.as_str().to_owned(),
        parameters: parameters.collect(),
        seen: trial.seen,
        value: progress.value,
        place: progress.place,
        reason: progress.reason.clone(),
        stop: progress.stop,
        last_step: trial.curve.last().map(|report| report.step),
        reports: None,
        asked_at: rows::instant(trial.asked_at),
        ended_at: trial.ended_at.map(rows::instant),
    }
}

pub fn trial_with_reports(trial: &Trial) -> TrialRecord {
    let reports = trial.curve.reports().iter();
    let reports = reports.map(|report| TrialReport { step: report.step, value: report.measure.get() });
    TrialRecord { reports: Some(reports.collect()), ..self::trial(trial) }
}

fn value(scalar: &Scalar) -> Value {
    match scalar {
        Scalar::Flag(flag) => Value::from(*flag),
        Scalar::Integer(number) => Value::from(*number),
        Scalar::Float(number) => Value::from(*number),
        Scalar::Text(text) => Value::from(text.as_str()),
    }
}

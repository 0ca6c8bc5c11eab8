//! Studies, trials and reports on SQLite, PostgreSQL and MariaDB alike.
#![allow(clippy::unwrap_used)]

mod common;

use common::Place;
use estimand_store::{Error, StoredStudies, StudyGroup, StudyRow, TrialReportRow, TrialRow, TrialTail};

on_every_store!(studies_are_kept_with_their_trials, a_study_goes_in_pieces);

fn study(number: i64) -> StudyRow {
    StudyRow {
        number,
        // An id is free again while the trials of the one before still go.
        id: "grüße".to_owned(),
        user: (number % 2 == 0).then(|| "ada".to_owned()),
        document: "{\"text\":\"\u{1F980}\"}".to_owned(),
        seed: (1 << 53) - number,
        progress: "{}".to_owned(),
        made_at: number * 10,
        made_by: "somebody".to_owned(),
        ended_at: None,
    }
}

fn trial(study: i64, number: i64) -> TrialRow {
    TrialRow {
        study,
        number,
        parameters: "{\"lr\":0.1}".to_owned(),
        seen: number / 2,
        // Trials that were asked for together have one key.
        idempotency_key: (number > 0).then(|| "key".to_owned()),
        progress: "{}".to_owned(),
        asked_at: number,
        ended_at: None,
    }
}

fn report(study: i64, trial: i64, step: i64, value: f64) -> TrialReportRow {
    TrialReportRow { study, trial, step, value, at: step }
}

fn studies_are_kept_with_their_trials(place: &Place) {
    let mut connection = place.open();
    let claim = connection.claim("tuning", 0).unwrap();
    assert_eq!(connection.load_studies().unwrap(), StoredStudies::default());
    // Values come back to the last bit.
    let values = [0.1 + 0.2, -5e-324, f64::MAX, 1.0 / 3.0];
    let reports = values.into_iter().zip(1..).map(|(value, step)| report(1, 0, step, value));
    let group = StudyGroup {
        studies: vec![study(1), study(2)],
        trials: vec![trial(1, 0), trial(1, 1), trial(1, 2), trial(2, 0)],
        reports: reports.collect(),
        highest: 2,
        ..StudyGroup::default()
    };
    connection.commit_studies(&claim, &group).unwrap();
    let stored = connection.load_studies().unwrap();
    assert_eq!((&stored.studies, &stored.trials), (&group.studies, &group.trials));
    let bits = |rows: &[TrialReportRow]| rows.iter().map(|row| row.value.to_bits()).collect::<Vec<_>>();
    assert_eq!(bits(&stored.reports), bits(&group.reports));

    let ended = TrialRow { ended_at: Some(9), progress: "{\"place\":0}".to_owned(), ..trial(1, 1) };
    let over = StudyRow { ended_at: Some(9), ..study(2) };
    let group = StudyGroup {
        studies: vec![over.clone()],
        trials: vec![ended.clone()],
        highest: 2,
        ..StudyGroup::default()
    };
    connection.commit_studies(&claim, &group).unwrap();
    let stored = connection.load_studies().unwrap();
    assert_eq!((&stored.studies[1], &stored.trials[1]), (&over, &ended));

    // A step is reported once: a group that would write over it is refused whole.
    let group = StudyGroup {
        studies: vec![study(3)],
        reports: vec![report(1, 0, 1, 7.0)],
        highest: 3,
        ..StudyGroup::default()
    };
    connection.commit_studies(&claim, &group).unwrap_err();
    assert_eq!(connection.load_studies().unwrap(), stored);

    let next = connection.claim("tuning", 0).unwrap();
    assert_eq!(next.revision, 2);
    let refused = connection.commit_studies(&claim, &StudyGroup::default()).unwrap_err();
    assert!(matches!(refused, Error::Fenced { .. }), "{refused}");
}

fn a_study_goes_in_pieces(place: &Place) {
    let mut connection = place.open();
    let claim = connection.claim("tuning", 0).unwrap();
    let group = StudyGroup {
        studies: vec![study(1), study(2)],
        trials: (0..600).map(|number| trial(1, number)).chain([trial(2, 599)]).collect(),
        reports: (0..600).map(|number| report(1, number, 1, 0.5)).chain([report(2, 599, 1, 0.5)]).collect(),
        highest: 2,
        ..StudyGroup::default()
    };
    connection.commit_studies(&claim, &group).unwrap();
    let tail = |from| StudyGroup {
        deleted_trials: vec![TrialTail { study: 1, from }],
        highest: 2,
        ..StudyGroup::default()
    };
    connection.commit_studies(&claim, &tail(250)).unwrap();
    let stored = connection.load_studies().unwrap();
    assert_eq!((stored.studies.len(), stored.trials.len(), stored.reports.len()), (2, 251, 251));
    connection.commit_studies(&claim, &StudyGroup { deleted_studies: vec![1], ..tail(0) }).unwrap();
    let stored = connection.load_studies().unwrap();
    assert_eq!((stored.studies, stored.trials), (vec![study(2)], vec![trial(2, 599)]));
    assert_eq!(stored.reports, [report(2, 599, 1, 0.5)]);
}

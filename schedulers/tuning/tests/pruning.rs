//! Pruners: who is ended, who climbs, and in which order.
#![allow(clippy::unwrap_used)]

use estimand_tuning::pruners::{Ladder, LadderError, Median, Plateau, Promotion, Pruner, Verdict, hyperband};
use estimand_tuning::{Curve, Direction, Measure, Report, ReportError};

const UP: Direction = Direction::Maximize;

fn curve(reports: &[(u64, f64)]) -> Curve {
    let mut curve = Curve::default();
    for (step, value) in reports {
        curve.add(Report { step: *step, measure: Measure::new(*value).unwrap() }).unwrap();
    }
    curve
}

/// The verdict on a curve beside others.
fn verdict(pruner: &Pruner, own: &[(u64, f64)], others: &[&[(u64, f64)]]) -> Verdict {
    let others: Vec<Curve> = others.iter().map(|reports| curve(reports)).collect();
    pruner.verdict(UP, &curve(own), &others.iter().collect::<Vec<_>>())
}

#[test]
fn a_report_comes_once_and_in_order() {
    let report = |step, value| Report { step, measure: Measure::new(value).unwrap() };
    let mut curve = curve(&[(1, 0.5), (3, 0.7)]);
    assert_eq!(curve.add(report(3, 0.7)), Ok(()));
    assert_eq!(curve.add(report(3, 0.8)), Err(ReportError::Twice { step: 3 }));
    assert_eq!(curve.add(report(2, 0.8)), Err(ReportError::OutOfOrder { step: 2, last: 3 }));
    assert_eq!(curve.reports().len(), 2);
    for value in [f64::NAN, f64::INFINITY] {
        assert!(Measure::new(value).is_err());
    }
}

#[test]
fn the_median_ends_whoever_never_was_better() {
    let median = Pruner::Median(Median { least_trials: 3, first_step: 2 });
    let others: [&[(u64, f64)]; 3] = [&[(1, 0.1), (2, 0.5)], &[(1, 0.2), (2, 0.6)], &[(2, 0.7), (3, 0.9)]];
    assert_eq!(verdict(&median, &[(2, 0.55)], &others), Verdict::Ends);
    assert_eq!(verdict(&median, &[(2, 0.6)], &others), Verdict::GoesOn);
    assert_eq!(verdict(&median, &[(1, 0.8), (2, 0.1)], &others), Verdict::GoesOn, "its best counts");
    assert_eq!(verdict(&median, &[(1, 0.0)], &others), Verdict::GoesOn, "too early");
    assert_eq!(verdict(&median, &[(2, 0.0)], &others[..2]), Verdict::GoesOn, "too few");
    assert_eq!(verdict(&median, &[(3, 0.0)], &others), Verdict::GoesOn, "only one has come as far");
}

#[test]
fn a_trial_without_a_new_best_ends() {
    let plateau = Pruner::Plateau(Plateau { patience: 2, least: 0.01, first_step: 3 });
    assert_eq!(verdict(&plateau, &[(1, 0.1), (2, 0.5), (3, 0.505), (4, 0.5)], &[]), Verdict::Ends);
    assert_eq!(verdict(&plateau, &[(1, 0.1), (2, 0.5), (3, 0.52), (4, 0.5)], &[]), Verdict::GoesOn);
    assert_eq!(verdict(&plateau, &[(1, 0.5), (2, 0.5)], &[]), Verdict::GoesOn);
}

#[test]
fn ladders_are_counted_from_the_top() {
    assert_eq!(Ladder::between(3, 2, 52).unwrap().rungs(), [2, 6, 17, 52]);
    assert_eq!(Ladder::between(3, 1, 81).unwrap().rungs(), [1, 3, 9, 27, 81]);
    assert_eq!(Ladder::between(2, 5, 5).unwrap().rungs(), [5]);
    assert_eq!(Ladder::new(1, vec![1]), Err(LadderError::Eta(1)));
    for rungs in [vec![], vec![0, 1], vec![3, 2], vec![2, 2]] {
        assert_eq!(Ladder::new(3, rungs), Err(LadderError::Rungs));
    }
    let brackets = hyperband(3, 1, 81).unwrap();
    let starters: Vec<u64> = brackets.iter().map(|(_, starters)| *starters).collect();
    assert_eq!(starters, [81, 34, 15, 8, 5], "n = (longest + 1) / (climbs + 1) · eta^climbs, rounded up");
    assert_eq!(brackets[3].0.rungs(), [27, 81]);
}

#[test]
fn a_rung_lets_its_best_third_go_on() {
    let halving = Pruner::Halving(Ladder::new(3, vec![2, 6]).unwrap());
    let others: [&[(u64, f64)]; 5] = [&[(2, 0.1)], &[(2, 0.2)], &[(2, 0.3)], &[(2, 0.4)], &[(2, 0.5)]];
    assert_eq!(verdict(&halving, &[(2, 0.45)], &others), Verdict::GoesOn);
    assert_eq!(verdict(&halving, &[(2, 0.35)], &others), Verdict::Ends);
    assert_eq!(verdict(&halving, &[(1, 0.9), (3, 0.35)], &others), Verdict::Ends, "passed, not met");
    assert_eq!(
        verdict(&halving, &[(2, 0.9), (3, 0.0)], &others),
        Verdict::GoesOn,
        "judged at the rung already"
    );
    assert_eq!(verdict(&halving, &[(2, 0.9), (6, 0.0)], &others), Verdict::GoesOn, "the top ends by itself");
    assert_eq!(verdict(&halving, &[(2, 0.0)], &others[..1]), Verdict::Ends);
    assert_eq!(verdict(&halving, &[(2, 0.0)], &[]), Verdict::GoesOn);
}

#[test]
fn the_best_that_is_not_above_yet_climbs_from_the_highest_rung_down() {
    let ladder = Ladder::new(3, vec![2, 6, 18]).unwrap();
    let curves: Vec<Curve> = [
        &[(2, 0.9), (6, 0.90)][..],
        &[(2, 0.8), (6, 0.95)],
        &[(2, 0.7), (6, 0.92)],
        &[(2, 0.6)],
        &[(2, 0.5)],
        &[(2, 0.4)],
        &[(2, 0.3)],
        &[(2, 0.2)],
        &[(2, 0.1)],
        &[(2, 0.65)],
        &[(2, 0.0)],
        &[(2, 0.0)],
    ]
    .iter()
    .map(|reports| curve(reports))
    .collect();
    let numbered: Vec<(u64, &Curve)> =
        curves.iter().enumerate().map(|(number, one)| (number as u64, one)).collect();
    let first = Promotion { trial: 1, step: 18 };
    let second = Promotion { trial: 9, step: 6 };
    assert_eq!(ladder.promotion(UP, &numbered, &[]), Some(first));
    assert_eq!(ladder.promotion(UP, &numbered, &[first]), Some(second));
    assert_eq!(ladder.promotion(UP, &numbered, &[first, second]), None);
    assert_eq!(ladder.highest_with(3, &numbered), Some(6));
    assert_eq!(ladder.highest_with(4, &numbered), Some(2));
    // Synchronously nobody climbs before all have started, then the best 4 of 12.
    assert_eq!(ladder.promotion_when_full(UP, 13, &numbered, &[]), None);
    assert_eq!(ladder.promotion_when_full(UP, 12, &numbered, &[]), Some(second));
    assert_eq!(ladder.promotion_when_full(UP, 12, &numbered, &[second]), None, "its result is waited for");
}

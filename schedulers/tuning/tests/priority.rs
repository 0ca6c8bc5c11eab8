//! Algorithm 1, literal and corrected, and the offers that are declined for it.

use estimand_tuning::Direction::Maximize;
use estimand_tuning::priority::{Answer, Answers, Literal, Rules, corrected, literal};

fn rules() -> Rules {
    Rules { multiple: 2, compared: 3, thresholds: vec![0.01, 0.001], window: 5, declined: 2, most: 3 }
}

#[test]
fn the_literal_form_does_what_is_printed() {
    let mut state = Literal::default();
    let flat = [0.900, 0.905, 0.5, 0.1];
    assert_eq!(literal(&rules(), &mut state, Maximize, 6, &flat), 0, "n must be above k·m");
    assert_eq!(literal(&rules(), &mut state, Maximize, 7, &flat), 1, "0.005 is below G");
    assert_eq!(state.threshold, 1);
    // Now G is 0.001, and 0.005 is what g was on average.
    assert_eq!(literal(&rules(), &mut state, Maximize, 7, &flat), 2);
    assert_eq!(
        literal(&rules(), &mut state, Maximize, 7, &[0.9, 0.7, 0.5]),
        2,
        "far apart and unlike before"
    );
    // The threshold stays at its last one.
    assert_eq!(literal(&rules(), &mut state, Maximize, 7, &[0.9, 0.8995, 0.5]), 3);
    assert_eq!(literal(&rules(), &mut state, Maximize, 7, &[0.9, 0.8995, 0.5]), 4);
}

#[test]
fn the_corrected_form_counts_results_and_lowers_whoever_has_no_new_best() {
    let level = |results: &[f64]| corrected(&rules(), Maximize, results);
    let rising: Vec<f64> = (0..20).map(f64::from).collect();
    assert_eq!(level(&rising), 0);
    assert_eq!(level(&[0.5; 6]), 0, "too few");
    let mut stale = rising.clone();
    stale.extend([1.0; 5]);
    assert_eq!(level(&stale), 1);
    stale.extend([1.0; 5]);
    assert_eq!(level(&stale), 2);
    stale.extend([1.0; 100]);
    assert_eq!(level(&stale), 3, "no lower than the bound");
    stale.push(50.0);
    assert_eq!(level(&stale), 0, "a new best brings it back");
    // The best three lie within a thousandth of all that was seen.
    let mut flat = vec![0.0, 1.0, 0.9999, 0.9999];
    flat.extend([0.5; 6]);
    assert_eq!(level(&flat), 2);
}

#[test]
fn levels_turn_into_offers_that_are_declined() {
    let rules = rules();
    let mut answers = Answers::default();
    let ask =
        |answers: &mut Answers, level, offered| answers.answer(&rules, level, offered) == Answer::Accept;
    assert!(ask(&mut answers, 0, 8));
    // At level 1 two are declined; others took some, so the level stays.
    assert_eq!([8, 6, 4].map(|offered| ask(&mut answers, 1, offered)), [false, false, true]);
    assert_eq!([8, 8].map(|offered| ask(&mut answers, 1, offered)), [false, false]);
    // Nobody took what was declined: accepted, and raised.
    assert!(ask(&mut answers, 1, 8));
    assert!(ask(&mut answers, 1, 8), "raised to the front");
    answers.level_changed();
    assert!(!ask(&mut answers, 1, 8));
}

#[test]
fn nothing_is_declined_while_nobody_waits() {
    let mut answers = Answers::default();
    for _ in 0..9 {
        assert_eq!(answers.answer_if_others_wait(&rules(), 3, 8, false), Answer::Accept);
    }
    assert_eq!(answers.answer_if_others_wait(&rules(), 3, 8, true), Answer::Decline);
    assert_eq!(answers.answer_if_others_wait(&rules(), 3, 8, false), Answer::Accept);
}

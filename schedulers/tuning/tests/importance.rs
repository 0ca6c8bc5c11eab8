//! The importance of parameters whose effect is known.
#![allow(clippy::unwrap_used)]

use estimand_tuning::samplers::{Evidence, Sampler};
use estimand_tuning::space::{Scalar, parse};
use estimand_tuning::{Direction, History, Measure, Outcome, Study, TrialResult, importance};

#[test]
fn parameters_have_their_part_of_the_variance() {
    let text = r#"{"parameters": [
        {"name": "strong", "type": "float", "low": 0, "high": 1},
        {"name": "weak", "type": "float", "low": 0, "high": 1},
        {"name": "idle", "type": "float", "low": 0, "high": 1}
    ]}"#;
    let (space, _) = parse(text).unwrap();
    let study = Study {
        space,
        direction: Direction::Minimize,
        seed: 1,
        sampler: Sampler::Sobol,
        enqueued: Vec::new(),
    };
    let mut history = History::default();
    for number in 0..48 {
        let parameters = study.propose(number, &history).unwrap();
        let of = |name: &str| parameters.get(name).and_then(Scalar::number).unwrap();
        let outcome = Outcome::Complete(Measure::new(2.0 * of("strong") + of("weak")).unwrap());
        history.results.push(TrialResult { number, parameters, outcome });
    }
    let parts = importance(&study.space, 0, &Evidence::new(&study.space, study.direction, &history));
    // Four fifths of the variance of 2a + b are a's.
    assert!((parts[0] - 0.8).abs() < 0.05 && (parts[1] - 0.2).abs() < 0.05 && parts[2] < 0.01, "{parts:?}");
    history.results.truncate(3);
    assert!(importance(&study.space, 0, &Evidence::new(&study.space, study.direction, &history)).is_empty());
}

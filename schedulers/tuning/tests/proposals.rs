//! Proposals: a seeded study repeats, nothing leaves the space, and trials that run at the same time differ.
#![allow(clippy::unwrap_used)]

use estimand_tuning::samplers::Sampler;
use estimand_tuning::space::{Parameters, Scalar, Space, parse};
use estimand_tuning::{Direction, History, Measure, Outcome, Study, TrialResult};
use proptest::prelude::*;

const MIXED: &str = r#"{"parameters": [
    {"name": "rate", "type": "float", "low": 1e-4, "high": 0.1, "log": true},
    {"name": "layers", "type": "integer", "low": 1, "high": 5},
    {"name": "optimizer", "type": "choice", "values": ["adam", "sgd", "lion"]},
    {"name": "momentum", "type": "float", "low": 0, "high": 1, "when": {"optimizer": ["sgd"]}}
]}"#;

const SAMPLERS: &[Sampler] =
    &[Sampler::Random, Sampler::Sobol, Sampler::Tree, Sampler::Process, Sampler::Evolution, Sampler::Auto];

fn study(space: &str, sampler: Sampler, seed: u64) -> Study {
    let (space, _) = parse(space).unwrap();
    Study { space, direction: Direction::Minimize, seed, sampler, enqueued: Vec::new() }
}

fn number(values: &Parameters, name: &str) -> f64 {
    values.get(name).and_then(Scalar::number).unwrap_or(0.5)
}

/// A bowl whose least value is where the rate is 0.01, with 3 layers, by `sgd` with a momentum of 0.8.
fn loss(values: &Parameters) -> f64 {
    let rate = (number(values, "rate").log10() + 2.0).powi(2);
    let layers = (number(values, "layers") - 3.0).powi(2) / 4.0;
    let optimizer = if values["optimizer"] == Scalar::Text("sgd".to_owned()) { 0.0 } else { 0.5 };
    rate + layers + optimizer + (number(values, "momentum") - 0.8).powi(2)
}

/// The history after some trials, one after the other; every seventh fails.
fn after(study: &Study, trials: u64) -> History {
    let mut history = History::default();
    for number in 0..trials {
        let parameters = study.propose(number, &history).unwrap();
        let value = Measure::new(loss(&parameters)).unwrap();
        let outcome = match number % 7 {
            5 => Outcome::Pruned(Some(value)),
            6 => Outcome::Failed,
            _ => Outcome::Complete(value),
        };
        history.results.push(TrialResult { number, parameters, outcome });
    }
    history
}

fn is_inside(space: &Space, values: &Parameters) -> bool {
    space.encode(values).is_ok()
}

#[test]
fn a_seeded_study_repeats_and_another_seed_differs() {
    for sampler in SAMPLERS {
        let history = after(&study(MIXED, *sampler, 7), 25);
        assert_eq!(history, after(&study(MIXED, *sampler, 7), 25), "{sampler:?}");
        assert_ne!(history, after(&study(MIXED, *sampler, 8), 25), "{sampler:?}");
    }
}

#[test]
fn models_find_the_bottom_of_a_bowl_with_a_condition() {
    let least = |sampler| {
        let history = after(&study(MIXED, sampler, 3), 60);
        history.results.iter().map(|one| loss(&one.parameters)).fold(f64::INFINITY, f64::min)
    };
    let random = least(Sampler::Random);
    for sampler in [Sampler::Tree, Sampler::Process] {
        let found = least(sampler);
        assert!(found < random / 2.0 && found < 0.05, "{sampler:?}: {found}, random {random}");
    }
}

#[test]
fn trials_that_run_at_the_same_time_differ() {
    for sampler in SAMPLERS {
        let study = study(MIXED, *sampler, 1);
        let mut history = after(&study, 30);
        for number in 30..46 {
            let next = study.propose(number, &history).unwrap();
            assert!(
                history.pending.iter().all(|(_, other)| *other != next),
                "{sampler:?} {number}: {next:?}"
            );
            history.pending.push((number, next));
        }
    }
}

#[test]
fn a_small_space_is_tried_whole_before_anything_is_tried_twice() {
    let small = r#"{"parameters": [{"name": "a", "type": "integer", "low": 1, "high": 4},
        {"name": "b", "type": "choice", "values": ["x", "y", "z"]}]}"#;
    for sampler in [Sampler::Grid { levels: 10 }, Sampler::Tree, Sampler::Process] {
        let study = study(small, sampler, 5);
        let mut history = History::default();
        for number in 0..12 {
            let parameters = study.propose(number, &history).unwrap();
            let known = history.results.iter().any(|one| one.parameters == parameters);
            assert!(!known || number < 10 && sampler != Sampler::Grid { levels: 10 }, "{sampler:?} {number}");
            let outcome = Outcome::Complete(Measure::new(number_of(&parameters)).unwrap());
            history.results.push(TrialResult { number, parameters, outcome });
        }
    }
}

fn number_of(values: &Parameters) -> f64 {
    number(values, "a") + if values["b"] == Scalar::Text("y".to_owned()) { 0.0 } else { 1.0 }
}

#[test]
fn a_grid_has_each_combination_once_and_ends() {
    let study = study(MIXED, Sampler::Grid { levels: 3 }, 0);
    let mut all: Vec<Parameters> =
        (0..).map_while(|number| study.propose(number, &History::default())).collect();
    let count = all.len();
    all.sort_by_key(|one| format!("{one:?}"));
    all.dedup();
    // Rates and layers at 3 values each; `sgd` with 3 momenta, the others without.
    assert_eq!((all.len(), count), (3 * 3 * (3 + 2), 3 * 3 * (3 + 2)));
    assert!(all.iter().any(|one| one["rate"] == Scalar::Float(1e-4)));
    assert!(all.iter().any(|one| one["rate"] == Scalar::Float(0.1)));
}

#[test]
fn known_points_come_first() {
    let mut study = study(MIXED, Sampler::Sobol, 0);
    let unqueued = study.propose(0, &History::default());
    let known = study.space.decode(&[0.5; 4]);
    study.enqueued = vec![known.clone()];
    assert_eq!(study.propose(0, &History::default()), Some(known));
    assert_eq!(study.propose(1, &History::default()), unqueued);
}

#[test]
fn results_without_differences_and_only_failures_are_no_trouble() {
    for sampler in SAMPLERS {
        let study = study(MIXED, *sampler, 2);
        for outcome in
            [Outcome::Failed, Outcome::Pruned(None), Outcome::Complete(Measure::new(1e300).unwrap())]
        {
            let mut history = History::default();
            for number in 0..20 {
                let parameters = study.propose(number, &history).unwrap();
                assert!(is_inside(&study.space, &parameters));
                history.results.push(TrialResult { number, parameters, outcome });
            }
        }
    }
}

/// The first proposals of a seed, so that no change of the code changes studies that run unnoticed.
#[test]
fn sequences_are_what_they_were() {
    let counts = r#"{"parameters": [{"name": "a", "type": "integer", "low": 0, "high": 999},
        {"name": "b", "type": "integer", "low": 0, "high": 999}]}"#;
    let first = |sampler| {
        let study = study(counts, sampler, 42);
        let one = |number| {
            let values = study.propose(number, &History::default()).unwrap();
            (number_as_integer(&values["a"]), number_as_integer(&values["b"]))
        };
        (0..4).map(one).collect::<Vec<_>>()
    };
    assert_eq!(first(Sampler::Random), [(772, 381), (386, 921), (33, 773), (305, 837)]);
    assert_eq!(first(Sampler::Sobol), [(642, 899), (209, 9), (887, 443), (497, 656)]);
}

fn number_as_integer(value: &Scalar) -> i64 {
    let Scalar::Integer(number) = value else { panic!("{value} is no integer") };
    *number
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Whatever was tried, with whatever results: a proposal lies in the space and is the same when asked again.
    #[test]
    fn proposals_are_inside_and_repeat(
        seed: u64,
        values in proptest::collection::vec(proptest::option::of(-1e12..1e12_f64), 0..40),
        pending in 0_u64..6,
    ) {
        for sampler in SAMPLERS {
            let study = study(MIXED, *sampler, seed);
            let random = Study { sampler: Sampler::Random, ..study.clone() };
            let mut history = History::default();
            for (number, value) in (0..).zip(&values) {
                let parameters = random.propose(number, &history).unwrap();
                let outcome = value.map_or(Outcome::Failed, |value| Outcome::Complete(Measure::new(value).unwrap()));
                history.results.push(TrialResult { number, parameters, outcome });
            }
            let next = values.len() as u64;
            for number in next..next + pending {
                history.pending.push((number, study.propose(number, &history).unwrap()));
            }
            let proposed = study.propose(next + pending, &history).unwrap();
            prop_assert!(is_inside(&study.space, &proposed), "{sampler:?}: {proposed:?}");
            prop_assert_eq!(Some(proposed), study.propose(next + pending, &history));
        }
    }
}

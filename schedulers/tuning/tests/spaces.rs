//! Spaces: what is refused, what is read, and that nothing lies outside.
#![allow(clippy::unwrap_used)]

use estimand_tuning::Draw;
use estimand_tuning::space::{Condition, Domain, Parameter, Parameters, Scalar, Space, parse};
use proptest::prelude::*;

fn text(value: &str) -> Scalar {
    Scalar::Text(value.to_owned())
}

fn space(parameters: &str) -> Space {
    parse(&format!("{{\"parameters\": [{parameters}]}}")).unwrap().0
}

/// The text of the problem with a space.
fn refusal(parameters: &str) -> String {
    parse(&format!("{{\"parameters\": [{parameters}]}}")).unwrap_err().detail
}

#[test]
fn the_papers_file_is_read_and_its_comma_is_remarked() {
    let file = r#"{
        "parameters": [
            {"name": "momentum", "type": "bound", "value": [0.1, 0.3]},
            {"name": "learningRate", "type": "number", "value": [0.3, 0.1, 0.2]}
        ],
    }"#;
    let (space, hint) = parse(file).unwrap();
    assert!(hint.is_some_and(|hint| hint.contains("comma")), "{hint:?}");
    assert_eq!(space.parameters()[0].domain, Domain::Float { low: 0.1, high: 0.3, step: None, log: false });
    let numbers = [0.1, 0.2, 0.3].map(Scalar::Float).to_vec();
    assert_eq!(space.parameters()[1].domain, Domain::Ordered(numbers));
    let (_, none) = parse(r#"{"parameters": [{"name": "n", "type": "bound", "value": [16, 512]}]}"#).unwrap();
    assert_eq!(none, None);
}

#[test]
fn our_own_form_has_logs_steps_choices_and_conditions() {
    let space = space(
        r#"{"name": "optimizer", "type": "choice", "values": ["adam", "sgd"]},
           {"name": "momentum", "type": "float", "low": 0, "high": 1, "step": 0.25, "when": {"optimizer": ["sgd"]}},
           {"name": "layers", "type": "integer", "low": 2, "high": 10, "step": 4},
           {"name": "rate", "type": "float", "low": 1e-4, "high": 0.1, "log": true},
           {"name": "width", "type": "choice", "values": [64, 16, 32], "ordered": true}"#,
    );
    let low = space.decode(&[0.1, 0.9, 0.5, 0.0, 0.0]);
    assert!(!low.contains_key("momentum"));
    assert_eq!(
        (&low["layers"], &low["rate"], &low["width"]),
        (&Scalar::Integer(6), &Scalar::Float(1e-4), &Scalar::Integer(16))
    );
    let high = space.decode(&[0.9, 0.9, 1.0, 1.0, 1.0]);
    assert_eq!((&high["momentum"], &high["rate"]), (&Scalar::Float(1.0), &Scalar::Float(0.1)));
}

#[test]
fn a_space_that_cannot_be_is_refused_with_the_parameter_and_the_reason() {
    for (parameters, reason) in [
        ("", "at least one parameter"),
        (r#"{"name": "a", "type": "float", "low": 1, "high": 0}"#, "lower bound 1 is above"),
        (r#"{"name": "a", "type": "float", "low": 0, "high": 1, "log": true}"#, "needs bounds above 0"),
        (r#"{"name": "a", "type": "float", "low": -1, "high": 1, "log": true}"#, "needs bounds above 0"),
        (r#"{"name": "a", "type": "float", "low": 0, "high": 1, "step": 0.3}"#, "does not divide"),
        (r#"{"name": "a", "type": "integer", "low": 0, "high": 10, "step": 3}"#, "does not divide"),
        (r#"{"name": "a", "type": "integer", "low": 0, "high": 10, "step": 0}"#, "step"),
        (r#"{"name": "a", "type": "integer", "low": 1, "high": 9, "step": 2, "log": true}"#, "has no step"),
        (r#"{"name": "a", "type": "choice", "values": ["x", "y", "x"]}"#, "\"x\" is there twice"),
        (r#"{"name": "a", "type": "choice", "values": [1, 1.0]}"#, "is there twice"),
        (r#"{"name": "a", "type": "choice", "values": []}"#, "1 to 1000 values"),
        (r#"{"name": "a", "type": "number", "value": ["x"]}"#, "no number"),
        (r#"{"name": "a", "type": "bound", "value": [1]}"#, "bounds are two"),
        (r#"{"name": "a", "type": "integer", "low": 1.5, "high": 2}"#, "not a whole number"),
        (r#"{"name": "a b", "type": "integer", "low": 1, "high": 2}"#, "no name of a parameter"),
        (r#"{"name": "a", "type": "integer", "low": 1, "high": 2, "hi": 3}"#, "not a known field"),
        (r#"{"name": "a", "type": "whole"}"#, "integer, float, choice, bound or number"),
        (r#"{"name": "a", "type": "integer", "low": 1, "high": 2, "when": {"b": 1}}"#, "does not have"),
        (
            r#"{"name": "a", "type": "integer", "low": 1, "high": 2},
               {"name": "a", "type": "integer", "low": 1, "high": 2}"#,
            "`a` is there twice",
        ),
        (
            r#"{"name": "a", "type": "integer", "low": 1, "high": 2},
               {"name": "b", "type": "integer", "low": 1, "high": 2, "when": {"a": [3]}}"#,
            "which it never is",
        ),
        (
            r#"{"name": "a", "type": "integer", "low": 1, "high": 2, "when": {"b": [1]}},
               {"name": "b", "type": "integer", "low": 1, "high": 2, "when": {"a": [1]}}"#,
            "depends on itself",
        ),
    ] {
        let detail = refusal(parameters);
        assert!(detail.contains(reason), "{parameters}: {detail}");
    }
}

#[test]
fn parameters_that_are_not_in_the_space_are_named() {
    let space = space(
        r#"{"name": "kind", "type": "choice", "values": ["x", "y"]},
           {"name": "n", "type": "integer", "low": 1, "high": 3, "when": {"kind": "x"}}"#,
    );
    let of = |values: &[(&str, Scalar)]| {
        let values: Parameters =
            values.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect();
        space.encode(&values).map_err(|error| error.to_string())
    };
    assert!(of(&[("kind", text("x")), ("n", Scalar::Integer(2))]).is_ok());
    assert!(of(&[("kind", text("y"))]).unwrap()[1].is_nan());
    assert_eq!(of(&[("kind", text("x"))]).unwrap_err(), "parameter `n` is missing");
    let outside = of(&[("kind", text("x")), ("n", Scalar::Integer(4))]).unwrap_err();
    assert_eq!(outside, "parameter `n` cannot be 4: a whole number from 1 to 3");
    assert!(of(&[("kind", text("y")), ("n", Scalar::Integer(2))]).unwrap_err().contains("does not hold"));
    assert!(of(&[("kind", text("y")), ("m", Scalar::Integer(2))]).unwrap_err().contains("no parameter `m`"));
}

fn any_domain() -> impl Strategy<Value = Domain> {
    prop_oneof![
        (-1_000_i64..1_000, 0_i64..50, 1_i64..7).prop_map(|(low, steps, step)| Domain::Integer {
            low,
            high: low + steps * step,
            step,
            log: false
        }),
        (1_i64..100, 0_i64..10_000).prop_map(|(low, span)| Domain::Integer {
            low,
            high: low + span,
            step: 1,
            log: true
        }),
        Just(Domain::Integer { low: i64::MIN / 4, high: i64::MAX / 4, step: 1, log: false }),
        (-1e6..1e6, 0.0..1e6).prop_map(|(low, span)| Domain::Float {
            low,
            high: low + span,
            step: None,
            log: false
        }),
        (1e-9..1.0, 0.0..1e6).prop_map(|(low, span)| Domain::Float {
            low,
            high: low + span,
            step: None,
            log: true
        }),
        (0_u32..40).prop_map(|steps| Domain::Float {
            low: -1.0,
            high: -1.0 + f64::from(steps) * 0.1,
            step: Some(0.1),
            log: false
        }),
        (1_i64..9).prop_map(|count| Domain::Ordered((0..count).map(Scalar::Integer).collect())),
        (1_i64..9).prop_map(|count| Domain::Choice((0..count).map(|one| text(&one.to_string())).collect())),
    ]
}

proptest! {
    /// Each point decodes to parameters that lie in the space, and snapping is the same as there and back.
    #[test]
    fn every_point_is_inside(domains in proptest::collection::vec(any_domain(), 1..6), seed: u64, holds: bool) {
        let mut parameters = vec![Parameter {
            name: "on".to_owned(),
            domain: Domain::Choice(vec![Scalar::Flag(false), Scalar::Flag(true)]),
            when: None,
        }];
        for (index, domain) in domains.into_iter().enumerate() {
            let when = Condition { parameter: "on".to_owned(), values: vec![Scalar::Flag(true)] };
            parameters.push(Parameter { name: format!("p{index}"), domain, when: (index % 2 == 1).then_some(when) });
        }
        let space = Space::new(parameters).unwrap();
        let mut draw = Draw::new(seed, 0);
        let mut point: Vec<f64> = (0..space.dimensions()).map(|_| draw.unit()).collect();
        point[0] = if holds { 0.9 } else { 0.1 };
        let values = space.decode(&point);
        let encoded = space.encode(&values).unwrap();
        let snapped = space.snap(&point);
        for (one, two) in encoded.iter().zip(&snapped) {
            prop_assert!((one - two).abs() < 1e-6 || (one.is_nan() && two.is_nan()), "{encoded:?} {snapped:?}");
        }
        let again = space.snap(&snapped);
        prop_assert!(again.iter().zip(&snapped).all(|(one, two)| (one - two).abs() < 1e-9 || one.is_nan()));
    }
}

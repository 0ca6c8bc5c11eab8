//! Expressions, over a small cluster that never changes, with the usual budget.

#![no_main]

use std::cell::OnceCell;
use std::collections::BTreeSet;

use estimand_expressions::{Budget, Error, Expression};
use estimand_fuzz::world::World;
use estimand_fuzz::{assert_line, assert_value, text};
use serde_json::Value;

thread_local! {
    static WORLD: OnceCell<World> = const { OnceCell::new() };
}

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    if let Some(source) = text(data) {
        WORLD.with(|world| feed(source, world.get_or_init(World::new)));
    }
});

fn feed(source: &str, world: &World) {
    let expression = match Expression::parse(source) {
        Ok(expression) => expression,
        Err(error) => return check_error(&error, source),
    };
    assert_eq!(expression.source(), source);
    let names = BTreeSet::new();
    if let Err(errors) = expression.check(&names, &names) {
        errors.iter().for_each(|error| check_error(error, source));
    }
    // Where all is there that it names, nothing is unknown.
    assert_eq!(expression.check(&expression.inputs(), &expression.uses().params), Ok(()));
    let alone = outcome(&expression, world);
    match &alone {
        Ok(json) => drop(assert_value(&json.to_string())),
        Err(error) => check_error(error, source),
    }
    assert_eq!(outcome(&expression, world), alone);
    let mut round = expression.round();
    let first = round.evaluate(world, Budget::default()).and_then(|value| value.to_json());
    assert_eq!(first, alone);
    match expression.evaluate(world, Budget::default()).and_then(|value| value.to_nodes()) {
        Ok(nodes) => nodes.iter().for_each(|(_, json)| drop(assert_value(&json.to_string()))),
        Err(error) => check_error(&error, source),
    }
}

fn outcome(expression: &Expression, world: &World) -> Result<Value, Error> {
    expression.evaluate(world, Budget::default())?.to_json()
}

fn check_error(error: &Error, source: &str) {
    assert_line(&error.message);
    assert!(error.line >= 1 && error.column >= 1);
    assert_eq!(error.pointed(source).lines().count(), 3);
}

//! Random sequences of operations against a plain model: after each of them the service shows what the model
//! says, also after it was killed or stopped and started again.
//!
//! One process a store lives through all cases; each case has data names and nodes of its own. Time plays no
//! role: no value expires. `ESTIMAND_LONG` runs many more cases.
#![allow(clippy::unwrap_used)]

mod model;
mod operations;
mod plane;
mod poller;

use estimand_testkit::databases;
use proptest::test_runner::{Config, TestError, TestRunner};

use plane::Plane;

const CASES: u32 = 20;
const LONG_CASES: u32 = 300;
/// Cases have restarts in them: looking for a smaller one takes its time.
const MAX_SHRINKS: u32 = 300;

fn check(store: Option<String>) {
    let long = std::env::var_os("ESTIMAND_LONG").is_some();
    let config = Config {
        cases: if long { LONG_CASES } else { CASES },
        max_shrink_iters: MAX_SHRINKS,
        failure_persistence: None,
        ..Config::default()
    };
    let plane = std::cell::RefCell::new(Plane::start(store));
    let outcome = TestRunner::new(config).run(&operations::sequence(), |sequence| {
        let mut plane = plane.borrow_mut();
        plane.new_case();
        plane.play(&sequence)
    });
    if let Err(TestError::Fail(reason, sequence)) = outcome {
        let steps: Vec<String> = sequence.iter().map(|step| format!("  {step:?}\n")).collect();
        panic!("{reason}\nafter\n{}", steps.concat());
    }
}

#[test]
fn sqlite_is_like_the_model() {
    check(None);
}

#[test]
fn postgres_is_like_the_model() {
    check(Some(databases::postgres().fresh_url()));
}

#[test]
fn mariadb_is_like_the_model() {
    check(Some(databases::mariadb().fresh_url()));
}

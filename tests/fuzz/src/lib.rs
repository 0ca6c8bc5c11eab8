//! The checks of every parser beyond "no panic".
//!
//! A target is one file in `fuzz_targets/` and names what it feeds; what must hold of the answer is said here, once.
//! An assertion that fails is a crash for the fuzzer, which then keeps the input. Nothing here depends on a clock
//! or on chance, so that a kept input fails again.

pub mod dialects;
pub mod world;

use estimand_api::json::{compact, parse_document};
use estimand_api::problem::Problem;
use estimand_api::value::MAX_VALUE_BYTES;
use serde_json::Value;

/// The longest message, in characters. Most are far shorter; a hint may repeat a command of 160 bytes, each escaped.
const MAX_MESSAGE_CHARS: usize = 1_100;

/// A value: JSON that every reader takes, in its one compact form, within the bound of values.
#[track_caller]
pub fn assert_value(json: &str) -> Value {
    assert!(json.len() <= MAX_VALUE_BYTES, "a value of {} bytes", json.len());
    let document = parse_document(json.as_bytes());
    assert_eq!(compact(json).as_deref(), Ok(json));
    document.unwrap_or_else(|problem| panic!("{json}: {problem}"))
}

/// A message for people: something, short.
#[track_caller]
pub fn assert_short(message: &str) {
    let chars = message.chars().count();
    assert!((1..=MAX_MESSAGE_CHARS).contains(&chars), "a message of {chars} characters: {message:?}");
}

/// A message for people that stands in one line.
#[track_caller]
pub fn assert_line(message: &str) {
    assert_short(message);
    assert!(!message.contains(char::is_control), "{message:?}");
}

/// A service's answer to wrong input: it is the input's fault, it says where, and it is one JSON document.
#[track_caller]
pub fn assert_refused(problem: &Problem) {
    assert!(matches!(problem.status, 400 | 413), "{problem:?}");
    assert!(problem.status == 413 || !problem.errors.is_empty(), "{problem:?}");
    assert_short(&problem.detail);
    for error in &problem.errors {
        assert_short(&error.message);
        assert!(error.given.as_ref().is_none_or(|given| given.chars().count() <= 121), "{error:?}");
    }
    assert!(parse_document(problem.to_json().as_bytes()).is_ok());
}

/// The input as text; inputs that are none say nothing to a parser of text.
pub fn text(data: &[u8]) -> Option<&str> {
    std::str::from_utf8(data).ok()
}

/// The first line, and all that comes after it: for targets that take two things.
pub fn two_texts(data: &[u8]) -> Option<(&str, &str)> {
    text(data)?.split_once('\n')
}

/// True if a text is JSON for the parser that people know, as far as syntax goes.
pub fn is_json(text: &str) -> bool {
    serde_json::from_str::<&serde_json::value::RawValue>(text).is_ok()
}

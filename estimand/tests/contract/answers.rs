//! The shape of every refusal, and the small parts of answers that many checks look at.

use std::collections::BTreeSet;

use estimand_testkit::http::Response;
use serde_json::Value;

/// Checks that an answer is a problem of this status that says what is wrong, and returns it.
#[track_caller]
pub fn problem(answer: &Response, status: u16) -> Value {
    assert_eq!(answer.status, status, "{answer}");
    assert_eq!(answer.header("content-type"), Some("application/problem+json"), "{answer}");
    let problem = answer.json();
    assert_eq!(problem["status"], status, "{answer}");
    for field in ["type", "title", "detail", "requestId"] {
        assert!(problem[field].as_str().is_some_and(|text| !text.is_empty()), "{field}: {answer}");
    }
    assert_eq!(answer.header("x-request-id"), problem["requestId"].as_str(), "{answer}");
    problem
}

/// Checks that an answer is a 400 that names a field, and returns what it says of that.
#[track_caller]
pub fn wrong_field(answer: &Response, field: &str) -> Value {
    let problem = problem(answer, 400);
    let errors = problem["errors"].as_array().unwrap_or_else(|| panic!("no errors: {answer}"));
    let named = errors.iter().find(|error| error["field"] == field);
    named.unwrap_or_else(|| panic!("`{field}` is not named: {answer}")).clone()
}

/// The same, and that it repeats what was given and says what would be right.
#[track_caller]
pub fn wrong_input(answer: &Response, field: &str, given: &str, expected: &str) {
    let error = wrong_field(answer, field);
    let says = |part: &str, words: &str| error[part].as_str().is_some_and(|text| text.contains(words));
    assert!(says("given", given), "`given` does not say {given}: {error}");
    assert!(says("expected", expected), "`expected` does not say {expected}: {error}");
}

/// The same for what is no field at all: its name is what was given.
#[track_caller]
pub fn unknown_input(answer: &Response, field: &str, expected: &str) {
    let error = wrong_field(answer, field);
    let says = error["expected"].as_str().is_some_and(|text| text.contains(expected));
    assert!(says, "`expected` does not say {expected}: {error}");
}

/// The revision of the snapshot that a read was answered from.
#[track_caller]
pub fn revision_of(answer: &Response) -> u64 {
    let header = answer.header("estimand-revision").and_then(|text| text.parse().ok());
    header.unwrap_or_else(|| panic!("no revision: {answer}"))
}

/// A field of each object of a list, as text.
pub fn column(list: &[Value], field: &str) -> Vec<String> {
    list.iter().map(|item| item[field].as_str().unwrap_or_default().to_owned()).collect()
}

/// The names of an object's fields.
#[track_caller]
pub fn fields_of(object: &Value) -> BTreeSet<&str> {
    object.as_object().unwrap_or_else(|| panic!("no object: {object}")).keys().map(String::as_str).collect()
}

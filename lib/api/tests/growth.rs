//! The work of each parser of what comes from outside grows with its input and no faster: else one small request could
//! stop a service for minutes.

#![allow(clippy::unwrap_used)]

use estimand_api::command::Command;
use estimand_api::json::{compact, parse_document};
use estimand_api::pointer::Pointer;
use estimand_api::registration::Registration;
use estimand_api::selector::Selector;
use estimand_api::write::Write;
use estimand_testkit::growth::is_linear;

fn joined(units: usize, unit: impl Fn(usize) -> String) -> String {
    (0..units).map(unit).collect::<Vec<_>>().join(",")
}

/// An object of so many keys, in an order that is bad for whoever keeps them sorted.
fn keys(units: usize) -> Box<str> {
    format!("{{{}}}", joined(units, |n| format!("\"k{:07}\": {n}", 9_999_999 - n))).into()
}

#[test]
fn json_of_any_form() {
    is_linear("keys", keys, |text| compact(text).unwrap().len());
    is_linear("keys to a document", keys, |text| parse_document(text.as_bytes()).unwrap());
    let escaped = |n| format!("{{{}}}", joined(n, |n| format!("\"\\u0061{n}\":\"\\u00e4\""))).into();
    is_linear("escaped keys", escaped, |text: &str| compact(text).unwrap().len());
    let twice = |n| format!("{{{},\"k9999999\":1}}", &keys(n)[1..keys(n).len() - 1]).into();
    is_linear("a key twice", twice, |text: &str| compact(text).unwrap_err());
    let deep = |n| format!("[{}]", joined(n, |_| format!("{}{}", "[".repeat(60), "]".repeat(60)))).into();
    is_linear("nesting", deep, |text: &str| compact(text).unwrap().len());
    let objects = |n| format!("[{}]", joined(n, |_| "{\"a\": {\"b\": [ 1 ]}}".to_owned())).into();
    is_linear("objects", objects, |text: &str| compact(text).unwrap().len());
    let space = |n| format!("[{}1]", " \n".repeat(10 * n)).into();
    is_linear("white space", space, |text: &str| compact(text).unwrap().len());
    let number = |n| "9".repeat(10 * n).into();
    is_linear("a long number", number, |text: &str| compact(text).is_ok());
}

#[test]
fn writes_good_and_bad() {
    let item = |value: &str| format!("{{\"dataName\":\"a\",\"nodeName\":\"n\",\"dataValue\":{value}}}");
    let good = |n| format!("[{}]", joined(n, |_| item("{\"x\":1}"))).into();
    is_linear("a batch", good, |text: &str| Write::parse_batch(text.as_bytes()).map(|all| all.len()).is_ok());
    let bad = |n| format!("[{}]", joined(n, |_| item("{\"x\":1,\"x\":1}"))).into();
    is_linear("a bad batch", bad, |text: &str| Write::parse_batch(text.as_bytes()).unwrap_err());
    let large = |n| format!("[{}]", item(&keys(n))).into();
    is_linear("a large value", large, |text: &str| Write::parse_batch(text.as_bytes()).is_err());
    let unknown = |n| format!("{{{}}}", joined(n, |n| format!("\"x{n}\":1"))).into();
    is_linear("unknown fields", unknown, |text: &str| Write::parse(text.as_bytes()).unwrap_err());
}

#[test]
fn registrations_and_their_texts() {
    let unknown = |n| format!("{{{}}}", joined(n, |n| format!("\"x{n}\":1"))).into();
    is_linear("a registration", unknown, |text: &str| {
        Registration::parse(text.as_bytes()).map(drop).unwrap_err()
    });
    let env = |n| {
        let all = joined(n, |n| format!("\"X{n}\":\"y\""));
        format!("{{\"dataName\":\"a\",\"cmd\":\"true\",\"max-Time\":1,\"env\":{{{all}}}}}").into()
    };
    is_linear("variables", env, |text: &str| Registration::parse(text.as_bytes()).map(drop).is_err());
    let inputs = |n| {
        let all = joined(n, |n| format!("\"x{n}\""));
        format!("{{\"dataName\":\"a\",\"cmd\":\"true\",\"max-Time\":1,\"inputs\":[{all}]}}").into()
    };
    is_linear("inputs", inputs, |text: &str| Registration::parse(text.as_bytes()).map(drop).is_err());
    is_linear(
        "a selector",
        |n| joined(n, |n| format!("k{n}=v")).into(),
        |text: &str| Selector::parse(text).is_ok(),
    );
    is_linear("a command", |n| "'a b' ".repeat(n).into(), |text: &str| Command::line(text).is_ok());
}

#[test]
fn pointers_into_large_values() {
    let last = Pointer::parse("/k0000000").unwrap();
    is_linear("a pointer", keys, |text| last.find(text).is_none());
    is_linear("what is near", keys, |text| last.nearby(text, 20).len());
}

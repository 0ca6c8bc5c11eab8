//! Text that is written is read back, and an error is named with its line.
#![allow(clippy::unwrap_used)]

use serde_json::json;

use super::*;

fn one(text: &str) -> Value {
    let mut documents = read(text).unwrap();
    assert_eq!(documents.len(), 1, "{documents:?}");
    documents.pop().unwrap().value
}

#[test]
fn scalars_mean_what_the_core_schema_says() {
    for (text, value) in [
        ("5", json!(5)),
        ("-5", json!(-5)),
        ("+5", json!(5)),
        ("007", json!(7)),
        ("0x1F", json!(31)),
        ("0o17", json!(15)),
        ("18446744073709551615", json!(u64::MAX)),
        ("1.50", json!(1.5)),
        (".5", json!(0.5)),
        ("1e3", json!(1000.0)),
        ("true", json!(true)),
        ("~", Value::Null),
        ("yes", json!("yes")),
        ("1h", json!("1h")),
        ("1.2.3", json!("1.2.3")),
        (".", json!(".")),
        ("e5", json!("e5")),
        ("\"5\"", json!("5")),
        ("'it''s'", json!("it's")),
        ("!!str 5", json!("5")),
        ("*/5 * * * *", json!("?")),
    ] {
        if value == json!("?") {
            assert!(read(&format!("a: {text}")).is_err(), "an asterisk begins an alias");
            continue;
        }
        assert_eq!(one(&format!("a: {text}"))["a"], value, "{text}");
    }
}

#[test]
fn each_field_has_its_line() {
    let text =
        "# a comment\ndataName: a\nlimits:\n  memory: 1\n---\n\n- x: 1\n- y:\n    z: [1,\n      2]\n---\n";
    let documents = read(text).unwrap();
    assert_eq!(documents.len(), 2);
    let line = |document: usize, field: &str| documents[document].line_of(field);
    assert_eq!(
        (line(0, "dataName"), line(0, "limits.memory"), line(0, "limits.cpu"), line(0, "cmd")),
        (2, 4, 3, 2)
    );
    assert_eq!((line(1, "[0].x"), line(1, "[1].y.z[1]"), line(1, "[1].q")), (7, 10, 8));
}

#[test]
fn errors_have_their_line() {
    let check = |text: &str, line: usize, part: &str| {
        let error = read(text).unwrap_err();
        assert!(error.line == line && error.message.contains(part), "{text:?}: {error:?}");
    };
    check("a: 1\nb: 2\na: 3\n", 3, "`a` twice");
    check("a:\n  b: 1\n  b: 2\n", 3, "`b` twice");
    check("a: [1\nb: 2\n", 2, "not YAML");
    check("a: !secret x\n", 1, "tag");
    check("a: .inf\n", 1, "JSON does not have");
    check("a: 1e999\n", 1, "too large");
    check("? [a]\n: 1\n", 1, "key must be a text");
    let deep = "[".repeat(MAX_DEPTH + 2);
    check(&deep, 1, "deeper");
    // Each anchor ten times the one before.
    let mut bomb = "a0: &a0 [x]\n".to_owned();
    for level in 1..9 {
        let before = format!("*a{}", level - 1);
        bomb.push_str(&format!("a{level}: &a{level} [{}]\n", vec![before; 10].join(", ")));
    }
    assert!(read(&bomb).unwrap_err().message.contains("more than"));
    assert_eq!(one("a: &x {b: 1}\nc: *x\n"), json!({"a": {"b": 1}, "c": {"b": 1}}));
}

#[test]
fn what_is_written_is_read_back() {
    for value in [
        json!({"dataName": "cpu", "cmd": ["sh", "-c", "ps ax | wc -l # x"], "max-Time": 5, "history": {"keep": "1h"}}),
        json!({"cmd": "first line\n  second: 'x'\n\nfourth \"q\" \\", "x": "ends\n", "y": " begins\nhere"}),
        json!({"a": ["1", "true", "yes", "", " x", "x ", "a: b", "a #b", "#", "- x", "*", "&a", "[", "a,b", "é 🦀", "\u{7f}\u{85}"]}),
        json!({"a": {}, "b": [], "c": null, "d": [[1, 2], {"x": [{"y": 1}]}], "e": 0.25, "f": -1, "1": "k", "a b": 1}),
        json!([{"a": 1, "b": {"c": "x"}}, "text", 5]),
        json!({"env": {"TOKEN": null}, "schedule": "*/5 * * * *", "s": "0 * * * *", "e": "a > 0 ? 1.0 : b", "t": "x:"}),
        json!("text"),
    ] {
        let text = to_text(&value);
        assert_eq!(one(&text), value, "{text}");
    }
    assert_eq!(
        to_text(&json!({"cmd": "df -h | tail", "k": "5", "a": [1, "b"]})),
        "cmd: df -h | tail\nk: \"5\"\na: [1, b]\n"
    );
}

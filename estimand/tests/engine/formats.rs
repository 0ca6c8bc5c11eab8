//! From what is printed to what is read, for each format; and what is no value says why.

use estimand_testkit::wait::PATIENCE;
use serde_json::{Value, json};

use crate::plane::Plane;

#[test]
fn output_becomes_what_the_format_says() {
    let plane = Plane::up("formats");
    let cases: &[(&str, &str, &[&str], Value)] = &[
        ("auto_number", "auto", &["print:42.50"], json!(42.5)),
        ("auto_object", "auto", &["print:{\"a\": [1, null]}"], json!({"a": [1, null]})),
        ("auto_text", "auto", &["print:  up 3 days "], json!("up 3 days")),
        ("auto_word", "auto", &["print:true"], json!(true)),
        ("text_number", "text", &["print:42"], json!("42")),
        ("text_lines", "text", &["print:a", "print:b"], json!("a\nb")),
        ("json_text", "json", &["print:\"x\""], json!("x")),
        ("number", "number", &["print: 7e2"], json!(700.0)),
    ];
    for (name, format, words, _) in cases {
        plane.register(name, words, json!({"format": format}));
    }
    for (name, _, _, value) in cases {
        let read = plane.until_value(name, "there", |_| true);
        assert!(same(&read["dataValue"], value), "{name}: {read}");
        assert_eq!(read["state"], "fresh", "{read}");
    }
    plane.end();
}

/// Numbers are compared as numbers.
fn same(a: &Value, b: &Value) -> bool {
    match (a.as_f64(), b.as_f64()) {
        (Some(a), Some(b)) => a == b,
        _ => a == b,
    }
}

/// One instance answers for other nodes, and its failure marks what it last answered for.
#[test]
fn an_answer_for_many_nodes_is_a_value_of_each() {
    let plane = Plane::up("nodes");
    let flag = plane.file("broken");
    let answer = r#"{"node-1": 1, "elsewhere": {"x": 2}}"#;
    let text = format!("[ -e '{flag}' ] && exit 1\necho '{answer}'");
    plane.register_cmd(
        "load",
        json!([plane.script("load", &text)]),
        json!({"format": "nodes", "max-Time": 0.2}),
    );
    plane.until_is("load", 1);
    assert_eq!(plane.read_of("load", "elsewhere").unwrap()["dataValue"], json!({"x": 2}));
    std::fs::write(&flag, "").unwrap();
    for node in ["node-1", "elsewhere"] {
        let state = || (plane.read_of("load", node)?["state"] == "failed").then_some(());
        estimand_testkit::wait::until(PATIENCE, &format!("the value of {node} to be failed"), state);
    }
    plane.end();
}

/// A run that prints nothing is neither a value nor a failure.
#[test]
fn empty_output_says_nothing() {
    let plane = Plane::up("nothing");
    for (name, format) in
        [("auto", "auto"), ("json", "json"), ("number", "number"), ("nodes", "nodes"), ("text", "text")]
    {
        plane.register(name, &["print:"], json!({"format": format, "max-Time": 0.2}));
    }
    for name in ["auto", "json", "number", "nodes", "text"] {
        let slot = plane.until_instance(name, "to have run", |slot| slot["runs"].as_u64() >= Some(2));
        assert_eq!((&slot["failures"], slot.get("lastError")), (&json!(0), None), "{slot}");
        assert_eq!(plane.read(name), None);
    }
    plane.end();
}

#[test]
fn output_that_is_no_value_is_explained() {
    let plane = Plane::up("no-value");
    let cases: &[(&str, &str, &[&str], &str)] = &[
        ("json_text", "json", &["print:up"], "JSON"),
        ("json_two", "json", &["two-documents"], "JSON"),
        ("auto_two", "auto", &["two-documents"], "JSON"),
        ("auto_trailing", "auto", &["trailing-junk"], "JSON"),
        ("number_text", "number", &["print:many"], "number"),
        ("number_nan", "number", &["print:NaN"], "number"),
        ("nodes_array", "nodes", &["print:[1]"], "object"),
        ("nodes_name", "nodes", &["print:{\"a/b\": 1}"], "a/b"),
        ("latin", "text", &["invalid-utf8"], "UTF-8"),
        ("nul", "text", &["nul"], "NUL"),
        ("junk", "auto", &["binary-junk"], "UTF-8"),
        ("long", "text", &["flood-stdout:66KiB"], "65536"),
    ];
    for (name, format, words, _) in cases {
        plane.register(name, words, json!({"format": format}));
    }
    for (name, _, _, error) in cases {
        let slot = plane.until_error(name, error);
        assert_eq!(slot["lastExit"], "exit 0", "{slot}");
        assert_eq!(plane.read(name), None, "{slot}");
    }
    plane.end();
}

#[test]
fn a_document_after_a_listed_exit_is_a_value_and_another_exit_is_told() {
    let plane = Plane::up("ok-exits");
    let program = plane.script("smart", "printf '{\\n  \"temperature\": 34\\n}\\n'; exit 68");
    plane.register_cmd("listed", json!([program]), json!({ "okExits": [0, 4, 68] }));
    let value = plane.until_value("listed", "there", |_| true);
    assert_eq!(value["dataValue"], json!({ "temperature": 34 }));
    assert_eq!(value["provenance"]["exit"], "exit 68");
    plane.register_cmd("unlisted", json!([program]), json!({ "okExits": [0, 4] }));
    plane.register_cmd("plain", json!([program]), json!({}));
    for name in ["unlisted", "plain"] {
        let slot = plane.until_error(name, "it ended with exit 68");
        assert!(slot["lastError"].as_str().unwrap().contains("`okExits`"), "{slot}");
        assert_eq!(plane.read(name), None);
    }
    plane.end();
}

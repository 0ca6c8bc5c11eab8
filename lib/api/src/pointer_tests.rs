use proptest::prelude::*;
use serde_json::Value;

use super::*;

fn pointer(text: &str) -> Pointer {
    Pointer::parse(text).unwrap()
}

/// The document of RFC 6901, section 5.
const RFC: &str = r#"{"foo": ["bar", "baz"], "": 0, "a/b": 1, "c%d": 2, "e^f": 3, "g|h": 4, "i\\j": 5, "k\"l": 6, " ": 7, "m~n": 8}"#;

#[test]
fn the_examples_of_the_specification_lead_where_they_should() {
    let check = |text: &str, expected: &str| assert_eq!(pointer(text).find(RFC), Some(expected), "{text}");
    check("/foo", r#"["bar", "baz"]"#);
    check("/foo/0", r#""bar""#);
    check("/", "0");
    check("/a~1b", "1");
    check("/c%d", "2");
    check("/e^f", "3");
    check("/g|h", "4");
    check("/i\\j", "5");
    check("/k\"l", "6");
    check("/ ", "7");
    check("/m~0n", "8");
}

#[test]
fn a_part_is_its_text_to_the_letter() {
    let json = r#"{"a":{"b":[1,{"c":12345678901234567890.120}]},"d":"x\"}]","e":-0,"f":null}"#;
    let check = |text: &str, expected: Option<&str>| assert_eq!(pointer(text).find(json), expected, "{text}");
    check("/a/b/1/c", Some("12345678901234567890.120"));
    check("/a/b/1", Some(r#"{"c":12345678901234567890.120}"#));
    check("/d", Some(r#""x\"}]""#));
    check("/e", Some("-0"));
    check("/f", Some("null"));
    for nothing in
        ["/b", "/a/b/2", "/a/b/-", "/a/b/01", "/a/b/+1", "/a/b/", "/d/0", "/e/x", "/", "/a/b/1/c/d"]
    {
        check(nothing, None);
    }
    assert_eq!(pointer("/0").find("[]"), None);
    assert_eq!(pointer("/a").find("{}"), None);
    assert_eq!(pointer("/a").find("1.5"), None);
}

#[test]
fn a_key_is_found_however_it_is_escaped() {
    let json = r#"{"\u0061":1,"é":2,"\ud83e\udd80":3,"\\u0062":4,"\/":5}"#;
    let check = |text: &str, expected: Option<&str>| assert_eq!(pointer(text).find(json), expected, "{text}");
    check("/a", Some("1"));
    check("/é", Some("2"));
    check("/🦀", Some("3"));
    check("/b", None);
    check("/\\u0062", Some("4"));
    check("/\\u0061", None);
    check("/~1", Some("5"));
}

#[test]
fn a_text_that_is_no_pointer_is_rejected_with_the_right_one() {
    let check = |text: &str, says: &str| {
        let error = Pointer::parse(text).unwrap_err().at("field");
        assert!(error.expected.as_ref().unwrap().contains(says), "{text}: {error}");
    };
    check("value", "`/value`?");
    check("a/b", "`/a/b`?");
    check("", "such as `/value`");
    check("/a~", "`~1`");
    check("/a~2", "`~0`");
    check("/a\0", "such as");
    check(&format!("/{}", "x".repeat(512)), "such as");
    assert_eq!(serde_json::to_string(&pointer("/a~1b")).unwrap(), r#""/a~1b""#);
    assert!(serde_json::from_str::<Pointer>("\"a\"").is_err());
}

#[test]
fn a_missing_part_is_answered_with_those_that_exist() {
    let json = r#"{"value":1,"a/b":[5,6],"deep":{"x":1,"\u0079":2}}"#;
    let check = |text: &str, expected: &[&str]| assert_eq!(pointer(text).nearby(json, 9), expected, "{text}");
    check("/valu", &["/value", "/a~1b", "/deep"]);
    check("/deep/z/w", &["/deep/x", "/deep/y"]);
    check("/a~1b/2", &["/a~1b/0", "/a~1b/1"]);
    check("/value/x", &[]);
    assert_eq!(pointer("/x").nearby(json, 1), ["/value"]);
    assert_eq!(pointer("/x").nearby("7", 9), Vec::<String>::new());
}

#[test]
fn depth_costs_no_stack() {
    let deep = format!("{}1{}", "[".repeat(200_000), "]".repeat(200_000));
    assert_eq!(pointer("/0/0").find(&deep).map(str::len), Some(deep.len() - 4));
}

fn json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        "[ -~\u{e9}\n]{0,6}".prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 40, 5, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map("[a-c/~\"\\\\\u{e9}]{0,2}", inner, 0..4)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn texts_of_the_pattern_are_read(text in &Pointer::PATTERN[1..Pointer::PATTERN.len() - 1]) {
        let read = Pointer::parse(&text);
        prop_assert!(read.is_ok() || text.len() > MAX_POINTER_BYTES, "{text}: {read:?}");
    }

    /// The same as looking in a tree, with any white space, and for pointers that lead nowhere too.
    #[test]
    fn the_text_and_the_tree_agree(
        value in json(),
        tokens in prop::collection::vec("[a-c/~\"\\\\\u{e9}]{0,2}|[0-3]|-|00", 1..4),
    ) {
        let mut text = String::new();
        tokens.iter().for_each(|token| push_token(&mut text, token));
        let pointer = pointer(&text);
        for json in [value.to_string(), serde_json::to_string_pretty(&value).unwrap()] {
            // Read again, because reading may change a number's last digit.
            let tree: Value = serde_json::from_str(&json).unwrap();
            let found = pointer.find(&json).map(|found| serde_json::from_str::<Value>(found).unwrap());
            prop_assert_eq!(found.as_ref(), tree.pointer(&text), "{} in {}", text, json);
        }
    }

    #[test]
    fn every_pointer_that_is_nearby_leads_somewhere(value in json(), token in "[a-c]{0,2}") {
        let json = value.to_string();
        for near in pointer(&format!("/{token}/{token}")).nearby(&json, 99) {
            prop_assert!(pointer(&near).find(&json).is_some(), "{} in {}", near, json);
        }
    }

    #[test]
    fn no_text_is_too_odd(json in "[\\[\\]{}\",:\\\\ a0é-]{0,20}", token in "[a0]{0,1}") {
        let pointer = pointer(&format!("/{token}/0"));
        let _ = (pointer.find(&json), pointer.nearby(&json, 5));
    }
}

// Tables read best with their values in place.
#![allow(clippy::unwrap_used, clippy::needless_pass_by_value)]

use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::registration::Registration;

fn registration(given: Value) -> Result<Registration, Vec<String>> {
    let Value::Object(fields) = given else { panic!("{given} is no object") };
    let Value::Object(mut map) = json!({ "dataName": "a", "cmd": "x", "max-Time": 1 }) else {
        unreachable!()
    };
    map.extend(fields);
    match Registration::from_map(map) {
        Ok(submitted) => Ok(submitted.registration),
        Err(problem) => Err(problem.errors.iter().map(ToString::to_string).collect()),
    }
}

fn read(given: Value) -> Result<Expectations, Vec<String>> {
    registration(given).map(|registration| registration.expect)
}

#[track_caller]
fn refused(given: Value, expected: &str) {
    let errors = read(given).unwrap_err();
    assert!(errors.iter().any(|error| error.contains(expected)), "{errors:?}");
}

/// Checks a value against expectations; the reason is empty if it is as expected.
#[track_caller]
fn check(given: &Value, json: &str, reason: &str) {
    let told = read(given.clone()).unwrap().check(json).err().unwrap_or_default();
    assert_eq!(told, reason, "{given} of {json}");
}

#[track_caller]
fn schema(schema: Value, value: Value, reason: &str) {
    check(&json!({ "schema": schema }), &value.to_string(), reason);
}

#[test]
fn expectations_are_rendered_as_they_were_given() {
    let given = json!({
        "schema": {"type": ["number", "null"], "minimum": 0},
        "range": {"/b": {"max": 18_446_744_073_709_551_615_u64}, "/a": {"min": -1.5}},
        "unit": "core·GHz",
    });
    let registration = registration(given.clone()).unwrap();
    let expectations = &registration.expect;
    assert!(!expectations.is_empty());
    let mut shown = registration.to_map();
    shown.retain(|name, _| given.get(name).is_some());
    assert_eq!(Value::Object(shown.clone()).to_string(), given.to_string());
    assert_eq!(read(Value::Object(shown)).unwrap(), *expectations);
    let none = read(json!({"schema": null, "unit": null})).unwrap();
    assert!(none.is_empty());
    assert_eq!(none.check("no matter what"), Ok(()));
}

#[test]
fn a_range_bounds_the_value_or_places_in_it() {
    let share = json!({"range": {"min": 0, "max": 1}});
    for fine in ["0", "0.5", "1", "1.0", "null", "-0.0"] {
        check(&share, fine, "");
    }
    check(&share, "1.7", "the value: 1.7 is more than the 1 that the registration allows");
    check(&share, "-1e-9", "the value: -1e-9 is less than the 0 that the registration allows");
    let range = r#"the registration gives the range {"min":0,"max":1}"#;
    check(&share, "\"NaN\"", &format!("the value: \"NaN\" is a string; {range}"));
    check(&share, "{}", &format!("the value: {{}} is an object; {range}"));

    let load = json!({"range": {"/load1": {"min": 0, "max": 1000}, "/cores/0/usage": {"max": 1}, "/a~1b": {"min": 1}}});
    check(&load, r#"{"load1":12.5,"cores":[{"usage":1}],"a/b":1}"#, "");
    check(&load, r#"{"load1":null}"#, "");
    check(&load, r#"{"load1":1700}"#, "at /load1: 1700 is more than the 1000 that the registration allows");
    check(
        &load,
        r#"{"cores":[{"usage":1.5}]}"#,
        "at /cores/0/usage: 1.5 is more than the 1 that the registration allows",
    );
    check(&load, r#"{"a/b":0}"#, "at /a~1b: 0 is less than the 1 that the registration allows");
}

#[test]
fn large_numbers_are_compared_as_they_are() {
    let most = |max: Value| json!({"range": {"max": max}});
    let too_much = |max: Value, given: &str| read(most(max)).unwrap().check(given).is_err();
    assert!(too_much(json!(9_007_199_254_740_992_u64), "9007199254740993"));
    assert!(!too_much(json!(9_007_199_254_740_993_u64), "9007199254740993"));
    assert!(too_much(json!(9_007_199_254_740_992.0), "9007199254740993"));
    assert!(too_much(json!(u64::MAX), "18446744073709551616"));
    assert!(!too_much(json!(u64::MAX), "18446744073709551615"));
    assert!(too_much(json!(1e300), "1e301"));
    assert!(!too_much(json!(u64::MAX), "-1e300"));
    assert!(
        too_much(json!(1), "1.0000001") && !too_much(json!(1), "0.9999999") && !too_much(json!(-1), "-1.5")
    );
    let exact = json!({"schema": {"const": 9_007_199_254_740_993_u64}});
    check(&exact, "9007199254740993", "");
    assert!(read(exact).unwrap().check("9007199254740992").is_err());
}

#[test]
fn a_range_that_bounds_nothing_is_refused() {
    refused(json!({"range": 5}), "range: is a number, not an object, given 5; expected {\"min\"");
    refused(json!({"range": {}}), "range.min: or `max` is missing: a range needs a bound");
    refused(json!({"range": {"min": null}}), "a range needs a bound");
    refused(json!({"range": {"min": 2, "max": 1}}), "range.max: is less than `min`");
    refused(json!({"range": {"min": "0"}}), "range.min: is a string, not a number, given 0");
    refused(
        json!({"range": {"least": 0}}),
        "range.least: is not a known field, given 0; expected one of min, max",
    );
    refused(json!({"range": {"load1": {"min": 0}}}), "range.load1: is not a known field");
    refused(json!({"range": {"/a": {"min": 0}, "b": {"min": 0}}}), "range: is not a JSON pointer");
    refused(json!({"range": {"/a": 7}}), "range./a: is a number, not an object");
    refused(json!({"range": {"/a": {"max": true}}}), "range./a.max: is a boolean, not a number");
    let many: Map<String, Value> = (0..129).map(|n| (format!("/{n}"), json!({"min": 0}))).collect();
    refused(json!({ "range": many }), "names too many places");
}

#[test]
fn a_unit_is_what_a_value_tells_at_a_place_or_around_it() {
    let nagios = json!({"unit": {"/perf/time/value": "s", "/perf/users": ""}});
    check(&nagios, r#"{"perf":{"time":{"value":1,"unit":"s"},"users":{"value":3,"unit":""}}}"#, "");
    check(
        &nagios,
        r#"{"perf":{"time":{"value":1,"unit":"ms"}}}"#,
        r#"at /perf/time/value: the unit is "ms"; the registration says "s""#,
    );
    check(
        &nagios,
        r#"{"perf":{"users":{"value":3,"unit":"%"}}}"#,
        r#"at /perf/users: the unit is "%"; the registration says """#,
    );
    let netdata = json!({"unit": {"/system.cpu/dimensions/user/value": "percentage"}});
    check(&netdata, r#"{"system.cpu":{"units":"percentage","dimensions":{"user":{"value":3}}}}"#, "");
    check(
        &netdata,
        r#"{"system.cpu":{"units":"ticks","dimensions":{"user":{"value":3}}}}"#,
        r#"at /system.cpu/dimensions/user/value: the unit is "ticks"; the registration says "percentage""#,
    );
    let top = json!({"unit": "fps"});
    check(&top, r#"{"value":3,"unit":"fps"}"#, "");
    check(
        &top,
        r#"{"value":3,"unit":"spf"}"#,
        r#"the value: the unit is "spf"; the registration says "fps""#,
    );
    // Told nowhere, or something else of that name.
    for silent in ["3", "null", "[]", r#"{"value":3}"#, r#"{"unit":{"value":3}}"#] {
        check(&top, silent, "");
    }
    check(&nagios, r#"{"perf":{"time":{"value":1}}}"#, "");
}

#[test]
fn a_unit_is_a_short_text() {
    for wrong in [json!(""), json!(5), json!("x".repeat(65)), json!("a\nb"), json!(["s"])] {
        refused(json!({ "unit": wrong }), "unit: is not a unit");
    }
    refused(json!({"unit": {"/a": 1}}), "unit./a: is not a unit, given 1; expected a text of at most 64");
    refused(json!({"unit": {"a": "s"}}), "unit: is not a JSON pointer");
    refused(json!({"unit": {}}), "unit: is empty");
}

#[test]
fn a_schema_says_what_must_be_there() {
    let load = json!({
        "type": "object", "required": ["load1"], "additionalProperties": false,
        "properties": {"load1": {"type": "number", "minimum": 0, "maximum": 1000}, "tasks": {"type": "integer"}},
    });
    let check = |value: Value, reason: &str| schema(load.clone(), value, reason);
    check(json!({"load1": 0.5, "tasks": 7}), "");
    check(json!({"load1": 0, "tasks": 7.0}), "");
    check(json!(0.5), "the value: 0.5 is a number; the registration says an object");
    check(json!({"tasks": 7}), "the value: `load1` is missing, which the registration requires");
    check(json!({"load1": "1"}), "at /load1: \"1\" is a string; the registration says a number");
    check(json!({"load1": 1700}), "at /load1: 1700 is more than the 1000 that the registration allows");
    check(
        json!({"load1": 1, "tasks": 7.5}),
        "at /tasks: 7.5 is a number; the registration says a whole number",
    );
    check(
        json!({"load1": 1, "x": 1}),
        "the value: `x` is not among the registration's members: load1, tasks",
    );
}

#[test]
fn each_keyword_means_what_json_schema_says() {
    schema(json!({}), json!([1, "x", null]), "");
    schema(json!({"type": ["number", "null"]}), json!(null), "");
    schema(
        json!({"type": ["integer", "null"]}),
        json!(true),
        "the value: true is a boolean; the registration says a whole number or null",
    );
    schema(json!({"type": "integer"}), json!(1e300), "");
    // Bounds of a kind say nothing of another kind.
    schema(json!({"minimum": 5, "minLength": 5, "minItems": 5, "required": ["a"]}), json!(true), "");
    schema(json!({"minLength": 5}), json!(1), "");
    schema(json!({"maxLength": 2}), json!("äö"), "");
    schema(
        json!({"minLength": 3}),
        json!("äö"),
        "the value: has 2 characters; the registration asks for at least 3",
    );
    schema(
        json!({"maxItems": 1}),
        json!([1, 2]),
        "the value: has 2 items; the registration allows at most 1",
    );
    let list = json!({"properties": {"l": {"items": {"type": "number"}, "minItems": 1}}});
    schema(list.clone(), json!({"l": [1, 2.5]}), "");
    schema(
        list.clone(),
        json!({"l": [1, "x"]}),
        "at /l/1: \"x\" is a string; the registration says a number",
    );
    schema(list, json!({"l": []}), "at /l: has 0 items; the registration asks for at least 1");
    let others = json!({"properties": {"a": {}}, "additionalProperties": {"type": "number"}});
    schema(others.clone(), json!({"a": "x", "b/c": 1}), "");
    schema(others, json!({"b/c": "x"}), "at /b~1c: \"x\" is a string; the registration says a number");
    let word = json!({"enum": ["ok", 1, null, {"a": [1, 2], "b": 2}]});
    for fine in [json!("ok"), json!(1.0), json!(null), json!({"b": 2.0, "a": [1, 2]})] {
        schema(word.clone(), fine, "");
    }
    schema(
        json!({"enum": ["ok", 1]}),
        json!("bad"),
        "the value: \"bad\" is not allowed; the registration says \"ok\", 1",
    );
    schema(json!({"const": null}), json!(null), "");
    schema(json!({"const": null}), json!(0), "the value: 0 is not allowed; the registration says null");
}

#[test]
fn a_schema_that_is_not_understood_is_refused() {
    refused(json!({"schema": true}), "schema: is a boolean, not a schema");
    refused(json!({"schema": {"pattern": "a+"}}), "schema.pattern: is not a known field");
    refused(json!({"schema": {"pattern": "a+"}}), "expected one of minItems, maxItems");
    refused(json!({"schema": {"minimun": 1}}), "expected `minimum`?");
    refused(
        json!({"schema": {"properties": {"a": {"items": {"type": "int"}}}}}),
        "schema.properties.a.items.type: ",
    );
    refused(json!({"schema": {"type": []}}), "schema.type: has 0 words");
    refused(json!({"schema": {"type": {}}}), "schema.type: is an object, not a string");
    refused(json!({"schema": {"properties": []}}), "schema.properties: is an array, not an object");
    refused(
        json!({"schema": {"additionalProperties": 1}}),
        "schema.additionalProperties: is a number, not a schema",
    );
    refused(json!({"schema": {"items": [{}]}}), "schema.items: is an array, not a schema");
    refused(json!({"schema": {"required": ["a", "a"]}}), "schema.required: names one twice");
    refused(json!({"schema": {"required": [1]}}), "schema.required: is a number, not a string");
    refused(json!({"schema": {"enum": []}}), "schema.enum: has 0 entries");
    refused(json!({"schema": {"minimum": 2, "maximum": 1}}), "schema.maximum: is less than `minimum`");
    refused(json!({"schema": {"minItems": 2, "maxItems": 1}}), "schema.maxItems: is less than `minItems`");
    refused(json!({"schema": {"minLength": -1}}), "schema.minLength: ");
    let both = read(json!({"schema": {"type": "x", "maximum": "y"}, "range": 1, "unit": 2})).unwrap_err();
    assert_eq!(both.len(), 4, "{both:?}");
}

#[test]
fn a_schema_has_its_bounds() {
    let nested = |depth: usize| (1..depth).fold(json!({}), |inner, _| json!({ "items": inner }));
    assert!(read(json!({"schema": nested(16)})).is_ok());
    refused(json!({"schema": nested(17)}), "nests deeper than 16 levels");
    let wide = |rules: usize| -> Value {
        let properties: Map<String, Value> = (1..rules).map(|n| (n.to_string(), json!({}))).collect();
        json!({"schema": {"properties": properties}})
    };
    assert!(read(wide(1000)).is_ok());
    assert_eq!(read(wide(3000)).unwrap_err().len(), 1);
    refused(json!({"schema": {"enum": vec![1; 257]}}), "has 257 entries");
    let long = read(json!({"schema": {"enum": ["x".repeat(5000)]}})).unwrap();
    assert!(long.check(&json!("y".repeat(60_000)).to_string()).unwrap_err().len() < 1000);
}

proptest! {
    #[test]
    fn numbers_have_one_order(a in number(), b in number(), c in number()) {
        let compare = number::compare;
        prop_assert_eq!(compare(&a, &b), compare(&b, &a).reverse());
        prop_assert!(compare(&a, &a).is_eq());
        if compare(&a, &b).is_le() && compare(&b, &c).is_le() {
            prop_assert!(compare(&a, &c).is_le(), "{a} {b} {c}");
        }
    }

    #[test]
    fn any_text_is_read_and_checked_without_a_panic(given in ".{0,40}", value in ".{0,40}") {
        if let Ok(given) = serde_json::from_str::<Value>(&given) {
            let _ = read(json!({ "schema": given, "range": given, "unit": given }));
        }
        let expectations = read(json!({"schema": {"type": "object"}, "range": {"/a": {"min": 0}}, "unit": "s"}));
        let _ = expectations.unwrap().check(&value);
    }
}

/// Numbers that lie close to each other where they are hard to tell apart.
fn number() -> impl Strategy<Value = Number> {
    let near =
        (prop::sample::select(vec![0_u64, 1, 1 << 53, 1 << 60, (1 << 63) - 1, u64::MAX - 2]), 0..3_u64);
    prop_oneof![
        near.prop_map(|(base, off)| Number::from(base + off)),
        (-3..3_i64).prop_map(Number::from),
        Just(Number::from(i64::MIN)),
        prop::sample::select(vec![
            0.5,
            -0.5,
            -0.0,
            9_007_199_254_740_992.0,
            18_446_744_073_709_551_616.0,
            -1e19,
            1e300
        ])
        .prop_map(|number| Number::from_f64(number).unwrap()),
    ]
}

#[test]
fn a_reason_is_one_line_whatever_the_value_says() {
    let check = |expected: Value, value: Value| {
        let reason = read(expected).unwrap().check(&value.to_string()).unwrap_err();
        assert!(!reason.contains(char::is_control) && reason.chars().count() < 500, "{reason:?}");
    };
    let (key, long) = ("a\nb\u{7f}", "\u{85}x".repeat(500));
    check(json!({"schema": {"properties": {key: {"type": "null"}}}}), json!({key: long}));
    check(json!({"schema": {"properties": {key: {}}, "additionalProperties": false}}), json!({"\r": 1}));
    check(json!({"schema": {"required": [key]}}), json!({}));
    check(json!({"schema": {"const": long}}), json!("\u{7f}"));
    check(json!({"schema": {"additionalProperties": {"maximum": 1}}}), json!({key: 2}));
    check(json!({"schema": {"additionalProperties": {"maxLength": 0}}}), json!({key: long}));
    check(json!({"range": {"/a\nb": {"max": 1}}}), json!({"a\nb": "\u{7f}"}));
    check(json!({"unit": {"/a\nb": "s"}}), json!({"a\nb": {"unit": "\u{7f}"}}));
}

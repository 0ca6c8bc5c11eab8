#![allow(clippy::unwrap_used)]

use estimand_api::registration::Format;
use proptest::prelude::*;

use super::super::probe::{self, check, check_parts, holds, outputs};
use super::*;

#[test]
fn points_without_tags_and_with_them() {
    check(
        Format::Influx,
        &[
            ("cpu usage=1.5", r#"{"cpu":{"fields":{"usage":1.5}}}"#),
            (
                r#"cpu,host=a,cpu=cpu0 usage=1.5,n=10i,u=7u,ok=true,no=F,s="x y" 1700000000123456789"#,
                r#"{"cpu":{"series":{"cpu=cpu0,host=a":{"fields":{"usage":1.5,"n":10,"u":7,"ok":true,"no":false,"s":"x y"},"at":"2023-11-14T22:13:20.123456Z"}}}}"#,
            ),
            (
                "cpu a=1\ncpu,h=x a=2\nmem a=3\ncpu,h=y a=4",
                r#"{"cpu":{"fields":{"a":1},"series":{"h=x":{"fields":{"a":2}},"h=y":{"fields":{"a":4}}}},"mem":{"fields":{"a":3}}}"#,
            ),
            (
                "cpu,b=2,a=1 x=1\ncpu,a=1,b=2 y=2",
                r#"{"cpu":{"series":{"a=1,b=2":{"fields":{"x":1,"y":2}}}}}"#,
            ),
            ("# comment\n\n  m a=1\r\n#", r#"{"m":{"fields":{"a":1}}}"#),
            ("m  a=1  5  ", r#"{"m":{"fields":{"a":1},"at":"1970-01-01T00:00:00.000000Z"}}"#),
            ("# nothing", "nothing"),
        ],
    );
}

#[test]
fn numbers_keep_their_digits() {
    for (given, expected) in [
        ("9007199254740993i", "9007199254740993"),
        ("-9223372036854775808i", "-9223372036854775808"),
        ("18446744073709551615u", "18446744073709551615"),
        ("007i", "7"),
        ("1.50", "1.50"),
        ("-.5", "-0.5"),
        ("5.", "5"),
        ("+1e5", "1e5"),
        ("0.10000000000000000000001", "0.10000000000000000000001"),
        ("t", "true"),
        ("True", "true"),
        ("FALSE", "false"),
    ] {
        check(
            Format::Influx,
            &[(&format!("m a={given}"), &format!(r#"{{"m":{{"fields":{{"a":{expected}}}}}}}"#))],
        );
    }
}

#[test]
fn backslashes_protect() {
    check(
        Format::Influx,
        &[
            (r"a\ b\,c x\ y\=z\,=1", r#"{"a b,c":{"fields":{"x y=z,":1}}}"#),
            (r"m,t\ 1=a\,b\=c\ d x=1", r#"{"m":{"series":{"t\\ 1=a\\,b\\=c\\ d":{"fields":{"x":1}}}}}"#),
            (r#"m s="a\"b\\c\nd""#, r#"{"m":{"fields":{"s":"a\"b\\c\\nd"}}}"#),
            (r"m\=x,p=C:\dir a=1", r#"{"m\\=x":{"series":{"p=C:\\dir":{"fields":{"a":1}}}}}"#),
            (
                "m s=\"two\nlines, a=1\",n=2i\nx a=1",
                r#"{"m":{"fields":{"s":"two\nlines, a=1","n":2}},"x":{"fields":{"a":1}}}"#,
            ),
            ("m s=\"\"", r#"{"m":{"fields":{"s":""}}}"#),
            ("m a=1,\"q\"=2", r#"{"m":{"fields":{"a":1,"\"q\"":2}}}"#),
        ],
    );
}

#[test]
fn the_latest_point_of_a_series_counts() {
    check(
        Format::Influx,
        &[
            (
                "m a=1 1000\nm b=2 1000",
                r#"{"m":{"fields":{"a":1,"b":2},"at":"1970-01-01T00:00:00.000001Z"}}"#,
            ),
            (
                "m a=1,b=1 1000\nm a=2 2000\nm a=3 0",
                r#"{"m":{"fields":{"a":2},"at":"1970-01-01T00:00:00.000002Z"}}"#,
            ),
            ("m a=1 1000\nm a=2", r#"{"m":{"fields":{"a":2}}}"#),
            ("m a=1\nm a=2 1000", r#"{"m":{"fields":{"a":1}}}"#),
            ("m a=1 -1", r#"{"m":{"fields":{"a":1},"at":"1969-12-31T23:59:59.999999Z"}}"#),
            // As InfluxDB stores it: a field that comes again has its last value.
            ("m a=1,a=2,b=3", r#"{"m":{"fields":{"a":2,"b":3}}}"#),
            ("m,t=x a=1,b=1\nm,t=x a=2,c=3", r#"{"m":{"series":{"t=x":{"fields":{"a":2,"b":1,"c":3}}}}}"#),
            ("m a=1i 1000\nm a=2i 1000", r#"{"m":{"fields":{"a":2},"at":"1970-01-01T00:00:00.000001Z"}}"#),
        ],
    );
}

#[test]
fn bad_lines_are_left_out_and_nothing_but_them_is_a_failure() {
    let rejects = [
        ("m", "has no fields"),
        ("m ", "has no fields"),
        (",a=b c=1", "has no measurement"),
        ("m,a b=1", "has a tag that is not"),
        ("m,a= b=1", "has a tag that is not"),
        ("m,=a b=1", "has a tag that is not"),
        ("m,a=b=c d=1", "has a tag that is not"),
        ("m,a=1,a=2 b=1", "has a tag twice"),
        ("m, b=1", "has a tag that is not"),
        ("m a", "has a field that is not"),
        ("m a=1, b=1", "has a field that is not"),
        ("m a=", "has a value that is no number"),
        ("m =1", "has a field that is not"),
        ("m a=NaN", "has a value that is no number"),
        ("m a=inf", "has a value that is no number"),
        ("m a=1e999", "has a value that is no number"),
        ("m a=0x1f", "has a value that is no number"),
        ("m a=1.5i", "has a value that is no number"),
        ("m a=9223372036854775808i", "has a value that is no number"),
        ("m a=-1u", "has a value that is no number"),
        ("m a=i", "has a value that is no number"),
        ("m a=tRUE", "has a value that is no number"),
        ("m a=x", "has a value that is no number"),
        ("m a=\"x\"y", "has something after a field's value"),
        ("m a=1 1.5", "has a time that is no whole number"),
        ("m a=1 99999999999999999999", "has a time that is no whole number"),
        ("m a=1 5 6", "has something after its time"),
    ];
    for (line, why) in rejects {
        let good_too = format!("good a=1\n{line}\nalso a=2");
        check_parts(
            Format::Influx,
            &[(line, &format!("failed: the output has no good lines: line 1: `{}` {why}", line.trim()))],
        );
        check_parts(
            Format::Influx,
            &[(&good_too, r#""also":{"fields":{"a":2}}} but 1 record was left out: line 2: "#)],
        );
        check_parts(Format::Influx, &[(&good_too, why)]);
    }
    check_parts(Format::Influx, &[("m a=\"x\nb c=1", r#"{"b":{"fields":{"c":1}}} but"#)]);
}

#[test]
fn the_number_of_records_is_bounded() {
    let lines = |count: usize| (0..count).map(|n| format!("m,t={n} a=1\n")).collect::<String>();
    let message = |text: &str| probe::read(Format::Influx, text, 0).unwrap_err();
    assert!(probe::read(Format::Influx, &lines(2_000), 0).is_ok());
    assert!(message(&lines(10_000)).contains("more than 65536 bytes"));
    assert!(message(&lines(MAX_RECORDS + 1)).contains("more than 20000 fields"));
    let fields: Vec<String> = (0..=MAX_RECORDS).map(|n| format!("f{n}=1")).collect();
    assert!(message(&format!("m {}", fields.join(","))).contains("more than 20000 fields"));
}

const RIGHT: [&str; 4] = [
    r#"cpu,host=a,cpu=cpu0 usage=1.5,n=10i,u=7u,ok=true,s="x y" 1700000000123456789"#,
    "cpu usage=2\ncpu usage=3 5\n# comment",
    r"a\ b,t\==\, x\ y=1",
    "m s=\"two\nlines \\\" \\\\\"",
];
const TOKENS: [&str; 22] = [
    "m", "a", "=", ",", " ", "\"", "\\", "\\\"", "\n", "\r\n", "#", "1", "i", "u", "t", "-", ".", "e", "ä",
    "\u{a0}", "\t", "a=1",
];

fn name() -> impl Strategy<Value = String> {
    "[a-zä,= \"/]{1,6}".prop_filter("white space around a line goes", |name| name.trim() == name)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 3_000, ..ProptestConfig::default() })]
    #[test]
    fn any_output_is_read_or_rejected(output in outputs(&RIGHT, &TOKENS)) {
        holds(Influx.read(Output { stdout: &output, exit: 0 }))?;
    }

    #[test]
    fn lines_by_the_rules_come_back(
        measurement in name(),
        tags in prop::collection::btree_map(name(), name(), 0..3),
        fields in prop::collection::btree_map(name(), prop_oneof![
            any::<i64>().prop_map(|n| serde_json::json!(n)),
            any::<bool>().prop_map(|b| serde_json::json!(b)),
            "[a-z\"\\\\\n,= ]{0,6}".prop_map(|s| serde_json::json!(s)),
        ], 1..4),
    ) {
        let escape = |text: &str, of: &[char]| {
            text.chars().flat_map(|c| of.contains(&c).then_some('\\').into_iter().chain([c])).collect::<String>()
        };
        let all = [',', '=', ' '];
        let mut line = escape(&measurement, &[',', ' ']);
        for (name, value) in &tags {
            line += &format!(",{}={}", escape(name, &all), escape(value, &all));
        }
        let fields_text: Vec<String> = fields.iter().map(|(name, value)| {
            let value = match value {
                serde_json::Value::String(text) => format!("\"{}\"", escape(text, &['"', '\\'])),
                serde_json::Value::Number(number) => format!("{number}i"),
                other => other.to_string(),
            };
            format!("{}={value}", escape(name, &all))
        }).collect();
        line += &format!(" {}", fields_text.join(","));
        let reading = probe::read(Format::Influx, &line, 0);
        let Ok(Reading { answer: Answer::One(json), rejected }) = reading else {
            return Err(TestCaseError::fail(format!("{line:?}: {reading:?}")));
        };
        prop_assert_eq!(rejected.count, 0);
        let value: serde_json::Value = serde_json::from_str(&json).unwrap();
        let point = match tags.is_empty() {
            true => &value[&measurement],
            false => value[&measurement]["series"].as_object().unwrap().values().next().unwrap(),
        };
        prop_assert_eq!(point["fields"].as_object().unwrap().len(), fields.len());
        for (name, expected) in &fields {
            prop_assert_eq!(&point["fields"][name], expected);
        }
    }
}

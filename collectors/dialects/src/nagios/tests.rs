#![allow(clippy::unwrap_used)]

use estimand_api::registration::Format;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::super::probe::{self, holds, outputs, shown};
use super::*;

fn read(output: &str, exit: i32) -> Result<Reading, String> {
    probe::read(Format::Nagios, output, exit)
}

/// The text, the long text and the performance data.
#[track_caller]
fn parts(output: &str) -> (Value, Value, Value) {
    let reading = read(output, 0).unwrap();
    assert_eq!(reading.rejected.sentence(), None, "{output:?}");
    let Answer::One(json) = reading.answer else { panic!("{output:?} says nothing") };
    let mut value: Value = serde_json::from_str(&json).unwrap();
    (value["text"].take(), value["long"].take(), value["perf"].take())
}

#[test]
fn the_exit_code_is_the_status() {
    let output = "LOAD - 0.04|load1=0.040;5.000;10.000;0; \n";
    for (exit, status) in [(0, "ok"), (1, "warning"), (2, "critical")] {
        assert_eq!(
            shown(read(output, exit)),
            format!(
                r#"{{"status":"{status}","code":{exit},"text":"LOAD - 0.04","perf":{{"load1":{{"value":0.040,"unit":"","warn":"5.000","crit":"10.000","min":0,"max":null}}}}}}"#
            )
        );
        assert!(Nagios.takes_exit(exit));
    }
    for exit in [-1, 4, 127, 255] {
        assert!(!Nagios.takes_exit(exit));
    }
    assert!(Nagios.takes_exit(3));
}

#[test]
fn unknown_and_silent_ends_are_failures() {
    for (output, exit, expected) in [
        ("UNKNOWN: who\n", 3, "it ended with exit 3, unknown: UNKNOWN: who"),
        ("\nno data |x=1\nmore", 3, "it ended with exit 3, unknown: no data"),
        ("|x=1\nwhy\tnot", 3, "it ended with exit 3, unknown: why not"),
        ("|x=1", 3, "it ended with exit 3, unknown and printed nothing that says why"),
        ("", 3, "it ended with exit 3, unknown and printed nothing that says why"),
        (" \n", 2, "it ended with exit 2 and printed nothing that says why"),
        ("", 1, "it ended with exit 1 and printed nothing that says why"),
    ] {
        assert_eq!(read(output, exit).unwrap_err(), expected, "{output:?}");
    }
    let long = read(&"ä".repeat(1_000), 3).unwrap_err();
    assert!(long.ends_with("ä…") && long.chars().count() < 250, "{long}");
    assert_eq!(read("", 0).unwrap(), Reading::default());
}

#[test]
fn text_and_performance_data_come_in_parts() {
    let check = |output: &str, text: &str, long: Value, labels: &[&str]| {
        let (given, given_long, perf) = parts(output);
        assert_eq!((given, given_long), (json!(text), long), "{output:?}");
        assert_eq!(perf.as_object().unwrap().keys().collect::<Vec<_>>(), labels, "{output:?}");
    };
    check("OK", "OK", Value::Null, &[]);
    check("OK |", "OK", Value::Null, &[]);
    check("| a=1", "", Value::Null, &["a"]);
    check("OK - fine | a=1 b=2\r\n", "OK - fine", Value::Null, &["a", "b"]);
    check("OK\nfirst\n\n second ", "OK", json!("first\n\n second"), &[]);
    check(
        "OK | a=1\nfirst\nlast | b=2\nc=3 d=4\ne=5",
        "OK",
        json!("first\nlast"),
        &["a", "b", "c", "d", "e"],
    );
    check("refused\nSMTP CRITICAL|time=0.1s", "refused", json!("SMTP CRITICAL"), &["time"]);
    check("OK | a=1\n| b=2\nc=3", "OK", Value::Null, &["a", "b", "c"]);
    check("OK: a 'b' = c", "OK: a 'b' = c", Value::Null, &[]);
}

#[test]
fn a_measure_keeps_its_digits_its_unit_and_its_ranges() {
    let check = |record: &str, label: &str, value: &str| {
        let json = shown(read(&format!("x|{record}"), 0));
        let expected = format!(r#""perf":{{"{label}":{value}}}}}"#);
        assert!(json.ends_with(&expected), "{record:?}: {json}");
    };
    let plain = |value: &str, unit: &str| {
        format!(r#"{{"value":{value},"unit":"{unit}","warn":null,"crit":null,"min":null,"max":null}}"#)
    };
    for (given, number, unit) in [
        ("1", "1", ""),
        ("-0.50", "-0.50", ""),
        ("9007199254740993c", "9007199254740993", "c"),
        ("1e3", "1e3", ""),
        ("2.5E-3s", "2.5E-3", "s"),
        ("3EB", "3", "EB"),
        ("4e", "4", "e"),
        ("0,04", "0.04", ""),
        ("12,5%", "12.5", "%"),
        (".5ms", "0.5", "ms"),
        ("5.", "5", ""),
        ("+7", "7", ""),
        ("007KB", "7", "KB"),
        ("1µs", "1", "µs"),
        ("3MB/s", "3", "MB/s"),
        ("U", "null", ""),
    ] {
        check(&format!("a={given}"), "a", &plain(number, unit));
    }
    check("a/b=1", "a/b", &plain("1", ""));
    check("'used space'=1", "used space", &plain("1", ""));
    check("'it''s=x'=1", "it's=x", &plain("1", ""));
    check("/=1", "/", &plain("1", ""));
    check("C:\\=1", "C:\\\\", &plain("1", ""));
    check(
        "a=1B;@10:20;~:5;0;100 ",
        "a",
        r#"{"value":1,"unit":"B","warn":"@10:20","crit":"~:5","min":0,"max":100}"#,
    );
    check("a=1;;2;;", "a", r#"{"value":1,"unit":"","warn":null,"crit":"2","min":null,"max":null}"#);
    check(
        "a=1KB;;;0,5KB;U;;",
        "a",
        r#"{"value":1,"unit":"KB","warn":null,"crit":null,"min":0.5,"max":null}"#,
    );
}

#[test]
fn a_bad_record_does_not_take_the_others_along() {
    let good = |output: &str| {
        let reading = read(output, 0).unwrap();
        let Answer::One(json) = reading.answer else { panic!("{output:?} says nothing") };
        let value: Value = serde_json::from_str(&json).unwrap();
        let labels: Vec<String> = value["perf"].as_object().unwrap().keys().cloned().collect();
        (labels.join(" "), reading.rejected.reasons.join("; "))
    };
    for (output, labels, reason) in [
        ("x|entropy=256 bytes", "entropy", "`bytes` has no `=` after its label"),
        ("x|a=1 a=2 b=3", "a b", "the label `a` comes twice"),
        ("x|a= b=1", "b", "`a=` has no number as its value"),
        ("x|a=nan b=1", "b", "`a=nan` has no number"),
        ("x|a=-inf b=1", "b", "`a=-inf` has no number"),
        ("x|a=0x1f b=1", "b", "is no unit"),
        ("x|a=1,234.5 b=1", "b", "is no unit"),
        ("x|a=1:2 b=1", "b", "is no unit"),
        ("x|a=1e999 b=1", "b", "has no number"),
        ("x|=1 b=1", "b", "`=1` has no label"),
        ("x|''=1 b=1", "b", "has no label"),
        ("x|'a b=1 c=2", "", "`'a b=1 c=2` has no second quote"),
        ("x|'a'1 b=1", "b", "`'a'1` has no `=`"),
        ("x|a=1;2;3;4;5;6 b=1", "b", "more than a value, two thresholds"),
        ("x|a=1s;;;0ms b=1", "b", "a minimum or a maximum that is no number"),
        ("x|a=1;;;low b=1", "b", "a minimum or a maximum that is no number"),
        ("x|Host: vm|", "", "`Host:` has no `=` after its label; `vm|` has no `=`"),
    ] {
        let (given, reasons) = good(output);
        assert_eq!(given, labels, "{output:?}");
        assert!(reasons.contains(reason), "{output:?}: {reasons}");
    }
}

const RIGHT: [&str; 5] = [
    "LOAD WARNING - 0.36|load1=0.360;0.000;999.000;0; load5=0.690;0.000;999.000;0; ",
    "DISK OK - / 36217MiB (38% inode=96%);| /=59816017920B;267847005634;270552530944;0;270552530944",
    "OK|'a b'=1,5%;@1:2;~:3;0;100 'it''s'=U\nlong\nmore|c=1e3s",
    "check: no data\nSMTP CRITICAL - 0.000 sec. response time|time=0.000096s;;;0.000000",
    "UNKNOWN",
];
const TOKENS: [&str; 22] = [
    "|", "'", "''", "=", ";", ";;", " ", "\n", "\r\n", "a", "U", "1", ",", ".", "-", "e", "%", "KB", "ä",
    "\u{a0}", "\0", "nan",
];

proptest! {
    #![proptest_config(ProptestConfig { cases: 3_000, ..ProptestConfig::default() })]
    #[test]
    fn any_output_is_read_or_rejected(output in outputs(&RIGHT, &TOKENS), exit in -1..5) {
        holds(Nagios.read(Output { stdout: &output, exit }))?;
    }

    #[test]
    fn output_by_the_rules_comes_back(
        label in "[a-zä/_'= ]{1,8}",
        value in -1_000_000_000_i64..1_000_000_000,
        unit in "s|ms|%|B|KB|c|",
        limits in prop::option::of(-1_000..1_000_i32),
    ) {
        prop_assume!(!label.trim().is_empty() && label.trim() == label);
        let limit = limits.map(|limit| limit.to_string()).unwrap_or_default();
        let record = format!("'{}'={value}{unit};{limit};;{limit};", label.replace('\'', "''"));
        let (_, _, perf) = parts(&format!("fine | {record} other=1"));
        let expected = json!({
            "value": value, "unit": unit, "warn": limits.map(|_| limit.clone()), "crit": null,
            "min": limits, "max": null,
        });
        prop_assert_eq!(&perf[&label], &expected);
        prop_assert_eq!(perf.as_object().map(|perf| perf.len()), Some(2));
    }
}

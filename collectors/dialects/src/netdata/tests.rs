#![allow(clippy::unwrap_used)]

use estimand_api::registration::Format;
use proptest::prelude::*;
use serde_json::Value;

use super::super::probe::{self, check, check_parts, holds, outputs, shown};
use super::*;

/// The values of all dimensions after each END, with nothing left out. Lines may begin with when they come, in
/// microseconds and in brackets.
#[track_caller]
fn values(text: &str) -> Vec<String> {
    let mut reader = Reader::default();
    let mut out = Vec::new();
    for line in text.lines().map(str::trim) {
        let (now, line) = match line.strip_prefix('[').and_then(|line| line.split_once(']')) {
            Some((now, line)) => (now.parse().ok(), line),
            None => (None, line),
        };
        match reader.line(line, now) {
            Ok(false) => {}
            Ok(true) => out.push(values_of(&reader.answer().unwrap())),
            Err(Problem::Bad(why)) => panic!("{line:?} {why}"),
            Err(Problem::Disabled) => panic!("{line:?} disables"),
        }
    }
    out
}

fn values_of(answer: &Answer) -> String {
    let Answer::One(json) = answer else { panic!("{answer:?}") };
    let value: Value = serde_json::from_str(json).unwrap();
    let of_chart = |chart: &Value| -> Vec<String> {
        chart["dimensions"]
            .as_object()
            .unwrap()
            .values()
            .map(|dimension| dimension["value"].to_string())
            .collect()
    };
    value.as_object().unwrap().values().map(|chart| of_chart(chart).join(" ")).collect::<Vec<_>>().join(" | ")
}

#[test]
fn a_row_of_a_chart() {
    check(
        Format::Netdata,
        &[
            (
                "CHART disk.sda '' 'Disk I/O' KiB/s sda disk.io area 2000 1 '' plugin module\n\
                 DIMENSION reads '' absolute 1 1024\nDIMENSION writes out absolute -1 1\n\
                 BEGIN disk.sda 1000000\nSET reads = 4096\nSET writes = 3\nEND\n",
                r#"{"disk.sda":{"title":"Disk I/O","units":"KiB/s","family":"sda","dimensions":{"reads":{"name":"reads","value":4,"raw":4096},"writes":{"name":"out","value":-3,"raw":3}}}}"#,
            ),
            (
                "# comment\nCHART a.b\nVARIABLE HOST x = 5\nCLABEL a b 1\nCLABEL_COMMIT\nDIMENSION d\n\n\
                 BEGIN a.b\nSET d 9007199254740993\nEND",
                r#"{"a.b":{"title":"","units":"","dimensions":{"d":{"name":"d","value":9007199254740993,"raw":9007199254740993}}}}"#,
            ),
            ("CHART a.b\nDIMENSION d", "nothing"),
            ("FUNCTION x\nHOST y\nEXIT", "nothing"),
        ],
    );
}

#[test]
fn absolute_values_are_scaled() {
    let scaled = |factors: &str, raw: &str| {
        values(&format!("CHART a.b\nDIMENSION d d absolute {factors}\nBEGIN a.b\nSET d = {raw}\nEND"))
            .join(",")
    };
    for (factors, raw, expected) in [
        ("1 1", "5", "5"),
        ("1 10", "25", "2.5"),
        ("-1 2", "3", "-1.5"),
        ("0 0", "7", "7"),
        ("3 3", "12345678901234567890123", "12345678901234567890123"),
        ("1 1000", "9223372036854775000", "9223372036854775"),
        ("9223372036854775807 1", "2", "18446744073709551614"),
        ("1 3", "1", "0.3333333333333333"),
        ("2 1", "1.25", "2.5"),
        ("1 1000000000", "1", "1e-9"),
        ("", "8", "8"),
        ("1 1", "''", "null"),
        // The last of two that are set in a row.
        ("1 1", "1\nSET d = 2", "2"),
    ] {
        let given: Vec<Value> = vec![serde_json::from_str(&scaled(factors, raw)).unwrap()];
        let expected: Vec<Value> = vec![serde_json::from_str(expected).unwrap()];
        assert_eq!(given, expected, "{factors} {raw}");
    }
}

#[test]
fn rates_are_between_rows_and_never_below_nothing() {
    let chart = "CHART a.b\nDIMENSION d d incremental 8 1000\n";
    let row = |begin: &str, raw: &str| format!("{begin}\nSET d = {raw}\nEND\n");
    let rates = |rows: &[(&str, &str)]| {
        let rows: String = rows.iter().map(|(begin, raw)| row(begin, raw)).collect();
        values(&format!("{chart}{rows}")).join(" ")
    };
    // The first has nothing before it, and without a time there is no rate.
    assert_eq!(rates(&[("BEGIN a.b 1000000", "5000"), ("BEGIN a.b 2000000", "6000")]), "null 4");
    assert_eq!(
        rates(&[("BEGIN a.b", "5000"), ("BEGIN a.b", "6000"), ("BEGIN a.b 0", "7000")]),
        "null null null"
    );
    // The plugin's own times come before the measured ones.
    assert_eq!(rates(&[("[10]BEGIN a.b", "0"), ("[500010]BEGIN a.b", "1000")]), "null 16");
    assert_eq!(rates(&[("[10]BEGIN a.b", "0"), ("[500010]BEGIN a.b 250000", "1000")]), "null 32");
    assert_eq!(rates(&[("[10]BEGIN a.b", "0"), ("[10]BEGIN a.b", "1000")]), "null null");
    // A reset, a gap, a row that is discarded.
    assert_eq!(
        rates(&[("BEGIN a.b", "9"), ("BEGIN a.b 1000000", "1"), ("BEGIN a.b 1000000", "251")]),
        "null null 2"
    );
    assert_eq!(
        rates(&[("BEGIN a.b", "9"), ("BEGIN a.b 1000000", ""), ("BEGIN a.b 1000000", "99")]),
        "null null null"
    );
    assert_eq!(
        rates(&[("BEGIN a.b", "9"), ("BEGIN a.b 1000000\nFLUSH\nBEGIN a.b 1000000", "1009")]),
        "null null"
    );
    // Large counters differ in little.
    assert_eq!(
        rates(&[("BEGIN a.b", "9223372036854774807"), ("BEGIN a.b 1000000", "9223372036854775807")]),
        "null 8"
    );
}

#[test]
fn shares_are_of_their_own_kind_and_of_something() {
    let chart = "CHART a.b\nDIMENSION x x percentage-of-absolute-row\nDIMENSION y y percentage-of-absolute-row\n\
                 DIMENSION z z absolute\nDIMENSION p p percentage-of-incremental-row\n\
                 DIMENSION q q percentage-of-incremental-row\n";
    let row = |raws: [i64; 5]| {
        let sets: String = "xyzpq".chars().zip(raws).map(|(id, raw)| format!("SET {id} = {raw}\n")).collect();
        format!("BEGIN a.b\n{sets}END\n")
    };
    assert_eq!(
        values(&format!(
            "{chart}{}{}{}{}",
            row([1, 3, 50, 100, 200]),
            row([0, 0, 50, 110, 230]),
            row([0, 5, 50, 110, 230]),
            row([2, 6, 50, 50, 240]),
        )),
        ["25 75 50 null null", "null null 50 25 75", "0 100 50 null null", "25 75 50 null 100"]
    );
}

#[test]
fn charts_and_dimensions_come_and_go() {
    let answers = values(
        "CHART b.b\nDIMENSION d\nCHART a.a\nDIMENSION d\nDIMENSION e
         BEGIN b.b\nSET d = 1\nEND
         BEGIN a.a\nSET e = 3\nSET d = 2\nEND
         CHART b.b '' title\nDIMENSION f
         BEGIN b.b\nSET f = 4\nEND
         CHART a.a\nDIMENSION d d absolute 1 1 obsolete
         CHART b.b '' '' '' '' '' '' '' '' obsolete\nDIMENSION d
         BEGIN a.a\nSET e = 5\nEND
         CHART b.b\nDIMENSION g\nBEGIN b.b\nSET g = 6\nEND",
    );
    assert_eq!(answers, ["1", "2 3 | 1", "2 3 | null 4", "5", "5 | 6"]);
}

#[test]
fn a_line_that_is_wrong_is_left_out() {
    let good = "CHART a.b\nDIMENSION d\nBEGIN a.b\nSET d = 1\nEND\n";
    for (lines, why) in [
        ("hello world", "is no line of Netdata's"),
        ("CHART nodot", "has no chart id"),
        ("CHART", "has no chart id"),
        ("CHART .x", "has no chart id"),
        ("CHART a.b\nDIMENSION", "`DIMENSION` has no id"),
        ("CHART a.b\nDIMENSION e e absolute x", "a multiplier that is no whole number"),
        ("CHART a.b\nDIMENSION e e absolute 1 1.5", "a divisor that is no whole number"),
        ("BEGIN no.such\nSET d = 2\nEND", "about a chart that is not defined"),
        ("BEGIN a.b\nSET e = 1", "about a dimension that is not defined"),
        ("BEGIN a.b\nSET d = x", "has a value that is no number"),
        ("SET d = 1", "comes before any BEGIN"),
        ("END", "comes before any BEGIN"),
        ("BEGIN a.b\nBEGIN a.b\nEND", "comes before the END of the row before"),
        ("BEGIN a.b\nCHART a.b '' '' '' '' '' '' '' '' obsolete\nSET d = 1", "that is obsolete"),
    ] {
        check_parts(
            Format::Netdata,
            &[
                (&format!("{good}{lines}\n"), "but 1 record was left out: line "),
                (&format!("{good}{lines}\n"), why),
            ],
        );
    }
    check_parts(
        Format::Netdata,
        &[
            (
                "DIMENSION d",
                "failed: the output has no good rows: line 1: `DIMENSION d` comes before any CHART; expected CHART",
            ),
            (
                "what\nis this",
                "failed: the output has no good rows among 2: line 1: `what` is no line of Netdata's; expected",
            ),
            (
                &format!("{good}DISABLE\n"),
                "failed: the plugin printed DISABLE: it has nothing to collect here",
            ),
        ],
    );
}

#[test]
fn a_stream_answers_at_each_end() {
    let mut lines = Netdata.lines();
    let mut said = |line: &str| shown(lines.line(line.as_bytes()));
    for quiet in ["", "CHART a.b 'name' 'A title' units", "DIMENSION d", "BEGIN a.b", "SET d = 5"] {
        assert_eq!(said(quiet), "nothing", "{quiet}");
    }
    let answer =
        r#"{"a.b":{"title":"A title","units":"units","dimensions":{"d":{"name":"d","value":5,"raw":5}}}}"#;
    assert_eq!(said("END"), answer);
    assert_eq!(said("oops"), "nothing but 1 record was left out: `oops` is no line of Netdata's");
    said("BEGIN a.b 1000000");
    said("SET d = 6");
    assert_eq!(said("END"), answer.replace('5', "6"));
    assert_eq!(said("DISABLE"), "failed: the plugin printed DISABLE: it has nothing to collect here");
    assert!(lines.line(b"\xff").is_err());
    // Another process begins anew.
    assert_eq!(
        shown(Netdata.lines().line(b"END")),
        "nothing but 1 record was left out: `END` comes before any BEGIN"
    );
}

#[test]
fn words_are_taken_apart_as_netdata_does_it() {
    for (line, words) in [
        ("SET a = 1", vec!["SET", "a", "1"]),
        ("SET a=1\r\n", vec!["SET", "a", "1"]),
        ("  CHART 'a b' \"c 'd'\" ''\te", vec!["CHART", "a b", "c 'd'", "", "e"]),
        ("X 'open end ", vec!["X", "open end "]),
        ("X it's", vec!["X", "it's"]),
        ("= =", vec![]),
    ] {
        assert_eq!(words::split(line), words, "{line:?}");
    }
    assert_eq!(words::split(&"a ".repeat(1_000)).len(), 20);
}

#[test]
fn the_memory_of_a_stream_is_bounded() {
    let mut reader = Reader::default();
    let mut refused = 0;
    for n in 0..100_000 {
        for line in [format!("CHART a.c{n}"), format!("DIMENSION d{}", n % 10)] {
            refused += usize::from(matches!(reader.line(&line, None), Err(Problem::Bad(_))));
        }
    }
    assert!(refused > 90_000 && reader.charts.len() < 10_000);
    // A removed chart makes room, and all of its memory is given back.
    for n in 0..100_000 {
        let _ = reader.line(&format!("CHART a.c{n} '' '' '' '' '' '' '' '' obsolete"), None);
    }
    assert_eq!((reader.held_bytes, reader.charts.len()), (0, 0));
    let many: String =
        (0..2_000).map(|n| format!("CHART a.c{n} '' 'a title'\nBEGIN a.c{n}\nEND\n")).collect();
    assert!(probe::read(Format::Netdata, &many, 0).unwrap_err().contains("more than 65536 bytes"));
}

const RIGHT: [&str; 4] = [
    "CHART a.b '' 'A title' units fam ctx line 1 1\nDIMENSION d '' incremental 8 1000\nDIMENSION e",
    "BEGIN a.b 1000000\nSET d = 5\nSET e = 1.5\nEND",
    "CHART a.b\nDIMENSION d d percentage-of-incremental-row\nDIMENSION e e percentage-of-absolute-row",
    "CHART x.y '' '' '' '' '' '' '' '' obsolete\nDIMENSION d d absolute 1 1 obsolete\nFLUSH",
];
const TOKENS: [&str; 20] = [
    "CHART ",
    "DIMENSION ",
    "BEGIN ",
    "SET ",
    "END\n",
    "FLUSH\n",
    "DISABLE\n",
    "a.b ",
    "d ",
    "= ",
    "'",
    "\"",
    "\n",
    "9223372036854775807 ",
    "-9223372036854775808 ",
    "0 ",
    "obsolete",
    "incremental ",
    "1e300 ",
    "ä",
];

proptest! {
    #![proptest_config(ProptestConfig { cases: 3_000, ..ProptestConfig::default() })]
    #[test]
    fn any_output_is_read_or_rejected(output in outputs(&RIGHT, &TOKENS)) {
        holds(Netdata.read(Output { stdout: &output, exit: 0 }))?;
    }

    #[test]
    fn any_stream_is_read_or_rejected(outputs in prop::collection::vec(outputs(&RIGHT, &TOKENS), 1..6)) {
        let mut lines = Netdata.lines();
        for line in outputs.concat().split(|&byte| byte == b'\n') {
            holds(lines.line(line))?;
        }
    }

    #[test]
    fn the_memory_of_a_stream_is_counted_right(outputs in prop::collection::vec(outputs(&RIGHT, &TOKENS), 1..6)) {
        let mut reader = Reader::default();
        for line in String::from_utf8_lossy(&outputs.concat()).lines() {
            let _ = reader.line(line, None);
        }
        let held: usize = reader.charts.iter().map(|(id, chart)| chart.held(id)).sum();
        prop_assert_eq!(reader.held_bytes, held);
    }
}

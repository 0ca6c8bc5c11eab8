//! Tables of what becomes of lines of pairs, and what holds for any bytes.
#![allow(clippy::unwrap_used)]

use std::time::{Duration, Instant};

use estimand_api::registration::Format;
use proptest::prelude::*;

use crate::build::testing::{check_bytes, check_stream, check_table, read};

#[test]
fn lines_are_rows_of_pairs() {
    check_table(
        Format::Logfmt,
        &[
            ("a=1 b=x\n", r#"{"rows":[{"a":1,"b":"x"}]}"#),
            ("  a=1\t b=x \r\n\n a=2\r\n", r#"{"rows":[{"a":1,"b":"x"},{"a":2}]}"#),
            ("a.b-c/d@ä=1", r#"{"rows":[{"a.b-c/d@ä":1}]}"#),
            ("url=/x?a=b&c==", r#"{"rows":[{"url":"/x?a=b&c=="}]}"#),
            ("a= b=\"\" c", r#"{"rows":[{"a":null,"b":"","c":true}]}"#),
            (
                "t=true f=false n=null i=9007199254740993 d=-0.50 e=1e5 z=007 p=+1 h=1e999 x=NaN q=\"1\"",
                r#"{"rows":[{"t":true,"f":false,"n":"null","i":9007199254740993,"d":-0.50,"e":1e5,"z":"007","p":"+1","h":"1e999","x":"NaN","q":"1"}]}"#,
            ),
            (
                r#"a="x = \"y\" \\ \n\t\/ \u00e4\ud83d\ude00 ä" b=1"#,
                "{\"rows\":[{\"a\":\"x = \\\"y\\\" \\\\ \\n\\t/ ä\u{1f600} ä\",\"b\":1}]}",
            ),
            ("a=\"x\ty\"", r#"{"rows":[{"a":"x\ty"}]}"#),
            ("\n \n", "nothing"),
        ],
    );
}

#[test]
fn a_bad_line_is_left_out() {
    let one = r#"{"rows":[{"a":1}]} | 1: line 2: "#;
    let left_out = |line: &str, reason: &str| {
        check_table(Format::Logfmt, &[(&format!("a=1\n{line}\n"), &format!("{one}{reason}"))]);
    };
    left_out("starting up", "`starting up` has no `=`; expected pairs such as load=0.5 state=\"all well\"");
    left_out("b=2 =3", "`=3` begins with no key; expected one such as load=0.5");
    left_out("\"b\"=2", "`\"b\"=2` begins with no key; expected one such as load=0.5");
    left_out("b\"c=2", "`b\"c=2` begins with no key; expected one such as load=0.5");
    left_out("b=c\"d\"", "the value `c\"d\"` has a quote inside; expected quotes around it");
    left_out("b=\"c\"d", "`d` follows a closing quote; expected a space");
    left_out("b=\"c d", "the quote before `c d` is never closed; expected one on the same line");
    left_out("b=\"c\\", "`\\` is no escape; expected one as in JSON, such as \\\" or \\n");
    left_out("b=\"\\x41\"", "`\\x` is no escape; expected one as in JSON, such as \\\" or \\n");
    left_out("b=\"\\ud800 a\"", "`\\ud800 a\"` is no escape; expected one as in JSON, such as \\\" or \\n");
    left_out("b=\"\\u00\"", "`\\u00\"` is no escape; expected one as in JSON, such as \\\" or \\n");
    check_table(
        Format::Logfmt,
        &[
            // A key that comes again takes nothing from the rest of its line.
            (
                "a=1 b=2 a=3 a c=4",
                "{\"rows\":[{\"a\":1,\"b\":2,\"c\":4}]} | 2: line 1: the key `a` comes twice; expected each once & line 1: the \
                 key `a` comes twice; expected each once",
            ),
            (
                "up 3 days",
                "failed: the output has no good lines: line 1: `up 3 days` has no `=`; expected pairs such as load=0.5 \
                 state=\"all well\"",
            ),
        ],
    );
}

#[test]
fn a_stream_has_a_row_a_line() {
    check_stream(
        Format::Logfmt,
        &[("a=1\r", r#"{"rows":[{"a":1}]}"#), ("", "nothing"), ("b=\"x y\"\n", r#"{"rows":[{"b":"x y"}]}"#)],
    );
}

#[test]
fn an_output_is_bounded_and_read_in_linear_time() {
    let keys: String = (0..100_000).map(|key| format!("k{key}=1 ")).collect();
    let texts = [
        "a=1\n".repeat(250_000),
        keys,
        format!("a=\"{}\"", "\\n".repeat(500_000)),
        format!("a=1\n{}", "b=\"\n".repeat(20_000)),
        format!("a=1{}b", " ".repeat(1_000_000)),
        "a ".repeat(500_000),
    ];
    for text in texts {
        let start = Instant::now();
        if let Err(message) = read(Format::Logfmt, &text) {
            assert!(message.contains("; expected "), "{message}");
        }
        assert!(start.elapsed() < Duration::from_secs(60), "{}", &text[..10]);
    }
    assert!(read(Format::Logfmt, &"a\n".repeat(20_001)).unwrap_err().contains("more than 20000 lines"));
    assert!(read(Format::Logfmt, &"a=1\n".repeat(20_000)).unwrap_err().contains("more than 65536 bytes"));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1_000, ..ProptestConfig::default() })]

    #[test]
    fn written_records_come_back(
        rows in prop::collection::vec(
            prop::collection::btree_map("[a-zä.]{1,4}", prop_oneof!["\\PC{0,6}", "[\" =\\\\\n\t]{0,6}"], 1..4),
            1..5,
        )
    ) {
        let line = |row: &std::collections::BTreeMap<String, String>| {
            let pairs: Vec<String> = row.iter().map(|(key, text)| format!("{key}={}", serde_json::json!(text))).collect();
            pairs.join(" ")
        };
        let text = rows.iter().map(line).collect::<Vec<_>>().join("\n");
        let reading = read(Format::Logfmt, &text).unwrap();
        prop_assert_eq!(reading.rejected.count, 0);
        let crate::Answer::One(json) = reading.answer else { panic!("no rows of {text:?}") };
        let json: serde_json::Value = serde_json::from_str(&json).unwrap();
        prop_assert_eq!(json, serde_json::json!({ "rows": rows }));
    }

    #[test]
    fn any_pairs_are_read_soundly(tokens in prop::collection::vec(prop::sample::select(vec![
        "a", "b", "=", "=", "\"", "\\", "\\\"", "\\u", "d800", "\n", " ", " ", "\t", "1", "true", "ä", "\u{a0}", "\u{2028}",
    ]), 0..40)) {
        check_bytes(Format::Logfmt, tokens.concat().as_bytes());
    }

    #[test]
    fn any_bytes_are_read_soundly(bytes in prop::collection::vec(any::<u8>(), 0..60)) {
        check_bytes(Format::Logfmt, &bytes);
    }
}

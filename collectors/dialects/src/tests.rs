//! Tables of what each dialect makes of an output, and what holds for any bytes.
#![allow(clippy::unwrap_used)]

use estimand_api::json::{compact, parse_document};
use proptest::prelude::*;

use super::*;

fn read(format: Format, output: &str) -> Result<Answer, String> {
    read_bytes(format, output.as_bytes())
}

fn read_bytes(format: Format, output: &[u8]) -> Result<Answer, String> {
    of(format).read(Output { stdout: output, exit: 0 }).map(|reading| reading.answer)
}

/// The value, or else the message.
fn shown(format: Format, output: &str) -> String {
    match read(format, output) {
        Ok(Answer::One(json)) => json.into(),
        Ok(Answer::Nothing) => "nothing".to_owned(),
        Ok(Answer::PerNode(values)) => format!("{values:?}"),
        Err(message) => format!("failed: {message}"),
    }
}

pub(crate) fn check_table(format: Format, table: &[(&str, &str)]) {
    for (output, expected) in table {
        assert_eq!(shown(format, output), *expected, "{output:?}");
    }
}

pub(crate) fn check_failures(format: Format, table: &[(&str, &str)]) {
    for (output, part) in table {
        let message = read(format, output).unwrap_err();
        assert!(message.contains(part), "{output:?}: {message}");
        assert!(message.contains("; expected "), "{output:?}: {message}");
        assert!(message.len() < 400 && !message.contains('\n'), "{output:?}: {message}");
    }
}

#[test]
fn the_catalogue_has_each_format_once_by_its_name_and_as_the_readme_has_it() {
    let readme = include_str!("../README.md");
    let rows = readme.lines().filter(|line| line.starts_with("| `")).map(|line| {
        let mut cells = line.split('|').skip(1).map(str::trim);
        let name = cells.next().unwrap().trim_end_matches(" (default)");
        (name.trim_matches('`'), cells.next().unwrap())
    });
    let catalogue: Vec<(&str, &str)> = ALL.iter().map(|kind| (kind.name, kind.about)).collect();
    assert_eq!(rows.take(ALL.len()).collect::<Vec<_>>(), catalogue);
    for kind in ALL {
        let format: Format = serde_json::from_str(&format!("\"{}\"", kind.name)).unwrap();
        assert_eq!(format, kind.format);
        assert_eq!(find(format).name, kind.name);
    }
}

#[test]
fn white_space_says_nothing_in_every_format() {
    for format in ALL.iter().map(|kind| kind.format) {
        for output in ["", "\n", " \t\r\n ", "\u{feff}\n"] {
            assert_eq!(read(format, output), Ok(Answer::Nothing), "{format:?} {output:?}");
        }
    }
}

#[test]
fn bytes_that_are_no_text_are_named_in_every_format() {
    let check = |output: &[u8], expected: &str| {
        for format in ALL.iter().map(|kind| kind.format) {
            assert_eq!(read_bytes(format, output).unwrap_err(), expected);
        }
    };
    check(b"\xff", "the output is not UTF-8: byte 0 is 0xff; expected text in UTF-8");
    check(
        b"load 0.5\xc3",
        "the output is not UTF-8: byte 8 is 0xc3, after `load 0.5`; expected text in UTF-8",
    );
    check(b"\n\xe4 \0", "the output is not UTF-8: byte 1 is 0xe4; expected text in UTF-8");
    check(b"1\0\xff", "the output has a NUL at byte 1, after `1`; expected text without control bytes");
}

#[test]
fn auto_is_json_if_it_can_be_and_text_else() {
    check_table(
        Format::Auto,
        &[
            ("0.50\n", "0.50"),
            ("1e5", "1e5"),
            ("-0", "-0"),
            ("12345678901234567890123.10", "12345678901234567890123.10"),
            ("true", "true"),
            ("null", "null"),
            ("\"a b\"\r\n", "\"a b\""),
            ("{ \"a\" : [ 1, 2 ] }\n", "{\"a\":[1,2]}"),
            ("\u{feff}{}", "{}"),
            ("up 3 days", "\"up 3 days\""),
            ("  two\nlines \n\n", "\"two\\nlines\""),
            ("say \"x\\y\"", "\"say \\\"x\\\\y\\\"\""),
            ("007", "\"007\""),
            ("1.", "\"1.\""),
            (".5", "\".5\""),
            ("+1", "\"+1\""),
            ("0x1f", "\"0x1f\""),
            ("NaN", "\"NaN\""),
            ("-inf", "\"-inf\""),
            ("True", "\"True\""),
            ("nullable", "\"nullable\""),
            ("1 2", "\"1 2\""),
            ("0.1 0.2 0.3 1/100 7", "\"0.1 0.2 0.3 1/100 7\""),
            ("12:30", "\"12:30\""),
            ("2026-01-01", "\"2026-01-01\""),
            ("}", "\"}\""),
        ],
    );
    check_failures(
        Format::Auto,
        &[
            (
                "{\"a\":1} oops",
                "goes on after its JSON document with `oops`; expected exactly one JSON document, or the format `text`",
            ),
            ("{\"a\":1}\n{\"b\":2}", "more than one JSON document; the second one begins with `{\"b\":2}`"),
            ("[1][2] x", "more than one JSON document"),
            ("{\"a\":", "it ends with `{\"a\":`"),
            ("{a: 1}", "line 1 column 2, near `a: 1}`"),
            ("[warn] disk is full", "near `warn] disk is full`"),
            ("\"quoted\" words", "goes on after its JSON document with `words`"),
            ("\"half", "the output is not JSON"),
            ("[1,NaN]", "near `NaN]`"),
            ("{\"a\":1,\"a\":2}", "has the key `a` twice"),
            ("{\"a\\nb\":1,\"a\\nb\":2}", "has the key `a⏎b` twice"),
            ("1e999", "has the number 1e999"),
            ("\"\\ud800\"", "half a surrogate pair"),
            ("[\n1,\n2,\n]", "line 4 column 1, near `]`"),
        ],
    );
}

#[test]
fn json_is_one_document() {
    check_table(Format::Json, &[("\t[ 1 , \"ä b\" ]\n", "[1,\"ä b\"]"), ("null", "null"), ("0", "0")]);
    let deep = "[".repeat(65) + &"]".repeat(65);
    check_failures(
        Format::Json,
        &[
            ("up 3 days", "near `up 3 days`"),
            ("007", "is not JSON: invalid number at line 1 column 2, near `07`"),
            ("1 2", "more than one JSON document; the second one begins with `2`"),
            ("ä", "near `ä`"),
            ("{\"ä\": ö}", "near `ö}`"),
            (&deep, "nests deeper than 64 levels"),
            (&"[".repeat(100_000), "the output is not JSON"),
        ],
    );
}

#[test]
fn text_is_taken_as_it_is() {
    check_table(
        Format::Text,
        &[
            ("{\"a\":", "\"{\\\"a\\\":\""),
            ("12", "\"12\""),
            (" a\tb \n", "\"a\\tb\""),
            ("\u{1b}[31mred\u{7f}", "\"\\u001b[31mred\u{7f}\""),
            ("π", "\"π\""),
        ],
    );
}

#[test]
fn a_number_keeps_its_digits() {
    check_table(
        Format::Number,
        &[
            ("42\n", "42"),
            (" -0.50 ", "-0.50"),
            ("+3", "3"),
            ("1e5", "1e5"),
            ("1E-7", "1E-7"),
            (".5", "0.5"),
            ("-.5", "-0.5"),
            ("+.5", "0.5"),
            ("0", "0"),
            ("-0", "-0"),
            ("12345678901234567890123", "12345678901234567890123"),
        ],
    );
    check_failures(
        Format::Number,
        &[
            ("nan", "`nan` is not a finite number"),
            ("-Infinity", "is not a finite number"),
            ("1e999", "has the number 1e999, which is larger"),
            ("0x1F", "is hexadecimal"),
            ("42 %", "has something after its number; expected the number alone"),
            ("17ms", "without a unit"),
            ("1e", "has something after its number"),
            ("3,14", "has a comma"),
            ("1,234.5", "has a comma"),
            ("007", "has a leading zero"),
            ("1.", "no digit after its point"),
            ("1\n2", "`1⏎2` has more than one number"),
            ("0.1 .2", "more than one number"),
            ("+-1", "is not a number"),
            ("--1", "is not a number"),
            ("-", "is not a number"),
            (".", "no digit after its point"),
            ("\"1\"", "is not a number"),
            ("true", "is not a number"),
            ("[1]", "is not a number"),
            ("load: 1", "is not a number"),
        ],
    );
}

#[test]
fn nodes_are_an_object_of_values() {
    check_table(
        Format::Nodes,
        &[
            ("{}", "nothing"),
            (
                "{ \"n-2\": 1.50, \"n\\u0031\": {\"a\": null} }",
                "[(\"n-2\", \"1.50\"), (\"n1\", \"{\\\"a\\\":null}\")]",
            ),
        ],
    );
    check_failures(
        Format::Nodes,
        &[
            ("[1]", "is not an object but `[1]`"),
            ("7", "is not an object but `7`"),
            ("{\"n\":1,\"n\":2}", "has the key `n` twice"),
            ("{\"n\":1} {\"m\":1}", "more than one JSON document"),
            ("{\"ok\":1,\"a/b\":1,\"\":2}", "not node names: `a/b`, ``; expected 1 to 253 of letters"),
            ("{\"a b\":1,\"b b\":1,\"c b\":1,\"d b\":1,\"e b\":1}", "`a b`, `b b`, `c b` and 2 more;"),
        ],
    );
}

#[test]
fn a_value_has_a_size() {
    let letters = |bytes: usize| "x".repeat(bytes);
    assert!(read(Format::Text, &letters(MAX_VALUE_BYTES - 2)).is_ok());
    let message = read(Format::Text, &letters(MAX_VALUE_BYTES)).unwrap_err();
    assert!(message.starts_with("the text has 65538 bytes as JSON; at most 65536 are kept"), "{message}");
    // Escapes count, white space between tokens does not.
    assert!(read(Format::Auto, &"\\".repeat(MAX_VALUE_BYTES / 2)).is_err());
    assert!(read(Format::Json, &format!("[1,{}2]", " ".repeat(2 * MAX_VALUE_BYTES))).is_ok());
    assert!(read(Format::Number, &"1".repeat(MAX_VALUE_BYTES + 1)).is_err());
    let two = format!("{{\"a\":1,\"b\":\"{}\"}}", letters(MAX_VALUE_BYTES));
    let message = read(Format::Nodes, &two).unwrap_err();
    assert!(message.starts_with("the value of node `b` has 65538 bytes"), "{message}");
    // The bound is on each value, not on all of them.
    let many: Vec<String> = (0..10).map(|n| format!("\"n{n}\":\"{}\"", letters(60_000))).collect();
    assert!(read(Format::Nodes, &format!("{{{}}}", many.join(","))).is_ok());
}

fn outputs() -> impl Strategy<Value = Vec<u8>> {
    let token = prop::sample::select(vec![
        "{", "}", "[", "]", "\"", ":", ",", "\\", "\\u", "d800", "null", "true", "1", "0", "-", "+", ".",
        "e", "9e99", "99", "nan", "n1", "a/b", "ä", "\u{feff}", "\u{a0}", "\u{2028}", " ", "\n", "\t",
        "\u{1b}",
    ]);
    let soup = prop::collection::vec(token, 0..24).prop_map(|tokens| tokens.concat().into_bytes());
    let object = prop::collection::btree_map("[a-z0-9./]{0,4}", "[0-9]{1,3}|\"[a-zä ]{0,4}\"|\\[\\]", 0..5)
        .prop_map(|map| {
            let members: Vec<String> =
                map.iter().map(|(key, value)| format!(" \"{key}\" : {value}")).collect();
            format!("{{{} }}\n", members.join(",")).into_bytes()
        });
    prop_oneof![
        prop::collection::vec(any::<u8>(), 0..40),
        soup,
        object,
        "\\PC{0,40}".prop_map(String::into_bytes)
    ]
}

/// The formats without a property test of their own.
const FORMATS: [Format; 8] = [
    Format::Auto,
    Format::Text,
    Format::Json,
    Format::Number,
    Format::Nodes,
    Format::Prometheus,
    Format::Csv,
    Format::Logfmt,
];

proptest! {
    #![proptest_config(ProptestConfig { cases: 5_000, ..ProptestConfig::default() })]
    #[test]
    fn every_value_is_json_that_every_reader_can_take(output in outputs()) {
        for format in FORMATS {
            let values = match read_bytes(format, &output) {
                Ok(Answer::Nothing) => vec![],
                Ok(Answer::One(json)) => vec![json],
                Ok(Answer::PerNode(values)) => {
                    prop_assert!(!values.is_empty());
                    values.into_iter().map(|(_, json)| json).collect()
                }
                Err(message) => {
                    prop_assert!(!message.contains('\n') && message.chars().count() < 300, "{}", message);
                    vec![]
                }
            };
            for json in values {
                prop_assert!(parse_document(json.as_bytes()).is_ok(), "{}", json);
                prop_assert_eq!(compact(&json).unwrap(), &*json);
            }
        }
    }
}

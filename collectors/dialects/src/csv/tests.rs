//! Tables of what becomes of a text with separators, and what holds for any bytes.
#![allow(clippy::unwrap_used)]

use std::time::{Duration, Instant};

use estimand_api::registration::Format;
use proptest::prelude::*;

use crate::build::testing::{check_bytes, check_stream, check_table, read};

#[test]
fn rows_are_objects_by_the_header() {
    check_table(
        Format::Csv,
        &[
            ("a,b\n1,x\n", r#"{"rows":[{"a":1,"b":"x"}]}"#),
            ("a;b\n1;x,y", r#"{"rows":[{"a":1,"b":"x,y"}]}"#),
            ("a\tb\n1\tx y\n", r#"{"rows":[{"a":1,"b":"x y"}]}"#),
            ("a\r\n1\r\n\r\n2\r\n", r#"{"rows":[{"a":1},{"a":2}]}"#),
            ("\u{feff}\n \na, b \n 1 , x  y \n", r#"{"rows":[{"a":1,"b":"x  y"}]}"#),
            // The separator that the header has most of, outside of quotes.
            ("a;\"b,c,d\";e\n1;2;3", r#"{"rows":[{"a":1,"b,c,d":2,"e":3}]}"#),
            ("\"a\"\"b\",\"c\nd\"\n1,2", r#"{"rows":[{"a\"b":1,"c\nd":2}]}"#),
            ("a,b\n", "nothing"),
            ("a,b", "nothing"),
            (" \r\n\n", "nothing"),
            ("\t\n", "nothing"),
        ],
    );
}

#[test]
fn cells_have_types() {
    let cell = |text: &str| {
        let json = crate::build::testing::shown(read(Format::Csv, &format!("a,b\n{text},")));
        json.strip_prefix(r#"{"rows":[{"a":"#)
            .and_then(|json| json.strip_suffix(r#","b":null}]}"#))
            .map(str::to_owned)
    };
    for (text, json) in [
        ("1", "1"),
        ("-0.50", "-0.50"),
        ("9007199254740993", "9007199254740993"),
        ("12345678901234567890123.10", "12345678901234567890123.10"),
        ("1e5", "1e5"),
        ("true", "true"),
        ("false", "false"),
        ("", "null"),
        ("\"\"", "\"\""),
        ("\"1\"", "\"1\""),
        (" \"1\" ", "\"1\""),
        ("null", "\"null\""),
        ("True", "\"True\""),
        ("007", "\"007\""),
        ("+1", "\"+1\""),
        (".5", "\".5\""),
        ("1e999", "\"1e999\""),
        ("NaN", "\"NaN\""),
        ("0x1f", "\"0x1f\""),
        ("\"a,\"\"b\"\"\r\nc\"", "\"a,\\\"b\\\"\\r\\nc\""),
        ("ä\tö", "\"ä\\tö\""),
    ] {
        assert_eq!(cell(text).as_deref(), Some(json), "{text:?}");
    }
    // Tabs at the ends of a row are empty cells.
    check_table(
        Format::Csv,
        &[("a\tb\tc\n1\t\t\n\t\t", r#"{"rows":[{"a":1,"b":null,"c":null},{"a":null,"b":null,"c":null}]}"#)],
    );
}

#[test]
fn a_bad_row_is_left_out() {
    check_table(
        Format::Csv,
        &[
            (
                "a,b\n1\n1,2\n1,2,3\n\n3,4",
                r#"{"rows":[{"a":1,"b":2},{"a":3,"b":4}]} | 2: line 2: 1 cells; expected 2 as in the header & line 4: 3 cells; expected 2 as in the header"#,
            ),
            (
                "a,b\n\"x\ny\",1\n\"x\n\"y,2\n3,4\n",
                "{\"rows\":[{\"a\":\"x\\ny\",\"b\":1},{\"a\":3,\"b\":4}]} | 1: line 4: `y,2` follows a closing quote; \
                 expected the separator or the end of the line",
            ),
            (
                "a,b\n5\" disk,1\n1,2\n",
                "{\"rows\":[{\"a\":1,\"b\":2}]} | 1: line 2: `5\" disk` has a quote inside; expected quotes around the cell",
            ),
            // An open quote could hold anything.
            (
                "a,b\n1,2\n\"x,1\n2,3\n",
                "{\"rows\":[{\"a\":1,\"b\":2}]} | 1: line 3: the quote before `x,1⏎2,3⏎` is never closed; expected one \
                 behind the cell",
            ),
            ("a,b\n1\n", "failed: the output has no good rows: line 2: 1 cells; expected 2 as in the header"),
        ],
    );
}

#[test]
fn a_bad_header_is_a_failure() {
    check_table(
        Format::Csv,
        &[
            ("a,b,a\n1,2,3", "failed: the header has the column `a` twice; expected each name once"),
            ("a,\"a\"", "failed: the header has the column `a` twice; expected each name once"),
            ("a,,c\n1,2,3", "failed: the column 2 has no name in the header; expected one for each"),
            (
                "\"a\n1",
                "failed: line 1: the quote before `a⏎1` is never closed; expected one behind the cell",
            ),
        ],
    );
}

#[test]
fn a_stream_has_a_row_a_line() {
    check_stream(
        Format::Csv,
        &[
            ("", "nothing"),
            ("a;b\r", "nothing"),
            ("1;x\r\n", r#"{"rows":[{"a":1,"b":"x"}]}"#),
            ("", "nothing"),
            ("1", "failed: the output has no good rows: line 1: 1 cells; expected 2 as in the header"),
            (
                "\"x;2",
                "failed: the output has no good rows: line 1: the quote before `x;2` is never closed; expected one behind \
                 the cell",
            ),
            ("2;", r#"{"rows":[{"a":2,"b":null}]}"#),
        ],
    );
    // Rows cannot be told by a bad header, and no later line is taken for one.
    let problem = "failed: the header has the column `a` twice; expected each name once";
    check_stream(Format::Csv, &[("a,a", problem), ("1,2", problem)]);
}

#[test]
fn an_output_is_bounded_and_read_in_linear_time() {
    let texts = [
        format!("a\n{}", "1\n".repeat(500_000)),
        format!("{}\n{}", "x".repeat(500_000), "1\n".repeat(20_000)),
        format!("a,b\n{}", "\"\n".repeat(500_000)),
        format!("a,b\n{}{}", "\"\"x\n".repeat(19_000), " ".repeat(900_000)),
        format!("a\n{}", "\"\"".repeat(500_000)),
        ",".repeat(1_000_000),
    ];
    for text in texts {
        let start = Instant::now();
        let message = read(Format::Csv, &text).unwrap_err();
        assert!(message.contains("; expected "), "{message}");
        assert!(start.elapsed() < Duration::from_secs(60), "{}", &text[..10]);
    }
    // A row whose cells do not fit by far, and 20,000 that would.
    assert!(
        read(Format::Csv, &format!("a\n{}", "1\n".repeat(20_000)))
            .unwrap_err()
            .contains("more than 65536 bytes")
    );
    assert!(
        read(Format::Csv, &format!("a,b\n{}", "1\n".repeat(20_001)))
            .unwrap_err()
            .contains("more than 20000 rows")
    );
}

/// A cell as it must be written to be this text, whatever it is.
fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('"', "\"\""))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1_000, ..ProptestConfig::default() })]

    #[test]
    fn written_records_come_back(
        width in 1_usize..4,
        cells in prop::collection::vec(prop_oneof!["\\PC{0,6}", "[\",;\t\r\n a]{0,6}"], 3..24),
        separator in prop::sample::select(vec![",", ";", "\t"]),
        end in prop::sample::select(vec!["\n", "\r\n"]),
    ) {
        let header: Vec<String> = (0..width).map(|column| format!("c{column}")).collect();
        let mut text = header.join(separator) + end;
        for row in cells.chunks_exact(width) {
            text += &(row.iter().map(|cell| quoted(cell)).collect::<Vec<_>>().join(separator) + end);
        }
        let reading = read(Format::Csv, &text).unwrap();
        prop_assert_eq!(reading.rejected.count, 0);
        let crate::Answer::One(json) = reading.answer else { panic!("no rows of {text:?}") };
        let json: serde_json::Value = serde_json::from_str(&json).unwrap();
        let back: Vec<&str> = json["rows"].as_array().unwrap().iter()
            .flat_map(|row| header.iter().map(move |name| row[name].as_str().unwrap()))
            .collect();
        let whole = cells.len() / width * width;
        prop_assert_eq!(back, cells[..whole].iter().map(String::as_str).collect::<Vec<_>>());
    }

    #[test]
    fn any_cells_are_read_soundly(tokens in prop::collection::vec(prop::sample::select(vec![
        "a", "b", ",", ",", ";", "\t", "\"", "\"\"", "\n", "\n", "\r\n", " ", "1", "ä", "\u{feff}", "\u{a0}", "1e999",
    ]), 0..40)) {
        check_bytes(Format::Csv, tokens.concat().as_bytes());
    }

    #[test]
    fn any_bytes_are_read_soundly(bytes in prop::collection::vec(any::<u8>(), 0..60)) {
        check_bytes(Format::Csv, &bytes);
    }
}

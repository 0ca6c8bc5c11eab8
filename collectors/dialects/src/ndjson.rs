//! `ndjson`: a line is a JSON document, and a row.
//!
//! A document is kept to the letter but for white space. A line that is none is left out.

use estimand_api::registration::Format;

use super::build::{MAX_OUTPUT_BYTES, MAX_RECORDS, Rows, none_good, too_many};
use super::{Answer, Dialect, DialectKind, Output, Reading, RejectedRecords, if_said, json};

pub(super) const KIND: DialectKind =
    DialectKind { name: "ndjson", about: "a JSON document a line", format: Format::Ndjson, dialect: &Ndjson };

struct Ndjson;

impl Dialect for Ndjson {
    fn most_output(&self) -> usize {
        MAX_OUTPUT_BYTES
    }

    fn read(&self, output: Output<'_>) -> Result<Reading, String> {
        if_said(output, read)
    }
}

fn read(text: &str) -> Result<Reading, String> {
    let mut rows = Rows::default();
    let mut rejected = RejectedRecords::default();
    let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
    for (count, (number, line)) in lines.enumerate() {
        if count == MAX_RECORDS {
            return Err(too_many("lines"));
        }
        match json::checked(line) {
            Ok(document) => rows.push_json(&document),
            Err(problem) => rejected.push(|| format!("line {}: {problem}", number + 1)),
        }
        if rows.is_full() {
            break;
        }
    }
    if rows.is_empty() {
        Err(none_good("lines", &rejected))
    } else {
        Ok(Reading { answer: Answer::One(rows.finish()?), rejected })
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use crate::tests::{check_failures, check_table};

    use super::*;

    #[test]
    fn each_line_is_a_row() {
        check_table(
            Format::Ndjson,
            &[
                ("{\"a\": 1.10}\r\n\n[2]\n\"x\"\n", r#"{"rows":[{"a":1.10},[2],"x"]}"#),
                ("{\"a\":1}\n{\"a\":\n{\"a\":3}", r#"{"rows":[{"a":1},{"a":3}]}"#),
                ("  \n", "nothing"),
            ],
        );
        let reading = Ndjson.read(Output { stdout: b"1\n{bad\n1 2", exit: 0 }).unwrap();
        assert_eq!(reading.rejected.count, 2);
        assert!(reading.rejected.reasons[0].starts_with("line 2: "), "{:?}", reading.rejected);
    }

    #[test]
    fn an_output_without_any_document_is_a_failure() {
        let large = format!("\"{}\"\n", "x".repeat(60_000)).repeat(2);
        check_failures(Format::Ndjson, &[("hello", "no good lines"), (large.as_str(), "at most")]);
    }
}

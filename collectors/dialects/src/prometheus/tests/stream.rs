//! Documents one behind the other.

use estimand_api::registration::Format;

use crate::build::MAX_OUTPUT_BYTES;
use crate::build::testing::{check_stream, shown};
use crate::of;

const A: &str = r#"{"a":{"type":"unknown","value":1}}"#;

#[test]
fn a_document_ends_with_its_end_or_with_an_empty_line() {
    check_stream(
        Format::Prometheus,
        &[
            ("", "nothing"),
            ("# TYPE a gauge", "nothing"),
            ("a 1", "nothing"),
            ("\r", r#"{"a":{"type":"gauge","value":1}}"#),
            // Nothing of the last document is left.
            ("a 1\r\n", "nothing"),
            ("# EOF", A),
            ("", "nothing"),
            ("# EOF", "nothing"),
            ("a 1", "nothing"),
            ("a x", "nothing"),
            (
                "",
                &format!(
                    "{A} | 1: line 2: the value `x` is no number; expected one such as 1, 2.5e3, NaN or +Inf"
                ),
            ),
            ("a  1", "nothing"),
            (
                "# EOF",
                "failed: the output has no good samples: line 1: a space is followed by no word; expected one space \
                 between words and none at the end",
            ),
            ("a 1", "nothing"),
            ("# EOF", A),
        ],
    );
}

#[test]
fn a_document_without_an_end_is_passed_over() {
    let mut stream = of(Format::Prometheus).lines();
    let line = format!("a{{x=\"{}\"}} 1", "x".repeat(100_000));
    let mut failures = 0;
    for _ in 0..50 {
        match stream.line(line.as_bytes()) {
            Ok(reading) => assert_eq!(shown(Ok(reading)), "nothing"),
            Err(message) => {
                assert!(message.starts_with(&format!("a document has more than {MAX_OUTPUT_BYTES} bytes")));
                failures += 1;
            }
        }
    }
    assert_eq!(failures, 1);
    let mut next = |line: &str| shown(stream.line(line.as_bytes()));
    assert_eq!(next("a 2"), "nothing");
    assert_eq!(next(""), "nothing");
    assert_eq!(next("a 1"), "nothing");
    assert_eq!(next(""), A);
}

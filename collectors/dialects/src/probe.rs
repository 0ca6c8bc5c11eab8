//! Shared by the tests of dialects: a reading as one line of text, and outputs that are nearly right.

use estimand_api::json::{compact, parse_document};
use proptest::prelude::*;
use proptest::sample::{Index, select};
use proptest::test_runner::TestCaseError;

use super::*;

/// The value or the failure, and what was left out behind it.
pub(super) fn shown(read: Result<Reading, String>) -> String {
    let reading = match read {
        Ok(reading) => reading,
        Err(message) => return format!("failed: {message}"),
    };
    let answer = match reading.answer {
        Answer::One(json) => json.into(),
        Answer::Nothing => "nothing".to_owned(),
        Answer::PerNode(values) => format!("{values:?}"),
    };
    match reading.rejected.sentence() {
        None => answer,
        Some(sentence) => format!("{answer} but {sentence}"),
    }
}

pub(super) fn read(format: Format, output: &str, exit: i32) -> Result<Reading, String> {
    of(format).read(Output { stdout: output.as_bytes(), exit })
}

/// Outputs of exit 0 and exactly what is shown of them.
#[track_caller]
pub(super) fn check(format: Format, table: &[(&str, &str)]) {
    for (output, expected) in table {
        assert_eq!(shown(read(format, output, 0)), *expected, "{output:?}");
    }
}

/// Outputs of exit 0 and a part of what is shown of them.
#[track_caller]
pub(super) fn check_parts(format: Format, table: &[(&str, &str)]) {
    for (output, part) in table {
        let shown = shown(read(format, output, 0));
        assert!(shown.contains(part), "{output:?}: {shown}");
    }
}

/// Holds for every output.
pub(super) fn holds(read: Result<Reading, String>) -> Result<(), TestCaseError> {
    let message = match read {
        Err(message) => message,
        Ok(reading) => {
            if let Answer::One(json) = reading.answer {
                prop_assert!(json.len() <= MAX_VALUE_BYTES);
                prop_assert!(parse_document(json.as_bytes()).is_ok(), "{}", json);
                prop_assert!(compact(&json).is_ok_and(|text| text == *json), "{}", json);
            }
            reading.rejected.sentence().unwrap_or_default()
        }
    };
    prop_assert!(!message.contains('\n') && message.chars().count() < 600, "{}", message);
    Ok(())
}

/// Any bytes, and right outputs in which a few places were changed with these tokens among others.
pub(super) fn outputs(
    right: &'static [&'static str],
    tokens: &'static [&'static str],
) -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        select(tokens).prop_map(|token| token.as_bytes().to_vec()),
        select(right).prop_map(|line| line.as_bytes().to_vec()),
        prop::collection::vec(any::<u8>(), 0..3),
        "[-0-9.eE+]{1,6}".prop_map(String::into_bytes),
    ];
    let change = (any::<Index>(), 0..12_usize, piece);
    let changed = (prop::collection::vec(select(right), 1..3), prop::collection::vec(change, 0..5)).prop_map(
        |(outputs, changes)| {
            let mut output = outputs.join("\n").into_bytes();
            for (at, length, piece) in changes {
                let start = at.index(output.len() + 1);
                let end = (start + length).min(output.len());
                output.splice(start..end, piece);
            }
            output
        },
    );
    let soup = prop::collection::vec(select(tokens), 0..40).prop_map(|tokens| tokens.concat().into_bytes());
    prop_oneof![1 => prop::collection::vec(any::<u8>(), 0..60), 2 => soup, 4 => changed]
}

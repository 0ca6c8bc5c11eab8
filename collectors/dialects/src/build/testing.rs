//! Shared by the tests of the formats made of records.
#![allow(clippy::unwrap_used)]

use estimand_api::json::{compact, parse_document};
use estimand_api::registration::Format;
use estimand_api::value::MAX_VALUE_BYTES;

use crate::{Answer, Lines, Output, Reading, of};

pub(crate) fn read(format: Format, output: &str) -> Result<Reading, String> {
    of(format).read(Output { stdout: output.as_bytes(), exit: 0 })
}

/// The value, what was left out behind a `|`, or else the message.
pub(crate) fn shown(reading: Result<Reading, String>) -> String {
    let reading = match reading {
        Ok(reading) => reading,
        Err(message) => return format!("failed: {message}"),
    };
    let value = match reading.answer {
        Answer::One(json) => json.into_string(),
        Answer::Nothing => "nothing".to_owned(),
        Answer::PerNode(values) => format!("{values:?}"),
    };
    match reading.rejected.count {
        0 => value,
        count => format!("{value} | {count}: {}", reading.rejected.reasons.join(" & ")),
    }
}

pub(crate) fn check_table(format: Format, table: &[(&str, &str)]) {
    for (output, expected) in table {
        assert_eq!(shown(read(format, output)), *expected, "{output:?}");
    }
}

/// Each line of a stream with what is shown for it.
pub(crate) fn check_stream(format: Format, lines: &[(&str, &str)]) {
    let mut stream: Box<dyn Lines> = of(format).lines();
    for (line, expected) in lines {
        assert_eq!(shown(stream.line(line.as_bytes())), *expected, "{line:?}");
    }
}

/// Holds for every input: values that every reader can take, messages that people can.
pub(crate) fn check_sound(reading: Result<Reading, String>) {
    let messages = match reading {
        Err(message) => vec![message],
        Ok(Reading { answer, rejected }) => {
            match answer {
                Answer::Nothing => {}
                Answer::One(json) => {
                    assert!(json.len() <= MAX_VALUE_BYTES);
                    parse_document(json.as_bytes()).unwrap();
                    assert_eq!(compact(&json).unwrap(), *json);
                }
                Answer::PerNode(_) => panic!("a value for each node"),
            }
            assert!(rejected.reasons.len() <= rejected.count);
            rejected.reasons
        }
    };
    for message in messages {
        assert!(message.contains("; expected "), "{message}");
        assert!(!message.contains('\n') && message.chars().count() < 300, "{message}");
    }
}

/// Reads the bytes as a run, and line by line as a stream.
pub(crate) fn check_bytes(format: Format, bytes: &[u8]) {
    check_sound(of(format).read(Output { stdout: bytes, exit: 0 }));
    let mut stream = of(format).lines();
    for line in bytes.split(|byte| *byte == b'\n') {
        check_sound(stream.line(line));
    }
}

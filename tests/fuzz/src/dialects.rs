//! Checks of every dialect, for any output of a program, all at once or line by line.

use std::collections::BTreeSet;

use estimand_api::names::NodeName;
use estimand_api::registration::Format;
use estimand_dialects::{Answer, Dialect, Output, Reading, of};

use crate::{assert_line, assert_value, text};

/// Feeds an output to a dialect, whole and in lines, and holds what it makes of it to its promises.
pub fn feed(format: Format, data: &[u8]) {
    feed_exit(format, data, 0);
    let mut reader = of(format).lines();
    for line in data.split(|byte| *byte == b'\n') {
        check(&reader.line(line));
    }
}

/// The same for the output of a run that ended with this code.
pub fn feed_exit(format: Format, data: &[u8], exit: i32) {
    let dialect = of(format);
    assert!(dialect.takes_exit(exit));
    let read = read(dialect, data, exit);
    check(&read);
    // A table whose order is by chance would show here.
    assert_eq!(read, self::read(dialect, data, exit));
    let says_nothing = text(data).is_some_and(|text| text.trim().is_empty());
    if says_nothing && exit == 0 {
        assert_eq!(read, Ok(Reading::default()));
    }
}

/// A dialect's result for a run that ended well.
pub fn read_whole(format: Format, data: &[u8]) -> Result<Reading, String> {
    read(of(format), data, 0)
}

fn read(dialect: &dyn Dialect, stdout: &[u8], exit: i32) -> Result<Reading, String> {
    dialect.read(Output { stdout, exit })
}

fn check(read: &Result<Reading, String>) {
    let reading = match read {
        Ok(reading) => reading,
        Err(message) => return assert_line(message),
    };
    match &reading.answer {
        Answer::Nothing => {}
        Answer::One(json) => drop(assert_value(json)),
        Answer::PerNode(values) => {
            let nodes: BTreeSet<&NodeName> = values.iter().map(|(node, _)| node).collect();
            assert!(!nodes.is_empty() && nodes.len() == values.len(), "{values:?}");
            values.iter().for_each(|(_, json)| drop(assert_value(json)));
        }
    }
    let rejected = &reading.rejected;
    assert!(rejected.reasons.len() <= 3 && rejected.reasons.len() <= rejected.count);
    match rejected.sentence() {
        Some(sentence) => assert_line(&sentence),
        None => assert_eq!(rejected.count, 0),
    }
}

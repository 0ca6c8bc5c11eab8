//! The README's examples are read as it says.
#![allow(clippy::unwrap_used)]

use estimand_api::json::compact;
use estimand_api::registration::Format;

use super::testing::{read, shown};

const README: &str = include_str!("../../README.md");

/// The text and the value that a section begins with.
fn example(section: &str) -> (&str, &str) {
    let start = README.find(&format!("\n## {section}\n")).unwrap();
    let mut blocks = README[start..].split("\n```").skip(1).step_by(2);
    let mut next = || blocks.next().unwrap().split_once('\n').unwrap().1;
    (next(), next())
}

#[test]
fn examples_are_read_as_they_say() {
    for (section, format) in [
        ("prometheus", Format::Prometheus),
        ("csv", Format::Csv),
        ("logfmt", Format::Logfmt),
        ("ndjson", Format::Ndjson),
    ] {
        let (text, value) = example(section);
        assert_eq!(shown(read(format, text)), compact(value).unwrap(), "{section}");
    }
}

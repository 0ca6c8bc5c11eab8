#![allow(clippy::unwrap_used)]

use estimand_api::registration::Format;
use proptest::prelude::*;

use super::super::probe::{self, check, check_parts, holds, outputs};
use super::*;

#[test]
fn fields_have_values() {
    check(
        Format::Munin,
        &[
            ("user.value 123\nsystem.value 4.50\n", r#"{"user":{"value":123},"system":{"value":4.50}}"#),
            ("a.value U", r#"{"a":{"value":null}}"#),
            ("a.value   1e-05  \r\n", r#"{"a":{"value":1e-05}}"#),
            ("a.value +.5", r#"{"a":{"value":0.5}}"#),
            ("a.value 18446744073709551617", r#"{"a":{"value":18446744073709551617}}"#),
            ("_dev_sda1.value 0\n/x.value 1", r#"{"_dev_sda1":{"value":0},"/x":{"value":1}}"#),
            ("multigraph.value 0", r#"{"multigraph":{"value":0}}"#),
            ("# a comment\n\na.value 1\n.\n", r#"{"a":{"value":1}}"#),
            (
                "a.value 1\na.extinfo  two words \nb.extinfo only",
                r#"{"a":{"value":1,"extinfo":"two words"},"b":{"value":null,"extinfo":"only"}}"#,
            ),
        ],
    );
}

#[test]
fn graphs_have_fields() {
    check(
        Format::Munin,
        &[
            (
                "multigraph net\nup.value 1\n\nmultigraph net.eth0\nup.value 2\n",
                r#"{"graphs":{"net":{"up":{"value":1}},"net.eth0":{"up":{"value":2}}}}"#,
            ),
            (
                "multigraph a\nx.value 1\nmultigraph b\nx.value 2\nmultigraph a\ny.value 3\nmultigraph empty",
                r#"{"graphs":{"a":{"x":{"value":1},"y":{"value":3}},"b":{"x":{"value":2}}}}"#,
            ),
            ("x.value 1\nmultigraph a\nx.value 2", r#"{"x":{"value":1},"graphs":{"a":{"x":{"value":2}}}}"#),
            ("graphs.value 1", r#"{"graphs":{"value":1}}"#),
            (
                "graphs.value 1\nmultigraph a\nx.value 2",
                r#"{"graphs":{"a":{"x":{"value":2}}}} but 1 record was left out: the field `graphs` has the name of what holds the graphs"#,
            ),
        ],
    );
}

#[test]
fn a_value_may_have_a_time_and_then_the_latest_counts() {
    check(
        Format::Munin,
        &[
            ("a.value 1700000000:5", r#"{"a":{"value":5,"at":"2023-11-14T22:13:20.000000Z"}}"#),
            ("a.value N:5", r#"{"a":{"value":5}}"#),
            ("a.value 1:U", r#"{"a":{"value":null,"at":"1970-01-01T00:00:01.000000Z"}}"#),
            (
                "a.value 2:20\na.value 3:30\na.value 1:10",
                r#"{"a":{"value":30,"at":"1970-01-01T00:00:03.000000Z"}}"#,
            ),
            (
                "a.value 2:20\na.value 2:30",
                r#"{"a":{"value":20,"at":"1970-01-01T00:00:02.000000Z"}} but 1 record was left out: line 2: `a.value 2:30` comes twice"#,
            ),
        ],
    );
}

#[test]
fn descriptions_are_passed_over() {
    check(
        Format::Munin,
        &[
            (
                "graph_title CPU\ngraph_args --base 1000\nhost_name h\na.label A\na.type DERIVE\na.value 1",
                r#"{"a":{"value":1}}"#,
            ),
            ("graph_title CPU\na.label A", "nothing"),
            ("# only a comment", "nothing"),
            ("multigraph alone", "nothing"),
        ],
    );
}

#[test]
fn bad_lines_are_left_out_and_nothing_but_them_is_a_failure() {
    check_parts(
        Format::Munin,
        &[
            (
                "a.value 1\nb.value",
                r#"{"a":{"value":1}} but 1 record was left out: line 2: `b.value` has no value"#,
            ),
            ("a.value 1\na.value 2", "`a.value 2` comes twice"),
            ("a.value 1\na.label A\nwhat is this", r#"{"a":{"value":1}} but"#),
            ("a.value 1\nb.value nan", "`b.value nan` has a value that is no number"),
            ("a.value 1\nb.value 1 2", "is no number"),
            ("a.value 1\nb.value x:1", "no seconds since 1970"),
            ("a.value 1\nb.value 99999999999999999:1", "no seconds since 1970"),
            ("a.value 1\nb.valeu 1", "`b.valeu 1` is no line of munin's"),
            ("a.value 1\na.b.value 1", "is no line of munin's"),
            ("a.value 1\n.value 1", "is no line of munin's"),
            ("a.value 1\nmultigraph\nmultigraph a b", "`multigraph` is not followed by one name"),
            (
                "ntp.value ",
                "failed: the output has no good values: line 1: `ntp.value` has no value; expected lines",
            ),
            (
                "pages.value /var/log/a U",
                "failed: the output has no good values: line 1: `pages.value /var/log/a U`",
            ),
            (
                "Configuration required",
                "failed: the output has no good values: line 1: `Configuration required` is no",
            ),
            ("x\ny", "no good values among 2: line 1: `x` is no line of munin's; expected"),
        ],
    );
}

#[test]
fn the_number_of_records_is_bounded() {
    let fields = |count: usize| (0..count).map(|n| format!("f{n}.value 1\n")).collect::<String>();
    assert!(probe::read(Format::Munin, &fields(3_000), 0).is_ok());
    let message = |text: &str| probe::read(Format::Munin, text, 0).unwrap_err();
    assert!(message(&fields(4_000)).contains("more than 65536 bytes"));
    assert!(message(&fields(MAX_RECORDS + 1)).contains("more than 20000 fields"));
    let graphs: String = (0..=MAX_RECORDS).map(|n| format!("multigraph g{n}\n")).collect();
    assert!(message(&graphs).contains("more than 20000 fields"));
}

const RIGHT: [&str; 4] = [
    "user.value 2020910\nnice.value 137560.5\nidle.value U\nidle.extinfo why not\n",
    "multigraph netstat\nactive.value 492962\n\nmultigraph netstat.x\nactive.value 0\n",
    "graph_title CPU\na.label x\na.value 1700000000:5\na.value 1700000001:6\n",
    "graphs.value 1\n# comment\n.\n",
];
const TOKENS: [&str; 16] = [
    "a",
    "graphs",
    ".value ",
    ".extinfo ",
    "multigraph ",
    ".",
    ":",
    "N:",
    "U",
    "#",
    " ",
    "\n",
    "\r",
    "ä",
    "\"",
    "9",
];

proptest! {
    #![proptest_config(ProptestConfig { cases: 3_000, ..ProptestConfig::default() })]
    #[test]
    fn any_output_is_read_or_rejected(output in outputs(&RIGHT, &TOKENS)) {
        holds(Munin.read(Output { stdout: &output, exit: 0 }))?;
    }
}

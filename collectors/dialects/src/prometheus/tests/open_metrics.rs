//! OpenMetrics 1.0.

use super::*;

const EOF: &str = "\n# EOF\n";

#[test]
fn samples() {
    check_accepted(
        EOF,
        &[
            ("a 1", r#"{"a":{"type":"unknown","value":1}}"#),
            ("a{} 1", r#"{"a":{"type":"unknown","value":1}}"#),
            ("a{x=\"1\",b=\"2\"} 1", r#"{"a":{"type":"unknown","series":{"b=\"2\",x=\"1\"":1}}}"#),
            // A backslash that escapes nothing is a backslash.
            (r#"a{x="\q\é\n\\"} 1"#, r#"{"a":{"type":"unknown","series":{"x=\"\\\\q\\\\é\\n\\\\\"":1}}}"#),
            ("a -iNf", r#"{"a":{"type":"unknown","value":"-Inf"}}"#),
            ("a 9007199254740993", r#"{"a":{"type":"unknown","value":9007199254740993}}"#),
        ],
    );
    check_rejected(
        EOF,
        &[
            ("a  1", "a space is followed by no word"),
            ("a\t1", "after a word comes ` 1`; expected ` `"),
            ("a 1 ", "a space is followed by no word"),
            (" a 1", "`` is no name of a metric"),
            ("a {x=\"1\"} 1", "the value `{x=\"1\"}` is no number"),
            ("a{x=\"1\"}1", "after a word comes `1`; expected ` `"),
            ("a{x=\"1\",} 1", "`` is no name of a label"),
            ("a{x=\"1\", b=\"2\"} 1", "`` is no name of a label"),
            ("a{ x=\"1\"} 1", "`` is no name of a label"),
            ("a{x =\"1\"} 1", "after the name of a label comes ` =\"1\"} 1`; expected `=`"),
            ("a{x=\"1\",x=\"1\"} 1", "the label `x` comes twice"),
            ("a{x=\"\\\"} 1", "no closing quote"),
            ("a 0x1p3", "is no number"),
            ("a 1 2 3", "goes on with `3`"),
            ("\na 1", "an empty line"),
            ("a 1\na 1 5", "`a{}` comes twice"),
        ],
    );
}

#[test]
fn of_several_times_the_newer_sample_counts() {
    check_accepted(
        EOF,
        &[
            ("a 1 1\na 2 2.5", r#"{"a":{"type":"unknown","value":2,"at":"1970-01-01T00:00:02.500000Z"}}"#),
            (
                "a{x=\"1\"} 1 1\na{x=\"1\"} 2 2\na{x=\"2\"} 7",
                "{\"a\":{\"type\":\"unknown\",\"series\":{\"x=\\\"1\\\"\":2,\"x=\\\"2\\\"\":7},\
                 \"times\":{\"x=\\\"1\\\"\":\"1970-01-01T00:00:02.000000Z\"}}}",
            ),
        ],
    );
    // Times grow, and all samples of a metric have one or none.
    check_rejected(
        EOF,
        &[
            ("a 1 2\na 2 2", "`a{}` comes twice"),
            ("a 1 2\na 2 1", "`a{}` comes twice"),
            ("a 1 2\na 2", "`a{}` comes twice"),
        ],
    );
}

#[test]
fn times_are_seconds() {
    check_accepted(
        EOF,
        &[
            (
                "a 1 1520879607.789",
                r#"{"a":{"type":"unknown","value":1,"at":"2018-03-12T18:33:27.789000Z"}}"#,
            ),
            (
                "a 1 1.520879607789e9",
                r#"{"a":{"type":"unknown","value":1,"at":"2018-03-12T18:33:27.789000Z"}}"#,
            ),
            ("a 1 -0.000001", r#"{"a":{"type":"unknown","value":1,"at":"1969-12-31T23:59:59.999999Z"}}"#),
        ],
    );
    check_rejected(
        EOF,
        &[
            ("a 1 now", "the time `now` cannot be kept; expected seconds"),
            ("a 1 NaN", "the time `NaN` cannot be kept"),
            ("a 1 +Inf", "the time `+Inf` cannot be kept"),
            // Milliseconds, as the text format has them.
            ("a 1 1520879607789", "the time `1520879607789` cannot be kept"),
        ],
    );
}

#[test]
fn the_end() {
    check_accepted(
        "",
        &[("# EOF", "nothing"), ("# TYPE a gauge\na 1\n# EOF\r\n", r#"{"a":{"type":"gauge","value":1}}"#)],
    );
    check_rejected(
        "",
        &[
            ("# EOF\nb 1", "line 3: `b 1` comes after `# EOF`"),
            ("# EOF\n# EOF", "`# EOF` comes after `# EOF`"),
        ],
    );
    let cut = shown(read(Format::Prometheus, "# UNIT a_seconds seconds\na_seconds 1\n"));
    assert_eq!(
        cut,
        "{\"a_seconds\":{\"type\":\"unknown\",\"unit\":\"seconds\",\"value\":1}} | 1: the last line is missing; expected \
         `# EOF` at the end of OpenMetrics"
    );
}

#[test]
fn metadata() {
    check_accepted(
        EOF,
        &[
            (
                "# TYPE a_bytes gauge\n# UNIT a_bytes bytes\n# HELP a_bytes How \\\"much\\\"\\n\\\\.\na_bytes 1",
                r#"{"a_bytes":{"type":"gauge","help":"How \"much\"\n\\.","unit":"bytes","value":1}}"#,
            ),
            ("# UNIT a \n# HELP a \n# TYPE a unknown\na 1", r#"{"a":{"type":"unknown","value":1}}"#),
            ("# TYPE a gauge\n# TYPE b gauge\nb 1", r#"{"b":{"type":"gauge","value":1}}"#),
        ],
    );
    check_rejected(
        EOF,
        &[
            ("# a comment", "`# a comment` is a comment, which OpenMetrics has not"),
            ("#TYPE a gauge", "is a comment"),
            ("# TYPE", "is a comment"),
            ("# TYPE a", "`# TYPE` ends after `a`"),
            ("# HELP a", "`# HELP` ends after `a`"),
            ("# TYPE a  gauge", "the type ` gauge` is none"),
            ("# TYPE a untyped", "the type `untyped` is none"),
            ("# TYPE a Gauge", "the type `Gauge` is none"),
            ("# TYPE a-b gauge", "`a-b` is no name of a metric"),
            ("# UNIT a seconds", "the unit `seconds` is not the end of the name `a`"),
            ("# UNIT aseconds seconds", "is not the end of the name"),
            ("# UNIT _seconds seconds", "is not the end of the name"),
            ("# TYPE a gauge\n# TYPE a gauge\na 1", "a second TYPE of `a`"),
            ("# HELP a b\n# HELP a c\na 1", "a second HELP of `a`"),
            ("# UNIT a_s s\n# UNIT a_s s\na_s 1", "a second UNIT of `a_s`"),
            ("a 1\n# TYPE a gauge", "TYPE of `a` comes after its samples"),
            ("a 1\n# HELP a b", "HELP of `a` comes after its samples"),
            ("a_s 1\n# UNIT a_s s", "UNIT of `a_s` comes after its samples"),
            ("# TYPE a_s info\n# UNIT a_s s", "the type info has no unit, and this one has `s`"),
            ("# UNIT a_s s\n# TYPE a_s stateset", "the type stateset has no unit"),
            // Families in pieces and families that share names.
            ("# TYPE a gauge\na{x=\"1\"} 1\nb 1\na{x=\"2\"} 1", "`a` comes back after another family"),
            ("# TYPE a gauge\nb 1\n# HELP a b", "`a` comes back after another family"),
            (
                "# TYPE a counter\n# TYPE a_total gauge\na_total 1",
                "TYPE of `a_total`, whose samples belong to `a`",
            ),
            (
                "# TYPE a_total gauge\n# TYPE a counter\na_total 1",
                "the samples `a_total` of `a` belong to `a_total`",
            ),
        ],
    );
}

#[test]
fn counters_and_their_exemplars() {
    check_accepted(
        EOF,
        &[
            (
                "# TYPE a counter\na_total 17.0 1\na_created 1520872607.123",
                r#"{"a_total":{"type":"counter","value":17.0,"at":"1970-01-01T00:00:01.000000Z"},"a_created":{"type":"counter","value":1520872607.123}}"#,
            ),
            (
                "# TYPE a counter\na_total{x=\"1\"} 1 # {trace_id=\"KOO5S4vxi0o\"} 0.67\na_total{x=\"2\"} 1 5 # {} 1 5.5",
                r#"{"a_total":{"type":"counter","series":{"x=\"1\"":1,"x=\"2\"":1},"times":{"x=\"2\"":"1970-01-01T00:00:05.000000Z"}}}"#,
            ),
            ("# TYPE a counter\na_total +Inf", r#"{"a_total":{"type":"counter","value":"+Inf"}}"#),
        ],
    );
    let long = |chars: usize| format!("# TYPE a counter\na_total 1 # {{x=\"{}\"}} 1", "ä".repeat(chars));
    check_accepted(EOF, &[(&long(127), r#"{"a_total":{"type":"counter","value":1}}"#)]);
    check_rejected(
        EOF,
        &[
            (
                "# TYPE a counter\na 1",
                "`a` is no sample of the type counter; expected the name with _total or _created behind it",
            ),
            ("# TYPE a_total counter\na_total 1", "`a_total` is no sample of the type counter"),
            ("# TYPE a counter\na_total -1", "expected no negative number for what only grows"),
            ("# TYPE a counter\na_total NaN", "expected a number for what is counted"),
            (&long(128), "the labels of the exemplar have 129 characters; expected at most 128"),
            ("# TYPE a counter\na_total 1 # {x=\"1\"}", "the exemplar has no value"),
            ("# TYPE a counter\na_total 1 # {x=\"1\"} y", "the value `y` is no number"),
            ("# TYPE a counter\na_total 1 # {x=\"1\"} 1 y", "the time `y` cannot be kept"),
            ("# TYPE a counter\na_total 1 # {x=\"1\"} 1 1 1", "the sample goes on with `1`"),
            ("# TYPE a counter\na_total 1 # {x=\"1} 1", "no closing quote"),
            ("# TYPE a counter\na_total 1 # x", "at the beginning of an exemplar comes `x`; expected `{`"),
            ("# TYPE a counter\na_total 1 #", "after the `#` of an exemplar comes ``"),
            ("# TYPE a counter\na_total 1 #{} 1", "the sample goes on with `#{}`"),
            ("# TYPE a counter\na_created 1 # {} 1", "expected exemplars at counters"),
            ("# TYPE a gauge\na 1 # {} 1", "expected exemplars at counters"),
        ],
    );
}

#[test]
fn distributions() {
    check_accepted(
        EOF,
        &[
            (
                "# TYPE h histogram\nh_bucket{le=\"+Inf\"} 3 # {} 2\nh_sum 1.5\nh_count 3\nh_created 1",
                r#"{"h_bucket":{"type":"histogram","series":{"le=\"+Inf\"":3}},"h_sum":{"type":"histogram","value":1.5},"h_count":{"type":"histogram","value":3},"h_created":{"type":"histogram","value":1}}"#,
            ),
            (
                "# TYPE g gaugehistogram\ng_bucket{le=\"-1\"} 3\ng_gsum -1.5\ng_gcount 3",
                r#"{"g_bucket":{"type":"gaugehistogram","series":{"le=\"-1\"":3}},"g_gsum":{"type":"gaugehistogram","value":-1.5},"g_gcount":{"type":"gaugehistogram","value":3}}"#,
            ),
            (
                "# TYPE s summary\ns{quantile=\"0\"} 0\ns{quantile=\"1\"} NaN\ns_sum 0\ns_count 0\ns_created 1",
                r#"{"s":{"type":"summary","series":{"quantile=\"0\"":0,"quantile=\"1\"":"NaN"}},"s_sum":{"type":"summary","value":0},"s_count":{"type":"summary","value":0},"s_created":{"type":"summary","value":1}}"#,
            ),
        ],
    );
    check_rejected(
        EOF,
        &[
            ("# TYPE h histogram\nh_bucket 1", "`h_bucket` has no label `le`"),
            ("# TYPE h histogram\nh_bucket{le=\"x\"} 1", "the label `le` is `x`"),
            ("# TYPE h histogram\nh_bucket{le=\"1\"} -1", "expected no negative number"),
            ("# TYPE h histogram\nh_sum -1", "expected no negative number"),
            ("# TYPE h histogram\nh_count NaN", "expected a number"),
            ("# TYPE h histogram\nh_count 1 # {} 1", "expected exemplars at counters and at buckets only"),
            ("# TYPE h histogram\nh{le=\"1\"} 1", "`h` is no sample of the type histogram"),
            ("# TYPE g gaugehistogram\ng_bucket 1", "`g_bucket` has no label `le`"),
            ("# TYPE g gaugehistogram\ng_gsum NaN", "expected a number"),
            ("# TYPE g gaugehistogram\ng_gcount -1", "expected no negative number"),
            ("# TYPE s summary\ns 1", "`s` has no label `quantile`"),
            ("# TYPE s summary\ns{quantile=\"-0.1\"} 1", "the label `quantile` is `-0.1`"),
            ("# TYPE s summary\ns{quantile=\"0.5\"} -1", "expected no negative number for a quantile"),
        ],
    );
}

#[test]
fn infos_and_states() {
    check_accepted(
        EOF,
        &[
            ("# TYPE a info\na_info{v=\"1.2\"} 1", r#"{"a_info":{"type":"info","series":{"v=\"1.2\"":1}}}"#),
            (
                "# TYPE a stateset\na{a=\"on\"} 1.0\na{a=\"off\"} 0",
                r#"{"a":{"type":"stateset","series":{"a=\"on\"":1.0,"a=\"off\"":0}}}"#,
            ),
            ("# TYPE le stateset\nle{le=\"x\"} 1", r#"{"le":{"type":"stateset","series":{"le=\"x\"":1}}}"#),
        ],
    );
    check_rejected(
        EOF,
        &[
            ("# TYPE a info\na_info{v=\"1.2\"} 2", "expected the value 1 for an info"),
            ("# TYPE a info\na{v=\"1.2\"} 1", "`a` is no sample of the type info"),
            ("# TYPE a stateset\na{a=\"on\"} 2", "expected the value 0 or 1 for a state"),
            ("# TYPE a stateset\na{a=\"on\"} NaN", "expected the value 0 or 1 for a state"),
            ("# TYPE a stateset\na{b=\"on\"} 1", "`a` has no label `a`"),
        ],
    );
}

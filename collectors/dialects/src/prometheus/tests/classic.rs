//! The text format 0.0.4.

use std::time::{Duration, Instant};

use super::*;

#[test]
fn samples() {
    check_accepted(
        "\n",
        &[
            ("up 1", r#"{"up":{"type":"unknown","value":1}}"#),
            ("a:b_C9 2", r#"{"a:b_C9":{"type":"unknown","value":2}}"#),
            ("_ 2", r#"{"_":{"type":"unknown","value":2}}"#),
            ("  up \t 1\t\r\n\n\n", r#"{"up":{"type":"unknown","value":1}}"#),
            ("up{} 1", r#"{"up":{"type":"unknown","value":1}}"#),
            ("up {} 1", r#"{"up":{"type":"unknown","value":1}}"#),
            ("a{x=\"1\"} 1", r#"{"a":{"type":"unknown","series":{"x=\"1\"":1}}}"#),
            ("a{x=\"1\"}1", r#"{"a":{"type":"unknown","series":{"x=\"1\"":1}}}"#),
            ("a { x = \"1\" , b\t=\"2\", } 1", r#"{"a":{"type":"unknown","series":{"b=\"2\",x=\"1\"":1}}}"#),
            ("a{x=\"\"} 1", r#"{"a":{"type":"unknown","series":{"x=\"\"":1}}}"#),
            // Brackets and quotes end nothing inside a value.
            ("a{x=\"}, # {\"} 1", r#"{"a":{"type":"unknown","series":{"x=\"}, # {\"":1}}}"#),
            (
                "a{x=\"ä\u{1f600}\t\"} 1",
                "{\"a\":{\"type\":\"unknown\",\"series\":{\"x=\\\"ä\u{1f600}\\t\\\"\":1}}}",
            ),
            (
                r#"a{x="\\ \" \n \\n"} 1"#,
                r#"{"a":{"type":"unknown","series":{"x=\"\\\\ \\\" \\n \\\\n\"":1}}}"#,
            ),
            // One name with and without labels, in any order among others.
            (
                "a 1\nb 2\na{x=\"1\"} 3\n",
                r#"{"a":{"type":"unknown","value":1,"series":{"x=\"1\"":3}},"b":{"type":"unknown","value":2}}"#,
            ),
        ],
    );
    check_rejected(
        "\n",
        &[
            ("up", "`up` has no value"),
            ("up{a=\"1\"}", "`up` has no value"),
            ("9up 1", "`9up` is no name of a metric"),
            ("node-load 1", "`node-load` is no name of a metric"),
            ("größe 1", "`größe` is no name of a metric"),
            ("{a=\"1\"} 1", "`` is no name of a metric"),
            ("a{9=\"1\"} 1", "`9` is no name of a label"),
            ("a{x:y=\"1\"} 1", "after the name of a label comes `:y=\"1\"} 1`; expected `=`"),
            ("a{ä=\"1\"} 1", "`ä` is no name of a label"),
            ("a{\"x\"=\"1\"} 1", "`\"x\"` is no name of a label"),
            ("a{,} 1", "`` is no name of a label"),
            ("a{x=\"1\",,} 1", "`` is no name of a label"),
            ("a{__name__=\"b\"} 1", "`__name__` is taken"),
            ("a{x=\"1\",y=\"2\",x=\"3\"} 1", "the label `x` comes twice"),
            ("a{x=1} 1", "before the value of a label comes `1} 1`; expected `\"`"),
            ("a{x} 1", "after the name of a label comes `} 1`; expected `=`"),
            ("a{x=\"1\" 1", "after a label comes `1`; expected `}`"),
            ("a{x=\"1\"y=\"2\"} 1", "after a label comes `y="),
            ("a{x=\"1} 1", "no closing quote"),
            ("a{x=\"1\\", "no closing quote"),
            ("a{x=\"\\t\"} 1", "`\\t` is no escape"),
            ("a{x=\"\\ä\"} 1", "`\\ä` is no escape"),
            ("a 1\na 2", "line 3: `a{}` comes twice"),
            ("a 1 5\na 2 5", "line 3: `a{}` comes twice"),
            ("a 1 5\na 2 4", "line 3: `a{}` comes twice"),
            // A sample without a time is of now.
            ("a 1\na 2 5", "line 3: `a{}` comes twice"),
            ("a{x=\"1\",y=\"2\"} 1\na{y=\"2\",x=\"1\",} 1", "comes twice"),
            ("a 1 2 3", "the sample goes on with `3`"),
            ("a 1 # {x=\"1\"} 1", "the sample goes on with `#`"),
        ],
    );
}

#[test]
fn of_several_times_the_newer_sample_counts() {
    check_accepted(
        "\n",
        &[
            (
                "a 1 1000\na 2 2000",
                r#"{"a":{"type":"unknown","value":2,"at":"1970-01-01T00:00:02.000000Z"}}"#,
            ),
            ("a 1 1000\na 2", r#"{"a":{"type":"unknown","value":2}}"#),
        ],
    );
}

#[test]
fn values() {
    let value = |text: &str| shown(read(Format::Prometheus, &format!("a {text}\n")));
    for (text, json) in [
        ("9007199254740993", "9007199254740993"),
        ("123456789012345678901234567890.10", "123456789012345678901234567890.10"),
        ("-0.5", "-0.5"),
        ("+1", "1"),
        (".5", "0.5"),
        ("1.", "1"),
        ("007", "7"),
        ("1.5E+08", "1.5E+08"),
        ("NaN", "\"NaN\""),
        ("nan", "\"NaN\""),
        ("+Inf", "\"+Inf\""),
        ("inf", "\"+Inf\""),
        ("-Infinity", "\"-Inf\""),
    ] {
        assert_eq!(value(text), format!(r#"{{"a":{{"type":"unknown","value":{json}}}}}"#), "{text}");
    }
    for text in ["x", "0x1f", "1e999", "1_000", "1,5", "--1", "-NaN", "1e", "\"1\"", "true", "."] {
        check_rejected("\n", &[(&format!("a {text}"), &format!("the value `{text}` is no number"))]);
    }
}

#[test]
fn times_are_milliseconds() {
    check_accepted(
        "\n",
        &[
            ("a 1 0", r#"{"a":{"type":"unknown","value":1,"at":"1970-01-01T00:00:00.000000Z"}}"#),
            ("a 1 1395066363000", r#"{"a":{"type":"unknown","value":1,"at":"2014-03-17T14:26:03.000000Z"}}"#),
            ("a 1 -1", r#"{"a":{"type":"unknown","value":1,"at":"1969-12-31T23:59:59.999000Z"}}"#),
            (
                "a{x=\"1\"} 1 1\na{x=\"2\"} 2\n",
                r#"{"a":{"type":"unknown","series":{"x=\"1\"":1,"x=\"2\"":2},"times":{"x=\"1\"":"1970-01-01T00:00:00.001000Z"}}}"#,
            ),
        ],
    );
    check_rejected(
        "\n",
        &[
            ("a 1 1.5", "the time `1.5` cannot be kept; expected whole milliseconds"),
            ("a 1 now", "the time `now` cannot be kept"),
            ("a 1 NaN", "the time `NaN` cannot be kept"),
            ("a 1 253402300800000", "the time `253402300800000` cannot be kept"),
            ("a 1 -62167219200001", "cannot be kept"),
            ("a 1 9223372036854775807", "cannot be kept"),
            ("a 1 99999999999999999999", "cannot be kept"),
        ],
    );
}

#[test]
fn metadata() {
    check_accepted(
        "\n",
        &[
            ("# TYPE a gauge\na 1", r#"{"a":{"type":"gauge","value":1}}"#),
            ("# TYPE a untyped\na 1", r#"{"a":{"type":"unknown","value":1}}"#),
            ("#TYPE\ta  counter \na 1", r#"{"a":{"type":"counter","value":1}}"#),
            ("# TYPE a_total counter\na_total 1", r#"{"a_total":{"type":"counter","value":1}}"#),
            (
                r#"# HELP a  It is \\ a \n "q" \"r\" \x é
a 1"#,
                r#"{"a":{"type":"unknown","help":"It is \\ a \n \"q\" \"r\" \\x é","value":1}}"#,
            ),
            ("# HELP a\na 1", r#"{"a":{"type":"unknown","value":1}}"#),
            ("a 1\n# HELP a late", r#"{"a":{"type":"unknown","help":"late","value":1}}"#),
            ("# a comment\n#\n##\n# HELP\n# TYPE\n#TYPES a b\na 1", r#"{"a":{"type":"unknown","value":1}}"#),
            ("# UNITS\n# EOF of nothing\na 1", r#"{"a":{"type":"unknown","value":1}}"#),
            // Metadata alone is an empty exposition.
            ("# TYPE a gauge\n# HELP a b", "nothing"),
            // Families may come in pieces, as Prometheus itself allows.
            (
                "# TYPE a gauge\na{x=\"1\"} 1\nb 1\na{x=\"2\"} 2",
                r#"{"a":{"type":"gauge","series":{"x=\"1\"":1,"x=\"2\"":2}},"b":{"type":"unknown","value":1}}"#,
            ),
        ],
    );
    check_rejected(
        "\n",
        &[
            ("# TYPE a guage\na 1", "the type `guage` is none; expected counter, gauge"),
            ("# TYPE a stateset\na 1", "the type `stateset` is none"),
            ("# TYPE a", "the type `` is none"),
            ("# TYPE a-b gauge", "`a-b` is no name of a metric"),
            ("# HELP 1 of many", "`1` is no name of a metric"),
            ("# TYPE a gauge\n# TYPE a counter\na 1", "line 3: a second TYPE of `a`"),
            ("# HELP a b\n# HELP a b\na 1", "a second HELP of `a`"),
            ("a 1\n# TYPE a gauge", "TYPE of `a` comes after its samples"),
            ("h_sum 1\n# TYPE h histogram", "the samples `h_sum` of `h` belong to `h_sum` already"),
            ("# TYPE h histogram\n# TYPE h_sum gauge", "TYPE of `h_sum`, whose samples belong to `h`"),
        ],
    );
}

#[test]
fn distributions() {
    check_accepted(
        "\n",
        &[
            (
                "# TYPE h histogram\nh_bucket{le=\"0.5\"} 1\nh_bucket{le=\"+Inf\"} 3\nh_sum 1.5\nh_count 3",
                r#"{"h_bucket":{"type":"histogram","series":{"le=\"0.5\"":1,"le=\"+Inf\"":3}},"h_sum":{"type":"histogram","value":1.5},"h_count":{"type":"histogram","value":3}}"#,
            ),
            (
                "# TYPE s summary\ns{quantile=\"0.99\"} NaN\ns_sum 0\ns_count 0",
                r#"{"s":{"type":"summary","series":{"quantile=\"0.99\"":"NaN"}},"s_sum":{"type":"summary","value":0},"s_count":{"type":"summary","value":0}}"#,
            ),
            // Without a type these are names like any other.
            ("h_bucket 1", r#"{"h_bucket":{"type":"unknown","value":1}}"#),
        ],
    );
    check_rejected(
        "\n",
        &[
            ("# TYPE h histogram\nh_bucket{x=\"1\"} 1", "`h_bucket` has no label `le`"),
            ("# TYPE h histogram\nh_bucket{le=\"NaN\"} 1", "the label `le` is `NaN`"),
            ("# TYPE h histogram\nh_bucket{le=\"\"} 1", "the label `le` is ``"),
            ("# TYPE h histogram\nh 1", "`h` is no sample of the type histogram"),
            ("# TYPE s summary\ns 1", "`s` has no label `quantile`"),
            ("# TYPE s summary\ns{quantile=\"1.1\"} 1", "the label `quantile` is `1.1`"),
            ("# TYPE s summary\ns{quantile=\"NaN\"} 1", "the label `quantile` is `NaN`"),
        ],
    );
}

#[test]
fn only_a_text_without_any_good_sample_is_a_failure() {
    let failed = |text: &str| read(Format::Prometheus, text).unwrap_err();
    assert_eq!(
        failed("no data\n"),
        "the output has no good samples: line 1: the value `data` is no number; expected one such as 1, 2.5e3, NaN or \
         +Inf"
    );
    assert!(failed("# TYPE a gauge\na x\nb\n").starts_with("the output has no good samples among 2: line 2"));
    let many: String = (0..20_001).map(|n| format!("a{n} 1\n")).collect();
    assert!(failed(&many).contains("more than 20000 samples"));
    assert!(failed(&many[..many.len() / 2]).contains("more than 65536 bytes"));
    assert!(failed(&"x\n".repeat(100_000)).contains("more than 20000 samples"));
}

#[test]
fn a_large_text_takes_no_more_time_than_a_text_of_its_size() {
    let series: String =
        (0..20_000).map(|n| format!("name{{l=\"{n}\",m=\"0123456789012345678901\"}} {n}\n")).collect();
    let names: String = (0..20_000).map(|n| format!("# TYPE n{n} histogram\nn{n}_sum 1\n")).collect();
    let labels: String = (0..60_000).map(|n| format!("l{n}=\"\",")).collect();
    let texts = [
        series,
        names,
        format!("a{{{labels}}} 1\n"),
        format!("a{{x=\"{}\"}} 1\n", "\\\"".repeat(500_000)),
        "a{x=\"".repeat(170_000),
        "a{x=\"\n".repeat(19_000),
        "#\n".repeat(500_000),
        "a 1\n\n".repeat(200_000),
        format!("a {}\n", "1".repeat(1_000_000)),
    ];
    for text in texts {
        let start = Instant::now();
        let _ = read(Format::Prometheus, &text);
        // Many times what linear work takes in a debug build, and a small part of what quadratic work would.
        let took = start.elapsed();
        assert!(took < Duration::from_secs(60), "{} bytes took {took:?}: {}", text.len(), &text[..40]);
    }
}

//! A model of families that is rendered to text, and what comes back of it; and what holds for any bytes.

use std::fmt::Write;

use estimand_api::instant::parse_rfc3339;
use estimand_api::registration::Format;
use proptest::prelude::*;
use serde_json::{Map, Value as Json, json};

use crate::Answer;
use crate::build::testing::{check_bytes, read};

/// A family of gauges or counters, its samples by labels.
#[derive(Debug, Clone)]
struct Model {
    kind: &'static str,
    help: Option<String>,
    has_unit: bool,
    samples: Vec<(Labels, &'static str, Option<i64>)>,
}

type Labels = std::collections::BTreeMap<String, String>;

fn labels() -> impl Strategy<Value = Labels> {
    let nasty = prop::sample::select(vec![
        "\\",
        "\"",
        "\n",
        "{",
        "}",
        ",",
        "=",
        " ",
        "\t",
        "#",
        "ä",
        "\u{1f600}",
        "n",
        "a",
    ]);
    let value = prop_oneof![prop::collection::vec(nasty, 0..8).prop_map(|parts| parts.concat()), "\\PC{0,8}"];
    prop::collection::btree_map("[a-zA-Z][a-zA-Z0-9_]{0,4}", value, 0..4)
}

fn model(is_open: bool) -> impl Strategy<Value = Model> {
    let value = prop::sample::select(vec![
        "0",
        "1",
        "0.25",
        "1e-7",
        "9007199254740993",
        "123456789012345678901234567890",
        "NaN",
        "+Inf",
        "1.7976931348623157e308",
    ]);
    // The text format knows milliseconds, OpenMetrics fractions of a second.
    let step = if is_open { 1 } else { 1_000 };
    let at = prop::option::of(
        (-2_000_000_000_000_i64..4_000_000_000_000_000).prop_map(move |at| at / step * step),
    );
    let samples = prop::collection::btree_map(labels(), (value, at), 1..5)
        .prop_map(|samples| samples.into_iter().map(|(labels, (value, at))| (labels, value, at)).collect());
    let kind = prop::sample::select(vec!["gauge", "counter", "unknown"]);
    // White space around a help belongs to the line.
    let help = prop::option::of("[a-z\\\\\n\"#]([ a-zä\\\\\n\"#]{0,10}[a-z\\\\])?");
    (kind, help, any::<bool>(), samples).prop_map(move |(kind, help, has_unit, samples)| Model {
        kind,
        help,
        has_unit: has_unit && is_open,
        samples,
    })
}

fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\").replace('\n', "\\n").replace('"', "\\\"")
}

fn label_text<'a>(labels: impl Iterator<Item = (&'a String, &'a String)>) -> String {
    labels.map(|(name, value)| format!("{name}=\"{}\"", escaped(value))).collect::<Vec<_>>().join(",")
}

fn family_name(number: usize, model: &Model) -> String {
    format!("family_{number}{}", if model.has_unit { "_bytes" } else { "" })
}

fn sample_name(number: usize, model: &Model, is_open: bool) -> String {
    let suffix = if model.kind == "counter" && is_open { "_total" } else { "" };
    family_name(number, model) + suffix
}

/// NaN is no count.
fn value_of(model: &Model, value: &'static str) -> &'static str {
    if model.kind == "counter" && value == "NaN" { "0" } else { value }
}

fn render(models: &[Model], is_open: bool) -> String {
    let mut out = String::new();
    for (number, model) in models.iter().enumerate() {
        let name = family_name(number, model);
        let kind = if model.kind == "unknown" && !is_open { "untyped" } else { model.kind };
        writeln!(out, "# TYPE {name} {kind}").unwrap();
        if let Some(help) = &model.help {
            writeln!(out, "# HELP {name} {}", escaped(help)).unwrap();
        }
        if model.has_unit {
            writeln!(out, "# UNIT {name} bytes").unwrap();
        }
        for (labels, value, at) in &model.samples {
            out += &sample_name(number, model, is_open);
            if !labels.is_empty() {
                // The order of labels means nothing.
                write!(out, "{{{}}}", label_text(labels.iter().rev())).unwrap();
            }
            write!(out, " {}", value_of(model, value)).unwrap();
            match at {
                Some(at) if is_open => {
                    let sign = if *at < 0 { "-" } else { "" };
                    write!(
                        out,
                        " {sign}{}.{:06}",
                        at.unsigned_abs() / 1_000_000,
                        at.unsigned_abs() % 1_000_000
                    )
                    .unwrap();
                }
                Some(at) => write!(out, " {}", at / 1_000).unwrap(),
                None => {}
            }
            out.push('\n');
        }
    }
    if is_open {
        out += "# EOF\n";
    }
    out
}

/// The value that the models make, with instants in microseconds.
fn expected(models: &[Model], is_open: bool) -> Json {
    let mut all = Map::new();
    for (number, model) in models.iter().enumerate() {
        let mut object = Map::new();
        object.insert("type".to_owned(), json!(model.kind));
        if let Some(help) = &model.help {
            object.insert("help".to_owned(), json!(help));
        }
        if model.has_unit {
            object.insert("unit".to_owned(), json!("bytes"));
        }
        let (mut series, mut times) = (Map::new(), Map::new());
        for (labels, value, at) in &model.samples {
            let value = value_of(model, value);
            let value = serde_json::from_str(value).unwrap_or_else(|_| json!(value));
            let (values, ats, value_key, at_key) = match labels.is_empty() {
                true => (&mut object, None, "value".to_owned(), "at".to_owned()),
                false => {
                    (&mut series, Some(&mut times), label_text(labels.iter()), label_text(labels.iter()))
                }
            };
            values.insert(value_key, value);
            if let Some(at) = at {
                ats.unwrap_or(values).insert(at_key, json!(at));
            }
        }
        for (key, members) in [("series", series), ("times", times)] {
            if !members.is_empty() {
                object.insert(key.to_owned(), Json::Object(members));
            }
        }
        all.insert(sample_name(number, model, is_open), Json::Object(object));
    }
    Json::Object(all)
}

/// Turns the instants of a value into microseconds.
fn with_micros(mut value: Json) -> Json {
    let micros = |at: &mut Json| *at = json!(parse_rfc3339(at.as_str().unwrap()).unwrap());
    for sample in value.as_object_mut().unwrap().values_mut() {
        if let Some(at) = sample.get_mut("at") {
            micros(at);
        }
        if let Some(times) = sample.get_mut("times") {
            times.as_object_mut().unwrap().values_mut().for_each(micros);
        }
    }
    value
}

fn models(is_open: bool) -> impl Strategy<Value = Vec<Model>> {
    prop::collection::vec(model(is_open), 1..5)
}

fn mutated() -> impl Strategy<Value = Vec<u8>> {
    let text = any::<bool>()
        .prop_flat_map(|is_open| models(is_open).prop_map(move |models| render(&models, is_open)));
    let edit = (any::<prop::sample::Index>(), any::<u8>(), 0..4_u8);
    (text, prop::collection::vec(edit, 0..6)).prop_map(|(text, edits)| {
        let mut bytes = text.into_bytes();
        for (place, byte, what) in edits {
            let at = place.index(bytes.len());
            match what {
                0 => bytes[at] = byte,
                1 => bytes.insert(at, byte),
                2 => drop(bytes.drain(at..bytes.len().min(at + 1 + usize::from(byte) / 8))),
                _ => {
                    let piece = bytes[at..bytes.len().min(at + usize::from(byte))].to_vec();
                    bytes.extend(piece);
                }
            }
            if bytes.is_empty() {
                bytes.push(byte);
            }
        }
        bytes
    })
}

fn soup() -> impl Strategy<Value = Vec<u8>> {
    let token = prop::sample::select(vec![
        "a",
        "b_total",
        "b_bucket",
        "{",
        "}",
        "x=\"1\"",
        "le=\"",
        "quantile",
        "=",
        "\"",
        "\\",
        ",",
        " ",
        " ",
        "\n",
        "\n",
        "# ",
        "# EOF\n",
        "# TYPE ",
        "# HELP ",
        "# UNIT ",
        "counter\n",
        "histogram\n",
        "gauge\n",
        "info\n",
        "b",
        "1",
        "0.5",
        "NaN",
        "+Inf",
        "1e999",
        "-",
        "\t",
        "\r",
        "ä",
        "\0",
    ]);
    prop::collection::vec(token, 0..40).prop_map(|tokens| tokens.concat().into_bytes())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1_000, ..ProptestConfig::default() })]

    #[test]
    fn rendered_texts_come_back(
        (is_open, models) in any::<bool>().prop_flat_map(|is_open| (Just(is_open), models(is_open)))
    ) {
        let text = render(&models, is_open);
        let reading = read(Format::Prometheus, &text).unwrap();
        prop_assert_eq!(reading.rejected.sentence(), None);
        let Answer::One(json) = reading.answer else { panic!("no value of {text}") };
        let value = with_micros(serde_json::from_str(&json).unwrap());
        prop_assert_eq!(value, expected(&models, is_open));
        // Floats would take digits from these.
        for digits in ["9007199254740993", "123456789012345678901234567890"] {
            prop_assert_eq!(json.contains(digits), text.contains(digits));
        }
    }

    #[test]
    fn a_spoiled_text_is_read_soundly(bytes in mutated()) {
        check_bytes(Format::Prometheus, &bytes);
    }

    #[test]
    fn any_tokens_are_read_soundly(bytes in soup()) {
        check_bytes(Format::Prometheus, &bytes);
    }

    #[test]
    fn any_bytes_are_read_soundly(bytes in prop::collection::vec(any::<u8>(), 0..60)) {
        check_bytes(Format::Prometheus, &bytes);
    }
}

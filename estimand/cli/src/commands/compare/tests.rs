use serde_json::json;

use super::*;
use crate::output::Style;

fn name(text: &str) -> DataName {
    DataName::parse(text).unwrap()
}

fn value(of: &str, node: &str, value: &Json, state: &str) -> Value {
    let whole = json!({
        "dataName": of, "nodeName": node, "dataValue": value, "state": state, "revision": 7, "validFor": null,
        "collectedAt": "2026-01-31T12:00:00Z", "receivedAt": "2026-01-31T12:00:00Z",
    });
    serde_json::from_value(whole).unwrap()
}

fn binding(to: &str) -> Binding {
    let whole = json!({ "dataName": "capability", "to": to, "since": "2026-01-31T12:00:00Z", "revision": 7 });
    serde_json::from_value(whole).unwrap()
}

fn comparison(names: &[&str], values: &[Value], kept: &[ColumnPast], to: &str) -> Comparison {
    let names: Vec<DataName> = names.iter().map(|text| name(text)).collect();
    let binding = binding(to);
    let columns = columns(&names, values, kept, Some(&binding), &Pointer::parse("/value").unwrap());
    let pairs = pairs(&columns);
    let bound_to = Some(binding.to);
    Comparison { name: name("capability"), bound_to, revision: 7, since: "10m".to_owned(), columns, pairs }
}

/// Three estimators: of numbers, of objects with a past, and one that says nothing of use.
fn sample() -> Comparison {
    let values = [
        value("cpu", "n1", &json!(0.25), "fresh"),
        value("cpu", "n2", &json!(0.75), "stale"),
        value("ewma", "n1", &json!({"value": 2, "spread": 0.125, "samples": 12}), "fresh"),
        value("ewma", "n2", &json!({"value": 1, "spread": 0.5}), "fresh"),
        value("ewma", "n3", &json!({"value": 1}), "node-lost"),
        value("odd", "n1", &json!("fast"), "fresh"),
    ];
    let past = Past { mean: 1.98765, deviation: Some(0.01), count: 60 };
    let node = |text: &str| NodeName::parse(text).unwrap();
    let by_node =
        BTreeMap::from([(node("n1"), past), (node("n4"), Past { deviation: None, count: 1, ..past })]);
    let kept =
        [ColumnPast::default(), ColumnPast { is_kept: true, is_cut: true, by_node }, ColumnPast::default()];
    comparison(&["cpu", "ewma", "odd"], &values, &kept, "cpu")
}

#[test]
fn a_comparison_is_a_table_and_sentences() {
    let comparison = sample();
    let mut text = shown::table(&comparison).render(Style::default());
    comparison.pairs.iter().for_each(|pair| text += &format!("\n{}", shown::sentence(pair)));
    shown::remarks(&comparison).iter().for_each(|remark| text += &format!("\n(remark) {remark}"));
    insta::assert_snapshot!(text);
}

#[test]
fn a_comparison_in_json_is_as_it_is_described() {
    insta::assert_snapshot!(serde_json::to_string_pretty(&sample()).unwrap());
}

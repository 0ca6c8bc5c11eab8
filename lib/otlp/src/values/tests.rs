// Documents are written where they are given.
#![allow(clippy::unwrap_used, clippy::needless_pass_by_value)]

use serde_json::{Value, json};

use super::*;
use crate::Encoding;

fn push(body: &Value, settings: &Settings) -> Values {
    values(Encoding::Json.decode(body.to_string().as_bytes()).unwrap(), settings).unwrap()
}

fn attributes(all: &[(&str, &str)]) -> Value {
    all.iter().map(|(key, value)| json!({"key": key, "value": {"stringValue": value}})).collect()
}

fn resource(all: &[(&str, &str)], metrics: Value) -> Value {
    json!({"resource": {"attributes": attributes(all)}, "scopeMetrics": [{"scope": {"name": "x"}, "metrics": metrics}]})
}

fn of_node(metrics: Value) -> Value {
    json!({"resourceMetrics": [resource(&[("host.name", "n1")], metrics)]})
}

fn shown(values: &Values) -> Vec<(String, String, Value, Option<i64>)> {
    let one = |value: &PushedValue| {
        let text = serde_json::from_str(&value.text).unwrap();
        (value.data_name.to_string(), value.node_name.to_string(), text, value.at)
    };
    values.values.iter().map(one).collect()
}

fn check(metric: Value, expected: Value) {
    let found = push(&of_node(json!([metric])), &Settings::default());
    assert_eq!(found.rejected.sentence(), None, "{metric}");
    assert_eq!(shown(&found)[0].2, expected, "{metric}");
}

#[test]
fn each_kind_of_point_has_its_form() {
    let time = |second: u64| (1_700_000_000 + second) * 1_000_000_000;
    check(
        json!({"name": "a", "gauge": {"dataPoints": [{"asDouble": 0.5, "timeUnixNano": time(0).to_string()}]}}),
        json!({"type": "gauge", "value": 0.5}),
    );
    check(
        json!({"name": "a", "unit": "By", "description": "Said.", "sum": {"isMonotonic": true, "aggregationTemporality": 2, "dataPoints": [
            {"asInt": "9007199254740993", "timeUnixNano": time(0), "attributes": attributes(&[("state", "us\"ed"), ("cpu.id", "0")])},
            {"asInt": -3, "timeUnixNano": time(1), "attributes": [
                {"key": "n", "value": {"intValue": "5"}}, {"key": "l", "value": {"arrayValue": {"values": [{"boolValue": true}, {"doubleValue": 1.5}, {}]}}},
                {"key": "m", "value": {"kvlistValue": {"values": [{"key": "k", "value": {"bytesValue": "AQI="}}]}}}]}]}}),
        json!({"type": "counter", "help": "Said.", "unit": "By",
            "series": {"cpu.id=\"0\",state=\"us\\\"ed\"": 9_007_199_254_740_993u64, "l=\"[true,1.5,null]\",m=\"{\\\"k\\\":\\\"AQI=\\\"}\",n=\"5\"": -3},
            "times": {"cpu.id=\"0\",state=\"us\\\"ed\"": "2023-11-14T22:13:20.000000Z"}}),
    );
    check(
        json!({"name": "a", "sum": {"aggregationTemporality": 1, "dataPoints": [{"asDouble": "NaN"}]}}),
        json!({"type": "gauge", "temporality": "delta", "value": "NaN"}),
    );
    check(
        json!({"name": "a", "histogram": {"dataPoints": [{"count": "6", "sum": 7.5, "min": 0, "max": 4.5, "bucketCounts": ["1", 2, 3], "explicitBounds": [0.5, 1]}]}}),
        json!({"type": "histogram", "value": {"count": 6, "sum": 7.5, "min": 0.0, "max": 4.5, "buckets": {"0.5": 1, "1.0": 3, "+Inf": 6}}}),
    );
    check(
        json!({"name": "a", "exponentialHistogram": {"dataPoints": [{"count": "6", "sum": 7.5, "scale": 3, "positive": {"offset": 1, "bucketCounts": ["6"]}, "max": 4}]}}),
        json!({"type": "histogram", "value": {"count": 6, "sum": 7.5, "max": 4.0}}),
    );
    check(
        json!({"name": "a", "summary": {"dataPoints": [{"count": "6", "sum": 7.5, "quantileValues": [{"quantile": 0.99, "value": 2}, {"quantile": 0.5, "value": "Infinity"}]}]}}),
        json!({"type": "summary", "value": {"count": 6, "sum": 7.5, "quantiles": {"0.5": "+Inf", "0.99": 2.0}}}),
    );
}

#[test]
fn names_nodes_and_times_are_found() {
    let gauge = |name: &str, second: u64| json!([{"name": name, "gauge": {"dataPoints": [{"asInt": 1, "timeUnixNano": second * 1_000_000_000}]}}]);
    let body = json!({"resourceMetrics": [
        resource(&[("host.name", "n1")], gauge("system.cpu/load-1", 1)),
        resource(&[("host.name", "pod"), ("k8s.node.name", "n2"), ("service.name", "9 shop:é")], gauge("a", 2)),
        resource(&[], gauge("b", 0)),
    ]});
    let found = push(&body, &Settings::default());
    let names = |values: &Values| -> Vec<_> {
        shown(values).into_iter().map(|(name, node, _, at)| (name, node, at)).collect()
    };
    assert_eq!(
        names(&found),
        [
            ("otel_system_cpu_load_1".to_owned(), "n1".to_owned(), Some(1_000_000)),
            ("_9_shop___a".to_owned(), "n2".to_owned(), Some(2_000_000)),
        ]
    );
    let said = found.rejected.sentence().unwrap();
    assert!(said.starts_with("1 point was left out: `b` is of a resource that names no node"), "{said}");
    assert!(said.contains("OTEL_RESOURCE_ATTRIBUTES=host.name="), "{said}");
    let settings =
        Settings { prefix: Some(String::new()), node: Some("n3".parse().unwrap()), ..Settings::default() };
    let found = push(&body, &settings);
    assert_eq!(found.rejected, Rejected::default());
    assert_eq!(names(&found)[2], ("b".to_owned(), "n3".to_owned(), None));
}

#[test]
fn of_a_series_the_latest_counts_and_one_that_has_ended_is_gone() {
    let points = json!([
        {"asInt": 1, "timeUnixNano": 2_000}, {"asInt": 2, "timeUnixNano": 1_000},
        {"asInt": 0, "flags": 1, "timeUnixNano": 9_000, "attributes": attributes(&[("k", "v")])},
    ]);
    let found = push(&of_node(json!([{"name": "a", "gauge": {"dataPoints": points}}])), &Settings::default());
    assert_eq!(shown(&found)[0].2, json!({"type": "gauge", "value": 1}));
    let ended =
        json!([{"name": "a", "gauge": {"dataPoints": [{"flags": 1}]}}, {"name": "of a later version"}]);
    let found = push(&of_node(ended), &Settings::default());
    assert!(found.values.is_empty() && found.rejected == Rejected::default());
}

/// Each case has one metric that is right, and points that are not.
#[test]
fn what_is_wrong_is_counted_and_the_rest_taken() {
    let gauge = |name: &str, points: Value| json!({"name": name, "gauge": {"dataPoints": points}});
    let long = "x".repeat(5_000);
    let histogram = |counts: Value, bounds: Value| json!({"name": "h", "histogram": {"dataPoints": [{"bucketCounts": counts, "explicitBounds": bounds}]}});
    for (wrong, points, part) in [
        (gauge("no.number", json!([{}, {"asInt": 1}])), 1, "`no.number` has a point without a number"),
        (gauge("right-", json!([{"asInt": 1}, {"asInt": 1}])), 2, "`right.` and `right-` are both `otel_right_` here"),
        (json!({"name": "right.", "sum": {"isMonotonic": true, "dataPoints": [{"asInt": 1}]}}), 1, "comes as gauge and as counter"),
        (gauge("", json!([{"asInt": 1}])), 1, "a metric has no name"),
        (gauge(&long, json!([{"asInt": 1}])), 1, "is not a data name"),
        (gauge("k", json!([{"asInt": 1, "attributes": attributes(&[("k", &long)])}])), 1, "has attributes of 5004 bytes"),
        (histogram(json!([1, 2]), json!([1, 2])), 1, "2 counts and 2 bounds"),
        (histogram(json!([1, 2, 3]), json!([2, 1])), 1, "bounds that rise"),
        (histogram(json!([u64::MAX, 1]), json!([2])), 1, "too large"),
        (json!({"name": "s", "summary": {"dataPoints": [{"quantileValues": [{"quantile": 2}]}]}}), 1, "from 0 to 1"),
        (gauge("big", (0..3_000).map(|n| json!({"asInt": 1, "attributes": attributes(&[("a.long.attribute", &n.to_string())])})).collect()), 3_000, "more than 65536 bytes"),
    ] {
        let right = gauge("right.", json!([{"asInt": 1}]));
        let found = push(&of_node(json!([right, wrong])), &Settings::default());
        let said = found.rejected.sentence().unwrap();
        assert_eq!((found.rejected.points, found.values[0].data_name.as_str()), (points, "otel_right_"), "{said}");
        assert!(said.contains(part), "{part}: {said}");
    }
}

#[test]
fn resources_of_one_node_that_would_be_one_series_are_told_apart_or_refused() {
    let pod = |name: &str, number: u32| {
        let metrics = json!([{"name": "k8s.pod.cpu", "gauge": {"dataPoints": [{"asInt": number}]}}]);
        resource(&[("k8s.node.name", "n1"), ("k8s.pod.name", name)], metrics)
    };
    let body = json!({"resourceMetrics": [pod("a", 1), pod("b", 2), pod("a", 3)]});
    let found = push(&body, &Settings::default());
    assert_eq!(shown(&found)[0].2["value"], 3, "the same resource may come twice");
    let said = found.rejected.sentence().unwrap();
    assert!(said.contains("`k8s.pod.cpu` comes from several resources"), "{said}");
    assert!(said.contains("Estimand-Series-Attributes"), "{said}");
    let by_pod = Settings { series_attributes: vec!["k8s.pod.name".to_owned()], ..Settings::default() };
    let found = push(&body, &by_pod);
    assert_eq!(shown(&found)[0].2["series"], json!({"k8s.pod.name=\"a\"": 3, "k8s.pod.name=\"b\"": 2}));
    assert_eq!(found.rejected, Rejected::default());
}

#[test]
fn the_work_grows_with_the_body() {
    let settings = Settings { series_attributes: vec!["long".to_owned()], ..Settings::default() };
    let body = |points: usize| {
        let points: Value = (0..points)
            .map(|n| json!({"asInt": n, "attributes": attributes(&[("a", &n.to_string())])}))
            .collect();
        let metrics = json!([{"name": "m", "gauge": {"dataPoints": points}}]);
        let all = json!({"resourceMetrics": [resource(&[("host.name", "n1"), ("long", &"x".repeat(1_000))], metrics)]});
        all.to_string().into_bytes().into_boxed_slice()
    };
    estimand_testkit::growth::is_linear("points", body, |body: &[u8]| {
        values(Encoding::Json.decode(body).unwrap(), &settings).unwrap().values.len()
    });
}

#[test]
fn there_are_bounds_on_points_and_on_all_texts_together() {
    let many: Value = vec![json!({"asInt": 1}); MAX_POINTS + 1].into();
    let request = Encoding::Json
        .decode(of_node(json!([{"name": "m", "gauge": {"dataPoints": many}}])).to_string().as_bytes());
    assert!(values(request.unwrap(), &Settings::default()).unwrap_err().contains("100000 points"));
    // A resource's label stands in each series.
    let metrics: Value = (0..20_000)
        .map(|n| json!({"name": format!("m{n}"), "gauge": {"dataPoints": [{"asInt": 1}]}}))
        .collect();
    let body =
        json!({"resourceMetrics": [resource(&[("host.name", "n1"), ("long", &"x".repeat(1_000))], metrics)]});
    let settings = Settings { series_attributes: vec!["long".to_owned()], ..Settings::default() };
    let request = Encoding::Json.decode(body.to_string().as_bytes()).unwrap();
    assert!(values(request, &settings).unwrap_err().contains("16777216 bytes"));
}

//! Metrics that SDKs of OpenTelemetry and its Collector export: in protobuf, written here by hand, and in JSON.

use std::io::Write as _;

use estimand_testkit::http::{Http, Response};
use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::{Value, json};

use crate::access::token_with;
use crate::answers::{problem, unknown_input};
use crate::target::Target;

on_every_target!(
    a_metric_of_a_host_is_a_value_of_a_node,
    points_that_are_wrong_are_counted_and_the_others_stored,
    headers_say_names_series_and_how_long_values_hold,
    a_refusal_is_a_status_in_the_encoding_of_the_request,
    a_node_exports_what_is_its_own,
);

const PROTOBUF: (&str, &str) = ("Content-Type", "application/x-protobuf");
const JSON: (&str, &str) = ("Content-Type", "application/json; charset=utf-8");

fn export(target: &Target, headers: &[(&str, &str)], body: impl AsRef<[u8]>) -> Response {
    target.data.request("POST", "/v1/metrics", headers, body.as_ref())
}

/// A field of a message that is bytes, a text or a message.
fn field(number: u8, inner: impl AsRef<[u8]>) -> Vec<u8> {
    let inner = inner.as_ref();
    let mut out = vec![number << 3 | 2];
    let mut length = inner.len();
    while length > 0x7f {
        out.push((length & 0x7f) as u8 | 0x80);
        length >>= 7;
    }
    out.push(length as u8);
    out.extend_from_slice(inner);
    out
}

/// A field that is a number of eight bytes.
fn eight(number: u8, bytes: [u8; 8]) -> Vec<u8> {
    [&[number << 3 | 1][..], &bytes].concat()
}

fn attribute(number: u8, key: &str, value: &str) -> Vec<u8> {
    field(number, [field(1, key), field(2, field(1, value))].concat())
}

/// An `ExportMetricsServiceRequest` of one gauge with two points.
fn gauge_in_protobuf(node: &str, metric: &str) -> Vec<u8> {
    let time = eight(3, 1_700_000_000_000_000_000u64.to_le_bytes());
    let idle = [attribute(7, "state", "idle"), time.clone(), eight(4, 0.25f64.to_le_bytes())].concat();
    let user = [attribute(7, "state", "user"), time, eight(6, (-3i64).to_le_bytes())].concat();
    let points = [field(1, idle), field(1, user)].concat();
    let metric = [field(1, metric), field(3, "1"), field(5, points)].concat();
    // The scope and the address of the schema are passed over.
    let scope = [field(1, field(1, "a.scope")), field(2, metric), field(3, "https://example.org")].concat();
    field(1, [field(1, attribute(1, "host.name", node)), field(2, scope)].concat())
}

fn of_host(node: Option<&str>, metrics: &Value) -> Value {
    let attributes: Vec<Value> =
        node.iter().map(|node| json!({"key": "host.name", "value": {"stringValue": node}})).collect();
    json!({"resourceMetrics": [{"resource": {"attributes": attributes}, "scopeMetrics": [{"metrics": metrics}]}]})
}

fn gauge(name: &str, points: &Value) -> Value {
    json!({"name": name, "gauge": {"dataPoints": points}})
}

/// The text of a `Status` in JSON.
#[track_caller]
fn status(answer: &Response, http: u16, code: i32) -> String {
    assert_eq!((answer.status, answer.header("content-type")), (http, Some("application/json")), "{answer}");
    assert_eq!(answer.json()["code"], code, "{answer}");
    answer.json()["message"].as_str().unwrap().to_owned()
}

fn a_metric_of_a_host_is_a_value_of_a_node(target: &Target) {
    let metric = target.name("system.cpu");
    let name = format!("otel_{}", metric.replace('.', "_"));
    let body = gauge_in_protobuf("n1", &metric);
    let mut gzip = GzEncoder::new(Vec::new(), Compression::default());
    gzip.write_all(&body).unwrap();
    for (headers, body) in
        [(&[PROTOBUF][..], body), (&[PROTOBUF, ("Content-Encoding", "gzip")], gzip.finish().unwrap())]
    {
        let answer = export(target, headers, body);
        assert_eq!((answer.status, &answer.body[..]), (200, &b""[..]), "{answer}");
        assert_eq!(answer.header("content-type"), Some("application/x-protobuf"));
        let stored = target.one(&name, "n1");
        assert_eq!(stored["collectedAt"], "2023-11-14T22:13:20.000000Z", "{stored}");
        let series = json!({"state=\"idle\"": 0.25, "state=\"user\"": -3});
        assert_eq!(stored["dataValue"], json!({"type": "gauge", "unit": "1", "series": series}));
    }
    let points = json!([{"asInt": "7", "timeUnixNano": "1700000001000000000"}]);
    let answer = export(target, &[JSON], of_host(Some("n1"), &json!([gauge(&metric, &points)])).to_string());
    assert_eq!((answer.status, answer.text()), (200, "{}"), "{answer}");
    assert_eq!(target.one(&name, "n1")["dataValue"]["value"], 7);
    // Nothing is nothing wrong.
    assert_eq!(export(target, &[PROTOBUF], b"").status, 200);
    assert_eq!(export(target, &[JSON], b"{}").text(), "{}");
}

fn points_that_are_wrong_are_counted_and_the_others_stored(target: &Target) {
    let metric = target.name("partly");
    let metrics =
        json!([gauge(&metric, &json!([{"asInt": 1}])), gauge("wrong", &json!([{}, {}, {"flags": 1}]))]);
    let body = of_host(Some("n1"), &metrics);
    let answer = export(target, &[JSON], body.to_string()).expect_status(200).json();
    assert_eq!(answer["partialSuccess"]["rejectedDataPoints"], "2", "{answer}");
    let said = answer["partialSuccess"]["errorMessage"].as_str().unwrap();
    assert!(said.contains("`wrong` has a point without a number"), "{said}");
    assert_eq!(target.one(&format!("otel_{metric}"), "n1")["dataValue"]["value"], 1);
    // In protobuf the same: a point without a number, of a node without a name.
    let point = field(1, field(2, field(2, [field(1, "m"), field(5, field(1, b""))].concat())));
    let both = [gauge_in_protobuf("n1", &metric), point].concat();
    let answer = export(target, &[PROTOBUF], both).expect_status(200);
    assert_eq!(&answer.body[..1], [0x0a], "a partial success");
    assert_eq!(&answer.body[3..5], [0x08, 1], "of which one point");
    assert!(String::from_utf8_lossy(&answer.body).contains("names no node"), "{answer}");
}

fn headers_say_names_series_and_how_long_values_hold(target: &Target) {
    let metric = target.name("held");
    let mut body = of_host(Some("n1"), &json!([gauge(&metric, &json!([{"asInt": 1}]))]));
    let attributes = body["resourceMetrics"][0]["resource"]["attributes"].as_array_mut().unwrap();
    attributes.push(json!({"key": "service.name", "value": {"stringValue": "shop"}}));
    attributes.push(json!({"key": "process.pid", "value": {"intValue": "17"}}));
    export(target, &[JSON], body.to_string()).expect_status(200);
    assert_eq!(target.one(&format!("shop_{metric}"), "n1")["validFor"], Value::Null);
    let headers = [
        JSON,
        ("Estimand-Name-Prefix", ""),
        ("Estimand-Series-Attributes", "k8s.pod.name, process.pid"),
        ("Estimand-Valid-For", "30s"),
    ];
    export(target, &headers, body.to_string()).expect_status(200);
    let stored = target.one(&metric, "n1");
    assert_eq!((&stored["validFor"], &stored["state"]), (&json!(30), &json!("fresh")), "{stored}");
    assert_eq!(stored["dataValue"]["series"], json!({"process.pid=\"17\"": 1}));
    let too_many = "a,".repeat(17);
    for (header, given, said) in [
        ("Estimand-Name-Prefix", "a b", "letters"),
        ("Estimand-Series-Attributes", &*too_many, "at most 16"),
        ("Estimand-Valid-For", "for ever", "30s"),
        ("Estimand-Valid-For", "0s", "no such header"),
    ] {
        let answer = export(target, &[JSON, (header, given)], body.to_string());
        let message = status(&answer, 400, 3);
        assert!(message.contains(header) && message.contains(said), "{message}");
    }
}

fn a_refusal_is_a_status_in_the_encoding_of_the_request(target: &Target) {
    let metric = target.name("refused");
    let fine = of_host(Some("n1"), &json!([gauge(&metric, &json!([{"asInt": 1}]))])).to_string();
    for (headers, body) in [
        (&[JSON][..], &fine[..fine.len() - 1]),
        (&[JSON], "{\"resourceMetrics\":7}"),
        (&[JSON, ("Content-Encoding", "gzip")], &*fine),
    ] {
        assert!(status(&export(target, headers, body), 400, 3).starts_with("body: "));
    }
    let nowhere = of_host(None, &json!([gauge(&metric, &json!([{"asInt": 1}]))])).to_string();
    let message = status(&export(target, &[JSON], nowhere), 400, 3);
    assert!(
        message.contains("OTEL_RESOURCE_ATTRIBUTES=host.name=") && message.contains("nothing is stored"),
        "{message}"
    );
    let whole = gauge_in_protobuf("n1", &metric);
    let cut = export(target, &[PROTOBUF], &whole[..whole.len() - 1]);
    assert_eq!((cut.status, cut.header("content-type")), (400, Some("application/x-protobuf")), "{cut}");
    assert_eq!(&cut.body[..3], [0x08, 3, 0x12], "a code and a message");
    // Four million points of two bytes would be most of a gigabyte.
    let points = field(5, [0x0a, 0].repeat(4_000_000));
    let many = field(1, field(2, field(2, points)));
    let answer = export(target, &[PROTOBUF], many);
    assert_eq!((answer.status, &answer.body[..2]), (413, &[0x08, 8][..]), "{answer}");
    for headers in [&[][..], &[("Content-Type", "text/plain")]] {
        let refused = problem(&export(target, headers, &fine), 415);
        assert!(refused["detail"].as_str().unwrap().contains("application/x-protobuf"), "{refused}");
    }
    let asked = target.data.request("POST", "/v1/metrics?bucket=b", &[JSON], fine.as_bytes());
    unknown_input(&asked, "bucket", "no parameters");
    target
        .data
        .send_json("PUT", &format!("/api/bindings/otel_{metric}"), &json!({"to": metric}))
        .expect_status(200);
    status(&export(target, &[JSON], &fine), 409, 9);
    assert_eq!(target.query(&format!("dataName={metric}")), Vec::<Value>::new());
}

/// A resource without a name is the node whose token is shown.
fn a_node_exports_what_is_its_own(target: &Target) {
    let (node, metric) = (target.name("exporting"), target.name("own"));
    let token = token_with(target, &json!({"role": "node", "node": node}));
    let http = Http::new(&format!("http://{}", target.data_address)).showing(Some(&token));
    let sent = |named: Option<&str>| {
        let body = of_host(named, &json!([gauge(&metric, &json!([{"asInt": 5}]))]));
        http.request("POST", "/v1/metrics", &[JSON], body.to_string().as_bytes())
    };
    assert_eq!(sent(None).text(), "{}");
    assert_eq!(target.one(&format!("otel_{metric}"), &node)["dataValue"]["value"], 5);
    assert_eq!(sent(Some(&node)).status, 200);
    let message = status(&sent(Some("another")), 403, 7);
    assert!(message.contains(&node), "{message}");
}

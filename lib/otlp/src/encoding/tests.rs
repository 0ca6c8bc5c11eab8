use estimand_testkit::growth::is_linear;
use proptest::prelude::*;

use super::*;
use crate::messages::{
    AnyValue, AnyValueKind, ArrayValue, Gauge, Histogram, HistogramDataPoint, KeyValue, Metric,
    NumberDataPoint, Resource, ResourceMetrics, ScopeMetrics,
};

fn request(metrics: Vec<Metric>, attributes: Vec<KeyValue>) -> ExportMetricsServiceRequest {
    let resource = Some(Resource { attributes });
    let scope_metrics = vec![ScopeMetrics { metrics }];
    ExportMetricsServiceRequest { resource_metrics: vec![ResourceMetrics { resource, scope_metrics }] }
}

fn attribute(key: &str, kind: AnyValueKind) -> KeyValue {
    KeyValue { key: key.to_owned(), value: Some(AnyValue { value: Some(kind) }) }
}

fn whole() -> ExportMetricsServiceRequest {
    let histogram = HistogramDataPoint {
        attributes: vec![
            attribute("a", AnyValueKind::Int(-5)),
            attribute("b", AnyValueKind::Bytes(vec![0, 255])),
        ],
        time_unix_nano: 1_700_000_000_000_000_000,
        count: u64::MAX,
        sum: Some(-0.5),
        bucket_counts: vec![1, 300],
        explicit_bounds: vec![0.25],
        flags: 1,
        min: Some(f64::NEG_INFINITY),
        max: None,
    };
    let histogram = Histogram { data_points: vec![histogram], aggregation_temporality: 2 };
    let metric = Metric { name: "h".to_owned(), histogram: Some(histogram), ..Metric::default() };
    request(vec![metric], vec![attribute("host.name", AnyValueKind::Text("n1".to_owned()))])
}

#[test]
fn both_encodings_say_the_same() {
    let json = r#"{"resourceMetrics":[{"schemaUrl":"x","resource":{"attributes":[{"key":"host.name","value":{"stringValue":"n1"}}],"droppedAttributesCount":0},
        "scopeMetrics":[{"scope":null,"metrics":[{"name":"h","unit":null,"metadata":[],"histogram":{"aggregationTemporality":2,"dataPoints":[{
        "attributes":[{"key":"a","value":{"intValue":"-5"}},{"key":"b","value":{"bytesValue":"AP8="}}],"startTimeUnixNano":"1",
        "timeUnixNano":"1700000000000000000","count":18446744073709551615,"sum":-0.5,"bucketCounts":["1",300],"explicitBounds":[0.25],"flags":1,
        "min":"-Infinity","max":null,"exemplars":[{"asDouble":1,"spanId":"ab"}]}]}}]}]}]}"#;
    assert_eq!(Encoding::Json.decode(json.as_bytes()).unwrap(), whole());
    assert_eq!(Encoding::Protobuf.decode(&whole().encode_to_vec()).unwrap(), whole());
    for broken in [
        "",
        "[",
        "{\"resourceMetrics\":1}",
        "{\"resourceMetrics\":[{\"resource\":{\"attributes\":[{\"value\":{\"bytesValue\":\"*\"}}]}}]}",
        "{\"resourceMetrics\":[{\"scopeMetrics\":[{\"metrics\":[{\"gauge\":{\"dataPoints\":[{\"asInt\":\"1.5\"}]}}]}]}]}",
        "{\"resourceMetrics\":[{\"scopeMetrics\":[{\"metrics\":[{\"sum\":{\"aggregationTemporality\":\"DELTA\"}}]}]}]}",
    ] {
        Encoding::Json.decode(broken.as_bytes()).unwrap_err();
    }
}

#[test]
fn a_message_is_short_however_long_the_text_is_that_is_wrong() {
    let long = "x".repeat(100_000);
    let point = format!("{{\"gauge\":{{\"dataPoints\":[{{\"asInt\":\"{long}\"}}]}}}}");
    for (wrong, part) in [
        (format!("{{\"resourceMetrics\":\n\"{long}\"}}"), "at line 2, column 100002"),
        (format!("{{\"resourceMetrics\":[{{\"scopeMetrics\":[{{\"metrics\":[{point}]}}]}}]}}"), "at line 1"),
    ] {
        let said = Encoding::Json.decode(wrong.as_bytes()).unwrap_err().to_string();
        assert!(said.len() < 300 && said.contains(part), "{said}");
    }
}

#[test]
fn what_is_cut_short_is_refused() {
    let body = whole().encode_to_vec();
    let whole_prefixes =
        (0..body.len()).filter(|end| Encoding::Protobuf.decode(&body[..*end]).is_ok()).count();
    // The empty one is an empty message.
    assert_eq!(whole_prefixes, 1);
}

#[test]
fn nesting_is_bounded() {
    for depth in [200, 100_000] {
        // A message as deep as its writer likes, from the inside out; as deep as it may be written within a moment.
        let mut body: Vec<u8> = Vec::new();
        for level in 0..depth.min(2_000) {
            let mut outer = vec![if level % 2 == 0 { 0x2a } else { 0x0a }];
            prost::encode_length_delimiter(body.len(), &mut outer).unwrap();
            outer.extend_from_slice(&body);
            body = outer;
        }
        let wrapped = |field: u8, inner: Vec<u8>| {
            let mut outer = vec![field];
            prost::encode_length_delimiter(inner.len(), &mut outer).unwrap();
            outer.extend_from_slice(&inner);
            outer
        };
        // In the value of an attribute of a resource.
        let body = wrapped(0x0a, wrapped(0x0a, wrapped(0x0a, wrapped(0x12, body))));
        assert!(Encoding::Protobuf.size(&body) < 100 * 1_000);
        Encoding::Protobuf.decode(&body).unwrap_err();
        let open = "{\"arrayValue\":{\"values\":[".repeat(depth);
        let json = format!("{{\"resourceMetrics\":[{{\"resource\":{{\"attributes\":[{{\"value\":{open}");
        Encoding::Json.decode(json.as_bytes()).unwrap_err();
    }
    let fine = (0..20).fold(AnyValueKind::Bool(true), |inner, _| {
        AnyValueKind::Array(ArrayValue { values: vec![AnyValue { value: Some(inner) }] })
    });
    let fine = request(vec![], vec![attribute("deep", fine)]);
    assert_eq!(Encoding::Protobuf.decode(&fine.encode_to_vec()).unwrap(), fine);
}

#[test]
fn the_memory_of_a_body_is_known_before_it_is_decoded() {
    let points = 100_000;
    let gauge = Gauge { data_points: vec![NumberDataPoint::default(); points] };
    let body = request(vec![Metric { gauge: Some(gauge), ..Metric::default() }], vec![]).encode_to_vec();
    assert!(body.len() < 2 * points + 100, "two bytes for each");
    let bytes = Encoding::Protobuf.size(&body);
    assert!(
        (points * size_of::<NumberDataPoint>()..points * size_of::<NumberDataPoint>() + 2_000)
            .contains(&bytes)
    );
    let json = format!("{{\"resourceMetrics\":[{{}},[],{{\"a\":\"[{{\\\"{{\"}}{}]}}", ",{}".repeat(points));
    assert_eq!(Encoding::Json.size(json.as_bytes()) / size_of::<HistogramDataPoint>(), points + 5);
    // Announced lengths that are not there take nothing.
    let liar = [0x0a, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f];
    assert!(Encoding::Protobuf.size(&liar) < 1_000);
    Encoding::Protobuf.decode(&liar).unwrap_err();
}

#[test]
fn the_work_grows_with_the_body() {
    let body = |n: usize| {
        let points = (0..n).map(|n| NumberDataPoint {
            as_int: Some(7),
            attributes: vec![attribute("a", AnyValueKind::Text(n.to_string()))],
            ..NumberDataPoint::default()
        });
        let gauge = Gauge { data_points: points.collect() };
        request(vec![Metric { gauge: Some(gauge), ..Metric::default() }], vec![])
            .encode_to_vec()
            .into_boxed_slice()
    };
    is_linear("size", body, |body: &[u8]| Encoding::Protobuf.size(body));
    is_linear("decoding", body, |body: &[u8]| Encoding::Protobuf.decode(body).is_ok());
}

proptest! {
    /// Any bytes, and a right message with some bytes changed.
    #[test]
    fn nothing_panics(any in prop::collection::vec(any::<u8>(), 0..200), changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..5)) {
        let mut changed = whole().encode_to_vec();
        for (place, byte) in changes {
            let place = place.index(changed.len());
            changed[place] = byte;
        }
        for body in [any, changed] {
            for encoding in [Encoding::Protobuf, Encoding::Json] {
                encoding.size(&body);
                if let Ok(request) = encoding.decode(&body) {
                    for value in crate::values::values(request, &crate::values::Settings::default()).unwrap().values {
                        serde_json::from_str::<serde_json::Value>(&value.text).unwrap();
                    }
                }
            }
        }
    }
}

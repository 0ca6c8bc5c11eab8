//! The memory that a body takes once it is decoded.
//!
//! A body in protobuf is walked from field to field and nothing of it is kept. What is broken there ends the walk: decoding says
//! what is wrong. In JSON each object, and each array, is counted as one of the largest messages.

use crate::messages::{
    AnyValue, ArrayValue, ExponentialHistogram, ExponentialHistogramDataPoint, Gauge, Histogram,
    HistogramDataPoint, KeyValue, KeyValueList, Metric, NumberDataPoint, Resource, ResourceMetrics,
    ScopeMetrics, Sum, Summary, SummaryDataPoint, ValueAtQuantile,
};

/// A kind of message: its size, and its fields that are messages.
struct Shape {
    bytes: usize,
    parts: &'static [(u64, &'static Shape)],
}

const fn shape<T>(parts: &'static [(u64, &'static Shape)]) -> Shape {
    Shape { bytes: size_of::<T>(), parts }
}

static REQUEST: Shape = shape::<()>(&[(1, &RESOURCE_METRICS)]);
static RESOURCE_METRICS: Shape = shape::<ResourceMetrics>(&[(1, &RESOURCE), (2, &SCOPE_METRICS)]);
static RESOURCE: Shape = shape::<Resource>(&[(1, &KEY_VALUE)]);
static SCOPE_METRICS: Shape = shape::<ScopeMetrics>(&[(2, &METRIC)]);
static METRIC: Shape =
    shape::<Metric>(&[(5, &GAUGE), (7, &SUM), (9, &HISTOGRAM), (10, &EXPONENTIAL), (11, &SUMMARY)]);
static GAUGE: Shape = shape::<Gauge>(&[(1, &NUMBER)]);
static SUM: Shape = shape::<Sum>(&[(1, &NUMBER)]);
static NUMBER: Shape = shape::<NumberDataPoint>(&[(7, &KEY_VALUE)]);
static HISTOGRAM: Shape = shape::<Histogram>(&[(1, &HISTOGRAM_POINT)]);
static HISTOGRAM_POINT: Shape = shape::<HistogramDataPoint>(&[(9, &KEY_VALUE)]);
static EXPONENTIAL: Shape = shape::<ExponentialHistogram>(&[(1, &EXPONENTIAL_POINT)]);
static EXPONENTIAL_POINT: Shape = shape::<ExponentialHistogramDataPoint>(&[(1, &KEY_VALUE)]);
static SUMMARY: Shape = shape::<Summary>(&[(1, &SUMMARY_POINT)]);
static SUMMARY_POINT: Shape = shape::<SummaryDataPoint>(&[(6, &QUANTILE), (7, &KEY_VALUE)]);
static QUANTILE: Shape = shape::<ValueAtQuantile>(&[]);
static KEY_VALUE: Shape = shape::<KeyValue>(&[(2, &ANY_VALUE)]);
static ANY_VALUE: Shape = shape::<AnyValue>(&[(5, &ARRAY), (6, &MEMBERS)]);
static ARRAY: Shape = shape::<ArrayValue>(&[(1, &ANY_VALUE)]);
static MEMBERS: Shape = shape::<KeyValueList>(&[(1, &KEY_VALUE)]);

/// One more than decoding takes.
const MAX_DEPTH: usize = 101;

pub fn of_protobuf(body: &[u8]) -> usize {
    let mut bytes = 0;
    walk(body, &REQUEST, 0, &mut bytes);
    bytes
}

/// None where the body is broken.
fn walk(mut rest: &[u8], shape: &Shape, depth: usize, bytes: &mut usize) -> Option<()> {
    *bytes += shape.bytes;
    if depth > MAX_DEPTH {
        return None;
    }
    while !rest.is_empty() {
        let key = varint(&mut rest)?;
        let (field, wire_type) = (key >> 3, key & 7);
        let length = match wire_type {
            0 => varint(&mut rest).map(|_| 0)?,
            1 => 8,
            2 => usize::try_from(varint(&mut rest)?).ok()?,
            // The marks of a group, whose fields count as if they were of the message itself.
            3 | 4 => 0,
            5 => 4,
            _ => return None,
        };
        let (inner, after) = rest.split_at_checked(length)?;
        if wire_type == 2
            && let Some((_, part)) = shape.parts.iter().find(|(number, _)| *number == field)
        {
            walk(inner, part, depth + 1, bytes)?;
        }
        rest = after;
    }
    Some(())
}

fn varint(rest: &mut &[u8]) -> Option<u64> {
    let mut number = 0;
    for place in 0..10 {
        let (byte, after) = rest.split_first()?;
        *rest = after;
        number |= u64::from(byte & 0x7f) << (7 * place);
        if byte & 0x80 == 0 {
            return Some(number);
        }
    }
    None
}

/// The largest message that comes often.
const OBJECT_BYTES: usize = size_of::<HistogramDataPoint>();

pub fn of_json(body: &[u8]) -> usize {
    let (mut objects, mut in_text, mut at) = (0, false, 0);
    while let Some(byte) = body.get(at) {
        match byte {
            b'"' => in_text = !in_text,
            b'\\' if in_text => at += 1,
            b'{' | b'[' if !in_text => objects += 1,
            _ => {}
        }
        at += 1;
    }
    objects * OBJECT_BYTES
}

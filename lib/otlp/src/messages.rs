//! The messages of OTLP that carry metrics, as far as they are read or written here. Numbers of fields are those of
//! `opentelemetry/proto/metrics/v1/metrics.proto` and `…/common/v1/common.proto`.
//!
//! The members of a `oneof` of messages are optional fields: that is the same on the wire, and the same in JSON.

use prost::{Message, Oneof};
use serde::Deserialize;

use crate::json::{AnyValueJson, double, int, maybe, maybe_double, numbers, or_default, whole};

#[derive(Clone, PartialEq, Message, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ExportMetricsServiceRequest {
    #[prost(message, repeated, tag = "1")]
    #[serde(deserialize_with = "or_default")]
    pub resource_metrics: Vec<ResourceMetrics>,
}

#[derive(Clone, PartialEq, Message, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ResourceMetrics {
    #[prost(message, optional, tag = "1")]
    pub resource: Option<Resource>,
    #[prost(message, repeated, tag = "2")]
    #[serde(deserialize_with = "or_default")]
    pub scope_metrics: Vec<ScopeMetrics>,
}

/// The thing that is measured: a program, a host, a container.
#[derive(Clone, PartialEq, Message, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Resource {
    #[prost(message, repeated, tag = "1")]
    #[serde(deserialize_with = "or_default")]
    pub attributes: Vec<KeyValue>,
}

#[derive(Clone, PartialEq, Message, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ScopeMetrics {
    #[prost(message, repeated, tag = "2")]
    #[serde(deserialize_with = "or_default")]
    pub metrics: Vec<Metric>,
}

/// At most one of the kinds of points is there.
#[derive(Clone, PartialEq, Message, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Metric {
    #[prost(string, tag = "1")]
    #[serde(deserialize_with = "or_default")]
    pub name: String,
    #[prost(string, tag = "2")]
    #[serde(deserialize_with = "or_default")]
    pub description: String,
    #[prost(string, tag = "3")]
    #[serde(deserialize_with = "or_default")]
    pub unit: String,
    #[prost(message, optional, tag = "5")]
    pub gauge: Option<Gauge>,
    #[prost(message, optional, tag = "7")]
    pub sum: Option<Sum>,
    #[prost(message, optional, tag = "9")]
    pub histogram: Option<Histogram>,
    #[prost(message, optional, tag = "10")]
    pub exponential_histogram: Option<ExponentialHistogram>,
    #[prost(message, optional, tag = "11")]
    pub summary: Option<Summary>,
}

#[derive(Clone, PartialEq, Message, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Gauge {
    #[prost(message, repeated, tag = "1")]
    #[serde(deserialize_with = "or_default")]
    pub data_points: Vec<NumberDataPoint>,
}

#[derive(Clone, PartialEq, Message, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Sum {
    #[prost(message, repeated, tag = "1")]
    #[serde(deserialize_with = "or_default")]
    pub data_points: Vec<NumberDataPoint>,
    #[prost(int32, tag = "2")]
    #[serde(deserialize_with = "int")]
    pub aggregation_temporality: i32,
    #[prost(bool, tag = "3")]
    #[serde(deserialize_with = "or_default")]
    pub is_monotonic: bool,
}

/// Points count from the one before, not from the start of the series.
pub const DELTA: i32 = 1;

#[derive(Clone, PartialEq, Message, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Histogram {
    #[prost(message, repeated, tag = "1")]
    #[serde(deserialize_with = "or_default")]
    pub data_points: Vec<HistogramDataPoint>,
    #[prost(int32, tag = "2")]
    #[serde(deserialize_with = "int")]
    pub aggregation_temporality: i32,
}

#[derive(Clone, PartialEq, Message, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ExponentialHistogram {
    #[prost(message, repeated, tag = "1")]
    #[serde(deserialize_with = "or_default")]
    pub data_points: Vec<ExponentialHistogramDataPoint>,
    #[prost(int32, tag = "2")]
    #[serde(deserialize_with = "int")]
    pub aggregation_temporality: i32,
}

#[derive(Clone, PartialEq, Message, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Summary {
    #[prost(message, repeated, tag = "1")]
    #[serde(deserialize_with = "or_default")]
    pub data_points: Vec<SummaryDataPoint>,
}

/// Times are nanoseconds since 1970; 0 is none.
#[derive(Clone, PartialEq, Message, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct NumberDataPoint {
    #[prost(message, repeated, tag = "7")]
    #[serde(deserialize_with = "or_default")]
    pub attributes: Vec<KeyValue>,
    #[prost(fixed64, tag = "3")]
    #[serde(deserialize_with = "whole")]
    pub time_unix_nano: u64,
    #[prost(double, optional, tag = "4")]
    #[serde(deserialize_with = "maybe_double")]
    pub as_double: Option<f64>,
    #[prost(sfixed64, optional, tag = "6")]
    #[serde(deserialize_with = "maybe")]
    pub as_int: Option<i64>,
    #[prost(uint32, tag = "8")]
    #[serde(deserialize_with = "whole")]
    pub flags: u32,
}

/// The flag of a point that says that there is no value any more.
pub const NO_RECORDED_VALUE: u32 = 1;

#[derive(Clone, PartialEq, Message, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct HistogramDataPoint {
    #[prost(message, repeated, tag = "9")]
    #[serde(deserialize_with = "or_default")]
    pub attributes: Vec<KeyValue>,
    #[prost(fixed64, tag = "3")]
    #[serde(deserialize_with = "whole")]
    pub time_unix_nano: u64,
    #[prost(fixed64, tag = "4")]
    #[serde(deserialize_with = "whole")]
    pub count: u64,
    #[prost(double, optional, tag = "5")]
    #[serde(deserialize_with = "maybe_double")]
    pub sum: Option<f64>,
    #[prost(fixed64, repeated, tag = "6")]
    #[serde(deserialize_with = "numbers::whole")]
    pub bucket_counts: Vec<u64>,
    #[prost(double, repeated, tag = "7")]
    #[serde(deserialize_with = "numbers::double")]
    pub explicit_bounds: Vec<f64>,
    #[prost(uint32, tag = "10")]
    #[serde(deserialize_with = "whole")]
    pub flags: u32,
    #[prost(double, optional, tag = "11")]
    #[serde(deserialize_with = "maybe_double")]
    pub min: Option<f64>,
    #[prost(double, optional, tag = "12")]
    #[serde(deserialize_with = "maybe_double")]
    pub max: Option<f64>,
}

/// Without its buckets.
#[derive(Clone, PartialEq, Message, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ExponentialHistogramDataPoint {
    #[prost(message, repeated, tag = "1")]
    #[serde(deserialize_with = "or_default")]
    pub attributes: Vec<KeyValue>,
    #[prost(fixed64, tag = "3")]
    #[serde(deserialize_with = "whole")]
    pub time_unix_nano: u64,
    #[prost(fixed64, tag = "4")]
    #[serde(deserialize_with = "whole")]
    pub count: u64,
    #[prost(double, optional, tag = "5")]
    #[serde(deserialize_with = "maybe_double")]
    pub sum: Option<f64>,
    #[prost(uint32, tag = "10")]
    #[serde(deserialize_with = "whole")]
    pub flags: u32,
    #[prost(double, optional, tag = "12")]
    #[serde(deserialize_with = "maybe_double")]
    pub min: Option<f64>,
    #[prost(double, optional, tag = "13")]
    #[serde(deserialize_with = "maybe_double")]
    pub max: Option<f64>,
}

#[derive(Clone, PartialEq, Message, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct SummaryDataPoint {
    #[prost(message, repeated, tag = "7")]
    #[serde(deserialize_with = "or_default")]
    pub attributes: Vec<KeyValue>,
    #[prost(fixed64, tag = "3")]
    #[serde(deserialize_with = "whole")]
    pub time_unix_nano: u64,
    #[prost(fixed64, tag = "4")]
    #[serde(deserialize_with = "whole")]
    pub count: u64,
    #[prost(double, tag = "5")]
    #[serde(deserialize_with = "double")]
    pub sum: f64,
    #[prost(message, repeated, tag = "6")]
    #[serde(deserialize_with = "or_default")]
    pub quantile_values: Vec<ValueAtQuantile>,
    #[prost(uint32, tag = "8")]
    #[serde(deserialize_with = "whole")]
    pub flags: u32,
}

#[derive(Clone, PartialEq, Message, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ValueAtQuantile {
    #[prost(double, tag = "1")]
    #[serde(deserialize_with = "double")]
    pub quantile: f64,
    #[prost(double, tag = "2")]
    #[serde(deserialize_with = "double")]
    pub value: f64,
}

#[derive(Clone, PartialEq, Message, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct KeyValue {
    #[prost(string, tag = "1")]
    #[serde(deserialize_with = "or_default")]
    pub key: String,
    #[prost(message, optional, tag = "2")]
    pub value: Option<AnyValue>,
}

#[derive(Clone, PartialEq, Message, Deserialize)]
#[serde(try_from = "AnyValueJson")]
pub struct AnyValue {
    #[prost(oneof = "AnyValueKind", tags = "1, 2, 3, 4, 5, 6, 7")]
    pub value: Option<AnyValueKind>,
}

#[derive(Clone, PartialEq, Oneof)]
pub enum AnyValueKind {
    #[prost(string, tag = "1")]
    Text(String),
    #[prost(bool, tag = "2")]
    Bool(bool),
    #[prost(int64, tag = "3")]
    Int(i64),
    #[prost(double, tag = "4")]
    Double(f64),
    #[prost(message, tag = "5")]
    Array(ArrayValue),
    #[prost(message, tag = "6")]
    Members(KeyValueList),
    #[prost(bytes = "vec", tag = "7")]
    Bytes(Vec<u8>),
}

#[derive(Clone, PartialEq, Message, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ArrayValue {
    #[prost(message, repeated, tag = "1")]
    #[serde(deserialize_with = "or_default")]
    pub values: Vec<AnyValue>,
}

#[derive(Clone, PartialEq, Message, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct KeyValueList {
    #[prost(message, repeated, tag = "1")]
    #[serde(deserialize_with = "or_default")]
    pub values: Vec<KeyValue>,
}

/// The answer to an export.
#[derive(Clone, PartialEq, Message)]
pub struct ExportMetricsServiceResponse {
    #[prost(message, optional, tag = "1")]
    pub partial_success: Option<ExportMetricsPartialSuccess>,
}

#[derive(Clone, PartialEq, Message)]
pub struct ExportMetricsPartialSuccess {
    #[prost(int64, tag = "1")]
    pub rejected_data_points: i64,
    #[prost(string, tag = "2")]
    pub error_message: String,
}

/// `google.rpc.Status`: the body of every answer that is no success.
#[derive(Clone, PartialEq, Message)]
pub struct Status {
    #[prost(int32, tag = "1")]
    pub code: i32,
    #[prost(string, tag = "2")]
    pub message: String,
}

//! Points of all kinds, as the texts of their numbers.

use crate::attributes::number;
use crate::messages::{
    DELTA, ExponentialHistogramDataPoint, HistogramDataPoint, KeyValue, Metric, NO_RECORDED_VALUE,
    NumberDataPoint, SummaryDataPoint,
};

/// A point, whatever its kind.
pub struct Point {
    pub attributes: Vec<KeyValue>,
    /// In microseconds since 1970; none: now.
    pub at: Option<i64>,
    /// JSON. None: there is no value any more.
    pub number: Result<Option<String>, String>,
}

/// The points of a metric.
pub struct Points {
    /// In the words of Prometheus.
    pub kind: &'static str,
    pub is_delta: bool,
    points: PointList,
}

enum PointList {
    Numbers(Vec<NumberDataPoint>),
    Histograms(Vec<HistogramDataPoint>),
    Exponential(Vec<ExponentialHistogramDataPoint>),
    Summaries(Vec<SummaryDataPoint>),
}

impl Points {
    /// Takes them out of a metric. One of a kind that is unknown here has none.
    pub fn take_from(mut metric: Metric) -> (Metric, Points) {
        let of = |kind, is_delta, points| Points { kind, is_delta, points };
        let points = if let Some(gauge) = metric.gauge.take() {
            of("gauge", false, PointList::Numbers(gauge.data_points))
        } else if let Some(sum) = metric.sum.take() {
            let kind = if sum.is_monotonic { "counter" } else { "gauge" };
            of(kind, sum.aggregation_temporality == DELTA, PointList::Numbers(sum.data_points))
        } else if let Some(one) = metric.histogram.take() {
            of("histogram", one.aggregation_temporality == DELTA, PointList::Histograms(one.data_points))
        } else if let Some(one) = metric.exponential_histogram.take() {
            of("histogram", one.aggregation_temporality == DELTA, PointList::Exponential(one.data_points))
        } else {
            let points = metric.summary.take().map(|summary| summary.data_points).unwrap_or_default();
            of("summary", false, PointList::Summaries(points))
        };
        (metric, points)
    }

    pub fn len(&self) -> usize {
        match &self.points {
            PointList::Numbers(points) => points.len(),
            PointList::Histograms(points) => points.len(),
            PointList::Exponential(points) => points.len(),
            PointList::Summaries(points) => points.len(),
        }
    }

    pub fn into_points(self) -> Box<dyn Iterator<Item = Point>> {
        match self.points {
            PointList::Numbers(points) => Box::new(points.into_iter().map(of_number)),
            PointList::Histograms(points) => Box::new(points.into_iter().map(of_histogram)),
            PointList::Exponential(points) => Box::new(points.into_iter().map(of_exponential)),
            PointList::Summaries(points) => Box::new(points.into_iter().map(of_summary)),
        }
    }
}

fn point(
    attributes: Vec<KeyValue>,
    nanos: u64,
    flags: u32,
    number: impl FnOnce() -> Result<String, String>,
) -> Point {
    let number = if flags & NO_RECORDED_VALUE == 0 { number().map(Some) } else { Ok(None) };
    let at = (nanos > 0).then(|| i64::try_from(nanos / 1_000).unwrap_or(i64::MAX));
    Point { attributes, at, number }
}

fn of_number(given: NumberDataPoint) -> Point {
    point(given.attributes, given.time_unix_nano, given.flags, || match (given.as_int, given.as_double) {
        (Some(int), _) => Ok(int.to_string()),
        (None, Some(double)) => Ok(number(double)),
        (None, None) => Err("has a point without a number".to_owned()),
    })
}

fn of_histogram(given: HistogramDataPoint) -> Point {
    point(given.attributes, given.time_unix_nano, given.flags, || {
        let mut members = Members::of(given.count, given.sum);
        members.maybe("min", given.min);
        members.maybe("max", given.max);
        if let Some(buckets) = buckets(&given.bucket_counts, &given.explicit_bounds)? {
            members.json("buckets", &buckets);
        }
        Ok(members.finish())
    })
}

/// How many are at most as large as each bound, as the buckets of Prometheus; none without buckets.
fn buckets(counts: &[u64], bounds: &[f64]) -> Result<Option<String>, String> {
    if counts.is_empty() && bounds.is_empty() {
        return Ok(None);
    }
    let rising =
        bounds.windows(2).all(|pair| pair[0] < pair[1]) && bounds.iter().all(|bound| bound.is_finite());
    if counts.len() != bounds.len() + 1 || !rising {
        return Err(format!(
            "has a histogram with {} counts and {} bounds; expected bounds that rise and one count more than bounds",
            counts.len(),
            bounds.len()
        ));
    }
    let (mut members, mut below) = (Members::default(), 0u64);
    let bounds = bounds.iter().map(|bound| number(*bound)).chain(["+Inf".to_owned()]);
    for (bound, count) in bounds.zip(counts) {
        below = below.checked_add(*count).ok_or("has a histogram whose counts are too large")?;
        members.json(&bound, &below.to_string());
    }
    Ok(Some(members.finish()))
}

fn of_exponential(given: ExponentialHistogramDataPoint) -> Point {
    point(given.attributes, given.time_unix_nano, given.flags, || {
        let mut members = Members::of(given.count, given.sum);
        members.maybe("min", given.min);
        members.maybe("max", given.max);
        Ok(members.finish())
    })
}

fn of_summary(given: SummaryDataPoint) -> Point {
    point(given.attributes, given.time_unix_nano, given.flags, || {
        let mut quantiles = given.quantile_values;
        quantiles.sort_by(|one, other| one.quantile.total_cmp(&other.quantile));
        let rising = quantiles.windows(2).all(|pair| pair[0].quantile < pair[1].quantile);
        if !rising || !quantiles.iter().all(|one| (0.0..=1.0).contains(&one.quantile)) {
            return Err("has a summary with quantiles that are not from 0 to 1, each once".to_owned());
        }
        let mut members = Members::of(given.count, Some(given.sum));
        if !quantiles.is_empty() {
            let mut inner = Members::default();
            for one in &quantiles {
                inner.json(&number(one.quantile), &number(one.value));
            }
            members.json("quantiles", &inner.finish());
        }
        Ok(members.finish())
    })
}

/// An object of numbers whose keys need no escape.
#[derive(Default)]
struct Members(String);

impl Members {
    fn of(count: u64, sum: Option<f64>) -> Self {
        let mut members = Members::default();
        members.json("count", &count.to_string());
        members.maybe("sum", sum);
        members
    }

    fn maybe(&mut self, key: &str, double: Option<f64>) {
        if let Some(double) = double {
            self.json(key, &number(double));
        }
    }

    fn json(&mut self, key: &str, json: &str) {
        let comma = if self.0.is_empty() { "" } else { "," };
        self.0.push_str(&format!("{comma}\"{key}\":{json}"));
    }

    fn finish(self) -> String {
        format!("{{{}}}", self.0)
    }
}

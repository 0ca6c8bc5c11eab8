//! Points as values: all points of a metric on a node are one value, in the form that a page of Prometheus has.
//!
//! A wrong point is left out and counted, the rest is taken, as OTLP asks. Nothing is lost silently: two metrics that would
//! be one value, or two resources whose series would be one, are refused with the remedy. Texts that come once and stand in
//! many places (those of a resource) are bounded, so that values grow with the body alone.

mod draft;
mod naming;
mod point;
mod rejected;
mod source;

#[cfg(test)]
mod tests;

use std::collections::HashMap;

use estimand_api::names::{DataName, NodeName};
use estimand_api::problem::shorten;

use crate::messages::{ExportMetricsServiceRequest, Metric};
use draft::Draft;
use point::Points;
pub use rejected::Rejected;
use source::{Numbers, Source};

/// The most points in one body.
pub const MAX_POINTS: usize = 100_000;
/// The most that the labels and numbers of all values have together, in bytes.
pub const MAX_TEXT_BYTES: usize = 16 * 1024 * 1024;

/// Settings of a push.
#[derive(Debug, Clone, Default)]
pub struct Settings {
    /// Names begin with it; none: with the name of the service that is measured, else with `otel_`.
    pub prefix: Option<String>,
    /// The node of resources that name none.
    pub node: Option<NodeName>,
    /// Attributes of resources that tell series apart, beside those of the points.
    pub series_attributes: Vec<String>,
}

#[derive(Debug, Default)]
pub struct Values {
    /// In the order in which they came first.
    pub values: Vec<PushedValue>,
    pub rejected: Rejected,
}

#[derive(Debug)]
pub struct PushedValue {
    pub data_name: DataName,
    pub node_name: NodeName,
    /// Compact JSON.
    pub text: Box<str>,
    /// The latest of the times, in microseconds since 1970; none if one is of now.
    pub at: Option<i64>,
}

/// Makes values of the points. The error says what there is too much of.
pub fn values(request: ExportMetricsServiceRequest, settings: &Settings) -> Result<Values, String> {
    let mut drafts = Drafts::default();
    let mut rejected = Rejected::default();
    let mut numbers = Numbers::default();
    let (mut points, mut bytes) = (0, 0);
    for of_resource in request.resource_metrics {
        let source = Source::new(of_resource.resource, settings, &mut numbers);
        for metric in of_resource.scope_metrics.into_iter().flat_map(|scope| scope.metrics) {
            let (metric, of_metric) = Points::take_from(metric);
            points += of_metric.len();
            if points > MAX_POINTS {
                return Err(format!("there are more than {MAX_POINTS} points; expected at most so many"));
            }
            let count = of_metric.len() as u64;
            if count == 0 {
                continue;
            }
            match drafts.of(&source, &metric, of_metric.kind) {
                Ok(draft) => bytes += draft.add(&source, of_metric, &mut rejected),
                Err(problem) => rejected.push(count, || problem),
            }
            if bytes > MAX_TEXT_BYTES {
                return Err(format!(
                    "the values have more than {MAX_TEXT_BYTES} bytes; expected at most so many"
                ));
            }
        }
    }
    let mut values = Vec::with_capacity(drafts.all.len());
    for draft in drafts.all {
        let count = draft.points;
        match draft.finish() {
            Ok(value) => values.extend(value),
            Err(problem) => rejected.push(count, || problem),
        }
    }
    Ok(Values { values, rejected })
}

/// In the order in which they came.
#[derive(Default)]
struct Drafts {
    all: Vec<Draft>,
    places: HashMap<(DataName, NodeName), usize>,
}

impl Drafts {
    /// The draft that the points of a metric belong to.
    fn of(&mut self, source: &Source, metric: &Metric, kind: &'static str) -> Result<&mut Draft, String> {
        let node = source.node.clone().map_err(|problem| format!("`{}` {problem}", shorten(&metric.name)))?;
        let name = naming::data_name(source.prefix.as_deref().map_err(Clone::clone)?, &metric.name)?;
        let place = *self.places.entry((name.clone(), node.clone())).or_insert_with(|| {
            self.all.push(Draft::new(name, node, metric, kind));
            self.all.len() - 1
        });
        let draft = &mut self.all[place];
        draft.check(&metric.name, kind)?;
        Ok(draft)
    }
}

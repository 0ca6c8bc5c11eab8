//! A value while its points come: `type`, `help`, `unit`, the point without labels, and the others by their labels.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use estimand_api::instant::to_rfc3339;
use estimand_api::json::push_string;
use estimand_api::names::{DataName, NodeName};
use estimand_api::problem::shorten;
use estimand_api::value::MAX_VALUE_BYTES;

use super::point::{Point, Points};
use super::source::Source;
use super::{PushedValue, Rejected};
use crate::attributes::{label_text, labels};
use crate::messages::Metric;

pub struct Draft {
    data_name: DataName,
    node_name: NodeName,
    metric: String,
    kind: &'static str,
    help: String,
    unit: String,
    is_delta: bool,
    series: Vec<Series>,
    /// The places of the series, by their labels.
    places: HashMap<String, usize>,
    /// Those that were taken.
    pub points: u64,
    /// Of labels and numbers.
    bytes: usize,
}

/// The longest text of the labels of a series.
const MAX_KEY_BYTES: usize = 4096;

struct Series {
    labels: String,
    /// The number of the resource that it is of.
    resource: usize,
    at: Option<i64>,
    number: String,
}

impl Draft {
    pub fn new(data_name: DataName, node_name: NodeName, metric: &Metric, kind: &'static str) -> Self {
        Draft {
            data_name,
            node_name,
            metric: metric.name.clone(),
            kind,
            help: metric.description.clone(),
            unit: metric.unit.clone(),
            is_delta: false,
            series: Vec::new(),
            places: HashMap::new(),
            points: 0,
            bytes: 0,
        }
    }

    /// The points of another metric would replace those that are here.
    pub fn check(&self, metric: &str, kind: &str) -> Result<(), String> {
        if self.metric != metric {
            return Err(format!(
                "`{}` and `{}` are both `{}` here; expected names that differ in more than their signs",
                shorten(&self.metric),
                shorten(metric),
                self.data_name
            ));
        }
        match self.kind == kind {
            true => Ok(()),
            false => {
                Err(format!("`{}` comes as {} and as {kind}; expected one kind", shorten(metric), self.kind))
            }
        }
    }

    /// Adds points; returns how many bytes they take.
    pub fn add(&mut self, source: &Source, points: Points, rejected: &mut Rejected) -> usize {
        let before = self.bytes;
        self.is_delta |= points.is_delta;
        for point in points.into_points() {
            if let Err(problem) = self.add_point(source, point) {
                rejected.push(1, || format!("`{}` {problem}", shorten(&self.metric)));
            }
        }
        self.bytes - before
    }

    fn add_point(&mut self, source: &Source, point: Point) -> Result<(), String> {
        let Some(number) = point.number? else { return Ok(()) };
        if self.bytes > MAX_VALUE_BYTES {
            // The value is refused as a whole, and so is this point.
            self.points += 1;
            return Ok(());
        }
        let mut all = source.labels.clone();
        all.extend(labels(&point.attributes));
        let labels = label_text(&all);
        if labels.len() > MAX_KEY_BYTES {
            let bytes = labels.len();
            return Err(format!("has attributes of {bytes} bytes; expected at most {MAX_KEY_BYTES}"));
        }
        let series = Series { labels, resource: source.number, at: point.at, number };
        match self.places.entry(series.labels.clone()) {
            Entry::Vacant(place) => {
                self.bytes += series.labels.len() + series.number.len();
                place.insert(self.series.len());
                self.series.push(series);
            }
            Entry::Occupied(place) => {
                let known = &mut self.series[*place.get()];
                if known.resource != series.resource {
                    return Err("comes from several resources of one node with the same attributes; name resource \
                                attributes that tell them apart in the header `Estimand-Series-Attributes`, such as \
                                `service.instance.id` or `k8s.pod.name`"
                        .to_owned());
                }
                if order(series.at) >= order(known.at) {
                    *known = series;
                }
            }
        }
        self.points += 1;
        Ok(())
    }

    /// The value; none if all series have ended.
    pub fn finish(self) -> Result<Option<PushedValue>, String> {
        let Some(latest) = self.series.iter().map(|series| order(series.at)).max() else { return Ok(None) };
        let text = self.json(latest);
        if text.len() > MAX_VALUE_BYTES {
            return Err(format!(
                "`{}` has more than {MAX_VALUE_BYTES} bytes as a value; expected at most so many: drop attributes \
                 that scheduling needs not",
                shorten(&self.metric)
            ));
        }
        let text = String::from_utf8(text).map_err(|_| "a text is not UTF-8".to_owned())?.into();
        let at = (latest < i64::MAX).then_some(latest);
        Ok(Some(PushedValue { data_name: self.data_name, node_name: self.node_name, text, at }))
    }

    /// As `--format prometheus` writes it. A series has a time of its own if that is not the time of the value.
    fn json(&self, latest: i64) -> Vec<u8> {
        let mut out = Vec::with_capacity(2 * self.bytes + 256);
        out.extend_from_slice(b"{\"type\":");
        push_string(&mut out, self.kind);
        let temporality = if self.is_delta { "delta" } else { "" };
        for (key, text) in [("help", &*self.help), ("unit", &*self.unit), ("temporality", temporality)] {
            if !text.is_empty() {
                push_key(&mut out, key);
                push_string(&mut out, text);
            }
        }
        if let Some(own) = self.series.iter().find(|series| series.labels.is_empty()) {
            push_key(&mut out, "value");
            out.extend_from_slice(own.number.as_bytes());
            if let Some(at) = own.own_time(latest) {
                push_key(&mut out, "at");
                push_string(&mut out, &at);
            }
        }
        let labelled = || self.series.iter().filter(|series| !series.labels.is_empty());
        let numbers = labelled().map(|series| (&*series.labels, series.number.clone()));
        push_object(&mut out, "series", numbers);
        let times = labelled().filter_map(|series| Some((&*series.labels, series.own_time(latest)?)));
        push_object(&mut out, "times", times.map(|(labels, at)| (labels, format!("\"{at}\""))));
        out.push(b'}');
        out
    }
}

impl Series {
    fn own_time(&self, latest: i64) -> Option<String> {
        self.at.filter(|at| *at != latest).map(to_rfc3339)
    }
}

/// A point without a time is of now, and so the latest.
fn order(at: Option<i64>) -> i64 {
    at.unwrap_or(i64::MAX)
}

fn push_key(out: &mut Vec<u8>, key: &str) {
    out.push(b',');
    push_string(out, key);
    out.push(b':');
}

/// Appends a member that is an object of such members, unless there are none.
fn push_object<'t>(out: &mut Vec<u8>, key: &str, members: impl Iterator<Item = (&'t str, String)>) {
    let mut members = members.peekable();
    if members.peek().is_none() {
        return;
    }
    push_key(out, key);
    for (place, (name, json)) in members.enumerate() {
        out.push(if place == 0 { b'{' } else { b',' });
        push_string(out, name);
        out.push(b':');
        out.extend_from_slice(json.as_bytes());
    }
    out.push(b'}');
}

//! Writes figures as Prometheus text exposition (version 0.0.4).
//!
//! A family is announced once with its kind and help, then its samples follow. Names are ours and taken as
//! they are; label values and help texts may hold anything and are escaped here, and only here.

use std::fmt::Write;

use super::figures::HistogramReading;

/// The media type of the text.
pub const MEDIA_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// The kind of figures in a family.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Counter,
    Gauge,
    Histogram,
}

/// Appends to the text of one scrape.
#[derive(Debug)]
pub struct Exposition<'t>(&'t mut String);

/// Writing to a string cannot fail, so the results of `write!` are dropped throughout.
impl<'t> Exposition<'t> {
    pub fn new(text: &'t mut String) -> Self {
        Exposition(text)
    }

    /// Announces a family; its samples must follow before the next one.
    pub fn family(&mut self, name: &str, kind: Kind, help: &str) {
        let kind = match kind {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
            Kind::Histogram => "histogram",
        };
        let _ = write!(self.0, "# HELP {name} ");
        escape(self.0, help, false);
        let _ = writeln!(self.0, "\n# TYPE {name} {kind}");
    }

    pub fn sample(&mut self, name: &str, labels: &[(&str, &str)], value: f64) {
        self.series(name, "", labels, None);
        self.value(value);
    }

    /// A sample whose number is written already, in a spelling that the format takes.
    pub fn written(&mut self, name: &str, labels: &[(&str, &str)], number: &str) {
        self.series(name, "", labels, None);
        let _ = writeln!(self.0, " {number}");
    }

    /// All samples of one histogram: its buckets (each counts the ones below it too), sum and count.
    pub fn histogram(&mut self, name: &str, labels: &[(&str, &str)], reading: &HistogramReading) {
        let mut below = 0;
        let ends = reading.bounds.iter().copied().chain([f64::INFINITY]);
        for (end, count) in ends.zip(&reading.counts) {
            below += count;
            self.series(name, "_bucket", labels, Some(end));
            self.value(below as f64);
        }
        self.series(name, "_sum", labels, None);
        self.value(reading.sum);
        self.series(name, "_count", labels, None);
        self.value(below as f64);
    }

    /// A family with a single sample.
    pub fn single(&mut self, name: &str, kind: Kind, help: &str, value: f64) {
        self.family(name, kind, help);
        self.sample(name, &[], value);
    }

    fn series(&mut self, name: &str, suffix: &str, labels: &[(&str, &str)], end: Option<f64>) {
        let _ = write!(self.0, "{name}{suffix}");
        let mut separator = '{';
        for (label, value) in labels {
            let _ = write!(self.0, "{separator}{label}=\"");
            escape(self.0, value, true);
            self.0.push('"');
            separator = ',';
        }
        if let Some(end) = end {
            let _ = write!(self.0, "{separator}le=\"{}\"", Number(end));
            separator = ',';
        }
        if separator == ',' {
            self.0.push('}');
        }
    }

    fn value(&mut self, value: f64) {
        let _ = writeln!(self.0, " {}", Number(value));
    }
}

/// A number as the format spells it.
struct Number(f64);

impl std::fmt::Display for Number {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.0 {
            value if value.is_nan() => f.write_str("NaN"),
            f64::INFINITY => f.write_str("+Inf"),
            f64::NEG_INFINITY => f.write_str("-Inf"),
            value => value.fmt(f),
        }
    }
}

fn escape(text: &mut String, raw: &str, quotes: bool) {
    for character in raw.chars() {
        match character {
            '\\' => text.push_str("\\\\"),
            '\n' => text.push_str("\\n"),
            '"' if quotes => text.push_str("\\\""),
            other => text.push(other),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::metrics::Histogram;

    #[test]
    fn labels_and_numbers_are_spelled_right() {
        let mut text = String::new();
        let mut out = Exposition::new(&mut text);
        out.family("a", Kind::Gauge, "of \"it\"\nall\\");
        out.sample("a", &[("x", "q\"b\\n\nl"), ("y", "")], 0.5);
        out.sample("a", &[], f64::NAN);
        out.single("b", Kind::Counter, "b", 3.0);
        assert_eq!(
            text,
            "# HELP a of \"it\"\\nall\\\\\n# TYPE a gauge\na{x=\"q\\\"b\\\\n\\nl\",y=\"\"} 0.5\na NaN\n\
             # HELP b b\n# TYPE b counter\nb 3\n"
        );
    }

    #[test]
    fn buckets_add_up() {
        let histogram = Histogram::of_durations(&[1, 10].map(Duration::from_secs));
        for seconds in [1, 5, 6, 100] {
            histogram.observe_duration(Duration::from_secs(seconds));
        }
        let mut text = String::new();
        Exposition::new(&mut text).histogram("h", &[("l", "v")], &histogram.read());
        assert_eq!(
            text,
            "h_bucket{l=\"v\",le=\"1\"} 1\nh_bucket{l=\"v\",le=\"10\"} 3\nh_bucket{l=\"v\",le=\"+Inf\"} 4\n\
             h_sum{l=\"v\"} 112\nh_count{l=\"v\"} 4\n"
        );
    }
}

//! Lines that begin with `#`: the metadata of a family of samples.

use std::borrow::Cow;

use crate::head;

use super::sample::check_metric_name;
use super::{END, Rules};

/// A line with a `#`.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Metadata<'a> {
    /// Nothing that matters.
    Comment,
    End,
    Type(&'a str, MetricKind),
    Help(&'a str, Cow<'a, str>),
    Unit(&'a str, &'a str),
}

/// The type of a family.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum MetricKind {
    Counter,
    Gauge,
    Histogram,
    GaugeHistogram,
    StateSet,
    Info,
    Summary,
    Unknown,
}

impl MetricKind {
    pub(super) fn name(self) -> &'static str {
        match self {
            MetricKind::Counter => "counter",
            MetricKind::Gauge => "gauge",
            MetricKind::Histogram => "histogram",
            MetricKind::GaugeHistogram => "gaugehistogram",
            MetricKind::StateSet => "stateset",
            MetricKind::Info => "info",
            MetricKind::Summary => "summary",
            MetricKind::Unknown => "unknown",
        }
    }

    fn parse(text: &str, rules: Rules) -> Result<MetricKind, String> {
        let expected = match (text, rules) {
            ("counter", _) => return Ok(MetricKind::Counter),
            ("gauge", _) => return Ok(MetricKind::Gauge),
            ("histogram", _) => return Ok(MetricKind::Histogram),
            ("summary", _) => return Ok(MetricKind::Summary),
            ("untyped", Rules::Classic) => return Ok(MetricKind::Unknown),
            ("gaugehistogram", Rules::OpenMetrics) => return Ok(MetricKind::GaugeHistogram),
            ("stateset", Rules::OpenMetrics) => return Ok(MetricKind::StateSet),
            ("info", Rules::OpenMetrics) => return Ok(MetricKind::Info),
            ("unknown", Rules::OpenMetrics) => return Ok(MetricKind::Unknown),
            (_, Rules::Classic) => "counter, gauge, histogram, summary or untyped",
            (_, Rules::OpenMetrics) => {
                "counter, gauge, histogram, gaugehistogram, summary, info, stateset or unknown"
            }
        };
        Err(format!("the type `{}` is none; expected {expected}", head(text)))
    }

    /// The endings that its samples' names have after the name of the family.
    pub(super) fn suffixes(self, rules: Rules) -> &'static [&'static str] {
        match (self, rules) {
            (MetricKind::Counter, Rules::OpenMetrics) => &["_total", "_created"],
            (MetricKind::Histogram, Rules::OpenMetrics) => &["_bucket", "_sum", "_count", "_created"],
            (MetricKind::Histogram, Rules::Classic) => &["_bucket", "_sum", "_count"],
            (MetricKind::GaugeHistogram, _) => &["_bucket", "_gsum", "_gcount"],
            (MetricKind::Summary, Rules::OpenMetrics) => &["", "_sum", "_count", "_created"],
            (MetricKind::Summary, Rules::Classic) => &["", "_sum", "_count"],
            (MetricKind::Info, _) => &["_info"],
            (MetricKind::Counter | MetricKind::Gauge | MetricKind::StateSet | MetricKind::Unknown, _) => {
                &[""]
            }
        }
    }
}

/// Reads a line that begins with `#`.
pub(super) fn parse(line: &str, rules: Rules) -> Result<Metadata<'_>, String> {
    match rules {
        Rules::Classic => classic(line),
        Rules::OpenMetrics => open_metrics(line),
    }
}

const BLANK: [char; 2] = [' ', '\t'];

/// A line that is neither a type nor a help is a comment.
fn classic(line: &str) -> Result<Metadata<'_>, String> {
    let (keyword, rest) = word(line.strip_prefix('#').unwrap_or(line));
    if !matches!(keyword, "TYPE" | "HELP") || rest.is_empty() {
        return Ok(Metadata::Comment);
    }
    let (name, rest) = word(rest);
    check_metric_name(name)?;
    match keyword {
        "TYPE" => MetricKind::parse(rest.trim_end_matches(BLANK), Rules::Classic)
            .map(|kind| Metadata::Type(name, kind)),
        _ => Ok(Metadata::Help(name, unescape(rest))),
    }
}

/// The first word of a text, and what follows the blanks behind it.
fn word(text: &str) -> (&str, &str) {
    let text = text.trim_start_matches(BLANK);
    match text.split_once(BLANK) {
        Some((word, rest)) => (word, rest.trim_start_matches(BLANK)),
        None => (text, ""),
    }
}

fn open_metrics(line: &str) -> Result<Metadata<'_>, String> {
    if line == END {
        return Ok(Metadata::End);
    }
    let is_keyword = |word: &str| matches!(word, "TYPE" | "HELP" | "UNIT");
    let words = line.strip_prefix("# ").and_then(|rest| rest.split_once(' '));
    let Some((keyword, rest)) = words.filter(|(keyword, _)| is_keyword(keyword)) else {
        return Err(format!(
            "`{}` is a comment, which OpenMetrics has not; expected `# TYPE`, `# HELP`, `# UNIT` or \
             `# EOF`",
            head(line)
        ));
    };
    let (name, text) = rest.split_once(' ').ok_or_else(|| {
        format!("`# {keyword}` ends after `{}`; expected the name, one space and the rest", head(rest))
    })?;
    check_metric_name(name)?;
    match keyword {
        "TYPE" => MetricKind::parse(text, Rules::OpenMetrics).map(|kind| Metadata::Type(name, kind)),
        "UNIT" => check_unit(name, text).map(|()| Metadata::Unit(name, text)),
        _ => Ok(Metadata::Help(name, unescape(text))),
    }
}

fn check_unit(name: &str, unit: &str) -> Result<(), String> {
    let is_last = name.strip_suffix(unit).is_some_and(|rest| rest.len() > 1 && rest.ends_with('_'));
    if unit.is_empty() || is_last {
        return Ok(());
    }
    Err(format!(
        "the unit `{}` is not the end of the name `{}`; expected a name such as `disk_bytes` \
         with the unit `bytes`",
        head(unit),
        head(name)
    ))
}

/// The text of a help. A backslash that escapes nothing stays as it is.
fn unescape(text: &str) -> Cow<'_, str> {
    if !text.contains('\\') {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len());
    let mut chars = text.chars();
    while let Some(char) = chars.next() {
        match (char, chars.as_str().chars().next()) {
            ('\\', Some(escaped @ ('\\' | '"' | 'n'))) => {
                out.push(if escaped == 'n' { '\n' } else { escaped });
                chars.next();
            }
            _ => out.push(char),
        }
    }
    Cow::Owned(out)
}

//! `nagios`: a Nagios plugin's exit code, text and performance data.
//!
//! Exit codes 0, 1 and 2 are answers: a load that is too high is still a load. 3, "unknown", is a failure with
//! the plugin's text as its reason. The first line is text up to a `|`, and performance data after it;
//! the lines below are more text up to the first one with a `|`, and performance data from there on. A record is
//! `'label'=value[unit];[warn];[crit];[min];[max]`; the quotes are needed only around white space and `=`.
//! It never compares a value with its thresholds: the plugin has done so.

use estimand_api::registration::Format;
use std::borrow::Cow;
use std::collections::HashSet;

use super::build::{Object, number_text};
use super::{Answer, Dialect, DialectKind, Output, Reading, RejectedRecords, head, text_of};

#[cfg(test)]
mod tests;

/// The exit code that says "unknown".
const UNKNOWN: i32 = 3;

pub(super) const KIND: DialectKind = DialectKind {
    name: "nagios",
    about: "exit code, text, performance data",
    format: Format::Nagios,
    dialect: &Nagios,
};

struct Nagios;

impl Dialect for Nagios {
    fn read(&self, output: Output<'_>) -> Result<Reading, String> {
        let text = text_of(output.stdout)?;
        let status = match (output.exit, text) {
            (0, None) => return Ok(Reading::default()),
            (0, _) => "ok",
            (1, Some(_)) => "warning",
            (2, Some(_)) => "critical",
            (code, printed) => return Err(no_answer(code, printed)),
        };
        let parts = PluginText::split(text.unwrap_or_default());
        let mut rejected = RejectedRecords::default();
        let perf = performance(&parts.perf, &mut rejected);
        let mut value = Object::default();
        value.text("status", status);
        value.raw("code", &output.exit.to_string());
        value.text("text", parts.text);
        if !parts.long.is_empty() {
            value.text("long", parts.long.join("\n").trim_end());
        }
        value.object("perf", &perf);
        Ok(Reading { answer: Answer::One(value.finish()?), rejected })
    }

    fn takes_exit(&self, code: i32) -> bool {
        (0..=UNKNOWN).contains(&code)
    }
}

/// Why there is no value, in the plugin's words if it has any. Interpreters end with 1 or 2 as well when they
/// cannot run their script, but then they say so on stderr.
fn no_answer(code: i32, printed: Option<&str>) -> String {
    let name = if code == UNKNOWN { ", unknown" } else { "" };
    let text = printed.map(|printed| PluginText::split(printed).summary()).filter(|text| !text.is_empty());
    match text {
        Some(text) => format!("it ended with exit {code}{name}: {text}"),
        None => format!("it ended with exit {code}{name} and printed nothing that says why"),
    }
}

/// An output taken apart.
struct PluginText<'a> {
    text: &'a str,
    long: Vec<&'a str>,
    perf: Vec<&'a str>,
}

impl<'a> PluginText<'a> {
    fn split(output: &'a str) -> Self {
        let mut lines = output.lines();
        let first = lines.next().unwrap_or_default();
        let (text, perf) = first.split_once('|').unwrap_or((first, ""));
        let mut parts = PluginText { text: text.trim(), long: Vec::new(), perf: vec![perf] };
        while let Some(line) = lines.next() {
            let Some((text, perf)) = line.split_once('|') else {
                parts.long.push(line.trim_end());
                continue;
            };
            if !text.trim().is_empty() {
                parts.long.push(text.trim_end());
            }
            parts.perf.push(perf);
            parts.perf.extend(lines.by_ref());
        }
        parts
    }

    /// The text in a line that fits into a reason.
    fn summary(&self) -> String {
        let line = std::iter::once(self.text).chain(self.long.iter().copied()).find(|line| !line.is_empty());
        let line = line.unwrap_or_default();
        match line.char_indices().nth(REASON_CHARS) {
            Some((end, _)) => format!("{}…", printable(&line[..end])),
            None => printable(line),
        }
    }
}

/// How much of a plugin's text a reason repeats.
const REASON_CHARS: usize = 200;

fn printable(line: &str) -> String {
    line.chars().map(super::printable).collect()
}

/// The good records by label.
fn performance(lines: &[&str], rejected: &mut RejectedRecords) -> Object {
    let mut perf = Object::default();
    let mut known: HashSet<Cow<'_, str>> = HashSet::new();
    for line in lines {
        let mut rest = line.trim_start();
        while !rest.is_empty() {
            let (record, after) = next_record(rest);
            match record.and_then(|(label, measures)| Ok((label, read_measures(measures)?))) {
                Ok((label, _)) if known.contains(&label) => {
                    rejected.push(|| format!("the label `{}` comes twice", head(&label)));
                }
                Ok((label, measures)) => {
                    perf.object(&label, &measures);
                    known.insert(label);
                }
                Err(problem) => {
                    let record = &rest[..rest.len() - after.len()];
                    rejected.push(|| format!("`{}` {problem}", head(record.trim_end())));
                }
            }
            rest = after.trim_start();
        }
    }
    perf
}

type Record<'a> = Result<(Cow<'a, str>, &'a str), &'static str>;

/// The label and the measures of the first record, and what comes behind it.
fn next_record(text: &str) -> (Record<'_>, &str) {
    if let Some(quoted) = text.strip_prefix('\'') {
        let Some(end) = closing_quote(quoted) else { return (Err("has no second quote"), "") };
        let (measures, after) = word(&quoted[end + 1..]);
        let label = Cow::Borrowed(&quoted[..end]);
        let label = if label.contains("''") { Cow::Owned(label.replace("''", "'")) } else { label };
        return (labelled(label, measures.strip_prefix('=')), after);
    }
    let (word, after) = word(text);
    match word.split_once('=') {
        Some((label, measures)) => (labelled(Cow::Borrowed(label), Some(measures)), after),
        None => (labelled(Cow::Borrowed(word), None), after),
    }
}

fn labelled<'a>(label: Cow<'a, str>, measures: Option<&'a str>) -> Record<'a> {
    match measures {
        None => Err("has no `=` after its label"),
        Some(_) if label.is_empty() => Err("has no label"),
        Some(measures) => Ok((label, measures)),
    }
}

fn word(text: &str) -> (&str, &str) {
    text.split_at(text.find(char::is_whitespace).unwrap_or(text.len()))
}

/// Where the label ends whose first quote is gone; two quotes in it are one.
fn closing_quote(text: &str) -> Option<usize> {
    let mut from = 0;
    loop {
        let at = from + text[from..].find('\'')?;
        if !text[at + 1..].starts_with('\'') {
            return Some(at);
        }
        from = at + 2;
    }
}

/// Reads the figures after a label.
fn read_measures(text: &str) -> Result<Object, &'static str> {
    let mut parts = text.split(';');
    let mut part = || parts.next().unwrap_or_default().trim();
    let (value, unit) = measure(part())?;
    let (warn, crit) = (part(), part());
    let (min, max) = (limit(part(), unit)?, limit(part(), unit)?);
    if parts.any(|part| !part.trim().is_empty()) {
        return Err("has more than a value, two thresholds, a minimum and a maximum");
    }
    let mut measures = Object::default();
    measures.raw("value", value.as_deref().unwrap_or("null"));
    measures.text("unit", unit);
    for (key, range) in [("warn", warn), ("crit", crit)] {
        match range {
            "" => measures.raw(key, "null"),
            range => measures.text(key, range),
        }
    }
    for (key, limit) in [("min", &min), ("max", &max)] {
        measures.raw(key, limit.as_deref().unwrap_or("null"));
    }
    Ok(measures)
}

/// A number and its unit; no number if it is undetermined.
fn measure(text: &str) -> Result<(Option<Cow<'_, str>>, &str), &'static str> {
    if text == "U" {
        return Ok((None, ""));
    }
    let (number, unit) = text.split_at(number_length(text));
    let number = match number.contains(',') {
        true => number_text(&number.replacen(',', ".", 1)).map(|number| Cow::Owned(number.into_owned())),
        false => number_text(number),
    };
    match number {
        None => Err("has no number as its value"),
        Some(_) if unit.contains(|c: char| c.is_ascii_digit() || matches!(c, '\'' | '"')) => {
            Err("has something after its number that is no unit")
        }
        Some(number) => Ok((Some(number), unit)),
    }
}

/// A minimum or a maximum: empty, or a number in the unit of the value, which it may repeat.
fn limit<'a>(text: &'a str, unit: &str) -> Result<Option<Cow<'a, str>>, &'static str> {
    if text.is_empty() {
        return Ok(None);
    }
    match measure(text) {
        Ok((number, of)) if of.is_empty() || of == unit => Ok(number),
        _ => Err("has a minimum or a maximum that is no number"),
    }
}

/// How long the number is that a text begins with. The fraction may come after a comma, as plugins print it
/// that follow the locale; an `E` without digits is a unit's first letter.
fn number_length(text: &str) -> usize {
    let bytes = text.as_bytes();
    let digits_from = |from: usize| bytes[from..].iter().take_while(|byte| byte.is_ascii_digit()).count();
    let is_at = |at: usize, wanted: &[u8]| bytes.get(at).is_some_and(|byte| wanted.contains(byte));
    let mut at = usize::from(is_at(0, b"+-"));
    at += digits_from(at);
    if is_at(at, b".,") {
        at += 1 + digits_from(at + 1);
    }
    if is_at(at, b"eE") {
        let power = at + 1 + usize::from(is_at(at + 1, b"+-"));
        if is_at(power, b"0123456789") {
            at = power + digits_from(power);
        }
    }
    at
}

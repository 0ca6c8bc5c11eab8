//! A whole text: its lines one after the other, and the value that its samples make.
//!
//! The value is an object by name of sample, in the order of the text. Of two samples with the same name and labels
//! the one with the later time counts, and the second is bad if it has none. In the text format a sample without a time
//! is of now; in OpenMetrics all samples of a metric have a time or none has.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use crate::build::{MAX_RECORDS, Object, none_good, too_many};
use crate::{Answer, Reading, RejectedRecords, head};

use super::families::{Families, Family};
use super::metadata::{self, Metadata};
use super::number::Value;
use super::sample::{self, Sample};
use super::{END, Rules};

pub(super) fn read(text: &str, rules: Rules) -> Result<Reading, String> {
    let mut document = Document::new(rules);
    for (number, line) in text.lines().enumerate() {
        if let Err(problem) = document.line(line) {
            document.records += 1;
            document.rejected.push(|| format!("line {}: {problem}", number + 1));
        }
        if document.records > MAX_RECORDS {
            return Err(too_many("samples"));
        }
    }
    document.finish()
}

struct Document<'a> {
    rules: Rules,
    families: Families<'a>,
    named: Vec<NamedSamples<'a>>,
    by_name: HashMap<&'a str, usize>,
    rejected: RejectedRecords,
    /// Samples and rejected lines.
    records: usize,
    has_ended: bool,
}

/// The samples of a name.
struct NamedSamples<'a> {
    name: &'a str,
    family: usize,
    samples: Vec<SampleValue<'a>>,
    /// The places of the samples, by their labels.
    places: HashMap<String, usize>,
}

/// The sample with certain labels.
struct SampleValue<'a> {
    labels: String,
    value: Value<'a>,
    /// In RFC 3339, so that texts are in the order of their times.
    at: Option<String>,
}

impl<'a> Document<'a> {
    fn new(rules: Rules) -> Self {
        Document {
            rules,
            families: Families::new(rules),
            named: Vec::new(),
            by_name: HashMap::new(),
            rejected: RejectedRecords::default(),
            records: 0,
            has_ended: false,
        }
    }

    fn line(&mut self, line: &'a str) -> Result<(), String> {
        let line = match self.rules {
            Rules::Classic => line.trim_matches([' ', '\t']),
            Rules::OpenMetrics => line,
        };
        if self.has_ended {
            return Err(format!("`{}` comes after `{END}`; expected nothing", head(line)));
        }
        if line.is_empty() {
            return match self.rules {
                Rules::Classic => Ok(()),
                Rules::OpenMetrics => Err("an empty line; expected none in OpenMetrics".to_owned()),
            };
        }
        if line.starts_with('#') {
            return self.metadata(metadata::parse(line, self.rules)?);
        }
        self.sample(&sample::parse(line, self.rules)?)
    }

    fn metadata(&mut self, metadata: Metadata<'a>) -> Result<(), String> {
        match metadata {
            Metadata::Comment => Ok(()),
            Metadata::End => {
                self.has_ended = true;
                Ok(())
            }
            Metadata::Type(name, kind) => self.families.set_type(name, kind),
            Metadata::Help(name, help) => self.families.set_help(name, help),
            Metadata::Unit(name, unit) => self.families.set_unit(name, unit),
        }
    }

    fn sample(&mut self, sample: &Sample<'a>) -> Result<(), String> {
        let family = self.families.take(sample)?;
        let at = *self.by_name.entry(sample.name).or_insert_with(|| {
            self.named.push(NamedSamples::new(sample.name, family));
            self.named.len() - 1
        });
        let rules = self.rules;
        self.named[at].take(sample, rules)?;
        self.records += 1;
        Ok(())
    }

    fn finish(mut self) -> Result<Reading, String> {
        if self.rules == Rules::OpenMetrics && !self.has_ended {
            self.rejected
                .push(|| format!("the last line is missing; expected `{END}` at the end of OpenMetrics"));
        }
        if self.named.is_empty() {
            return match self.rejected.count {
                0 => Ok(Reading::default()),
                _ => Err(none_good("samples", &self.rejected)),
            };
        }
        let mut value = Object::default();
        for named in &self.named {
            value.object(named.name, &named.object(self.families.get(named.family)));
        }
        Ok(Reading { answer: Answer::One(value.finish()?), rejected: self.rejected })
    }
}

impl<'a> NamedSamples<'a> {
    fn new(name: &'a str, family: usize) -> Self {
        NamedSamples { name, family, samples: Vec::new(), places: HashMap::new() }
    }

    fn take(&mut self, sample: &Sample<'a>, rules: Rules) -> Result<(), String> {
        let labels = sample.label_text();
        let taken =
            SampleValue { labels: labels.clone(), value: sample.value.clone(), at: sample.at.clone() };
        match self.places.entry(labels) {
            Entry::Vacant(place) => {
                place.insert(self.samples.len());
                self.samples.push(taken);
            }
            Entry::Occupied(place) => {
                let known = &mut self.samples[*place.get()];
                if !is_newer(taken.at.as_deref(), known.at.as_deref(), rules) {
                    let (name, labels) = (head(self.name), head(place.key()));
                    return Err(format!(
                        "`{name}{{{labels}}}` comes twice; expected it once, or with a later time"
                    ));
                }
                *known = taken;
            }
        }
        Ok(())
    }

    fn object(&self, family: &Family<'_>) -> Object {
        let mut object = Object::default();
        object.text("type", family.kind.name());
        if let Some(help) = family.help.as_deref().filter(|help| !help.is_empty()) {
            object.text("help", help);
        }
        if let Some(unit) = family.unit.filter(|unit| !unit.is_empty()) {
            object.text("unit", unit);
        }
        let (mut series, mut times) = (Object::default(), Object::default());
        for SampleValue { labels, value, at } in &self.samples {
            match labels.as_str() {
                "" => push_value(&mut object, "value", value),
                labels => push_value(&mut series, labels, value),
            }
            match (labels.as_str(), at) {
                (_, None) => {}
                ("", Some(at)) => object.text("at", at),
                (labels, Some(at)) => times.text(labels, at),
            }
        }
        for (key, members) in [("series", &series), ("times", &times)] {
            if !members.is_empty() {
                object.object(key, members);
            }
        }
        object
    }
}

/// True if a sample counts instead of the one that came before it.
fn is_newer(at: Option<&str>, before: Option<&str>, rules: Rules) -> bool {
    match (at, before, rules) {
        (Some(at), Some(before), _) => at > before,
        (None, Some(_), Rules::Classic) => true,
        _ => false,
    }
}

fn push_value(object: &mut Object, key: &str, value: &Value<'_>) {
    match value {
        Value::Number(number) => object.raw(key, number),
        Value::NamedSamples(name) => object.text(key, name),
    }
}

//! Families of samples: their metadata, the names of their samples, and the rules of their type.
//!
//! Metadata and samples come in the order of the text. Invariants: a name of a sample belongs to one
//! family, and in OpenMetrics a family that has ended does not come back.

use std::borrow::Cow;
use std::collections::HashMap;

use crate::head;

use super::Rules;
use super::metadata::MetricKind;
use super::number::Value;
use super::sample::Sample;

#[derive(Debug)]
pub(super) struct Family<'a> {
    name: &'a str,
    pub(super) kind: MetricKind,
    pub(super) help: Option<Cow<'a, str>>,
    pub(super) unit: Option<&'a str>,
    has_type: bool,
    has_samples: bool,
    /// Another family came behind it.
    is_left: bool,
}

pub(super) struct Families<'a> {
    rules: Rules,
    all: Vec<Family<'a>>,
    by_name: HashMap<&'a str, usize>,
    /// The family of the samples of a name.
    owners: HashMap<Cow<'a, str>, usize>,
    current: Option<usize>,
}

impl<'a> Families<'a> {
    pub(super) fn new(rules: Rules) -> Self {
        Families { rules, all: Vec::new(), by_name: HashMap::new(), owners: HashMap::new(), current: None }
    }

    pub(super) fn get(&self, family: usize) -> &Family<'a> {
        &self.all[family]
    }

    pub(super) fn set_type(&mut self, name: &'a str, kind: MetricKind) -> Result<(), String> {
        let at = self.for_metadata(name, "TYPE")?;
        let family = &self.all[at];
        if family.has_type {
            return Err(again("TYPE", name));
        }
        if family.has_samples {
            return Err(late("TYPE", name));
        }
        if kind == MetricKind::Info || kind == MetricKind::StateSet {
            check_no_unit(kind, family.unit)?;
        }
        let names = || kind.suffixes(self.rules).iter().map(|suffix| format!("{name}{suffix}"));
        if let Some(taken) = names().find(|name| self.owners.get(&**name).is_some_and(|owner| *owner != at)) {
            let owner = &self.all[self.owners[&*taken]];
            return Err(format!(
                "the samples `{}` of `{}` belong to `{}` already; expected names that don't meet",
                head(&taken),
                head(name),
                head(owner.name)
            ));
        }
        self.owners.extend(names().map(|name| (Cow::Owned(name), at)));
        self.all[at].kind = kind;
        self.all[at].has_type = true;
        self.enter(at);
        Ok(())
    }

    pub(super) fn set_help(&mut self, name: &'a str, help: Cow<'a, str>) -> Result<(), String> {
        let at = self.for_metadata(name, "HELP")?;
        let family = &mut self.all[at];
        if family.help.is_some() {
            return Err(again("HELP", name));
        }
        if family.has_samples && self.rules == Rules::OpenMetrics {
            return Err(late("HELP", name));
        }
        family.help = Some(help);
        self.enter(at);
        Ok(())
    }

    pub(super) fn set_unit(&mut self, name: &'a str, unit: &'a str) -> Result<(), String> {
        let at = self.for_metadata(name, "UNIT")?;
        let family = &mut self.all[at];
        if family.unit.is_some() {
            return Err(again("UNIT", name));
        }
        if family.has_samples {
            return Err(late("UNIT", name));
        }
        if family.kind == MetricKind::Info || family.kind == MetricKind::StateSet {
            check_no_unit(family.kind, Some(unit))?;
        }
        family.unit = Some(unit);
        self.enter(at);
        Ok(())
    }

    /// The family of a sample that is as its type wants it.
    pub(super) fn take(&mut self, sample: &Sample<'a>) -> Result<usize, String> {
        let at = match self.owners.get(sample.name) {
            Some(owner) => *owner,
            None => self.named(sample.name),
        };
        self.check_not_left(at)?;
        let family = &self.all[at];
        let suffixes = family.kind.suffixes(self.rules);
        let suffix = sample.name.strip_prefix(family.name).filter(|suffix| suffixes.contains(suffix));
        let Some(suffix) = suffix else {
            return Err(format!(
                "`{}` is no sample of the type {}; expected the name with {} behind it",
                head(sample.name),
                family.kind.name(),
                suffixes.join(" or ")
            ));
        };
        check_label(sample, suffix, family)?;
        if self.rules == Rules::OpenMetrics {
            check_value(sample, suffix, family)?;
        }
        if !self.owners.contains_key(sample.name) {
            self.owners.insert(Cow::Borrowed(sample.name), at);
        }
        self.all[at].has_samples = true;
        self.enter(at);
        Ok(at)
    }

    fn for_metadata(&mut self, name: &'a str, keyword: &str) -> Result<usize, String> {
        // A family has no metadata of its own if its name is one of another family's samples.
        if let Some(owner) = self.owners.get(name).filter(|owner| self.all[**owner].name != name) {
            let owner = self.all[*owner].name;
            return Err(format!(
                "{keyword} of `{}`, whose samples belong to `{}`; expected names that don't meet",
                head(name),
                head(owner)
            ));
        }
        let at = self.named(name);
        self.check_not_left(at).map(|()| at)
    }

    /// The family of a name, a new one if there is none.
    fn named(&mut self, name: &'a str) -> usize {
        *self.by_name.entry(name).or_insert_with(|| {
            let (kind, help, unit) = (MetricKind::Unknown, None, None);
            self.all.push(Family {
                name,
                kind,
                help,
                unit,
                has_type: false,
                has_samples: false,
                is_left: false,
            });
            self.all.len() - 1
        })
    }

    fn check_not_left(&self, at: usize) -> Result<(), String> {
        let family = &self.all[at];
        match family.is_left && self.rules == Rules::OpenMetrics {
            false => Ok(()),
            true => Err(format!(
                "`{}` comes back after another family; expected all lines of a family together",
                head(family.name)
            )),
        }
    }

    fn enter(&mut self, at: usize) {
        if let Some(last) = self.current.replace(at).filter(|last| *last != at) {
            self.all[last].is_left = true;
        }
    }
}

fn again(keyword: &str, name: &str) -> String {
    format!("a second {keyword} of `{}`; expected one", head(name))
}

fn late(keyword: &str, name: &str) -> String {
    format!("{keyword} of `{}` comes after its samples; expected it before them", head(name))
}

fn check_no_unit(kind: MetricKind, unit: Option<&str>) -> Result<(), String> {
    match unit.filter(|unit| !unit.is_empty()) {
        None => Ok(()),
        Some(unit) => Err(format!(
            "the type {} has no unit, and this one has `{}`; expected none",
            kind.name(),
            head(unit)
        )),
    }
}

/// The label that a sample of a distribution needs.
fn check_label(sample: &Sample<'_>, suffix: &str, family: &Family<'_>) -> Result<(), String> {
    let (name, expected): (&str, &str) = match (family.kind, suffix) {
        (MetricKind::Histogram | MetricKind::GaugeHistogram, "_bucket") => {
            ("le", "the bucket's upper bound, a number or +Inf")
        }
        (MetricKind::Summary, "") => ("quantile", "a number from 0 to 1"),
        (MetricKind::StateSet, _) => (family.name, "the name of the state"),
        _ => return Ok(()),
    };
    let label = sample.label(name).ok_or_else(|| {
        format!("`{}` has no label `{}`; expected one with {expected}", head(sample.name), head(name))
    })?;
    let is_fine = match name {
        _ if family.kind == MetricKind::StateSet => true,
        "le" => Value::parse(label).is_ok_and(|bound| !bound.is_nan()),
        _ => Value::parse(label).is_ok_and(|part| (0.0..=1.0).contains(&part.float())),
    };
    match is_fine {
        true => Ok(()),
        false => Err(format!("the label `{name}` is `{}`; expected {expected}", head(label))),
    }
}

/// The rules of OpenMetrics for values, and for samples that may have an exemplar.
fn check_value(sample: &Sample<'_>, suffix: &str, family: &Family<'_>) -> Result<(), String> {
    let counts = matches!(suffix, "_total" | "_bucket" | "_count" | "_gcount" | "_sum");
    let value = sample.value.float();
    let expected = match (family.kind, suffix) {
        _ if sample.value.is_nan() && (counts || suffix == "_gsum") => {
            "a number for what is counted or summed up"
        }
        _ if counts && value < 0.0 => "no negative number for what only grows",
        (MetricKind::Summary, "") if value < 0.0 => "no negative number for a quantile",
        (MetricKind::Info, _) if value != 1.0 => "the value 1 for an info",
        (MetricKind::StateSet, _) if value != 0.0 && value != 1.0 => "the value 0 or 1 for a state",
        _ if sample.has_exemplar && !matches!(suffix, "_total" | "_bucket") => {
            "exemplars at counters and at buckets only"
        }
        _ => return Ok(()),
    };
    Err(format!(
        "`{}` is not as the type {} wants it; expected {expected}",
        head(sample.name),
        family.kind.name()
    ))
}

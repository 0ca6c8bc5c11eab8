//! The data names of a query: some, with patterns among them, or all.

use std::collections::BTreeSet;

use estimand_api::described;
use estimand_api::names::{DataName, NamePattern};
use estimand_api::problem::{FieldError, Problem};
use estimand_api::schema;

use crate::core::snapshot::Snapshot;

/// The most names in one query.
const MAX_NAMES: usize = 256;

/// The form of the names of a query.
#[derive(Debug)]
pub enum Names {}

described!(
    Names,
    [],
    schema::text(
        "One name, at most 256 with commas, or `*` for all; a `*` in a name stands for any text",
        r"^(\*|([A-Za-z_][A-Za-z0-9_.:*-]{0,127}|\*[A-Za-z0-9_.:*-]{1,127})(,([A-Za-z_][A-Za-z0-9_.:*-]{0,127}|\*[A-Za-z0-9_.:*-]{1,127})){0,255})$",
        "cpu_usage,load"
    )
);

/// The names of a query.
#[derive(Debug)]
pub enum AskedNames {
    /// All that have values of their own.
    All,
    /// Each once, in the order given.
    These(Vec<AskedName>),
}

#[derive(Debug, PartialEq, Eq)]
pub enum AskedName {
    One(DataName),
    Pattern(NamePattern),
}

impl AskedNames {
    pub fn parse(names: Option<&str>) -> Result<AskedNames, Problem> {
        let names = names.filter(|names| !names.is_empty()).ok_or_else(missing_name)?;
        if names == "*" {
            return Ok(AskedNames::All);
        }
        let mut list = Vec::new();
        for text in names.split(',').map(str::trim) {
            let name = match NamePattern::parse(text) {
                _ if text == "*" => Err(()),
                Ok(pattern) if text.contains('*') => Ok(AskedName::Pattern(pattern)),
                _ => DataName::parse(text).map(AskedName::One).map_err(drop),
            };
            let name = name.map_err(|()| wrong(text, DataName::EXPECTED))?;
            if !list.contains(&name) {
                list.push(name);
            }
        }
        match list.len() {
            0..=MAX_NAMES => Ok(AskedNames::These(list)),
            count => Err(wrong(&format!("{count} names"), "at most 256 names, or `*` for all")),
        }
    }

    /// The names without patterns; none if there are patterns among them, or all are asked for.
    pub fn plain(&self) -> Option<Vec<DataName>> {
        let AskedNames::These(list) = self else { return None };
        list.iter()
            .map(|name| match name {
                AskedName::One(name) => Some(name.clone()),
                AskedName::Pattern(_) => None,
            })
            .collect()
    }

    /// Those of a snapshot, each once; the names of a pattern in order.
    pub fn of<'s>(&'s self, snapshot: &'s Snapshot) -> Vec<&'s str> {
        let AskedNames::These(list) = self else {
            return snapshot.own_names().into_iter().map(DataName::as_str).collect();
        };
        if let [AskedName::One(name)] = list.as_slice() {
            return vec![name.as_str()];
        }
        let mut seen = BTreeSet::new();
        let mut names = Vec::new();
        for name in list {
            match name {
                AskedName::One(name) => names.extend(seen.insert(name.as_str()).then(|| name.as_str())),
                AskedName::Pattern(pattern) => {
                    let matching = snapshot.all_names().into_iter().map(DataName::as_str);
                    names.extend(matching.filter(|name| pattern.matches(name) && seen.insert(name)));
                }
            }
        }
        names
    }

    /// True if the name is asked for.
    pub fn contains(&self, name: &DataName) -> bool {
        match self {
            AskedNames::All => true,
            AskedNames::These(list) => list.iter().any(|asked| match asked {
                AskedName::One(one) => one == name,
                AskedName::Pattern(pattern) => pattern.matches(name.as_str()),
            }),
        }
    }

    /// The asked names under which a change to the values of `changed` is seen, each once.
    pub fn shown_by<'s>(&'s self, changed: &'s DataName, snapshot: &'s Snapshot) -> Vec<&'s DataName> {
        let AskedNames::These(list) = self else { return Vec::new() };
        let mut names: Vec<&DataName> = Vec::new();
        for asked in list {
            match asked {
                AskedName::One(name) => names.extend((snapshot.resolve(name) == changed).then_some(name)),
                AskedName::Pattern(pattern) => {
                    let bound = snapshot.bindings().iter().filter(|(_, bound)| bound.served.to == *changed);
                    let own =
                        std::iter::once(changed).filter(|name| !snapshot.bindings().contains_key(*name));
                    let all = bound.map(|(name, _)| name).chain(own);
                    names.extend(all.filter(|name| pattern.matches(name.as_str())));
                }
            }
        }
        let mut seen = BTreeSet::new();
        names.retain(|name| seen.insert(*name));
        names
    }

    /// Says which pattern no name matches; none if each has one.
    pub fn hint(&self, snapshot: &Snapshot) -> Option<String> {
        let AskedNames::These(list) = self else { return None };
        let names = snapshot.all_names();
        let without = list.iter().find_map(|name| match name {
            AskedName::Pattern(pattern) if !names.iter().any(|name| pattern.matches(name.as_str())) => {
                Some(pattern)
            }
            _ => None,
        });
        without.map(|pattern| format!("no data name that has values matches {pattern}"))
    }
}

fn missing_name() -> Problem {
    let error = FieldError::new("dataName", "is missing");
    Problem::invalid_field(error.expected("a data name, several with commas, or `*` for all"))
}

fn wrong(given: &str, expected: &str) -> Problem {
    Problem::invalid_field(FieldError::new("dataName", "is not valid").given(given).expected(expected))
}

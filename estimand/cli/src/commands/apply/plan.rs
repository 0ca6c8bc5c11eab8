//! The plan of an `apply`: what becomes different, decided purely from the wishes and what is there.

use std::collections::{BTreeMap, BTreeSet};

use estimand_api::names::DataName;
use estimand_api::registration::{BatchAction, BatchOutcome, RegistrationRecord};
use estimand_api::value::{Binding, BindingTarget};
use serde_json::{Map, Value, json};

use super::files::Wishes;
use crate::commands::bindings::served;
use crate::commands::differences::{Difference, differences};

/// The registrations that are there.
#[derive(Debug, Default)]
pub struct Present {
    pub registrations: BTreeMap<DataName, RegistrationRecord>,
    pub bindings: BTreeMap<DataName, BindingTarget>,
}

/// A binding that becomes another one.
#[derive(Debug, Clone, PartialEq)]
pub struct Rebinding {
    pub name: DataName,
    pub before: Option<BindingTarget>,
    pub after: BindingTarget,
}

/// The changes of a configuration.
#[derive(Debug, Default)]
pub struct Plan {
    /// The registry's answer about each registration of the files.
    pub outcomes: Vec<BatchOutcome>,
    pub rebindings: Vec<Rebinding>,
    /// The registrations that the set has and the files have not.
    pub prune: Vec<DataName>,
    /// The number of bindings that are so already.
    pub bound_already: usize,
}

impl Present {
    pub fn new(registrations: Vec<RegistrationRecord>, bindings: Vec<Binding>) -> Self {
        let name = |one: &RegistrationRecord| one.registration.data_name.clone();
        Present {
            registrations: registrations.into_iter().map(|one| (name(&one), one)).collect(),
            bindings: bindings
                .into_iter()
                .map(|one| (one.data_name, BindingTarget { to: one.to, field: one.field }))
                .collect(),
        }
    }
}

impl Plan {
    /// The plan without the registry's word on registrations.
    pub fn new(wishes: &Wishes, present: &Present, pruned_set: Option<&DataName>) -> Self {
        let mut plan = Plan::default();
        for (name, (after, _)) in &wishes.bindings {
            let before = present.bindings.get(name);
            match before == Some(after) {
                true => plan.bound_already += 1,
                false => plan.rebindings.push(Rebinding {
                    name: name.clone(),
                    before: before.cloned(),
                    after: after.clone(),
                }),
            }
        }
        let of_set = |one: &RegistrationRecord| {
            one.registration.config_set.as_ref() == pruned_set && pruned_set.is_some()
        };
        let extra = present
            .registrations
            .iter()
            .filter(|(name, one)| of_set(one) && !wishes.registrations.contains_key(*name));
        plan.prune = extra.map(|(name, _)| name.clone()).collect();
        plan
    }

    pub fn is_empty(&self) -> bool {
        let same = |outcome: &BatchOutcome| outcome.outcome == BatchAction::Unchanged;
        self.outcomes.iter().all(same) && self.rebindings.is_empty() && self.prune.is_empty()
    }

    /// The number of things that are as the files say.
    pub fn unchanged(&self) -> usize {
        let same = self.outcomes.iter().filter(|outcome| outcome.outcome == BatchAction::Unchanged).count();
        same + self.bound_already
    }

    /// The number of things that become different.
    pub fn changed(&self) -> usize {
        let other = self.outcomes.iter().filter(|outcome| outcome.outcome != BatchAction::Unchanged).count();
        other + self.rebindings.len() + self.prune.len()
    }

    /// True if a name that is pruned is served now by a binding that the files change. Then it is removed after that.
    pub fn prunes_what_is_served_now(&self) -> bool {
        let served = |name: &DataName| {
            self.rebindings.iter().any(|one| one.before.as_ref().is_some_and(|before| before.to == *name))
        };
        self.prune.iter().any(served)
    }

    /// The errors that only the whole shows: a pruned name that is needed, a binding to nothing, a bound name that is
    /// registered. The names of targets of which only the data service can say whether they have values come second.
    pub fn check(&self, wishes: &Wishes, present: &Present) -> (Vec<String>, Vec<DataName>) {
        let (mut errors, mut unknown) = (Vec::new(), Vec::new());
        let pruned: BTreeSet<&DataName> = self.prune.iter().collect();
        let there = |name: &DataName| {
            wishes.registrations.contains_key(name)
                || (present.registrations.contains_key(name) && !pruned.contains(name))
        };
        let mut bindings = present.bindings.clone();
        bindings.extend(self.rebindings.iter().map(|one| (one.name.clone(), one.after.clone())));
        for (name, served) in bindings.iter().filter(|(_, served)| pruned.contains(&served.to)) {
            errors.push(format!("`{}` would be removed, and `{name}` serves its values", served.to));
        }
        for (reader, inputs) in readers(wishes, present).filter(|(reader, _)| !pruned.contains(reader)) {
            for input in inputs.iter().filter(|input| pruned.contains(input)) {
                errors.push(format!("`{input}` would be removed, and `{reader}` reads it"));
            }
        }
        for Rebinding { name, after, .. } in &self.rebindings {
            if there(name) {
                errors.push(format!("`{name}` is registered, so it cannot be bound"));
            }
            if !there(&after.to) {
                unknown.push(after.to.clone());
            }
        }
        (errors, unknown)
    }

    /// The changes for people.
    pub fn lines(&self, wishes: &Wishes, present: &Present) -> Vec<String> {
        let mut lines = Vec::new();
        for BatchOutcome { data_name: name, outcome, .. } in &self.outcomes {
            match outcome {
                BatchAction::Created => lines.push(format!("+ registration {name}")),
                BatchAction::Replaced => {
                    lines.push(format!("~ registration {name}"));
                    let fields = changes(name, wishes, present);
                    if fields.is_empty() {
                        lines.push("    ~ env: the value of a secret".to_owned());
                    }
                    lines.extend(fields.iter().map(|field| format!("    {}", field.line())));
                }
                BatchAction::Unchanged | BatchAction::Deleted => {}
            }
        }
        for Rebinding { name, before, after } in &self.rebindings {
            let now = served(&after.to, after.field.as_ref());
            lines.push(match before {
                None => format!("+ binding {name}: {now}"),
                Some(before) => {
                    format!("~ binding {name}: {} → {now}", served(&before.to, before.field.as_ref()))
                }
            });
        }
        lines.extend(self.prune.iter().map(|name| format!("- registration {name}")));
        lines
    }

    /// The same for programs.
    pub fn to_json(&self, wishes: &Wishes, present: &Present) -> Value {
        let registrations = self.outcomes.iter().map(|outcome| {
            let fields = match outcome.outcome {
                BatchAction::Replaced => changes(&outcome.data_name, wishes, present),
                _ => Vec::new(),
            };
            let fields: Vec<Value> = fields
                .iter()
                .map(|one| json!({ "field": one.field, "before": one.before, "after": one.after }))
                .collect();
            json!({ "registration": outcome.data_name, "outcome": outcome.outcome, "fields": fields })
        });
        let pruned =
            self.prune.iter().map(|name| json!({ "registration": name, "outcome": "deleted", "fields": [] }));
        let bindings = self.rebindings.iter().map(|one| {
            let outcome = if one.before.is_some() { "replaced" } else { "created" };
            json!({ "binding": one.name, "outcome": outcome, "before": one.before, "after": one.after })
        });
        Value::Array(registrations.chain(bindings).chain(pruned).collect())
    }
}

/// The fields in which a registration of the files differs from the present one, as far as may be shown.
fn changes(name: &DataName, wishes: &Wishes, present: &Present) -> Vec<Difference> {
    let (Some((wish, _)), Some(before)) = (wishes.registrations.get(name), present.registrations.get(name))
    else {
        return Vec::new();
    };
    let Ok(submitted) = estimand_api::registration::Registration::from_map(wish.clone()) else {
        return Vec::new();
    };
    let without_set = |mut map: Map<String, Value>| {
        map.remove("configSet");
        map
    };
    let after = without_set(submitted.registration.redacted().to_map());
    differences(&without_set(before.registration.redacted().to_map()), &after)
}

/// Every registration that there will be, with its inputs.
fn readers<'w>(
    wishes: &'w Wishes,
    present: &'w Present,
) -> impl Iterator<Item = (&'w DataName, Vec<DataName>)> {
    let named = |map: &Map<String, Value>| {
        let inputs = map.get("inputs").and_then(Value::as_array).into_iter().flatten();
        inputs.filter_map(|input| DataName::parse(input.as_str()?).ok()).collect()
    };
    let wished = wishes.registrations.iter().map(move |(name, (map, _))| (name, named(map)));
    let others = present.registrations.iter().filter(|(name, _)| !wishes.registrations.contains_key(*name));
    wished.chain(others.map(|(name, one)| (name, one.registration.inputs.clone())))
}

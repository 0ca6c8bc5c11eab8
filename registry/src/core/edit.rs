//! Decides the outcome of a request: edits of the registrations, nothing, or a rejection.
//!
//! Everything that concerns more than one registration is decided here: a taken name, a version that is not
//! the current one, a cycle of inputs, the number of registrations, a name that others need. Versions of a name only
//! ever grow: a deletion takes one too, and a registration made after it goes on from there.
//!
//! Several asks take effect together or not at all. Rules over several registrations hold for what is there in the end,
//! so the order of the asks does not matter to them.

use std::collections::HashMap;
use std::sync::Arc;

use chrono::{DateTime, Utc};
use estimand_api::names::DataName;
pub use estimand_api::registration::MAX_REGISTRATIONS;
use estimand_api::registration::{Action, History, Registration, RegistrationRecord};

use super::draft::Draft;
use super::{Registrations, Rejection, RenderedRegistration, StoredRegistration};

/// One wish of a request.
#[derive(Debug)]
pub enum Ask {
    Create(Registration),
    /// With `version`, only if that is the current one.
    Replace {
        registration: Registration,
        version: Option<u64>,
    },
    /// Creates or replaces. What that changes belongs to the set from then on; what is so already stays where it
    /// belongs.
    Put {
        registration: Registration,
        version: Option<u64>,
        set: Option<DataName>,
    },
    Remove(DataName),
    /// The same registration under another name.
    Rename {
        from: DataName,
        to: DataName,
    },
}

/// A binding that serves the values of a name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServedName {
    pub name: DataName,
    pub to: DataName,
}

/// The protection of a name that is removed although registrations or bindings need it.
#[derive(Debug)]
pub enum Protection {
    /// It is removed all the same.
    Forced,
    /// It is not removed. Bindings are the data service's, so they are those that it named before.
    Needed(Vec<ServedName>),
}

/// The outcome of an ask for one name.
#[derive(Debug, Clone)]
pub struct Outcome {
    pub name: DataName,
    /// None: it is so already.
    pub edit: Option<Edit>,
    /// The registration as it is then; none if it is removed.
    pub after: Option<Arc<RenderedRegistration>>,
}

/// The moment and the author of a change, and the highest version that each name ever had.
#[derive(Debug, Clone, Copy)]
pub struct Occasion<'a> {
    pub now: DateTime<Utc>,
    pub by: &'a str,
    pub versions: &'a HashMap<String, u64>,
}

/// One change, as it is stored and then published.
#[derive(Debug, Clone)]
pub struct Edit {
    pub name: DataName,
    pub action: Action,
    pub version: u64,
    pub at: DateTime<Utc>,
    pub by: String,
    /// None for a deletion.
    pub after: Option<Arc<RenderedRegistration>>,
    /// The text for the audit trail: the registration from then on, or for a deletion as it had been; without the
    /// values of secrets.
    pub spec: String,
    /// Another history is to be kept than before.
    pub retention_changed: bool,
}

/// Decides about asks that take effect together. No two of them are about the same name.
pub fn decide(
    registrations: &Registrations,
    asks: Vec<Ask>,
    protection: &Protection,
    occasion: Occasion<'_>,
) -> Result<Vec<Outcome>, Rejection> {
    let mut draft = Draft::new(registrations);
    let mut outcomes = Vec::with_capacity(asks.len());
    for ask in asks {
        for outcome in one(&draft, ask, occasion)? {
            if outcome.edit.is_some() {
                draft.set(&outcome.name, outcome.after.as_ref());
            }
            outcomes.push(outcome);
        }
    }
    let edits = || outcomes.iter().filter_map(|outcome| outcome.edit.as_ref());
    if edits().any(|edit| edit.action == Action::Created) && draft.len() > MAX_REGISTRATIONS {
        return Err(Rejection::Full);
    }
    for edit in edits() {
        match edit.after {
            Some(_) => draft.cycle_of(&edit.name).map_or(Ok(()), |cycle| Err(Rejection::Cycle(cycle)))?,
            None => check_needed(&draft, &edit.name, protection)?,
        }
    }
    Ok(outcomes)
}

fn one(draft: &Draft<'_>, ask: Ask, occasion: Occasion<'_>) -> Result<Vec<Outcome>, Rejection> {
    Ok(match ask {
        Ask::Create(registration) => vec![create(draft, registration, occasion)?],
        Ask::Replace { registration, version } => match draft.get(&registration.data_name) {
            Some(stored) => vec![replace(stored, registration, version, occasion)?],
            None => return Err(Rejection::Unknown(registration.data_name)),
        },
        Ask::Put { registration, version, set } => vec![put(draft, registration, version, set, occasion)?],
        Ask::Remove(name) => vec![remove(draft, name, occasion)?],
        Ask::Rename { from, to } => rename(draft, from, to, occasion)?,
    })
}

fn create(
    draft: &Draft<'_>,
    registration: Registration,
    occasion: Occasion<'_>,
) -> Result<Outcome, Rejection> {
    if let Some(stored) = draft.get(&registration.data_name) {
        return Err(taken(&registration.data_name, stored));
    }
    check_secrets(&registration)?;
    Ok(occasion.edit(Action::Created, None, registration))
}

fn replace(
    stored: &StoredRegistration,
    mut registration: Registration,
    version: Option<u64>,
    occasion: Occasion<'_>,
) -> Result<Outcome, Rejection> {
    if let Some(before) = stored.readable() {
        registration.keep_secrets(&before.registered.registration);
    }
    check_secrets(&registration)?;
    // First, so that a replacement that is sent twice is answered twice alike.
    if let Some(entry) = stored.readable().filter(|entry| entry.registered.registration == registration) {
        let (name, after) = (registration.data_name, Some(Arc::clone(entry)));
        return Ok(Outcome { name, edit: None, after });
    }
    check_version(&registration.data_name, version, stored)?;
    Ok(occasion.edit(Action::Replaced, Some(stored), registration))
}

fn put(
    draft: &Draft<'_>,
    mut registration: Registration,
    version: Option<u64>,
    set: Option<DataName>,
    occasion: Occasion<'_>,
) -> Result<Outcome, Rejection> {
    let named = registration.config_set.take();
    let Some(stored) = draft.get(&registration.data_name) else {
        registration.config_set = named.or(set);
        return match version {
            None => create(draft, registration, occasion),
            Some(_) => Err(Rejection::Unknown(registration.data_name)),
        };
    };
    // Compared as a member of the set that it is in: to be listed in a file is no change of what runs.
    let current = stored.readable().and_then(|entry| entry.registered.registration.config_set.clone());
    registration.config_set = named.clone().or(current);
    let unchanged = replace(stored, registration.clone(), None, occasion)?;
    if unchanged.edit.is_none() {
        return Ok(unchanged);
    }
    if named.is_none() && set.is_some() {
        registration.config_set = set;
    }
    replace(stored, registration, version, occasion)
}

fn remove(draft: &Draft<'_>, name: DataName, occasion: Occasion<'_>) -> Result<Outcome, Rejection> {
    let Some(stored) = draft.get(&name) else { return Err(Rejection::Unknown(name)) };
    let (version, at) = occasion.next(&name, Some(stored));
    let edit = Edit {
        spec: stored.shown_spec(),
        retention_changed: history(stored.readable()).is_some(),
        by: occasion.by.to_owned(),
        action: Action::Deleted,
        after: None,
        name: name.clone(),
        version,
        at,
    };
    Ok(Outcome { name, edit: Some(edit), after: None })
}

fn rename(
    draft: &Draft<'_>,
    from: DataName,
    to: DataName,
    occasion: Occasion<'_>,
) -> Result<Vec<Outcome>, Rejection> {
    let Some(stored) = draft.get(&from) else { return Err(Rejection::Unknown(from)) };
    let Some(entry) = stored.readable() else { return Err(Rejection::Unreadable(from)) };
    let registration = Registration { data_name: to, ..entry.registered.registration.clone() };
    Ok(vec![create(draft, registration, occasion)?, remove(draft, from, occasion)?])
}

impl Occasion<'_> {
    fn edit(
        self,
        action: Action,
        stored: Option<&StoredRegistration>,
        registration: Registration,
    ) -> Outcome {
        let name = registration.data_name.clone();
        let (version, at) = self.next(&name, stored);
        let created_at = stored.map_or(at, StoredRegistration::created_at);
        let registered = RegistrationRecord { registration, version, created_at, updated_at: at };
        let after = Arc::new(RenderedRegistration::new(registered));
        let edit = Edit {
            spec: after.shown_spec(),
            retention_changed: history(stored.and_then(StoredRegistration::readable))
                != history(Some(&after)),
            by: self.by.to_owned(),
            after: Some(Arc::clone(&after)),
            name: name.clone(),
            action,
            version,
            at,
        };
        Outcome { name, edit: Some(edit), after: Some(after) }
    }

    /// The version and the time of the change. A clock that was set back must not make a registration older than it
    /// was.
    fn next(&self, name: &DataName, stored: Option<&StoredRegistration>) -> (u64, DateTime<Utc>) {
        let last = self.versions.get(name.as_str()).copied().unwrap_or(0);
        let version = last.max(stored.map_or(0, StoredRegistration::version)) + 1;
        (version, stored.map_or(self.now, |stored| self.now.max(stored.updated_at())))
    }
}

fn history(entry: Option<&Arc<RenderedRegistration>>) -> Option<History> {
    entry.and_then(|entry| entry.registered.registration.history)
}

fn check_version(name: &DataName, given: Option<u64>, stored: &StoredRegistration) -> Result<(), Rejection> {
    let current = stored.version();
    match given {
        Some(given) if given != current => Err(Rejection::Outdated { name: name.clone(), current, given }),
        _ => Ok(()),
    }
}

/// `null` stands for a value that is kept, so there must be one.
fn check_secrets(registration: &Registration) -> Result<(), Rejection> {
    match registration.withheld().map(|name| name.to_string()).collect::<Vec<_>>() {
        none if none.is_empty() => Ok(()),
        names => Err(Rejection::NoSecret { of: registration.data_name.clone(), names }),
    }
}

/// A name that is removed, although others need it, is not removed by accident.
fn check_needed(draft: &Draft<'_>, name: &DataName, protection: &Protection) -> Result<(), Rejection> {
    let Protection::Needed(bindings) = protection else { return Ok(()) };
    let readers = draft.readers_of(name);
    let served: Vec<DataName> =
        bindings.iter().filter(|served| served.to == *name).map(|served| served.name.clone()).collect();
    match readers.is_empty() && served.is_empty() {
        true => Ok(()),
        false => Err(Rejection::Needed { name: name.clone(), readers, served }),
    }
}

fn taken(name: &DataName, stored: &StoredRegistration) -> Rejection {
    Rejection::Taken { name: name.clone(), created_at: stored.created_at(), version: stored.version() }
}

#[cfg(test)]
#[path = "edit_tests.rs"]
mod tests;

//! Decides the outcome of a request: an edit of the registrations, nothing, or a rejection.
//!
//! Everything that concerns more than one registration is decided here: a taken name, a version that is not
//! the current one, a cycle of inputs, the number of registrations. Versions of a name only ever grow: a
//! deletion takes one too, and a registration made after it goes on from there.

use std::sync::Arc;

use chrono::{DateTime, Utc};
use estimand_api::names::DataName;
use estimand_api::registration::{Action, History, Registered, Registration};

use super::{Registrations, Rejection, RenderedRegistration, StoredRegistration, inputs};

/// The most registrations there may be.
pub const MAX_REGISTRATIONS: usize = 10_000;

/// A request to put a registration into effect.
#[derive(Debug)]
pub enum Ask {
    Create(Registration),
    /// With `version`, only if that is the current one.
    Replace {
        registration: Registration,
        version: Option<u64>,
    },
}

/// The outcome of an [`Ask`].
#[derive(Debug)]
pub enum Outcome {
    /// The registration is as the request wants it already.
    Unchanged(Arc<RenderedRegistration>),
    /// The edit, and the registration as it is then.
    Edit(Edit, Arc<RenderedRegistration>),
}

/// The moment and the author of a change, and the highest version that its name ever had (0: none).
#[derive(Debug, Clone, Copy)]
pub struct Occasion<'a> {
    pub now: DateTime<Utc>,
    pub by: &'a str,
    pub last_version: u64,
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

impl Ask {
    pub fn name(&self) -> &DataName {
        match self {
            Ask::Create(registration) | Ask::Replace { registration, .. } => &registration.data_name,
        }
    }
}

/// Decides about a registration that is new or replaces another.
pub fn decide(registrations: &Registrations, ask: Ask, occasion: Occasion<'_>) -> Result<Outcome, Rejection> {
    let name = ask.name().clone();
    let stored = registrations.get(name.as_str());
    let (registration, action) = match (ask, stored) {
        (Ask::Create(_), Some(stored)) => return Err(taken(&name, stored)),
        (Ask::Create(_), None) if registrations.len() >= MAX_REGISTRATIONS => return Err(Rejection::Full),
        (Ask::Create(registration), None) => {
            check_secrets(&registration)?;
            (registration, Action::Created)
        }
        (Ask::Replace { .. }, None) => return Err(Rejection::Unknown(name)),
        (Ask::Replace { mut registration, version }, Some(stored)) => {
            if let Some(before) = stored.readable() {
                registration.keep_secrets(&before.registered.registration);
            }
            check_secrets(&registration)?;
            // First, so that a replacement that is sent twice is answered twice alike.
            if let Some(entry) =
                stored.readable().filter(|entry| entry.registered.registration == registration)
            {
                return Ok(Outcome::Unchanged(Arc::clone(entry)));
            }
            check_version(&name, version, stored)?;
            (registration, Action::Replaced)
        }
    };
    check_inputs(registrations, &registration)?;
    let (version, at) = occasion.next(stored);
    let created_at = stored.map_or(at, StoredRegistration::created_at);
    let after = RenderedRegistration::new(Registered { registration, version, created_at, updated_at: at });
    let after = Arc::new(after);
    let edit = Edit {
        spec: after.shown_spec(),
        retention_changed: history(stored.and_then(StoredRegistration::readable)) != history(Some(&after)),
        by: occasion.by.to_owned(),
        after: Some(Arc::clone(&after)),
        name,
        action,
        version,
        at,
    };
    Ok(Outcome::Edit(edit, after))
}

/// Decides about the removal of a registration.
pub fn decide_removal(
    registrations: &Registrations,
    name: DataName,
    occasion: Occasion<'_>,
) -> Result<Edit, Rejection> {
    let Some(stored) = registrations.get(name.as_str()) else { return Err(Rejection::Unknown(name)) };
    let (version, at) = occasion.next(Some(stored));
    Ok(Edit {
        spec: stored.shown_spec(),
        retention_changed: history(stored.readable()).is_some(),
        by: occasion.by.to_owned(),
        action: Action::Deleted,
        after: None,
        name,
        version,
        at,
    })
}

impl Occasion<'_> {
    /// The version and the time of the change. A clock that was set back must not make a registration older than it
    /// was.
    fn next(&self, stored: Option<&StoredRegistration>) -> (u64, DateTime<Utc>) {
        let version = self.last_version.max(stored.map_or(0, StoredRegistration::version)) + 1;
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
        names => Err(Rejection::NoSecret(names)),
    }
}

fn check_inputs(registrations: &Registrations, registration: &Registration) -> Result<(), Rejection> {
    let Registration { data_name, inputs, .. } = registration;
    match inputs::cycle(data_name, inputs, |name| registrations.inputs_of(name)) {
        None => Ok(()),
        Some(cycle) => Err(Rejection::Cycle(inputs::show(&cycle))),
    }
}

fn taken(name: &DataName, stored: &StoredRegistration) -> Rejection {
    Rejection::Taken { name: name.clone(), created_at: stored.created_at(), version: stored.version() }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn registration(name: &str, more: &str) -> Registration {
        let body = format!(r#"{{"dataName": "{name}", "cmd": "true", "max-Time": 5{more}}}"#);
        Registration::parse(body.as_bytes()).unwrap().registration
    }

    fn at(micros: i64) -> DateTime<Utc> {
        DateTime::from_timestamp_micros(micros).unwrap()
    }

    fn occasion(last_version: u64, now: i64) -> Occasion<'static> {
        Occasion { now: at(now), by: "me", last_version }
    }

    fn edit(registrations: &Registrations, ask: Ask, last_version: u64, now: i64) -> Edit {
        match decide(registrations, ask, occasion(last_version, now)).unwrap() {
            Outcome::Edit(edit, _) => edit,
            Outcome::Unchanged(entry) => panic!("nothing to do for {entry:?}"),
        }
    }

    #[test]
    fn a_clock_that_was_set_back_makes_nothing_older() {
        let first = edit(&Registrations::default(), Ask::Create(registration("a", "")), 6, 1_000);
        assert_eq!(first.version, 7);
        let registrations = Registrations::default().with(&first.name, first.after);
        let registration = registration("a", r#", "timeout": 1"#);
        let second = edit(&registrations, Ask::Replace { registration, version: Some(7) }, 7, 10);
        let entry = second.after.unwrap();
        assert_eq!((entry.registered.created_at, entry.registered.updated_at), (at(1_000), at(1_000)));
        assert_eq!((entry.registered.version, second.action), (8, Action::Replaced));
    }

    #[test]
    fn a_secret_that_is_not_given_is_kept() {
        let env = |env: &str| registration("a", &format!(r#", "env": {env}, "secrets": ["T"]"#));
        let refused = decide(&Registrations::default(), Ask::Create(env(r#"{"T": null}"#)), occasion(0, 0))
            .unwrap_err();
        assert_eq!(refused, Rejection::NoSecret(vec!["T".to_owned()]));
        let created = edit(&Registrations::default(), Ask::Create(env(r#"{"T": "hush"}"#)), 0, 0);
        assert!(!created.spec.contains("hush"), "{}", created.spec);
        let registrations = Registrations::default().with(&created.name, created.after);
        let replace = |registration| Ask::Replace { registration, version: None };
        let again = decide(&registrations, replace(env(r#"{"T": null}"#)), occasion(1, 0)).unwrap();
        assert!(matches!(again, Outcome::Unchanged(_)), "{again:?}");
        let other = edit(&registrations, replace(env(r#"{"T": null, "N": "1"}"#)), 1, 0).after.unwrap();
        assert_eq!(other.registered.registration.env["T"], "hush");
        let unknown = registration("a", r#", "env": {"T": null, "U": null}, "secrets": ["T", "U"]"#);
        let refused = decide(&registrations, replace(unknown), occasion(1, 0)).unwrap_err();
        assert_eq!(refused, Rejection::NoSecret(vec!["U".to_owned()]));
        let removed = decide_removal(&registrations, created.name, occasion(1, 0)).unwrap();
        assert!(!removed.spec.contains("hush"), "{}", removed.spec);
    }

    #[test]
    fn the_number_of_registrations_is_limited() {
        let held = |place| {
            let name = format!("n{place}");
            let edit = edit(&Registrations::default(), Ask::Create(registration(&name, "")), 0, 0);
            (edit.name, StoredRegistration::Readable(edit.after.unwrap()))
        };
        let registrations =
            Registrations::new(1, (0..MAX_REGISTRATIONS).map(held).collect::<BTreeMap<_, _>>());
        let rejection =
            decide(&registrations, Ask::Create(registration("one_more", "")), occasion(0, 0)).unwrap_err();
        assert_eq!(rejection, Rejection::Full);
        assert!(rejection.to_string().contains("10000"), "{rejection}");
        edit(
            &registrations,
            Ask::Replace { registration: registration("n5", r#", "timeout": 1"#), version: None },
            1,
            0,
        );
    }

    #[test]
    fn only_a_change_of_the_history_changes_the_retention() {
        let with = r#", "history": {"max": 5}"#;
        let created = edit(&Registrations::default(), Ask::Create(registration("a", with)), 0, 0);
        assert!(created.retention_changed);
        let registrations = Registrations::default().with(&created.name, created.after);
        let more = format!(r#"{with}, "timeout": 1"#);
        let replaced = edit(
            &registrations,
            Ask::Replace { registration: registration("a", &more), version: None },
            1,
            0,
        );
        assert!(!replaced.retention_changed);
        assert!(
            decide_removal(&registrations, DataName::parse("a").unwrap(), occasion(1, 0))
                .unwrap()
                .retention_changed
        );
    }
}

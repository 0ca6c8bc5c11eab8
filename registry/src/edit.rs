//! What a request makes of the book: an edit, nothing, or a refusal. Pure: no clock, no database.
//!
//! Everything that concerns more than one registration is decided here: a taken name, a version that is not
//! the current one, a cycle of inputs, the number of registrations. Versions of a name only ever grow: a
//! deletion takes one too, and a registration made after it goes on from there.

use std::sync::Arc;

use chrono::{DateTime, Utc};
use estimand_api::instant::to_rfc3339;
use estimand_api::names::DataName;
use estimand_api::problem::{FieldError, Problem};
use estimand_api::registration::{Action, Registered, Registration};

use crate::book::{Book, Entry, Held};
use crate::graph;

/// The most registrations there may be.
pub const MAX_REGISTRATIONS: usize = 10_000;

/// What somebody asks for.
#[derive(Debug)]
pub enum Ask {
    Create(Registration),
    /// With `version`, only if that is the current one.
    Replace {
        registration: Registration,
        version: Option<u64>,
    },
    Remove(DataName),
}

/// What comes of it.
#[derive(Debug)]
pub enum Verdict {
    /// It is so already.
    Nothing(Arc<Entry>),
    Edit(Edit),
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
    pub after: Option<Arc<Entry>>,
    /// What the audit trail keeps: the registration from then on, or for a deletion what it had been; without the
    /// values of secrets.
    pub spec: String,
    /// Whether another history is to be kept than before.
    pub retention_changed: bool,
}

impl Ask {
    pub fn name(&self) -> &DataName {
        match self {
            Ask::Create(registration) | Ask::Replace { registration, .. } => &registration.data_name,
            Ask::Remove(name) => name,
        }
    }
}

/// Decides. `last_version` is the highest that the name ever had, 0 if it never had any.
pub fn decide(
    book: &Book,
    ask: Ask,
    last_version: u64,
    now: DateTime<Utc>,
    by: &str,
) -> Result<Verdict, Problem> {
    let name = ask.name().clone();
    let held = book.get(name.as_str());
    let (registration, action) = match (ask, held) {
        (Ask::Create(_), Some(held)) => return Err(taken(&name, held)),
        (Ask::Create(_), None) if book.len() >= MAX_REGISTRATIONS => return Err(full()),
        (Ask::Create(registration), None) => {
            check_secrets(&registration)?;
            (Some(registration), Action::Created)
        }
        (Ask::Replace { .. } | Ask::Remove(_), None) => return Err(unknown(&name)),
        (Ask::Replace { mut registration, version }, Some(held)) => {
            if let Some(before) = held.readable() {
                registration.keep_secrets(&before.registered.registration);
            }
            check_secrets(&registration)?;
            // First, so that a replacement that is sent twice is answered twice alike.
            if let Some(entry) = held.readable().filter(|entry| entry.registered.registration == registration)
            {
                return Ok(Verdict::Nothing(Arc::clone(entry)));
            }
            check_version(&name, version, held)?;
            (Some(registration), Action::Replaced)
        }
        (Ask::Remove(_), Some(_)) => (None, Action::Deleted),
    };
    if let Some(registration) = &registration {
        check_inputs(book, registration)?;
    }
    // A clock that was set back must not make a registration older than it was.
    let at = held.map_or(now, |held| now.max(held.updated_at()));
    let version = last_version.max(held.map_or(0, Held::version)) + 1;
    let created_at = held.map_or(at, Held::created_at);
    let after = registration.map(|registration| {
        Arc::new(Entry::new(Registered { registration, version, created_at, updated_at: at }))
    });
    let spec = match (&after, held) {
        (Some(entry), _) => entry.shown_spec(),
        (None, held) => held.map(Held::shown_spec).unwrap_or_default(),
    };
    let retention_changed = kept(held.and_then(Held::readable)) != kept(after.as_ref());
    Ok(Verdict::Edit(Edit { name, action, version, at, by: by.to_owned(), after, spec, retention_changed }))
}

fn kept(entry: Option<&Arc<Entry>>) -> Option<estimand_api::registration::History> {
    entry.and_then(|entry| entry.registered.registration.history)
}

fn check_version(name: &DataName, given: Option<u64>, held: &Held) -> Result<(), Problem> {
    let current = held.version();
    match given {
        Some(given) if given != current => Err(Problem::conflict(format!(
            "`{name}` is at version {current}, not {given}: somebody changed it meanwhile, and \
             /api/registry/{name}/history says who; get it, apply your change to that, and send it again"
        ))),
        _ => Ok(()),
    }
}

/// `null` stands for a value that is kept, so there must be one.
fn check_secrets(registration: &Registration) -> Result<(), Problem> {
    let unknown = |name: &str| {
        let error = FieldError::new(format!("env.{name}"), "is null, and no value of it is kept");
        error.given("null").expected("its value: `null` keeps the one that is registered already")
    };
    match registration.withheld().map(unknown).collect::<Vec<_>>() {
        none if none.is_empty() => Ok(()),
        errors => Err(Problem::invalid(errors)),
    }
}

fn check_inputs(book: &Book, registration: &Registration) -> Result<(), Problem> {
    let Registration { data_name, inputs, .. } = registration;
    match graph::cycle(data_name, inputs, |name| book.inputs_of(name)) {
        None => Ok(()),
        Some(way) => Err(Problem::conflict(format!(
            "the inputs would form a cycle: {}; each would wait for the next (`→` means: reads)",
            graph::show(&way)
        ))),
    }
}

fn taken(name: &DataName, held: &Held) -> Problem {
    let since = to_rfc3339(held.created_at().timestamp_micros());
    let version = held.version();
    Problem::conflict(format!(
        "`{name}` is registered since {since}, now at version {version}; PUT /api/registry replaces it"
    ))
}

fn full() -> Problem {
    Problem::conflict(format!(
        "there are {MAX_REGISTRATIONS} registrations, the most that are kept; delete one first"
    ))
}

fn unknown(name: &DataName) -> Problem {
    Problem::not_found(format!("`{name}` is not registered; POST /api/registry registers it"))
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

    fn edit(book: &Book, ask: Ask, last_version: u64, now: i64) -> Edit {
        match decide(book, ask, last_version, at(now), "me").unwrap() {
            Verdict::Edit(edit) => edit,
            Verdict::Nothing(entry) => panic!("nothing to do for {entry:?}"),
        }
    }

    #[test]
    fn a_clock_that_was_set_back_makes_nothing_older() {
        let first = edit(&Book::default(), Ask::Create(registration("a", "")), 6, 1_000);
        assert_eq!(first.version, 7);
        let book = Book::default().with(&first.name, first.after);
        let registration = registration("a", r#", "timeout": 1"#);
        let second = edit(&book, Ask::Replace { registration, version: Some(7) }, 7, 10);
        let entry = second.after.unwrap();
        assert_eq!((entry.registered.created_at, entry.registered.updated_at), (at(1_000), at(1_000)));
        assert_eq!((entry.registered.version, second.action), (8, Action::Replaced));
    }

    #[test]
    fn a_secret_that_is_not_given_is_kept() {
        let env = |env: &str| registration("a", &format!(r#", "env": {env}, "secrets": ["T"]"#));
        let refused =
            decide(&Book::default(), Ask::Create(env(r#"{"T": null}"#)), 0, at(0), "me").unwrap_err();
        assert_eq!(refused.errors[0].field, "env.T");
        let created = edit(&Book::default(), Ask::Create(env(r#"{"T": "hush"}"#)), 0, 0);
        assert!(!created.spec.contains("hush"), "{}", created.spec);
        let book = Book::default().with(&created.name, created.after);
        let replace = |registration| Ask::Replace { registration, version: None };
        let again = decide(&book, replace(env(r#"{"T": null}"#)), 1, at(0), "me").unwrap();
        assert!(matches!(again, Verdict::Nothing(_)), "{again:?}");
        let other = edit(&book, replace(env(r#"{"T": null, "N": "1"}"#)), 1, 0).after.unwrap();
        assert_eq!(other.registered.registration.env["T"], "hush");
        let unknown = registration("a", r#", "env": {"T": null, "U": null}, "secrets": ["T", "U"]"#);
        let refused = decide(&book, replace(unknown), 1, at(0), "me").unwrap_err();
        assert_eq!(refused.errors[0].field, "env.U");
        let removed = edit(&book, Ask::Remove(created.name), 1, 0);
        assert!(!removed.spec.contains("hush"), "{}", removed.spec);
    }

    #[test]
    fn the_number_of_registrations_is_limited() {
        let held = |place| {
            let name = format!("n{place}");
            let edit = edit(&Book::default(), Ask::Create(registration(&name, "")), 0, 0);
            (edit.name, Held::Readable(edit.after.unwrap()))
        };
        let book = Book::new(1, (0..MAX_REGISTRATIONS).map(held).collect::<BTreeMap<_, _>>());
        let problem = decide(&book, Ask::Create(registration("one_more", "")), 0, at(0), "me").unwrap_err();
        assert_eq!(problem.status, 409);
        assert!(problem.detail.contains("10000"), "{problem}");
        edit(
            &book,
            Ask::Replace { registration: registration("n5", r#", "timeout": 1"#), version: None },
            1,
            0,
        );
    }

    #[test]
    fn only_a_change_of_the_history_changes_the_retention() {
        let with = r#", "history": {"max": 5}"#;
        let created = edit(&Book::default(), Ask::Create(registration("a", with)), 0, 0);
        assert!(created.retention_changed);
        let book = Book::default().with(&created.name, created.after);
        let more = format!(r#"{with}, "timeout": 1"#);
        let replaced =
            edit(&book, Ask::Replace { registration: registration("a", &more), version: None }, 1, 0);
        assert!(!replaced.retention_changed);
        assert!(edit(&book, Ask::Remove(DataName::parse("a").unwrap()), 1, 0).retention_changed);
    }
}

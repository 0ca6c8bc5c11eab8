//! Tests of decisions.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;

use super::*;

fn name(text: &str) -> DataName {
    DataName::parse(text).unwrap()
}

fn registration(name: &str, more: &str) -> Registration {
    let body = format!(r#"{{"dataName": "{name}", "cmd": "true", "max-Time": 5{more}}}"#);
    Registration::parse(body.as_bytes()).unwrap().registration
}

fn processor(name: &str, input: &str) -> Registration {
    registration(name, &format!(r#", "kind": "processor", "inputs": ["{input}"]"#))
}

fn at(micros: i64) -> DateTime<Utc> {
    DateTime::from_timestamp_micros(micros).unwrap()
}

/// Decides at a moment, when every name had this version last.
fn decided(
    registrations: &Registrations,
    asks: Vec<Ask>,
    last_version: u64,
    now: i64,
) -> Result<Vec<Outcome>, Rejection> {
    let versions = asks.iter().flat_map(names).map(|name| (name, last_version)).collect();
    let occasion = Occasion { now: at(now), by: "me", versions: &versions };
    decide(registrations, asks, &Protection::Needed(Vec::new()), occasion)
}

fn names(ask: &Ask) -> Vec<String> {
    match ask {
        Ask::Create(registration) | Ask::Replace { registration, .. } | Ask::Put { registration, .. } => {
            vec![registration.data_name.to_string()]
        }
        Ask::Remove(name) => vec![name.to_string()],
        Ask::Rename { from, to } => vec![from.to_string(), to.to_string()],
    }
}

fn edit(registrations: &Registrations, ask: Ask, last_version: u64, now: i64) -> Edit {
    let mut outcomes = decided(registrations, vec![ask], last_version, now).unwrap();
    outcomes.pop().unwrap().edit.expect("an edit")
}

fn refused(registrations: &Registrations, ask: Ask, last_version: u64) -> Rejection {
    decided(registrations, vec![ask], last_version, 0).unwrap_err()
}

/// The registrations after these asks.
fn after(registrations: &Registrations, asks: Vec<Ask>) -> Registrations {
    let edits = decided(registrations, asks, 0, 0).unwrap().into_iter().filter_map(|outcome| outcome.edit);
    registrations.with(edits.map(|edit| (edit.name, edit.after)))
}

fn with(registrations: &[Registration]) -> Registrations {
    after(&Registrations::default(), registrations.iter().cloned().map(Ask::Create).collect())
}

#[test]
fn a_clock_that_was_set_back_makes_nothing_older() {
    let first = edit(&Registrations::default(), Ask::Create(registration("a", "")), 6, 1_000);
    assert_eq!(first.version, 7);
    let registrations = Registrations::default().with([(first.name, first.after)]);
    let registration = registration("a", r#", "timeout": 1"#);
    let second = edit(&registrations, Ask::Replace { registration, version: Some(7) }, 7, 10);
    let entry = second.after.unwrap();
    assert_eq!((entry.registered.created_at, entry.registered.updated_at), (at(1_000), at(1_000)));
    assert_eq!((entry.registered.version, second.action), (8, Action::Replaced));
}

#[test]
fn a_secret_that_is_not_given_is_kept() {
    let env = |env: &str| registration("a", &format!(r#", "env": {env}, "secrets": ["T"]"#));
    let missing = |variable: &str| Rejection::NoSecret { of: name("a"), names: vec![variable.to_owned()] };
    assert_eq!(refused(&Registrations::default(), Ask::Create(env(r#"{"T": null}"#)), 0), missing("T"));
    let created = edit(&Registrations::default(), Ask::Create(env(r#"{"T": "hush"}"#)), 0, 0);
    assert!(!created.spec.contains("hush"), "{}", created.spec);
    let registrations = Registrations::default().with([(created.name, created.after)]);
    let replace = |registration| Ask::Replace { registration, version: None };
    let again = decided(&registrations, vec![replace(env(r#"{"T": null}"#))], 1, 0).unwrap();
    assert!(again[0].edit.is_none(), "{again:?}");
    let other = edit(&registrations, replace(env(r#"{"T": null, "N": "1"}"#)), 1, 0).after.unwrap();
    assert_eq!(other.registered.registration.env["T"], "hush");
    let unknown = registration("a", r#", "env": {"T": null, "U": null}, "secrets": ["T", "U"]"#);
    assert_eq!(refused(&registrations, replace(unknown), 1), missing("U"));
    let removed = edit(&registrations, Ask::Remove(name("a")), 1, 0);
    assert!(!removed.spec.contains("hush"), "{}", removed.spec);
    let renamed = after(&registrations, vec![Ask::Rename { from: name("a"), to: name("b") }]);
    let entry = renamed.get("b").unwrap().readable().unwrap();
    assert_eq!(entry.registered.registration.env["T"], "hush");
    assert!(renamed.get("a").is_none());
}

#[test]
fn the_number_of_registrations_is_limited() {
    let held = |place| {
        let name = format!("n{place}");
        let edit = edit(&Registrations::default(), Ask::Create(registration(&name, "")), 0, 0);
        (edit.name, StoredRegistration::Readable(edit.after.unwrap()))
    };
    let registrations = Registrations::new(1, (0..MAX_REGISTRATIONS).map(held).collect::<BTreeMap<_, _>>());
    let rejection = refused(&registrations, Ask::Create(registration("one_more", "")), 0);
    assert_eq!(rejection, Rejection::Full);
    assert!(rejection.to_string().contains("10000"), "{rejection}");
    edit(
        &registrations,
        Ask::Replace { registration: registration("n5", r#", "timeout": 1"#), version: None },
        1,
        0,
    );
    edit(&registrations, Ask::Rename { from: name("n5"), to: name("other") }, 1, 0);
}

#[test]
fn only_a_change_of_the_history_changes_the_retention() {
    let with = r#", "history": {"max": 5}"#;
    let created = edit(&Registrations::default(), Ask::Create(registration("a", with)), 0, 0);
    assert!(created.retention_changed);
    let registrations = Registrations::default().with([(created.name, created.after)]);
    let more = format!(r#"{with}, "timeout": 1"#);
    let replaced =
        edit(&registrations, Ask::Replace { registration: registration("a", &more), version: None }, 1, 0);
    assert!(!replaced.retention_changed);
    assert!(edit(&registrations, Ask::Remove(name("a")), 1, 0).retention_changed);
}

#[test]
fn several_asks_are_judged_by_what_is_there_in_the_end() {
    let registrations = with(&[processor("a", "b"), registration("b", "")]);
    let put = |registration| Ask::Put { registration, version: None, set: None };
    // Taken one after the other, the first of them would close a cycle.
    let turned = after(&registrations, vec![put(processor("b", "a")), put(registration("a", ""))]);
    assert_eq!(turned.inputs_of(&name("b")), [name("a")]);
    let closed = decided(&registrations, vec![put(registration("c", "")), put(processor("b", "a"))], 1, 0);
    assert!(matches!(closed, Err(Rejection::Cycle(_))), "{closed:?}");
    // The reader goes, too.
    let none = after(&registrations, vec![Ask::Remove(name("b")), Ask::Remove(name("a"))]);
    assert_eq!(none.len(), 0);
}

#[test]
fn a_name_that_others_need_is_removed_only_by_force() {
    let registrations = with(&[processor("a", "b"), registration("b", "")]);
    let versions = HashMap::new();
    let occasion = Occasion { now: at(0), by: "me", versions: &versions };
    let served = ServedName { name: name("s"), to: name("b") };
    let remove = |protection| decide(&registrations, vec![Ask::Remove(name("b"))], &protection, occasion);
    let needed = |readers: &[&str], served: &[&str]| {
        let all = |names: &[&str]| names.iter().map(|text| name(text)).collect();
        Rejection::Needed { name: name("b"), readers: all(readers), served: all(served) }
    };
    assert_eq!(remove(Protection::Needed(vec![])).unwrap_err(), needed(&["a"], &[]));
    let rejection = remove(Protection::Needed(vec![served.clone()])).unwrap_err();
    assert_eq!(rejection, needed(&["a"], &["s"]));
    assert_eq!(
        rejection.to_string(),
        "`b` is read by `a` and served under `s`, which would get nothing new; `force` does it all the same"
    );
    assert_eq!(remove(Protection::Forced).unwrap().len(), 1);
    let rename = vec![Ask::Rename { from: name("b"), to: name("c") }];
    let renamed = decide(&registrations, rename, &Protection::Needed(vec![]), occasion);
    assert_eq!(renamed.unwrap_err(), needed(&["a"], &[]));
}

#[test]
fn a_set_has_what_was_made_for_it_and_nothing_else() {
    let registrations = with(&[registration("mine", "")]);
    let put = |registration| Ask::Put { registration, version: None, set: Some(name("site")) };
    let set = |registrations: &Registrations, of: &str| {
        registrations.get(of).unwrap().readable().unwrap().registered.registration.config_set.clone()
    };
    let unchanged = decided(&registrations, vec![put(registration("mine", ""))], 1, 0).unwrap();
    assert!(unchanged[0].edit.is_none());
    let registrations = after(&registrations, vec![put(registration("new", ""))]);
    assert_eq!((set(&registrations, "mine"), set(&registrations, "new")), (None, Some(name("site"))));
    let again = decided(&registrations, vec![put(registration("new", ""))], 1, 0).unwrap();
    assert!(again[0].edit.is_none());
    let changed = after(&registrations, vec![put(registration("mine", r#", "timeout": 1"#))]);
    assert_eq!(set(&changed, "mine"), Some(name("site")));
}

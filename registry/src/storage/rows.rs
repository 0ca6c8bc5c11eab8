//! Translates between rows of the store and registrations.
//!
//! The paper's columns (`cmd`, `time_max`) are written for people that look into the table; `spec`, the whole
//! registration, is read back.

use std::collections::BTreeSet;

use estimand_api::command::Command;
use estimand_api::json::parse_object;
use estimand_api::names::DataName;
use estimand_api::registration::{Action, Change, Registration, RegistrationRecord, redact};
use estimand_service::rows::{cause, column};
pub use estimand_service::rows::{instant, known};
use estimand_store::{HistoryEntry, RegistrationChange, RegistrationRow, actor};
use serde_json::Value;

use crate::core::registrations::UnreadableRegistration;
use crate::core::{Edit, RenderedRegistration, StoredRegistration};

/// The rows of a change.
pub fn change_of(edit: &Edit) -> RegistrationChange {
    RegistrationChange { row: edit.after.as_ref().map(|after| row(after)), entry: history_entry(edit) }
}

fn row(entry: &RenderedRegistration) -> RegistrationRow {
    let RegistrationRecord { registration, version, created_at, updated_at } = &entry.registered;
    RegistrationRow {
        data_name: registration.data_name.to_string(),
        cmd: cmd(&registration.cmd),
        time_max: registration.time_max(),
        spec: entry.spec(),
        version: column(*version),
        created_at: created_at.timestamp_micros(),
        updated_at: updated_at.timestamp_micros(),
    }
}

fn history_entry(edit: &Edit) -> HistoryEntry {
    HistoryEntry {
        data_name: edit.name.to_string(),
        version: column(edit.version),
        action: edit.action.as_str().to_owned(),
        at: edit.at.timestamp_micros(),
        actor: actor(&edit.by),
        spec: edit.spec.clone(),
    }
}

/// The registration in a row; none if not even its name is one. Errors are logged.
pub fn stored_registration(row: RegistrationRow) -> Option<(DataName, StoredRegistration)> {
    let name = match DataName::parse(&row.data_name) {
        Ok(name) => name,
        Err(cause) => {
            tracing::error!(name = row.data_name, %cause, "a stored registration has no data name; it is left alone");
            return None;
        }
    };
    let (version, created_at, updated_at) =
        (known(row.version), instant(row.created_at), instant(row.updated_at));
    let stored = match parse(&name, &row.spec) {
        Ok(registration) => {
            let registered = RegistrationRecord { registration, version, created_at, updated_at };
            StoredRegistration::Readable(RenderedRegistration::new(registered).into())
        }
        Err(cause) => {
            tracing::error!(%name, version, cause, "a stored registration cannot be read; it is not in effect");
            StoredRegistration::Unreadable(
                UnreadableRegistration { version, created_at, updated_at, spec: row.spec, cause }.into(),
            )
        }
    };
    Some((name, stored))
}

fn parse(name: &DataName, spec: &str) -> Result<Registration, String> {
    let map = parse_object(spec.as_bytes()).map_err(|problem| cause(&problem))?;
    let registration = Registration::from_map(map).map_err(|problem| cause(&problem))?.registration;
    match registration.data_name == *name {
        true => Ok(registration),
        false => Err(format!("it says that it is the registration of `{}`", registration.data_name)),
    }
}

/// The audit trail, without entries whose action is unknown. A variable that is a secret in one entry is one in all.
pub fn changes(entries: Vec<HistoryEntry>, mut secrets: BTreeSet<String>) -> Vec<Change> {
    let mut changes: Vec<Change> = entries.into_iter().filter_map(change).collect();
    let named = changes.iter().filter_map(|change| change.registration.get("secrets")?.as_array()).flatten();
    secrets.extend(named.filter_map(Value::as_str).map(str::to_owned));
    for registration in changes.iter_mut().filter_map(|change| change.registration.as_object_mut()) {
        redact(registration, &secrets);
    }
    changes
}

fn change(entry: HistoryEntry) -> Option<Change> {
    let actions = [Action::Created, Action::Replaced, Action::Deleted];
    let action = actions.into_iter().find(|action| action.as_str() == entry.action)?;
    // A text that is not JSON is shown as text.
    let registration = serde_json::from_str(&entry.spec).unwrap_or(Value::String(entry.spec));
    Some(Change {
        version: known(entry.version),
        action,
        at: instant(entry.at),
        by: entry.actor,
        registration,
    })
}

/// A line as it was given, words as JSON.
fn cmd(command: &Command) -> String {
    match command {
        Command::Line(line) => line.clone(),
        Command::Argv(words) => Value::from(words.as_slice()).to_string(),
    }
}

//! `changes`: the audit trail of a registration, newest first, with the fields that each change changed.

use estimand_api::registration::{Action, Change};
use serde_json::Value;

use super::Session;
use crate::arguments::registrations::ChangesArgs;
use crate::output::failure::Failure;
use crate::output::table::{Cell, Table};
use crate::output::{remark, words};

/// The fields that the registry sets with every change, so that they say nothing about one.
const BOOKKEEPING: [&str; 3] = ["version", "createdAt", "updatedAt"];

pub async fn changes(session: &mut Session, args: &ChangesArgs) -> Result<(), Failure> {
    let changes = session.client.registration_history(&args.name).await?;
    if session.out.json {
        return Ok(session.out.pretty(&changes)?);
    }
    if changes.is_empty() {
        remark(&format!("`{}` was never registered", args.name));
        return Ok(());
    }
    let mut table = Table::new(["VERSION", "ACTION", "AT", "BY", "WHAT"], 4);
    for (place, change) in changes.iter().enumerate() {
        table.row([
            Cell::from(change.version.to_string()),
            Cell::from(change.action.as_str()),
            Cell::from(words::instant(change.at)),
            Cell::from(&change.by),
            Cell::from(differences(change, changes.get(place + 1))),
        ]);
    }
    Ok(session.out.table(&table)?)
}

/// The fields that a change changed, given the change before it.
fn differences(change: &Change, before: Option<&Change>) -> String {
    let (now, before) = match (change.action, before) {
        (Action::Replaced, Some(before)) => (&change.registration, &before.registration),
        (Action::Deleted, _) => return String::new(),
        _ => return words::bare(&change.registration["cmd"]),
    };
    let (Value::Object(now), Value::Object(before)) = (now, before) else { return String::new() };
    let absent = &Value::Null;
    let mut fields: Vec<&String> = now.keys().chain(before.keys()).collect();
    fields.sort();
    fields.dedup();
    let changed =
        fields.into_iter().filter(|field| !BOOKKEEPING.contains(&field.as_str())).filter_map(|field| {
            let (was, is) = (before.get(field).unwrap_or(absent), now.get(field).unwrap_or(absent));
            (was != is).then(|| format!("{field}: {} → {}", words::bare(was), words::bare(is)))
        });
    match changed.collect::<Vec<_>>() {
        none if none.is_empty() => "nothing".to_owned(),
        changed => changed.join(", "),
    }
}

#[cfg(test)]
mod tests {
    use chrono::DateTime;
    use serde_json::json;

    use super::*;

    fn change(action: Action, registration: Value) -> Change {
        Change { version: 1, action, at: DateTime::UNIX_EPOCH, by: "me".to_owned(), registration }
    }

    #[test]
    fn a_change_says_what_is_different() {
        let first = change(Action::Created, json!({ "cmd": "x", "max-Time": 5, "version": 1 }));
        let second = change(
            Action::Replaced,
            json!({ "cmd": ["x", "-v"], "max-Time": 5, "timeout": 2, "version": 2 }),
        );
        assert_eq!(differences(&first, None), "x");
        assert_eq!(differences(&second, Some(&first)), r#"cmd: x → ["x","-v"], timeout: null → 2"#);
        assert_eq!(
            differences(&change(Action::Replaced, first.registration.clone()), Some(&first)),
            "nothing"
        );
        assert_eq!(differences(&change(Action::Deleted, first.registration.clone()), Some(&second)), "");
    }
}

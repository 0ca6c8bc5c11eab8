//! `list` and `unregister`.

use chrono::Utc;
use serde_json::Value;

use super::Session;
use crate::cli::registrations::{ListArgs, UnregisterArgs};
use crate::output::failure::{Exit, Failure};
use crate::output::table::{Cell, Table};
use crate::output::{remark, words};

pub async fn list(session: &mut Session, _: &ListArgs) -> Result<(), Failure> {
    let registrations = session.client.registrations().await?;
    if session.out.json {
        let all: Vec<Value> = registrations.iter().map(|one| Value::Object(one.to_map())).collect();
        return Ok(session.out.pretty(&all)?);
    }
    if registrations.is_empty() {
        remark("nothing is registered; `estimand register --help` says how to change that");
        return Ok(());
    }
    let now = Utc::now();
    let mut table = Table::new(["NAME", "KIND", "MODE", "EVERY", "NODES", "VERSION", "UPDATED", "CMD"], 7);
    for one in &registrations {
        let registration = &one.registration;
        table.row([
            Cell::from(registration.data_name.as_str()),
            Cell::from(words::wire(&registration.kind)),
            Cell::from(words::wire(&registration.mode)),
            Cell::from(words::timing(&registration.timing)),
            Cell::from(words::placement(registration)),
            Cell::from(one.version.to_string()),
            Cell::from(words::age(one.updated_at, now) + " ago"),
            Cell::from(registration.cmd.to_string()),
        ]);
    }
    Ok(session.out.table(&table)?)
}

/// Goes on with the others when one cannot be forgotten; the first failure decides how it ends.
pub async fn unregister(session: &mut Session, args: &UnregisterArgs) -> Result<(), Failure> {
    let mut ended = Exit::Done;
    for name in &args.names {
        match session.client.unregister(name).await {
            Ok(()) if session.out.json => {}
            Ok(()) => session.out.line(&format!("unregistered `{name}`"))?,
            Err(error) => {
                let exit = Failure::from(error).report();
                if ended == Exit::Done {
                    ended = exit;
                }
                // Nobody answers: the others would only make that take longer.
                if exit == Exit::Unreachable {
                    break;
                }
            }
        }
    }
    match ended {
        Exit::Done => Ok(()),
        exit => Err(Failure::Said(exit)),
    }
}

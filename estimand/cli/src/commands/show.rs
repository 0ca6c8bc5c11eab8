//! `show`: all that is known about one data name, whichever part knows it.

use chrono::{DateTime, Utc};
use estimand_api::registration::{FIELDS, RegistrationRecord};
use estimand_api::slot::Instance;
use estimand_api::value::Binding;
use estimand_client::Query;
use serde::Serialize;
use serde_json::Value as Json;

use super::values::Value;
use super::{Session, absence, bindings, found, instances, values};
use crate::arguments::registrations::ShowArgs;
use crate::output::failure::Failure;
use crate::output::table::Cell;
use crate::output::words;

pub async fn show(session: &mut Session, args: &ShowArgs) -> Result<(), Failure> {
    let (name, client) = (&args.name, &session.client);
    let registered = found(client.registration(name).await)?;
    // A service that runs alone knows its own half; what it does not answer for, it does not have.
    let (values, _, _) = found(client.values_or_hint(&Query::of(name.clone())).await)?.unwrap_or_default();
    let mut bound = found(client.bindings().await)?.unwrap_or_default();
    bound.retain(|binding| binding.data_name == *name || binding.to == *name);
    if registered.is_none() && values.is_empty() && bound.is_empty() {
        let message = format!("`{name}` is not registered, has no value, and is not bound");
        return Err(Failure::Missing(message));
    }
    let instances = absence::instances(session, name, None).await.unwrap_or_default();
    let out = &mut session.out;
    if out.json {
        let registration = registered.map(|registered| Json::Object(registered.to_map()));
        return Ok(out.pretty(&Shown { registration, bindings: bound, instances, values })?);
    }
    let now = Utc::now();
    match &registered {
        Some(registered) => {
            out.line(name.as_str())?;
            out.facts(&facts(registered, now))?;
        }
        None => out.line(&format!("{name} is not registered"))?,
    }
    for binding in &bound {
        let since = words::instant(binding.since);
        let served = bindings::served(&binding.to, binding.field.as_ref());
        out.line(&format!("`{}` serves {served} since {since}", binding.data_name))?;
    }
    out.line("")?;
    match values.is_empty() {
        true => out.line("no values yet")?,
        false => out.table(&values::table(&values, now))?,
    }
    if !instances.is_empty() {
        out.line("")?;
        out.table(&instances::table(&instances, now))?;
    }
    Ok(())
}

/// All that is known of a name, for programs.
#[derive(Serialize)]
struct Shown {
    registration: Option<Json>,
    bindings: Vec<Binding>,
    instances: Vec<Instance>,
    values: Vec<Value>,
}

fn facts(registered: &RegistrationRecord, now: DateTime<Utc>) -> Vec<(String, Cell)> {
    // The data name is the title.
    let fields = FIELDS.iter().filter(|field| field.name != "dataName");
    let shown = fields.filter_map(|field| field.shown(&registered.registration));
    let mut facts: Vec<(String, Cell)> =
        shown.map(|(label, text)| (label.to_owned(), Cell::from(text))).collect();
    facts.push(("version".to_owned(), Cell::from(registered.version.to_string())));
    for (label, at) in [("created", registered.created_at), ("updated", registered.updated_at)] {
        let when = format!("{} ({} ago)", words::instant(at), words::age(at, now));
        facts.push((label.to_owned(), Cell::from(when)));
    }
    facts
}

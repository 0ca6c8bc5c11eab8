//! `export`: registrations and bindings as documents that `apply` takes.
//!
//! Without what only the registry sets, and without the values of secrets, which no request shows: `null` stands for the
//! value that is kept.

use estimand_api::names::DataName;
use estimand_api::registration::RegistrationRecord;
use estimand_api::value::Binding;
use serde_json::{Map, Value, json};

use crate::arguments::configuration::ExportArgs;
use crate::commands::Session;
use crate::output::failure::Failure;
use crate::output::remark;
use crate::yaml;

/// The fields that say where a registration came from, and not how its values are produced.
const OWN_FIELDS: [&str; 4] = ["configSet", "version", "createdAt", "updatedAt"];

pub async fn export(session: &mut Session, args: &ExportArgs) -> Result<(), Failure> {
    let mut registrations = session.client.registrations().await?;
    let mut bindings = session.client.bindings().await?;
    if !args.names.is_empty() {
        registrations.retain(|one| args.names.contains(&one.registration.data_name));
        bindings.retain(|one| args.names.contains(&one.data_name));
        let found = |name: &DataName| {
            registrations.iter().any(|one| one.registration.data_name == *name)
                || bindings.iter().any(|one| one.data_name == *name)
        };
        if let Some(missing) = args.names.iter().find(|name| !found(name)) {
            return Err(Failure::Missing(format!("`{missing}` is neither registered nor bound")));
        }
    }
    let documents: Vec<Value> =
        registrations.iter().map(registration).chain(bindings.iter().map(binding)).collect();
    if session.out.json {
        return Ok(session.out.pretty(&documents)?);
    }
    if documents.is_empty() {
        remark("nothing is registered or bound");
    }
    let texts: Vec<String> = documents.iter().map(yaml::to_text).collect();
    for (place, text) in texts.iter().enumerate() {
        let separator = if place > 0 { "---\n" } else { "" };
        session.out.line(format!("{separator}{text}").trim_end_matches('\n'))?;
    }
    Ok(())
}

fn registration(registered: &RegistrationRecord) -> Value {
    let map = registered.redacted().to_map();
    Value::Object(map.into_iter().filter(|(field, _)| !OWN_FIELDS.contains(&field.as_str())).collect())
}

fn binding(binding: &Binding) -> Value {
    let mut map = Map::from_iter([
        ("dataName".to_owned(), json!(binding.data_name)),
        ("to".to_owned(), json!(binding.to)),
    ]);
    map.extend(binding.field.as_ref().map(|field| ("field".to_owned(), json!(field))));
    Value::Object(map)
}

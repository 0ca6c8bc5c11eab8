//! `edit`, `pause`, `resume` and `rename`: changes of a registration that keep everything else of it.

use estimand_api::fields::nearest;
use estimand_api::registration::{FIELDS, Kind, Mode, RegistrationRecord, TIMING_FIELDS};
use estimand_client::Options;
use serde_json::{Map, Value, json};

use super::differences::{Difference, differences};
use super::registration_local::UploadFile;
use super::unregister::WITHIN;
use super::{Session, registration_input, registration_local};
use crate::arguments::registrations::{EditArgs, PauseArgs, RenameArgs};
use crate::output::failure::{Exit, Failure};
use crate::output::remark;

/// The fields of a registration that cannot be taken out.
const REQUIRED: [&str; 2] = ["dataName", "cmd"];

pub async fn edit(session: &mut Session, args: &EditArgs) -> Result<(), Failure> {
    let name = &args.name;
    let before = session.client.registration(name).await?;
    let upload = registration_local::upload(&args.local)?;
    let patch = patch(args, &before, upload.as_ref())?;
    if patch.is_empty() {
        let message = format!("nothing of `{name}` is to change: give an option such as --every 7s");
        return Err(Failure::Usage(message).hint("`estimand edit --help` lists them all"));
    }
    if let Some(file) = upload {
        session.client.upload(file.content).await?;
    }
    let after = send(session, &before, patch, args.version).await?;
    if matches!(after.registration.mode, Mode::Exec | Mode::Stream)
        && after.registration.cmd != before.registration.cmd
        && let Some(hint) = after.registration.cmd.shell_hint()
    {
        remark(&format!("hint: {hint}"));
    }
    report(session, &before, &after, "changed")
}

pub async fn pause(session: &mut Session, args: &PauseArgs) -> Result<(), Failure> {
    set_paused(session, args, true).await
}

pub async fn resume(session: &mut Session, args: &PauseArgs) -> Result<(), Failure> {
    set_paused(session, args, false).await
}

/// Goes on with the others when one cannot be changed; the first failure decides how it ends.
async fn set_paused(session: &mut Session, args: &PauseArgs, paused: bool) -> Result<(), Failure> {
    let patch = Map::from_iter([("paused".to_owned(), if paused { json!(true) } else { Value::Null })]);
    let (done, already) = match paused {
        true => ("paused", "is paused already"),
        false => ("resumed", "is not paused"),
    };
    let mut ended = Exit::Done;
    for name in &args.names {
        let changed = async {
            let before = session.client.registration(name).await?;
            let after = session.client.patch_registration(name, patch.clone()).await?;
            Ok::<_, Failure>((before, after))
        };
        match changed.await {
            Ok((_, after)) if session.out.json => session.out.pretty(&Value::Object(after.to_map()))?,
            Ok((before, after)) if before.version == after.version => {
                session.out.line(&format!("`{name}` {already}"))?;
            }
            Ok((_, after)) => session.out.line(&format!("{done} `{name}` (version {})", after.version))?,
            Err(failure) => {
                let exit = failure.report();
                if ended == Exit::Done {
                    ended = exit;
                }
            }
        }
    }
    match ended {
        Exit::Done => Ok(()),
        exit => Err(Failure::Said(exit)),
    }
}

pub async fn rename(session: &mut Session, args: &RenameArgs) -> Result<(), Failure> {
    let RenameArgs { name, to, force } = args;
    // The answer comes when nothing of the old name runs any more.
    let client = session.client_with(&Options { read_timeout: WITHIN, ..Options::default() })?;
    let renamed = client.rename_registration(name, to, *force).await.map_err(Failure::from);
    let (registered, hint) = renamed.map_err(|failure| match failure.exit() {
        Exit::Conflict if !force => failure.hint("--force renames a name that others need all the same"),
        _ => failure,
    })?;
    if let Some(hint) = hint {
        remark(&format!("hint: {hint}"));
    }
    if session.out.json {
        return Ok(session.out.pretty(&Value::Object(registered.to_map()))?);
    }
    session.out.line(&format!("renamed `{name}` to `{to}` (version {})", registered.version))?;
    session.out.flush()?;
    remark(&format!(
        "values and history of `{name}` stay under that name; `estimand delete {name}` removes them"
    ));
    Ok(())
}

async fn send(
    session: &Session,
    before: &RegistrationRecord,
    mut patch: Map<String, Value>,
    version: Option<u64>,
) -> Result<RegistrationRecord, Failure> {
    // The names of secrets are a list, which is sent whole: made from what was read.
    let version = version.or_else(|| patch.contains_key("secrets").then_some(before.version));
    patch.extend(version.map(|version| ("version".to_owned(), json!(version))));
    Ok(session.client.patch_registration(&before.registration.data_name, patch).await?)
}

fn report(
    session: &mut Session,
    before: &RegistrationRecord,
    after: &RegistrationRecord,
    done: &str,
) -> Result<(), Failure> {
    if session.out.json {
        return Ok(session.out.pretty(&Value::Object(after.to_map()))?);
    }
    let name = &after.registration.data_name;
    if before.version == after.version {
        return Ok(session.out.line(&format!("`{name}` is so already (version {})", after.version))?);
    }
    session.out.line(&format!("{done} `{name}` (version {})", after.version))?;
    let lines = differences(&before.to_map(), &after.to_map());
    lines.iter().map(Difference::line).try_for_each(|line| session.out.line(&format!("  {line}")))?;
    Ok(())
}

/// The merge patch that the options say.
fn patch(
    args: &EditArgs,
    before: &RegistrationRecord,
    upload: Option<&UploadFile>,
) -> Result<Map<String, Value>, Failure> {
    let mut patch = args.fields.0.to_map().map_err(Failure::from)?;
    patch.extend(registration_input::command(&args.cmd).map(|cmd| ("cmd".to_owned(), cmd)));
    if TIMING_FIELDS.iter().any(|field| patch.contains_key(*field)) {
        for field in TIMING_FIELDS {
            patch.entry(field).or_insert(Value::Null);
        }
    }
    if patch.contains_key("inputs") && before.registration.kind == Kind::Collector {
        patch.entry("kind").or_insert_with(|| json!("processor"));
    }
    add_local(&mut patch, args, before, upload)?;
    for field in &args.unset {
        unset(&mut patch, field, before)?;
    }
    Ok(patch)
}

fn add_local(
    patch: &mut Map<String, Value>,
    args: &EditArgs,
    before: &RegistrationRecord,
    upload: Option<&UploadFile>,
) -> Result<(), Failure> {
    let mut whole = patch.clone();
    whole.entry("cmd").or_insert_with(|| json!(before.registration.cmd));
    let completed = registration_local::complete(whole, &args.local, &args.cmd, upload)?;
    let of_upload = ["cmd", "upload"].into_iter().filter(|_| upload.is_some());
    for field in ["env", "sha256"].into_iter().chain(of_upload) {
        patch.extend(completed.get(field).map(|value| (field.to_owned(), value.clone())));
    }
    if let Some(Value::Array(new)) = completed.get("secrets") {
        let mut names: Vec<Value> = before.registration.secrets.iter().map(|name| json!(name)).collect();
        names.extend(
            new.iter()
                .filter(|name| !before.registration.secrets.contains(name.as_str().unwrap_or_default()))
                .cloned(),
        );
        patch.insert("secrets".to_owned(), Value::Array(names));
    }
    Ok(())
}

/// Takes a field out, or a member of one.
fn unset(patch: &mut Map<String, Value>, given: &str, before: &RegistrationRecord) -> Result<(), Failure> {
    let (field, member) =
        given.split_once('.').map_or((given, None), |(field, member)| (field, Some(member)));
    let known = || FIELDS.iter().filter(|field| !REQUIRED.contains(&field.name));
    let found = known().find(|one| one.name == field || one.flags.iter().any(|flag| flag.name == field));
    let Some(found) = found else {
        let names = known().map(|field| field.name);
        let expected = match nearest(field, names.clone()) {
            Some(near) => format!("`{near}`?"),
            None => names.collect::<Vec<_>>().join(", "),
        };
        return Err(Failure::Usage(format!(
            "--unset {given}: there is no such field to take out; expected {expected}"
        )));
    };
    let twice = || Failure::Usage(format!("`{given}` is given and taken out at the same time"));
    match member {
        None if patch.get(found.name).is_some_and(|value| !value.is_null()) => return Err(twice()),
        None => drop(patch.insert(found.name.to_owned(), Value::Null)),
        Some(member) => {
            let members = patch.entry(found.name).or_insert_with(|| json!({}));
            if members.get(member).is_some() {
                return Err(twice());
            }
            members[member] = Value::Null;
        }
    }
    // A secret that is taken out of the environment is none any more.
    if let (true, Some(secret)) = (found.name == "env", member)
        && before.registration.secrets.contains(secret)
    {
        let rest = patch.get("secrets").cloned().unwrap_or_else(|| json!(before.registration.secrets));
        let rest = rest.as_array().into_iter().flatten().filter(|name| *name != secret).cloned();
        patch.insert("secrets".to_owned(), Value::Array(rest.collect()));
    }
    Ok(())
}

//! `register`: sends registrations and prints the outcome of each; or tries them, and prints what that gave.

use estimand_api::names::{DataName, NodeName};
use estimand_api::registration::{Mode, RegistrationRecord, TIMING_FIELDS};
use estimand_client::Client;
use serde_json::{Map, Value};

use super::differences::differences;
use super::registration_input::{self, Input};
use super::{Session, first_run, found, registration_local, run};
use crate::arguments::registrations::RegisterArgs;
use crate::output::failure::{Exit, Failure};
use crate::output::{remark, words};

pub async fn register(session: &mut Session, args: &RegisterArgs) -> Result<(), Failure> {
    let upload = registration_local::upload(&args.local)?;
    let (inputs, single) = registration_input::read(args, upload.as_ref())?;
    if let Some(file) = upload {
        session.client.upload(file.content).await?;
    }
    if inputs.is_empty() {
        remark("there is no registration in the file");
    }
    if let Some(node) = &args.trial {
        return try_each(session, inputs, node.as_ref()).await;
    }
    let mut answers = Vec::new();
    let one_alone = inputs.len() == 1;
    for Input { registration, map } in inputs {
        let name = registration.data_name.clone();
        let sent = send(&session.client, map, &name, args.replace).await;
        let SendOutcome { registered, done, dropped } =
            sent.map_err(|failure| explain(failure, args.replace, answers.len()))?;
        if !dropped.is_empty() {
            remark(&format!(
                "`{name}` has lost what it had and was not given again: {}; `estimand edit` changes one thing and \
                 keeps the rest",
                dropped.join(", ")
            ));
        }
        // A registration that starts no process may well look like something for a shell.
        if matches!(registration.mode, Mode::Exec | Mode::Stream)
            && let Some(hint) = registration.cmd.shell_hint()
        {
            remark(&format!("hint: {hint}"));
        }
        match session.out.json {
            true => answers.push(Value::Object(registered.to_map())),
            false => {
                answers.push(Value::Null);
                session.out.line(&format!("{done} `{name}` (version {})", registered.version))?;
                if one_alone && !args.no_wait {
                    session.out.flush()?;
                    first_run::show(session, &registered).await?;
                }
            }
        }
    }
    match (session.out.json, single) {
        (false, _) => {}
        (true, true) => answers.iter().try_for_each(|answer| session.out.pretty(answer))?,
        (true, false) => session.out.pretty(&answers)?,
    }
    Ok(())
}

/// Runs each once, and registers none.
async fn try_each(session: &mut Session, inputs: Vec<Input>, node: Option<&NodeName>) -> Result<(), Failure> {
    let node = run::named_or_only(session, node, "--try=NODE").await?;
    let client = run::patient(session)?;
    let mut failed = false;
    for Input { registration, map } in inputs {
        let report = client.try_registration(&map, &node).await?;
        run::show(session, &registration.data_name, &node, &report)?;
        failed |= report.error.is_some();
    }
    match failed {
        false => Ok(()),
        true => Err(Failure::Said(Exit::Failed)),
    }
}

/// The outcome for one registration.
struct SendOutcome {
    registered: RegistrationRecord,
    done: &'static str,
    /// The fields that the one before it had and this one has not.
    dropped: Vec<String>,
}

/// Registers, or replaces if that is wished and there is something to replace.
async fn send(
    client: &Client,
    map: Map<String, Value>,
    name: &DataName,
    replace: bool,
) -> Result<SendOutcome, Failure> {
    if replace {
        let before = found(client.registration(name).await)?;
        if let Some(registered) = found(client.replace_map(map.clone()).await)? {
            let dropped = before.map_or_else(Vec::new, |before| dropped(&before, &registered));
            return Ok(SendOutcome { registered, done: "replaced", dropped });
        }
    }
    Ok(SendOutcome { registered: client.register_map(map).await?, done: "registered", dropped: Vec::new() })
}

/// The fields that a replacement does not have any more. When it runs is always said, in one way or another.
fn dropped(before: &RegistrationRecord, after: &RegistrationRecord) -> Vec<String> {
    let lost = differences(&before.to_map(), &after.to_map()).into_iter();
    let lost = lost.filter(|one| one.after.is_none()).map(|one| one.field);
    lost.filter(|field| !TIMING_FIELDS.contains(&field.as_str())).collect()
}

/// Adds a hint, and the number of registrations that went before.
fn explain(failure: Failure, replace: bool, done: usize) -> Failure {
    let failure = match failure.exit() {
        Exit::Conflict if !replace => failure.hint("--replace replaces a registration that there is already"),
        _ => failure,
    };
    match done {
        0 => failure,
        done => {
            let taken = words::count(done, "registration");
            failure
                .hint(format!("{taken} of the file went before this one and stayed; the rest was not sent"))
        }
    }
}

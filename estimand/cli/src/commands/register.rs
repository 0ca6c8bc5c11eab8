//! `register`: sends registrations and prints the outcome of each.

use estimand_api::registration::{Mode, Registered};
use estimand_client::Client;
use serde_json::Value;

use super::registration_input::{self, Input};
use super::{Session, found, registration_local};
use crate::arguments::registrations::RegisterArgs;
use crate::output::failure::{Exit, Failure};
use crate::output::{remark, words};

pub async fn register(session: &mut Session, args: &RegisterArgs) -> Result<(), Failure> {
    let upload = registration_local::upload(args)?;
    let (inputs, single) = registration_input::read(args, upload.as_ref())?;
    if let Some(file) = upload {
        session.client.upload(file.content).await?;
    }
    if inputs.is_empty() {
        remark("there is no registration in the file");
    }
    let mut answers = Vec::new();
    for Input { registration, map } in inputs {
        let name = registration.data_name.clone();
        let sent = send(&session.client, map, args.replace).await;
        let (registered, done) = sent.map_err(|failure| explain(failure, args.replace, answers.len()))?;
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

/// Registers, or replaces if that is wished and there is something to replace.
async fn send(
    client: &Client,
    map: serde_json::Map<String, Value>,
    replace: bool,
) -> Result<(Registered, &'static str), Failure> {
    if replace && let Some(registered) = found(client.replace_map(map.clone()).await)? {
        return Ok((registered, "replaced"));
    }
    Ok((client.register_map(map).await?, "registered"))
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

//! `unregister`: ends what produces data names, and forgets how it was done.

use std::time::Duration;

use estimand_client::Options;

use super::Session;
use crate::arguments::registrations::UnregisterArgs;
use crate::output;
use crate::output::failure::{Exit, Failure};

/// A little longer than the registry waits for everybody else.
pub const WITHIN: Duration = Duration::from_secs(28);

/// Goes on with the others when one cannot be forgotten; the first failure decides how it ends.
pub async fn unregister(session: &mut Session, args: &UnregisterArgs) -> Result<(), Failure> {
    // The answer comes when nothing of it runs any more, which may take a while.
    let options = Options { read_timeout: WITHIN, ..Options::default() };
    let client = session.client_with(&options)?;
    let mut ended = Exit::Done;
    for name in &args.names {
        match client.unregister(name, args.force).await {
            Ok(hint) => {
                if !session.out.json {
                    session.out.line(&format!("unregistered `{name}`"))?;
                }
                if let Some(hint) = hint {
                    output::remark(&format!("hint: {hint}"));
                }
            }
            Err(error) => {
                let failure = Failure::from(error);
                let failure = match failure.exit() {
                    Exit::Conflict => failure.hint("--force unregisters it all the same"),
                    _ => failure,
                };
                let exit = failure.report();
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

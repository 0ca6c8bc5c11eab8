//! One run, of a program or of a collector inside the agent.

use estimand_api::registration::Mode;

use super::attempt::Attempt;
use super::version::Shared;
use super::{Context, attempt, builtin};

pub async fn run_once(context: &Context, shared: &Shared) -> Attempt {
    match shared.registered.registration.mode {
        Mode::Builtin => builtin::attempt(context, shared).await,
        _ => attempt::attempt(context, shared).await,
    }
}

//! One run: of a program, of a collector inside the agent, or one evaluation of a formula.

use estimand_api::registration::Mode;

use super::attempt::Attempt;
use super::version::Shared;
use super::{Context, attempt, builtin, computed};
use crate::derive::is_derived;

pub async fn run_once(context: &Context, shared: &Shared) -> Attempt {
    match shared.registered.registration.mode {
        _ if is_derived(&shared.registered.registration) => computed::attempt(context, shared).await,
        Mode::Builtin => builtin::attempt(context, shared).await,
        _ => attempt::attempt(context, shared).await,
    }
}

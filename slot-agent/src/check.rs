//! Checks a registration as an agent would, before it is registered.

use estimand_api::registration::{Mode, Registration};
use estimand_collectors::{self as collectors, Surroundings};
use estimand_processors as processors;

use crate::derive::{Formula, is_derived};

/// The reason why no agent would run the registration, for people: an expression that is none, a built-in that there is not.
/// Each agent checks by itself that a program is there and allowed.
pub fn check(registration: &Registration) -> Result<(), String> {
    if is_derived(registration) {
        return Formula::read(registration).map(drop);
    }
    if registration.mode != Mode::Builtin {
        return Ok(());
    }
    let name = registration.cmd.argv().into_iter().next().unwrap_or_default();
    let Some(kind) = collectors::find(&name) else {
        if processors::find(&name).is_some() {
            return Err(format!(
                "`{name}` is a processor: register it with `\"kind\": \"processor\"` and its `inputs`"
            ));
        }
        let known: Vec<&str> = collectors::ALL.iter().map(|kind| kind.name).collect();
        return Err(format!("there is no built-in collector `{name}`; there are {}", known.join(", ")));
    };
    collectors::make(kind, &registration.params, &Surroundings::default()).map(drop)
}

//! `bind`, `unbind` and `bindings`.

use std::time::{Duration, Instant};

use estimand_api::names::DataName;
use estimand_api::pointer::Pointer;
use estimand_api::problem::kind;
use estimand_api::value::BindingTarget;
use estimand_client::{Client, Error, Query, Rebound};
use tokio::time::sleep;

use super::{Session, found};
use crate::arguments::data::{BindArgs, BindingsArgs, UnbindArgs};
use crate::output::failure::Failure;
use crate::output::table::{Cell, Table};
use crate::output::{remark, words};

/// How long a swap waits for the first values of what has just been registered.
const FIRST_VALUES_WITHIN: Duration = Duration::from_secs(10);
const LOOK_EVERY: Duration = Duration::from_millis(250);

pub async fn bind(session: &mut Session, args: &BindArgs) -> Result<(), Failure> {
    let (name, from) = (&args.name, args.from.as_ref());
    let rebound = match &args.target {
        Some(to) => {
            if !args.force && !is_known(session, to).await? {
                let message = format!("`{to}` is unknown: no registration produces it and it has no values");
                return Err(
                    Failure::Missing(message).hint(format!("--force binds `{name}` to it all the same"))
                );
            }
            let served = BindingTarget { to: to.clone(), field: args.field.clone() };
            bind_once_it_serves(&session.client, name, &served, from, args.force).await
        }
        None => session.client.roll_back(name, from, args.force).await,
    };
    let rebound = rebound.map_err(|error| match &error {
        Error::Problem(problem) if problem.kind == kind::SERVES_NOTHING => {
            Failure::from(error).hint("--force binds it all the same")
        }
        _ => Failure::from(error),
    })?;
    if let Some(hint) = &rebound.hint {
        remark(&format!("hint: {hint}"));
    }
    let binding = &rebound.binding;
    if session.out.json {
        return Ok(session.out.pretty(binding)?);
    }
    let now = served(&binding.to, binding.field.as_ref());
    let before = match &binding.before {
        Some(before) => format!("; before: {}", served(&before.to, before.field.as_ref())),
        None => String::new(),
    };
    Ok(session.out.line(&format!("`{name}` serves {now}{before}"))?)
}

/// Binds a name. Where its readers would lose all values because the target has only just been registered, that is given
/// some seconds for its first run.
pub async fn bind_once_it_serves(
    client: &Client,
    name: &DataName,
    target: &BindingTarget,
    from: Option<&DataName>,
    force: bool,
) -> Result<Rebound, Error> {
    let began = Instant::now();
    loop {
        let error = match client.bind(name, target, from, force).await {
            Err(Error::Problem(problem)) if problem.kind == kind::SERVES_NOTHING => problem,
            outcome => return outcome,
        };
        // Values without the part that is asked for are no reason to wait. The first may have come just now.
        let (values, _) = client.values(&Query::of(target.to.clone())).await?;
        let has_come = values.iter().any(|value| match &target.field {
            Some(field) => field.find(&value.data_value.to_string()).is_some(),
            None => true,
        });
        if began.elapsed() >= FIRST_VALUES_WITHIN || !(values.is_empty() || has_come) {
            return Err(Error::Problem(error));
        }
        sleep(LOOK_EVERY).await;
    }
}

/// True if there is a registration or a value of a name, or if a data service that runs alone cannot tell.
async fn is_known(session: &Session, name: &DataName) -> Result<bool, Failure> {
    let (values, _) = session.client.values(&Query::of(name.clone())).await?;
    if !values.is_empty() {
        return Ok(true);
    }
    let registrations = found(session.client.registrations().await)?;
    Ok(registrations.is_none_or(|all| all.iter().any(|one| one.registration.data_name == *name)))
}

pub async fn unbind(session: &mut Session, args: &UnbindArgs) -> Result<(), Failure> {
    session.client.unbind(&args.name).await?;
    if !session.out.json {
        session.out.line(&format!("`{}` serves its own values", args.name))?;
    }
    Ok(())
}

pub async fn bindings(session: &mut Session, args: &BindingsArgs) -> Result<(), Failure> {
    if let (Some(name), true) = (&args.name, args.history) {
        return history(session, name, args.limit).await;
    }
    let mut bindings = session.client.bindings().await?;
    if let Some(name) = &args.name {
        bindings.retain(|binding| binding.data_name == *name);
        if bindings.is_empty() {
            return Err(Failure::Missing(format!("`{name}` is not bound")));
        }
    }
    if session.out.json {
        return Ok(session.out.pretty(&bindings)?);
    }
    if bindings.is_empty() {
        remark("nothing is bound");
        return Ok(());
    }
    let mut table = Table::new(["NAME", "SERVES", "SINCE"], 1);
    for binding in &bindings {
        table.row([
            Cell::from(binding.data_name.as_str()),
            Cell::from(short(&binding.to, binding.field.as_ref())),
            Cell::from(words::instant(binding.since)),
        ]);
    }
    Ok(session.out.table(&table)?)
}

async fn history(session: &mut Session, name: &DataName, limit: Option<u32>) -> Result<(), Failure> {
    let swaps = session.client.binding_history(name, limit).await?;
    if session.out.json {
        return Ok(session.out.pretty(&swaps)?);
    }
    let mut table = Table::new(["AT", "ACTION", "SERVES", "BY"], 2);
    for swap in &swaps {
        table.row([
            Cell::from(words::instant(swap.at)),
            Cell::from(swap.action.as_str()),
            Cell::from(short(&swap.served.to, swap.served.field.as_ref())),
            Cell::from(&swap.by),
        ]);
    }
    Ok(session.out.table(&table)?)
}

/// The values that a bound name serves, in words.
pub fn served(to: &DataName, field: Option<&Pointer>) -> String {
    match field {
        None => format!("the values of `{to}`"),
        Some(field) => format!("`{field}` of the values of `{to}`"),
    }
}

/// The same where it has a column.
fn short(to: &DataName, field: Option<&Pointer>) -> String {
    field.map_or_else(|| to.to_string(), |field| format!("{to} {field}"))
}

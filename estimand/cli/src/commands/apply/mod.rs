//! `apply` and `export`: registrations and bindings as files.
//!
//! All or nothing, as far as two services allow it: everything is checked first; then the registrations are one
//! transaction of the registry; then the bindings are swapped one by one, and put back if one of them is refused. A
//! failure in between leaves what readers had. To apply the same again goes on from there, and changes nothing when all
//! is done.

mod export;
mod files;
mod plan;

use estimand_api::names::DataName;
use estimand_client::{Client, Options, Query, RegistryChange};

pub use export::export;
use files::Wishes;
use plan::{Plan, Present, Rebinding};

use super::Session;
use super::bindings::bind_once_it_serves;
use super::unregister::WITHIN;
use crate::arguments::configuration::ApplyArgs;
use crate::output::failure::Failure;
use crate::output::{remark, words};

pub async fn apply(session: &mut Session, args: &ApplyArgs) -> Result<(), Failure> {
    let wishes = files::read(&args.files, args.recursive)?;
    if wishes.registrations.is_empty() && wishes.bindings.is_empty() && !args.prune {
        remark("there is nothing in the files");
        return Ok(());
    }
    let client = session.client_with(&Options { read_timeout: WITHIN, ..Options::default() })?;
    let present = Present::new(client.registrations().await?, client.bindings().await?);
    let mut plan = Plan::new(&wishes, &present, args.prune.then_some(&args.set));
    check(&client, &plan, &wishes, &present, args.force).await?;
    let put = change(&wishes, args, Vec::new());
    let foreseen = client.change_registrations(&RegistryChange { dry_run: true, ..put.clone() }).await;
    plan.outcomes = foreseen.map_err(|error| located(error.into(), &wishes))?.outcomes;
    match session.out.json {
        true => session.out.pretty(&plan.to_json(&wishes, &present))?,
        false => {
            let lines = plan.lines(&wishes, &present);
            lines.iter().try_for_each(|line| session.out.line(line))?;
        }
    }
    // The differences can be read before anything changes.
    session.out.flush()?;
    if !plan.is_empty() && !args.dry_run {
        carry_out(&client, &plan, put, args).await?;
    }
    summary(session, &plan, args.dry_run)
}

/// Refuses what only the whole shows to be wrong, before anything is done.
async fn check(
    client: &Client,
    plan: &Plan,
    wishes: &Wishes,
    present: &Present,
    force: bool,
) -> Result<(), Failure> {
    if force {
        return Ok(());
    }
    let (mut errors, unknown) = plan.check(wishes, present);
    for name in unknown {
        if client.values(&Query::of(name.clone())).await?.0.is_empty() {
            errors.push(format!("`{name}` is unknown: no registration produces it and it has no values"));
        }
    }
    match errors.is_empty() {
        true => Ok(()),
        false => Err(Failure::Configuration(errors).hint("--force applies it all the same")),
    }
}

fn change(wishes: &Wishes, args: &ApplyArgs, remove: Vec<DataName>) -> RegistryChange {
    RegistryChange {
        registrations: wishes.registrations.values().map(|(map, _)| map.clone()).collect(),
        remove,
        config_set: Some(args.set.clone()),
        dry_run: false,
        force: args.force,
    }
}

/// A registration is named by its place in the request; the file and line say more.
fn located(failure: Failure, wishes: &Wishes) -> Failure {
    let Failure::Client(estimand_client::Error::Problem(problem)) = &failure else { return failure };
    let origins: Vec<&files::Origin> = wishes.registrations.values().map(|(_, origin)| origin).collect();
    let lines: Vec<String> = problem
        .errors
        .iter()
        .filter_map(|error| {
            let (place, field) = error.field.strip_prefix("registrations[")?.split_once(']')?;
            let origin = origins.get(place.parse::<usize>().ok()?)?;
            let mut error = error.clone();
            error.field = field.trim_start_matches('.').to_owned();
            Some(format!("{origin}: {error}"))
        })
        .collect();
    if lines.is_empty() { failure } else { Failure::Configuration(lines) }
}

async fn carry_out(
    client: &Client,
    plan: &Plan,
    mut put: RegistryChange,
    args: &ApplyArgs,
) -> Result<(), Failure> {
    // A removal that waits for a swap comes after it; otherwise all of the registry's part is one transaction.
    let later = plan.prunes_what_is_served_now();
    if !later {
        put.remove.clone_from(&plan.prune);
    }
    if !put.registrations.is_empty() || !put.remove.is_empty() {
        hinted(client.change_registrations(&put).await?.hint);
    }
    rebind(client, &plan.rebindings, args.force).await?;
    if later {
        let remove =
            RegistryChange { remove: plan.prune.clone(), force: args.force, ..RegistryChange::default() };
        let removed = client.change_registrations(&remove).await.map_err(Failure::from);
        hinted(removed.map_err(|failure| failure.hint("all but the removals is done"))?.hint);
    }
    Ok(())
}

/// Swaps bindings, all of them or none.
async fn rebind(client: &Client, rebindings: &[Rebinding], force: bool) -> Result<(), Failure> {
    for (place, Rebinding { name, after, .. }) in rebindings.iter().enumerate() {
        match bind_once_it_serves(client, name, after, None, force).await {
            Ok(rebound) => hinted(rebound.hint),
            Err(error) => {
                let back = put_back(client, &rebindings[..place]).await;
                let hint = match back {
                    Ok(()) => {
                        "the registrations are applied, the bindings are as they were; to apply again goes on"
                            .to_owned()
                    }
                    Err(left) => format!("the registrations are applied; {left}; to apply again goes on"),
                };
                return Err(Failure::from(error).hint(hint));
            }
        }
    }
    Ok(())
}

/// Makes bindings what they were; the error says of which that failed.
async fn put_back(client: &Client, rebindings: &[Rebinding]) -> Result<(), String> {
    let mut left = Vec::new();
    for Rebinding { name, before, .. } in rebindings.iter().rev() {
        let done = match before {
            Some(before) => client.bind(name, before, None, true).await.map(drop),
            None => client.unbind(name).await,
        };
        if done.is_err() {
            left.push(format!("`{name}`"));
        }
    }
    match left.is_empty() {
        true => Ok(()),
        false => Err(format!("these bindings are swapped and could not be put back: {}", left.join(", "))),
    }
}

fn hinted(hint: Option<String>) {
    if let Some(hint) = hint {
        remark(&format!("hint: {hint}"));
    }
}

fn summary(session: &mut Session, plan: &Plan, dry_run: bool) -> Result<(), Failure> {
    if session.out.json {
        return Ok(());
    }
    let unchanged = plan.unchanged();
    let same = match unchanged {
        0 => String::new(),
        1 => "; 1 thing is so already".to_owned(),
        many => format!("; {many} things are so already"),
    };
    let line = match (plan.is_empty(), dry_run) {
        (true, _) => format!("nothing to change{same}"),
        (false, true) => format!("a dry run: nothing was done{same}"),
        (false, false) => format!("applied {}{same}", words::count(plan.changed(), "change")),
    };
    Ok(session.out.line(&line)?)
}

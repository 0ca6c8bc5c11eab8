//! `capacity`: what nodes have, what of it is free, and what is promised.

use std::collections::BTreeMap;

use chrono::DateTime;
use estimand_api::promise::{DEFAULT_CLASS, PromisePage, PromiseRecord, PromiseState};
use estimand_api::resources::{CPU, MEMORY};

use super::Session;
use super::reservations::time;
use crate::arguments::capacity::{CapacityAction, CapacityArgs, PromisesArgs};
use crate::output::failure::Failure;
use crate::output::table::{Cell, Table, Tone};
use crate::output::{remark, words};

pub async fn capacity(session: &mut Session, args: &CapacityArgs) -> Result<(), Failure> {
    match &args.action {
        Some(CapacityAction::Promises(args)) => promises(session, &args.own).await,
        Some(CapacityAction::Nodes(_)) | None => nodes(session).await,
    }
}

async fn nodes(session: &mut Session) -> Result<(), Failure> {
    let nodes = session.client.capacity().await?;
    if session.out.json {
        return Ok(session.out.pretty(&nodes)?);
    }
    if nodes.is_empty() {
        remark("there are no nodes");
        return Ok(());
    }
    let mut table = Table::new(["NODE", "STANDING", "TASKS", "FREE", "OF"], 3);
    for node in &nodes {
        table.row([
            Cell::from(&node.node),
            Cell::from(&node.standing),
            Cell::from(node.tasks.to_string()),
            Cell::from(amounts(&node.free)),
            Cell::from(amounts(&node.capacity)),
        ]);
    }
    Ok(session.out.table(&table)?)
}

async fn promises(session: &mut Session, args: &PromisesArgs) -> Result<(), Failure> {
    let mut page = session.client.all_promises(&args.state).await?;
    if let Some(user) = &args.user {
        page.promises.retain(|promise| promise.user.as_ref() == Some(user));
    }
    page.promises.sort_by(|one, other| (one.from, &one.id).cmp(&(other.from, &other.id)));
    if session.out.json {
        return Ok(session.out.pretty(&page)?);
    }
    if page.promises.is_empty() {
        remark("there are no such promises");
        return Ok(());
    }
    Ok(session.out.table(&table(&page))?)
}

fn table(page: &PromisePage) -> Table {
    let mut table = Table::new(["PROMISE", "STATE", "USER", "UNITS", "EACH", "CLASS", "TIME"], 4);
    for promise in &page.promises {
        table.row([
            Cell::from(&promise.id),
            state(promise),
            Cell::from(promise.user.as_deref().unwrap_or("-")),
            Cell::from(promise.units.len().to_string()),
            Cell::from(amounts(&promise.resources)),
            Cell::from(if promise.class == DEFAULT_CLASS { "-" } else { promise.class.as_str() }),
            Cell::from(window(promise)),
        ]);
    }
    table
}

fn state(promise: &PromiseRecord) -> Cell {
    match promise.state {
        PromiseState::Broken => Cell::toned(promise.state.as_str(), Tone::Bad),
        state => Cell::from(state.as_str()),
    }
}

fn window(promise: &PromiseRecord) -> String {
    let at = |tick: u64| DateTime::from_timestamp(i64::try_from(tick).unwrap_or(i64::MAX), 0);
    match (at(promise.from), at(promise.until)) {
        (Some(from), Some(until)) => time(from, until),
        _ => format!("from {} to {}", promise.from, promise.until),
    }
}

/// Amounts of a ledger, as people write them: processors, and bytes with a unit.
fn amounts(amounts: &BTreeMap<String, u64>) -> String {
    let one = |(name, amount): (&String, &u64)| match name.as_str() {
        CPU => format!("cpu={}", *amount as f64 / 1000.0),
        MEMORY => format!("memory={}", words::bytes(*amount)),
        name => format!("{name}={amount}"),
    };
    amounts.iter().map(one).collect::<Vec<_>>().join(" ")
}

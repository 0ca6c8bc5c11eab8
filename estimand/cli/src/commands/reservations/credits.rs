//! `credits`: accounts, their journal, and grants.

use estimand_api::reservation::CreditGrant;

use crate::arguments::reservations::{CreditsAction, CreditsArgs, GrantArgs, JournalArgs, UserArgs};
use crate::commands::{Session, new_key};
use crate::output::failure::Failure;
use crate::output::table::{Cell, Table};
use crate::output::{remark, words};

pub async fn credits(session: &mut Session, args: &CreditsArgs) -> Result<(), Failure> {
    match &args.action {
        Some(CreditsAction::List(args)) => list(session, &args.own).await,
        Some(CreditsAction::Journal(args)) => journal(session, &args.own).await,
        Some(CreditsAction::Grant(args)) => grant(session, &args.own).await,
        None => list(session, &UserArgs::default()).await,
    }
}

async fn list(session: &mut Session, args: &UserArgs) -> Result<(), Failure> {
    let all = session.client.credits(args.user.as_deref()).await?;
    if session.out.json {
        return Ok(session.out.pretty(&all)?);
    }
    if all.accounts.is_empty() {
        remark("nobody has credits; `estimand credits grant` gives some");
        return Ok(());
    }
    let mut table = Table::new(["USER", "CREDITS"], 0);
    for account in &all.accounts {
        table.row([Cell::from(&account.user), Cell::from(&account.balance)]);
    }
    session.out.table(&table)?;
    session.out.flush()?;
    let others = match (&all.income, &all.granted) {
        (Some(income), Some(granted)) => format!(", {income} income, {granted} granted"),
        // A user sees their own.
        _ => String::new(),
    };
    remark(&format!("{} held for reservations{others}", all.held));
    Ok(())
}

async fn journal(session: &mut Session, args: &JournalArgs) -> Result<(), Failure> {
    let page = session.client.credit_journal(args.user.as_deref(), None, args.limit).await?;
    if session.out.json {
        return Ok(session.out.pretty(&page)?);
    }
    if page.entries.is_empty() {
        remark("no credits were moved yet");
        return Ok(());
    }
    let mut table = Table::new(["ENTRY", "TIME", "FROM", "TO", "CREDITS", "FOR"], 3);
    for entry in &page.entries {
        let of = entry.reservation.as_ref().map_or_else(String::new, |id| format!(" {id}"));
        table.row([
            Cell::from(entry.number.to_string()),
            Cell::from(words::instant(entry.at)),
            Cell::from(entry.from.as_deref().unwrap_or("-")),
            Cell::from(&entry.to),
            Cell::from(&entry.amount),
            Cell::from(format!("{}{of}", entry.reason)),
        ]);
    }
    Ok(session.out.table(&table)?)
}

async fn grant(session: &mut Session, args: &GrantArgs) -> Result<(), Failure> {
    let grant = CreditGrant { user: args.user.clone(), amount: args.amount.clone() };
    let account = session.client.grant_credits(&grant, &new_key()?).await?;
    match session.out.json {
        true => session.out.pretty(&account)?,
        false => session.out.line(&format!("`{}` has {} credits", account.user, account.balance))?,
    }
    Ok(())
}

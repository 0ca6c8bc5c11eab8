//! `users`: what users have of their shares, and the limits that operators set.

use estimand_api::share::{KINDS, Share, ShareDeclaration, ShareUnit, UserShares};

use super::Session;
use crate::arguments::users::{SetArgs, UserArgs, UsersAction, UsersArgs};
use crate::output::failure::Failure;
use crate::output::table::{Cell, Table, Tone};
use crate::output::{remark, words};

/// From this part of a limit on, in percent, it is worth a warning.
const NEARLY_FULL: u64 = 80;

pub async fn users(session: &mut Session, args: &UsersArgs) -> Result<(), Failure> {
    match &args.action {
        Some(UsersAction::Show(args)) => show(session, &args.own).await,
        Some(UsersAction::Set(args)) => set(session, &args.own).await,
        Some(UsersAction::Reset(args)) => reset(session, &args.own).await,
        Some(UsersAction::List(_)) | None => list(session).await,
    }
}

async fn list(session: &mut Session) -> Result<(), Failure> {
    let mut users = session.client.shares().await?;
    if session.out.json {
        return Ok(session.out.pretty(&users)?);
    }
    if users.is_empty() {
        remark("there are no users: `estimand token create alice --role user` makes one");
        return Ok(());
    }
    let fullest = |user: &UserShares| user.shares.values().map(percent).max().unwrap_or(0);
    users.sort_by_cached_key(|user| std::cmp::Reverse(fullest(user)));
    let mut table = Table::new(["USER", "FULL", "USED", "SET"], 2);
    for user in &users {
        let mut shares: Vec<_> = shares(user).collect();
        shares.sort_by_key(|(_, share)| std::cmp::Reverse(percent(share)));
        let used = shares.iter().filter(|(_, share)| share.used > 0);
        let used: Vec<String> =
            used.map(|(kind, share)| format!("{} {}", kind.name, of(kind, share))).collect();
        let set = shares.iter().filter(|(_, share)| share.set);
        let set: Vec<String> =
            set.map(|(kind, share)| format!("{} {}", kind.name, amount(kind, share.limit))).collect();
        table.row([
            Cell::from(&user.user),
            Cell::toned(&format!("{}%", fullest(user)), tone(fullest(user))),
            Cell::from(used.join(", ")),
            Cell::from(set.join(", ")),
        ]);
    }
    Ok(session.out.table(&table)?)
}

async fn show(session: &mut Session, args: &UserArgs) -> Result<(), Failure> {
    let users = session.client.shares().await?;
    let found = users.into_iter().find(|user| user.user == args.user.as_str());
    let user = found.ok_or_else(|| {
        Failure::Missing(format!(
            "no user `{}` has a token, or keeps anything, or is yours to see",
            args.user
        ))
    })?;
    if session.out.json {
        return Ok(session.out.pretty(&user)?);
    }
    let mut table = Table::new(["SHARE", "USED", "LIMIT", "BY", "OF"], 4);
    for (kind, share) in shares(&user) {
        let used = match kind.unit {
            ShareUnit::Highest => String::new(),
            ShareUnit::Number | ShareUnit::Bytes => amount(kind, share.used),
        };
        table.row([
            Cell::from(kind.name),
            Cell::toned(&used, tone(percent(&share))),
            Cell::from(amount(kind, share.limit)),
            Cell::from(if share.set { "operator" } else { "default" }),
            Cell::from(kind.counts),
        ]);
    }
    Ok(session.out.table(&table)?)
}

async fn set(session: &mut Session, args: &SetArgs) -> Result<(), Failure> {
    if args.limits.0.is_empty() {
        let message = format!(
            "say which limit: e.g. `estimand users set {} --tasks 1000`; `estimand users set --help` lists them",
            args.user
        );
        return Err(Failure::Usage(message));
    }
    let limits = session.client.limit_user(&args.user, &args.limits.0).await?;
    if session.out.json {
        return Ok(session.out.pretty(&limits)?);
    }
    let given = KINDS.iter().filter_map(|kind| Some((kind, *limits.limits.get(kind.name)?)));
    let given: Vec<String> =
        given.map(|(kind, limit)| format!("{} {}", kind.name, amount(kind, limit))).collect();
    let line = match given.is_empty() {
        true => format!("`{}` has the defaults", args.user),
        false => format!("`{}` has {}, and the defaults of all else", args.user, given.join(", ")),
    };
    Ok(session.out.line(&line)?)
}

async fn reset(session: &mut Session, args: &UserArgs) -> Result<(), Failure> {
    let limits = session.client.unlimit_user(&args.user).await?;
    match session.out.json {
        true => session.out.pretty(&limits)?,
        false => session.out.line(&format!("`{}` has the defaults", args.user))?,
    }
    Ok(())
}

/// In the order of their declaration.
fn shares(user: &UserShares) -> impl Iterator<Item = (&'static ShareDeclaration, Share)> {
    KINDS.iter().filter_map(|kind| Some((kind, *user.shares.get(kind.name)?)))
}

fn percent(share: &Share) -> u64 {
    share.used.saturating_mul(100) / share.limit.max(1)
}

fn tone(percent: u64) -> Tone {
    match percent {
        100.. => Tone::Bad,
        NEARLY_FULL.. => Tone::Warning,
        _ => Tone::Plain,
    }
}

fn of(kind: &ShareDeclaration, share: &Share) -> String {
    format!("{}/{}", amount(kind, share.used), amount(kind, share.limit))
}

fn amount(kind: &ShareDeclaration, amount: u64) -> String {
    match kind.unit {
        ShareUnit::Bytes => words::bytes(amount),
        ShareUnit::Number | ShareUnit::Highest => amount.to_string(),
    }
}

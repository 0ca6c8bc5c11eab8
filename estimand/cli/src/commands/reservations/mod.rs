//! `reserve`, `reservations`, `price` and `credits`.

mod credits;
mod list;
mod price;

use chrono::{DateTime, Local, Utc};
use estimand_api::reservation::{PriceQuote, ReservationRecord};
use estimand_client::PageQuery;
use serde_json::{Map, Value, json};

use super::{Session, new_key};
use crate::arguments::reservations::{
    BidArgs, ChangeReservationArgs, ListReservationsArgs, ReservationArgs, ReservationsAction,
    ReservationsArgs, ReserveArgs, SomeReservationsArgs, WantedOptions,
};
use crate::output::failure::Failure;
use crate::output::table::{Cell, Table, Tone};
use crate::output::{remark, words};

pub use credits::credits;
pub use price::price;

pub async fn reserve(session: &mut Session, args: &ReserveArgs) -> Result<(), Failure> {
    if let Some(path) = &args.list {
        return list::reserve(session, args, path).await;
    }
    let document = document(args);
    if args.dry_run {
        let quote = session.client.quote(&document).await?;
        return show_quote(session, &quote);
    }
    let key = key(args)?;
    let reservation = session.client.reserve(&document, &key).await?;
    if session.out.json {
        return Ok(session.out.pretty(&reservation)?);
    }
    Ok(session.out.line(&reserved(&reservation))?)
}

fn key(args: &ReserveArgs) -> Result<String, Failure> {
    match &args.key {
        Some(key) => Ok(key.clone()),
        None => new_key(),
    }
}

fn reserved(reservation: &ReservationRecord) -> String {
    let ReservationRecord { id, price, start, end, .. } = reservation;
    format!("reserved `{id}` for {price} credits, {}", time(*start, *end))
}

fn show_quote(session: &mut Session, quote: &PriceQuote) -> Result<(), Failure> {
    if session.out.json {
        return Ok(session.out.pretty(quote)?);
    }
    let change = match (&quote.more, &quote.refund) {
        (Some(more), _) => format!("; {more} more would be held"),
        (None, Some(refund)) => format!("; {refund} would be given back"),
        (None, None) => String::new(),
    };
    let line = format!("it would cost {} credits, {}{change}", quote.price, time(quote.start, quote.end));
    Ok(session.out.line(&line)?)
}

fn document(args: &ReserveArgs) -> Map<String, Value> {
    let WantedOptions { width, class, duration, work, from, by, .. } = &args.wanted;
    let resources = Value::Object(resources(&args.wanted).into_iter().collect());
    let mut document = Map::from_iter([("resources".to_owned(), resources)]);
    let texts = [
        ("duration", duration),
        ("work", work),
        ("class", class),
        ("from", from),
        ("by", by),
        ("value", &args.value),
        ("user", &args.user),
    ];
    add_texts(&mut document, &texts);
    document.extend(width.as_deref().map(|width| ("width".to_owned(), number_or_text(width))));
    let command = match args.cmd.as_slice() {
        [] => None,
        [line] => Some(json!(line)),
        words => Some(json!(words)),
    };
    document.extend(command.map(|command| ("task".to_owned(), json!({ "command": command }))));
    document.extend(celery(args).map(|celery| ("celery".to_owned(), celery)));
    document
}

fn celery(args: &ReserveArgs) -> Option<Value> {
    let mut celery = Map::from_iter([("task".to_owned(), json!(args.celery.as_ref()?))]);
    let queue = args.celery_queue.as_ref().map(|queue| json!(queue));
    let more = [("args", args.celery_args.clone()), ("kwargs", args.celery_kwargs.clone()), ("queue", queue)];
    celery.extend(more.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))));
    Some(Value::Object(celery))
}

fn add_texts(document: &mut Map<String, Value>, texts: &[(&str, &Option<String>)]) {
    for (name, text) in texts {
        document.extend(text.as_ref().map(|text| ((*name).to_owned(), json!(text))));
    }
}

fn number_or_text(text: &str) -> Value {
    text.parse::<u64>().map_or_else(|_| json!(text), |number| json!(number))
}

/// The amounts of each unit, by name.
fn resources(wanted: &WantedOptions) -> Vec<(String, Value)> {
    let own = [
        ("cpu", wanted.cpu.map(|cpu| json!(cpu))),
        ("memory", wanted.memory.as_deref().map(number_or_text)),
        ("gpu", wanted.gpu.map(|gpu| json!(gpu))),
    ];
    let own = own.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?)));
    own.chain(wanted.resources.iter().map(|(name, value)| (name.clone(), number_or_text(value)))).collect()
}

/// A time as people here read it.
pub fn time(start: DateTime<Utc>, end: DateTime<Utc>) -> String {
    let (start, end) = (start.with_timezone(&Local), end.with_timezone(&Local));
    let is_one_day = start.date_naive() == end.date_naive();
    let end = if is_one_day { end.format("%H:%M:%S") } else { end.format("%Y-%m-%d %H:%M:%S") };
    format!("from {} to {end}", start.format("%Y-%m-%d %H:%M:%S"))
}

pub async fn reservations(session: &mut Session, args: &ReservationsArgs) -> Result<(), Failure> {
    match &args.action {
        Some(ReservationsAction::List(args)) => list(session, &args.own).await,
        Some(ReservationsAction::Show(args)) => show(session, &args.own).await,
        Some(ReservationsAction::Change(args)) => change(session, &args.own).await,
        Some(ReservationsAction::Bid(args)) => bid(session, &args.own).await,
        Some(ReservationsAction::Cancel(args)) => cancel(session, &args.own).await,
        None => {
            let all = ListReservationsArgs { state: String::new(), user: None, limit: 50 };
            list(session, &all).await
        }
    }
}

async fn list(session: &mut Session, args: &ListReservationsArgs) -> Result<(), Failure> {
    let query = PageQuery {
        states: args.state.clone(),
        user: args.user.clone(),
        before: None,
        limit: Some(args.limit),
    };
    let page = session.client.reservations(&query).await?;
    if session.out.json {
        return Ok(session.out.pretty(&page)?);
    }
    if page.reservations.is_empty() {
        remark("there are no such reservations; `estimand reserve` makes one");
        return Ok(());
    }
    let mut table = Table::new(["RESERVATION", "STATE", "USER", "PRICE", "TIME"], 2);
    for reservation in &page.reservations {
        table.row([
            Cell::from(&reservation.id),
            state(reservation),
            Cell::from(&reservation.user),
            Cell::from(&reservation.price),
            Cell::from(time(reservation.start, reservation.end)),
        ]);
    }
    session.out.table(&table)?;
    if page.next.is_some() {
        session.out.flush()?;
        remark("there are older ones: --limit shows more");
    }
    Ok(())
}

fn state(reservation: &ReservationRecord) -> Cell {
    match reservation.state.as_str() {
        "BROKEN" => Cell::toned("BROKEN", Tone::Bad),
        "REFUSED" => Cell::toned("REFUSED", Tone::Warning),
        state => Cell::from(state),
    }
}

async fn show(session: &mut Session, args: &ReservationArgs) -> Result<(), Failure> {
    let reservation = session.client.reservation(&args.id).await?;
    let out = &mut session.out;
    if out.json {
        return Ok(out.pretty(&reservation)?);
    }
    out.line(&reservation.id)?;
    let mut facts = vec![
        ("state", state(&reservation)),
        ("time", Cell::from(time(reservation.start, reservation.end))),
        ("units", Cell::from(reservation.width.to_string())),
        ("price", Cell::from(format!("{} credits, paid by {}", reservation.price, reservation.user))),
    ];
    facts.extend(reservation.fees.as_ref().map(|fees| ("changes cost", Cell::from(fees))));
    facts.extend(reservation.list.as_ref().map(|list| ("in the list of", Cell::from(list))));
    facts.extend(reservation.refund.as_ref().map(|refund| ("given back", Cell::from(refund))));
    facts.extend(reservation.reason.as_ref().map(|reason| ("reason", Cell::from(reason))));
    facts.extend(reservation.task.as_ref().map(|task| ("task", Cell::from(task))));
    if let Some(celery) = &reservation.celery {
        facts.push(("celery", Cell::from(format!("{} {}", celery.state, celery.id))));
        facts.extend(celery.published_at.map(|at| ("published", Cell::from(words::instant(at)))));
        facts.extend(celery.waited_for.as_ref().map(|reason| ("waited for", Cell::from(reason))));
    }
    if let Some(guarantee) = &reservation.guarantee {
        let seconds = |seconds: u64| words::count_u64(seconds, "second");
        facts.push(("promised", Cell::from(seconds(guarantee.promised_seconds))));
        facts.push(("delivered", Cell::from(seconds(guarantee.delivered_seconds))));
        facts.extend(guarantee.had_seconds.map(|had| ("its task had", Cell::from(seconds(had)))));
        let some = |name, amount| (amount > 0).then(|| (name, Cell::from(seconds(amount))));
        facts.extend(some("missed", guarantee.missed_seconds));
        facts.extend(some("left to others", guarantee.given_back_seconds));
        facts.push(("nodes", Cell::from(guarantee.nodes.join(", "))));
    }
    facts.push(("made", Cell::from(words::instant(reservation.made_at))));
    facts.push(("by", Cell::from(&reservation.made_by)));
    let facts: Vec<(String, Cell)> = facts.into_iter().map(|(name, cell)| (name.to_owned(), cell)).collect();
    Ok(out.facts(&facts)?)
}

async fn change(session: &mut Session, args: &ChangeReservationArgs) -> Result<(), Failure> {
    let ChangeReservationArgs { id, width, duration, work, from, by, value, dry_run } = args;
    let mut change = Map::new();
    let texts = [("duration", duration), ("work", work), ("from", from), ("by", by), ("value", value)];
    add_texts(&mut change, &texts);
    change.extend(width.as_deref().map(|width| ("width".to_owned(), number_or_text(width))));
    if *dry_run {
        let quote = session.client.quote_change(id, &change).await?;
        return show_quote(session, &quote);
    }
    let reservation = session.client.change_reservation(id, &change).await?;
    if session.out.json {
        return Ok(session.out.pretty(&reservation)?);
    }
    let ReservationRecord { price, start, end, width, .. } = &reservation;
    let units = words::count_u64(*width, "unit");
    let line = format!("`{id}` has {units} for {price} credits now, {}", time(*start, *end));
    Ok(session.out.line(&line)?)
}

async fn bid(session: &mut Session, args: &BidArgs) -> Result<(), Failure> {
    let reservation = session.client.rebid(&args.id, &args.value).await?;
    match session.out.json {
        true => session.out.pretty(&reservation)?,
        false => session.out.line(&format!("`{}` is worth {} credits now", args.id, args.value))?,
    }
    Ok(())
}

async fn cancel(session: &mut Session, args: &SomeReservationsArgs) -> Result<(), Failure> {
    for id in &args.ids {
        let reservation = session.client.cancel_reservation(id).await?;
        if session.out.json {
            session.out.pretty(&reservation)?;
            continue;
        }
        let refund = reservation.refund.as_deref().unwrap_or("0");
        let line = match reservation.state.as_str() {
            "CANCELLED" => {
                format!("`{id}` is cancelled; {refund} of {} credits are given back", reservation.price)
            }
            other => format!("`{id}` was over already: {other}"),
        };
        session.out.line(&line)?;
    }
    Ok(())
}

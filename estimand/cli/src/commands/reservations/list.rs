//! `reserve --list`: requests of which all are reserved or none.

use std::path::Path;

use estimand_api::json::parse_document;
use serde_json::Map;

use super::{add_texts, key, reserved, time};
use crate::arguments::reservations::ReserveArgs;
use crate::commands::{Session, read_named};
use crate::output::failure::Failure;
use crate::output::table::{Cell, Table};

pub async fn reserve(session: &mut Session, args: &ReserveArgs, path: &Path) -> Result<(), Failure> {
    let requests = parse_document(&read_named(&path.display().to_string())?)?;
    let mut list = Map::from_iter([("allOrNone".to_owned(), requests)]);
    add_texts(&mut list, &[("value", &args.value), ("user", &args.user)]);
    if args.dry_run {
        let quotes = session.client.quote_list(&list).await?;
        if session.out.json {
            return Ok(session.out.pretty(&quotes)?);
        }
        let mut table = Table::new(["REQUEST", "PRICE", "UNITS", "TIME"], 0);
        for (place, quote) in quotes.quotes.iter().enumerate() {
            table.row([
                Cell::from((place + 1).to_string()),
                Cell::from(&quote.price),
                Cell::from(quote.width.to_string()),
                Cell::from(time(quote.start, quote.end)),
            ]);
        }
        session.out.table(&table)?;
        return Ok(session.out.line(&format!("all would cost {} credits", quotes.price))?);
    }
    let made = session.client.reserve_list(&list, &key(args)?).await?;
    if session.out.json {
        return Ok(session.out.pretty(&made)?);
    }
    for reservation in &made.reservations {
        session.out.line(&reserved(reservation))?;
    }
    Ok(session.out.line(&format!("all cost {} credits", made.price))?)
}

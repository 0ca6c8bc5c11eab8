//! `history`: what was kept of a data name's values, oldest first.

use estimand_api::json_text::JsonText;
use estimand_api::value::PastValue;
use estimand_client::HistoryQuery;

use super::Session;
use crate::arguments::data::HistoryArgs;
use crate::output::failure::Failure;
use crate::output::table::{Cell, Table};
use crate::output::{remark, words};

pub async fn history(session: &mut Session, args: &HistoryArgs) -> Result<(), Failure> {
    let query = HistoryQuery {
        node: args.node.clone(),
        since: args.since.clone(),
        until: args.until.clone(),
        limit: args.limit,
        field: args.field.clone(),
    };
    let values: Vec<PastValue<JsonText>> = session.client.history(&args.name, &query).await?;
    if session.out.json {
        return Ok(session.out.pretty(&values)?);
    }
    if values.is_empty() {
        let with = args.field.as_ref().map(|field| format!(" with `{field}`")).unwrap_or_default();
        remark(&format!(
            "nothing of that is kept of `{}`{with}; a registration with --history keeps values",
            args.name
        ));
        return Ok(());
    }
    let mut table = Table::new(["TIME", "NODE", "VALUE"], 2);
    for value in &values {
        table.row([
            Cell::from(words::instant(value.collected_at)),
            Cell::from(value.node_name.as_str()),
            Cell::from(value.data_value.to_string()),
        ]);
    }
    Ok(session.out.table(&table)?)
}

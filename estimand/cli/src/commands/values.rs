//! `put`, `get` and `delete`.

use std::io;
use std::time::Duration;

use chrono::{DateTime, Utc};
use estimand_api::duration::Span;
use estimand_api::json::{self, kind_of};
use estimand_api::json_text::JsonText;
use estimand_api::names::{DataName, NamePattern, NodeName};
use estimand_api::problem::{FieldError, Problem};
use estimand_api::value::{DeletionReceipt, Outcome};
use estimand_api::write::{Content, Write};
use estimand_client::Query;
use serde_json::Value as Json;
use serde_json::value::RawValue;
use tokio::time::{Instant, sleep};

use super::{Session, absence, read_input};
use crate::arguments::data::{DeleteArgs, GetArgs, PutArgs};
use crate::output::failure::Failure;
use crate::output::table::{Cell, Table, Tone};
use crate::output::{remark, words};

/// A value as it is shown: to the letter.
pub type Value = estimand_api::value::Value<JsonText>;

/// Between two looks at values that are waited for.
const PAUSE: Duration = Duration::from_millis(200);

pub async fn put(session: &mut Session, args: &PutArgs) -> Result<(), Failure> {
    let given = match args.value.as_str() {
        "-" => from_standard_input()?,
        text => text.to_owned(),
    };
    let content = Content::Value {
        text: if args.text { quoted(&given) } else { json_or_text(&given)? },
        valid_for: args.valid_for.and_then(|span| i64::try_from(span.as_micros()).ok()),
        provenance: None,
    };
    let (data_name, node_name) = (args.name.clone(), args.node.clone());
    let write = Write { data_name, node_name, content, collected_at: None, order: None };
    let (written, _) = session.client.write(&write).await?;
    if session.out.json {
        return Ok(session.out.pretty(&written)?);
    }
    let became = match written.outcome {
        Outcome::Created => "is new",
        Outcome::Replaced => "replaced the one before",
        Outcome::Superseded => "was not taken, as there is a newer one",
        Outcome::NoValue => "was not taken",
    };
    Ok(session.out.line(&format!("the value of `{}` for `{}` {became}", args.name, args.node))?)
}

/// The output of a command ends with a line break that is not meant.
fn from_standard_input() -> Result<String, Failure> {
    let bytes = read_input("standard input", io::stdin())?;
    let mut text = String::from_utf8(bytes).map_err(|error| Failure::Read {
        name: "standard input".to_owned(),
        source: io::Error::new(
            io::ErrorKind::InvalidData,
            format!("it is not UTF-8: {}", error.utf8_error()),
        ),
    })?;
    if text.ends_with('\n') {
        text.pop();
    }
    Ok(text)
}

/// The text of the JSON value that is sent: what is JSON is kept to the letter, anything else is a string.
/// JSON that is broken, or breaks a rule beyond its syntax, is refused, because a string is hardly what was meant.
fn json_or_text(given: &str) -> Result<Box<str>, Problem> {
    let refused = |message: String| {
        let error = FieldError::new("dataValue", message).given(given);
        Problem::invalid_field(
            error.expected("JSON that any reader understands, or --text to send it as a text"),
        )
    };
    let raw = match serde_json::from_str::<&RawValue>(given) {
        Ok(raw) => raw,
        Err(error) if given.trim_start().starts_with(['{', '[', '"']) => {
            return Err(refused(format!("begins like JSON and is none: {error}")));
        }
        Err(_) => return Ok(quoted(given)),
    };
    let text = json::compact(raw.get()).map_err(|error| refused(error.to_string()))?;
    // A number beyond all bounds, say, is right by its syntax, and no reader could take it in.
    match serde_json::from_str::<Json>(&text) {
        Ok(_) => Ok(text.into()),
        Err(error) => Err(refused(format!("cannot be read back: {error}"))),
    }
}

fn quoted(text: &str) -> Box<str> {
    Json::from(text).to_string().into()
}

pub async fn get(session: &mut Session, args: &GetArgs) -> Result<(), Failure> {
    let (names, patterns) = names_and_patterns(&args.names);
    let query = Query {
        names,
        patterns,
        node_names: args.node.clone(),
        condition: args.condition.clone(),
        nodes: args.nodes.clone(),
        states: args.states.clone(),
        max_age: args.max_age,
        field: args.field.clone(),
        order: args.sort.clone(),
        limit: args.limit,
    };
    let (values, hint) = read(session, &query, args.wait).await?;
    let absent = absent(session, &query, &values).await?;
    if args.explain {
        explain(session, &values).await?;
    } else if session.out.json {
        session.out.pretty(&values)?;
    } else if values.is_empty() && absent.is_empty() {
        remark(hint.as_deref().unwrap_or_else(|| nothing_found(args)));
    } else if args.raw {
        values.iter().try_for_each(|value| session.out.raw(&value.data_value.bare()))?;
    } else if !values.is_empty() {
        session.out.table(&table(&values, Utc::now()))?;
    }
    if !absent.is_empty() {
        return Err(absence::failure(session, &absent, one_of(&args.node)).await);
    }
    match args.wait {
        Some(wait) if !has_all(&query, &values) => {
            Err(Failure::Missing(format!("not each of these names had such a value within {wait}")))
        }
        _ => Ok(()),
    }
}

/// The only node; none if there are several, or all are meant.
fn one_of(nodes: &[NodeName]) -> Option<&NodeName> {
    match nodes {
        [node] => Some(node),
        _ => None,
    }
}

/// Reads the values; with a time to wait again and again, until each name has one or the time is over.
async fn read(
    session: &Session,
    query: &Query,
    wait: Option<Span>,
) -> Result<(Vec<Value>, Option<String>), Failure> {
    let end = Instant::now() + wait.map(Duration::from).unwrap_or_default();
    loop {
        let (values, _, hint) = session.client.values_or_hint(query).await?;
        if has_all(query, &values) || Instant::now() >= end {
            return Ok((values, hint));
        }
        sleep(PAUSE).await;
    }
}

fn has_all(query: &Query, values: &[Value]) -> bool {
    let has = |name: &DataName| values.iter().any(|value| value.data_name == *name);
    !values.is_empty() && query.names.iter().all(has)
}

/// The names that were asked for and have no value at all. One that has values, only not as they are asked for, is not
/// absent; but if none has the part that is asked for, the service says which parts there are.
async fn absent(session: &Session, query: &Query, values: &[Value]) -> Result<Vec<DataName>, Failure> {
    let is_among = |values: &[Value], name: &DataName| values.iter().any(|value| value.data_name == *name);
    let mut absent: Vec<DataName> = query.names.clone();
    absent.retain(|name| !is_among(values, name));
    let is_narrowed = !query.states.is_empty()
        || query.max_age.is_some()
        || query.field.is_some()
        || query.nodes.is_some()
        || query.condition.is_some()
        || query.limit.is_some();
    if absent.is_empty() || !is_narrowed {
        return Ok(absent);
    }
    let all = Query { names: absent.clone(), node_names: query.node_names.clone(), ..Query::default() };
    let (all, _, _) = session.client.values_or_hint(&all).await?;
    absent.retain(|name| !is_among(&all, name));
    if let (Some(field), Some(whole), true, true) =
        (&query.field, all.first(), values.is_empty(), absent.is_empty())
    {
        session.client.part(&whole.data_name, &whole.node_name, field).await?;
    }
    Ok(absent)
}

/// The data names and the patterns among the given names.
pub fn names_and_patterns(given: &[NamePattern]) -> (Vec<DataName>, Vec<NamePattern>) {
    let names = given.iter().filter_map(NamePattern::name).collect();
    (names, given.iter().filter(|one| one.name().is_none()).cloned().collect())
}

fn nothing_found(args: &GetArgs) -> &'static str {
    let everything = args.names.is_empty() && args.node.is_empty() && args.nodes.is_none();
    match everything
        && args.states.is_empty()
        && args.max_age.is_none()
        && args.condition.is_none()
        && args.field.is_none()
    {
        true => "there are no values yet",
        false => "there is no such value",
    }
}

/// Values in a table. They are shown as JSON, so that the text "5" and the number 5 look different.
pub fn table(values: &[Value], now: DateTime<Utc>) -> Table {
    let mut table = Table::new(["NAME", "NODE", "VALUE", "STATE", "AGE"], 2);
    for value in values {
        table.row([
            Cell::from(value.data_name.as_str()),
            Cell::from(value.node_name.as_str()),
            Cell::from(value.data_value.to_string()),
            words::state(value.state),
            Cell::from(words::age(value.collected_at, now)),
        ]);
        if let Some(note) = &value.note {
            table.note(Cell::toned(note, Tone::Warning));
        }
    }
    table
}

/// The values with what produced them; one that is gone meanwhile is left out.
async fn explain(session: &mut Session, values: &[Value]) -> Result<(), Failure> {
    let mut explained = Vec::new();
    for value in values {
        explained.extend(session.client.explain(&value.data_name, &value.node_name).await?);
    }
    if session.out.json {
        return Ok(session.out.pretty(&explained)?);
    }
    let now = Utc::now();
    for (place, value) in explained.iter().enumerate() {
        if place > 0 {
            session.out.line("")?;
        }
        session.out.line(&format!("{} on {}", value.data_name, value.node_name))?;
        session.out.facts(&facts(value, now))?;
    }
    Ok(())
}

/// The facts about a value, provenance included.
fn facts(value: &Value, now: DateTime<Utc>) -> Vec<(String, Cell)> {
    let when = |at| Cell::from(format!("{} ({} ago)", words::instant(at), words::age(at, now)));
    let mut facts = vec![
        ("value".to_owned(), Cell::from(value.data_value.to_string())),
        ("state".to_owned(), words::state(value.state)),
        ("collected".to_owned(), when(value.collected_at)),
        ("received".to_owned(), when(value.received_at)),
        ("valid for".to_owned(), Cell::from(value.valid_for.map_or("ever".to_owned(), |s| format!("{s}s")))),
        ("revision".to_owned(), Cell::from(value.revision.to_string())),
    ];
    match &value.provenance {
        Some(Json::Object(map)) => {
            facts.extend(map.iter().map(|(name, what)| (name.clone(), Cell::from(words::bare(what)))));
        }
        Some(Json::Null) | None => facts.push(("produced by".to_owned(), Cell::from("a plain write"))),
        Some(other) => facts.push(("produced by".to_owned(), Cell::from(kind_of(other)))),
    }
    facts
}

/// Refuses a node's name among the data names, as in `delete load node-7`: all values of the others would go.
async fn refuse_nodes(session: &Session, args: &DeleteArgs) -> Result<(), Failure> {
    let nodes: Vec<NodeName> =
        args.names.iter().skip(1).filter_map(|name| NodeName::parse(name.as_str()).ok()).collect();
    if args.node.is_some() || nodes.is_empty() {
        return Ok(());
    }
    let query = Query { names: args.names.clone(), node_names: nodes, ..Query::default() };
    let (values, _) = session.client.values(&query).await?;
    let Some(value) = values.first() else { return Ok(()) };
    let (name, node) = (&value.data_name, &value.node_name);
    let refusal = format!("`{node}` is a node, for which `{name}` has a value; nothing is deleted");
    Err(Failure::Usage(refusal).hint(format!("`estimand delete {name} --node {node}` deletes that value")))
}

pub async fn delete(session: &mut Session, args: &DeleteArgs) -> Result<(), Failure> {
    refuse_nodes(session, args).await?;
    let of_node = args.node.as_ref().map(|node| format!(" for the node `{node}`")).unwrap_or_default();
    let mut all = DeletionReceipt { deleted: 0, revision: 0 };
    for name in &args.names {
        let answer = session.client.delete(name, args.node.as_ref()).await?;
        (all.deleted, all.revision) = (all.deleted + answer.deleted, answer.revision);
        match answer.deleted {
            _ if session.out.json => {}
            0 => remark(&format!("there was no value of `{name}`{of_node}")),
            number => {
                let values = words::count(number, "value");
                session.out.line(&format!("deleted {values} of `{name}`{of_node}"))?;
            }
        }
    }
    if session.out.json {
        session.out.pretty(&all)?;
    }
    Ok(())
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn json_is_sent_to_the_letter_and_the_rest_as_text() {
        let check = |given: &str, expected: &str| assert_eq!(&*json_or_text(given).unwrap(), expected);
        check("0.420", "0.420");
        check(" { \"a\": [1, 2] } ", "{\"a\":[1,2]}");
        check("null", "null");
        check("\"5\"", "\"5\"");
        check("007", "\"007\"");
        check("hello \"you\"", "\"hello \\\"you\\\"\"");
        check("", "\"\"");
    }

    #[test]
    fn json_that_nobody_could_read_is_refused() {
        for given in [
            r#"{"a":1,"a":2}"#,
            "1e999",
            "{bad",
            "[1, 2",
            " \"open",
            &"[".repeat(65).chars().chain("]".repeat(65).chars()).collect::<String>(),
        ] {
            let problem = json_or_text(given).unwrap_err();
            assert_eq!((problem.status, problem.errors[0].field.as_str()), (400, "dataValue"), "{given}");
        }
    }
}

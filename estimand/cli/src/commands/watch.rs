//! `watch`: one line an event, until Ctrl-C or until nobody reads any more.

use chrono::{DateTime, Utc};
use estimand_api::json_text::JsonText;
use estimand_api::names::{DataName, NodeName};
use serde::Serialize;

use super::Session;
use super::values::{Value, names_and_patterns};
use crate::arguments::data::WatchArgs;
use crate::output::failure::Failure;
use crate::output::table::{Cell, Columns, Tone, line};
use crate::output::{Output, remark, words};

type Event = estimand_client::Event<JsonText>;

/// The column that is cut when a line is too long.
const VALUE: usize = 3;

pub async fn watch(session: &mut Session, args: &WatchArgs) -> Result<(), Failure> {
    // A watch waits for a service that is away, for as long as it takes. That there was none from the
    // beginning is better said at once.
    session.client.bindings().await?;
    let (names, patterns) = names_and_patterns(&args.names);
    let mut watch = session
        .client
        .watch(names)
        .of_node_names(args.node.clone())
        .patterns(patterns)
        .on_silence(tell_silence)
        .to_the_letter();
    if let Some(selector) = &args.nodes {
        watch = watch.of_nodes(selector.clone());
    }
    if let Some(condition) = &args.condition {
        watch = watch.condition(condition.clone());
    }
    if let Some(field) = &args.field {
        watch = watch.field(field.clone());
    }
    let mut columns = Columns::new(5, VALUE);
    let interrupted = tokio::signal::ctrl_c();
    tokio::pin!(interrupted);
    loop {
        let event = tokio::select! {
            biased;
            asked = &mut interrupted => return Ok(asked?),
            event = watch.next() => event?,
        };
        match session.out.json {
            true => session.out.compact(&Told::of(&event))?,
            false => print(&mut session.out, &mut columns, &event, Utc::now())?,
        }
        session.out.flush()?;
    }
}

/// Says that not even the sign of life comes that the service gives every 15 seconds.
pub fn tell_silence(address: &str) {
    remark(&format!(
        "nothing has come from {address} for 20 seconds, not even its sign of life; a proxy on the way may hold events back"
    ));
}

/// An event for programs.
#[derive(Serialize)]
#[serde(tag = "event", rename_all = "lowercase", rename_all_fields = "camelCase")]
enum Told<'e> {
    Snapshot { revision: u64, reason: &'e str, values: &'e [Value] },
    Change { value: &'e Value },
    Delete { data_name: &'e DataName, node_name: &'e NodeName, revision: u64 },
}

impl<'e> Told<'e> {
    fn of(event: &'e Event) -> Self {
        match event {
            Event::Snapshot { revision, reason, values } => {
                Told::Snapshot { revision: *revision, reason, values }
            }
            Event::Change(value) => Told::Change { value },
            Event::Delete { data_name, node_name, revision } => {
                Told::Delete { data_name, node_name, revision: *revision }
            }
        }
    }
}

fn print(out: &mut Output, columns: &mut Columns, event: &Event, now: DateTime<Utc>) -> Result<(), Failure> {
    let rows: Vec<[Cell; 5]> = match event {
        Event::Snapshot { reason, values, .. } => {
            match reason.as_str() {
                "start" if values.is_empty() => remark("there are no values yet"),
                "start" => {}
                // The values shown before are void, which the lines alone do not say.
                reason => remark(&format!("all values anew, because the watch could not go on: {reason}")),
            }
            values.iter().map(|value| row(value, now)).collect()
        }
        Event::Change(value) => vec![row(value, now)],
        Event::Delete { data_name, node_name, .. } => vec![[
            Cell::from(words::instant(now)),
            Cell::from(data_name.as_str()),
            Cell::from(node_name.as_str()),
            Cell::from(""),
            Cell::toned("deleted", Tone::Bad),
        ]],
    };
    for row in &rows {
        // Names stay aligned from line to line; a value takes what it needs, so that one long value does not
        // push the states of all later ones away.
        columns.relax();
        columns.admit(row);
        out.verbatim(&line(row, &columns.fit(out.style.width), out.style.colours))?;
    }
    Ok(())
}

/// The time is when the event was heard of: a state changes long after its value was collected.
fn row(value: &Value, now: DateTime<Utc>) -> [Cell; 5] {
    [
        Cell::from(words::instant(now)),
        Cell::from(value.data_name.as_str()),
        Cell::from(value.node_name.as_str()),
        Cell::from(value.data_value.to_string()),
        words::state(value.state),
    ]
}

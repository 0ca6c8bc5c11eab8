//! The fields of a reservation's document, each declared once.

use std::collections::BTreeMap;
use std::str::FromStr as _;

use estimand_api::declaration::Field;
use estimand_api::duration::Span;
use estimand_api::fields;
use estimand_api::instant::{WRITABLE, parse_rfc3339, to_rfc3339};
use estimand_api::json::kind_of;
use estimand_api::problem::FieldError;
use estimand_api::promise::MAX_WIDTH;
use estimand_api::resources::{self, ResourceAmount};
use estimand_api::schema::{of, optional};
use estimand_api::task_document::TaskDocument;
use estimand_reservations::{MAX_WORKERS_OPEN, Money};
use serde_json::{Value, json};

use super::{Document, ReservedTask};
use crate::celery;

const MAX_TEXT_BYTES: usize = 255;
const SECOND: i64 = 1_000_000;

/// All fields, in the order in which they are rendered and documented.
pub const FIELDS: &[Field<Document>] = &[
    Field {
        name: "resources",
        expected: "an object of cpu, memory, gpu or any countable label",
        description: "What each unit needs of one node: `cpu` in processors, `memory` in bytes or as `\"4GiB\"`",
        schema: || json!({ "type": "object", "minProperties": 1, "additionalProperties": of::<ResourceAmount>("") }),
        read: |it, document| {
            let place = it.place();
            document.resources = it.part(|value| amounts(&place, value)).unwrap_or_default();
        },
        write: |document| {
            let amounts = document.resources.iter().map(|(name, amount)| (name.as_str(), *amount));
            Some(resources::to_json(amounts))
        },
        ..Field::PLAIN
    },
    Field {
        name: "width",
        expected: "a whole number from 1 to 10000, or with `work` two of them such as \"2..8\"",
        description: "How many units, all at the same time; by default 1. With two numbers it is the one between them that costs \
                      least, and stays the same from start to end",
        schema: || json!({ "type": ["integer", "string", "null"], "minimum": 1, "maximum": MAX_WIDTH }),
        read: |it, document| (document.width, document.widest) = it.optional(width).unwrap_or((1, None)),
        write: |document| match document.widest {
            Some(widest) => Some(json!(format!("{}..{widest}", document.width))),
            None => (document.width > 1).then(|| json!(document.width)),
        },
        ..Field::PLAIN
    },
    Field {
        name: "class",
        expected: "the label `class` of nodes",
        description: "The nodes that it may be on: those with this label `class`; by default those without one",
        schema: || json!({ "type": ["string", "null"], "minLength": 1, "maxLength": MAX_TEXT_BYTES }),
        read: |it, document| document.class = it.optional(text),
        write: |document| document.class.as_ref().map(|class| json!(class)),
        ..Field::PLAIN
    },
    Field {
        name: "duration",
        expected: "a duration of at least a second, such as \"2h\", or seconds",
        description: "How long it takes. Time is given in whole slots, so it is rounded up to them",
        schema: || of::<Span>(""),
        read: |it, document| match it.fields.value("work").is_some() {
            true => document.duration = it.optional(seconds).unwrap_or(0),
            false => document.duration = it.required(seconds).unwrap_or(1),
        },
        write: |document| document.work.is_none().then(|| json!(span(document.duration))),
        ..Field::PLAIN
    },
    Field {
        name: "work",
        expected: "a duration of at least a second, such as \"8h\", or seconds",
        description: "In place of `duration`: how long one unit alone would take. Two of them take half of it, and so on",
        schema: || of::<Span>(""),
        read: |it, document| document.work = it.optional(seconds),
        write: |document| document.work.map(|work| json!(span(work))),
        ..Field::PLAIN
    },
    Field {
        name: "from",
        expected: "an instant such as \"2026-01-31T12:00:00Z\", or a duration from now such as \"30m\"",
        description: "It starts then or later; by default as soon as the next slot of time begins",
        schema: || json!({ "type": ["string", "null"] }),
        read: |it, document| {
            let now = document.now;
            document.from = it.optional(|value| instant(value, now));
        },
        write: |document| document.from.map(written),
        ..Field::PLAIN
    },
    Field {
        name: "by",
        expected: "an instant such as \"2026-01-31T18:00:00Z\", or a duration from now such as \"6h\"",
        description: "It is over then or sooner; by default as late as there are prices",
        schema: || json!({ "type": ["string", "null"] }),
        read: |it, document| {
            let now = document.now;
            document.by = it.optional(|value| instant(value, now));
        },
        write: |document| document.by.map(written),
        ..Field::PLAIN
    },
    Field {
        name: "value",
        expected: "credits, such as 30 or \"2.5\"",
        description: "The most that it is worth. The price never depends on it",
        schema: || json!({ "type": ["number", "string", "null"] }),
        read: |it, document| document.value = it.optional(credits),
        write: |document| document.value.map(|value| json!(value.to_string())),
        ..Field::PLAIN
    },
    Field {
        name: "user",
        expected: "a text of 1 to 255 bytes that does not begin with `(`",
        description: "The account that pays; by default that of whoever asks",
        schema: || json!({ "type": ["string", "null"], "minLength": 1, "maxLength": MAX_TEXT_BYTES }),
        read: |it, document| document.user = it.optional(user),
        write: |document| document.user.as_ref().map(|user| json!(user)),
        ..Field::PLAIN
    },
    Field {
        name: "task",
        expected: "the document of a task, as `POST /api/tasks` takes it, without `resources`, `promise` and `count`",
        description: "What is run on it. With a width it is an array of so many tasks",
        schema: || optional::<TaskDocument>(""),
        read: |it, document| {
            let place = it.place();
            document.task = it.part(|value| ReservedTask::read(&place, value));
        },
        write: |document| document.task.as_ref().map(|task| Value::Object(task.to_map())),
        ..Field::PLAIN
    },
    Field {
        name: "celery",
        expected: "an object such as {\"task\": \"app.train\", \"args\": [1], \"kwargs\": {}, \"queue\": \"celery\"}",
        description: "In place of `task`: the task that a worker of Celery runs. Its message is published when the time has come",
        schema: celery::schema,
        read: |it, document| document.celery = it.part(celery::read),
        write: |document| document.celery.as_ref().map(celery::write),
        ..Field::PLAIN
    },
    Field {
        name: "dryRun",
        expected: "true or false",
        description: "Only the price is asked for; nothing is promised",
        schema: || json!({ "type": ["boolean", "null"] }),
        read: |it, document| document.dry_run = it.optional(fields::truth).unwrap_or(false),
        write: |_| None,
        ..Field::PLAIN
    },
];

fn amounts(place: &str, value: &Value) -> Result<BTreeMap<String, u64>, Vec<FieldError>> {
    let mut amounts = resources::read(place, value)?;
    amounts.retain(|_, amount| *amount > 0);
    Ok(amounts)
}

/// Reads credits, which are exact decimals.
pub fn credits(value: &Value) -> Result<Money, String> {
    let text = match value {
        Value::String(text) => text.trim().to_owned(),
        Value::Number(number) => number.to_string(),
        other => return Err(format!("is {}, not an amount of credits", kind_of(other))),
    };
    Money::from_str(&text).map_err(|error| error.to_string())
}

/// Reads the name of an account.
pub fn user(value: &Value) -> Result<String, String> {
    match text(value)? {
        text if text.starts_with('(') => Err("begins with `(`, as no user's name does".to_owned()),
        text => Ok(text),
    }
}

fn text(value: &Value) -> Result<String, String> {
    fields::text(value, MAX_TEXT_BYTES)
}

/// A number of units, or the least and the most of them: `8`, `"2..8"`.
fn width(value: &Value) -> Result<(u64, Option<u64>), String> {
    let Value::String(text) = value else {
        return fields::whole(value, 1, MAX_WIDTH).map(|width| (width, None));
    };
    let number = |text: &str| text.trim().parse().ok().filter(|number| (1..=MAX_WIDTH).contains(number));
    let (least, most) = text.split_once("..").ok_or("is neither a number nor two such as \"2..8\"")?;
    match (number(least), number(most)) {
        (Some(least), Some(most)) if most < least => Err("has the greater number first".to_owned()),
        (Some(least), Some(most)) if most - least >= MAX_WORKERS_OPEN => {
            Err(format!("leaves more than {MAX_WORKERS_OPEN} numbers open"))
        }
        (Some(least), Some(most)) => Ok((least, (most > least).then_some(most))),
        _ => Err(format!("has a number that is not from 1 to {MAX_WIDTH}")),
    }
}

/// Whole seconds, rounded up.
fn seconds(value: &Value) -> Result<u64, String> {
    let span: Span = match value {
        Value::Number(_) | Value::String(_) => {
            serde_json::from_value(value.clone()).map_err(|error| error.to_string())?
        }
        other => return Err(format!("is {}, not a duration", kind_of(other))),
    };
    match span.as_micros().div_ceil(SECOND.unsigned_abs()) {
        0 => Err("is 0: it must be at least a second".to_owned()),
        seconds => Ok(seconds),
    }
}

/// An instant, or a span from now on, in seconds since 1970.
fn instant(value: &Value, now: i64) -> Result<u64, String> {
    let text = fields::string(value)?;
    let from_now = || {
        let span = text.parse::<Span>().ok()?;
        now.checked_add(i64::try_from(span.as_micros()).ok()?)
    };
    let at = parse_rfc3339(text).or_else(from_now).filter(|at| WRITABLE.contains(at));
    let at = at.ok_or("is neither an instant nor a duration from now")?;
    u64::try_from(at.div_euclid(SECOND)).map_err(|_| "is before 1970".to_owned())
}

fn written(at: u64) -> Value {
    let micros = i64::try_from(at).unwrap_or(i64::MAX).saturating_mul(SECOND);
    Value::from(to_rfc3339(micros))
}

fn span(seconds: u64) -> Span {
    Span::from_micros(seconds.saturating_mul(SECOND.unsigned_abs())).unwrap_or(Span::MAX)
}

//! `tasks list` and `tasks show`.

use std::collections::BTreeMap;
use std::time::Duration;

use chrono::{DateTime, Utc};
use estimand_api::command::Command;
use estimand_api::duration::Span;
use estimand_api::task::TaskEnding;
use estimand_api::task_progress::TaskProgress;
use estimand_api::task_record::{TaskRecord, TaskTransition};
use estimand_client::TaskQuery;
use serde_json::Value;

use super::usage;
use crate::arguments::tasks::ListTasksArgs;
use crate::commands::Session;
use crate::output::failure::Failure;
use crate::output::table::{Cell, Table, Tone};
use crate::output::{remark, words};

/// How many reasons are shown below a list, and how many tasks are named for each.
const MAX_REASONS: usize = 5;
const MAX_NAMED: usize = 3;

pub async fn list(session: &mut Session, args: &ListTasksArgs) -> Result<(), Failure> {
    let query = TaskQuery {
        states: args.state.clone(),
        labels: args.labels.clone(),
        user: args.user.clone(),
        array: args.array.clone(),
        before: None,
        limit: Some(args.limit),
    };
    let page = session.client.tasks(&query).await?;
    if session.out.json {
        return Ok(session.out.pretty(&page)?);
    }
    if page.tasks.is_empty() {
        remark("there are no such tasks; `estimand tasks submit` makes one");
        return Ok(());
    }
    session.out.table(&table(&page.tasks, Utc::now()))?;
    session.out.flush()?;
    reasons(&page.tasks).iter().for_each(|reason| remark(reason));
    if page.next.is_some() {
        remark("there are older ones: --limit shows more");
    }
    Ok(())
}

/// The reasons why tasks wait, each with the tasks that it holds for.
fn reasons(tasks: &[TaskRecord]) -> Vec<String> {
    let mut reasons: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for task in tasks {
        if let Some(waits) = &task.waits {
            reasons.entry(waits).or_default().push(&task.id);
        }
    }
    let line = |(waits, ids): (&&str, &Vec<&str>)| {
        let verb = if ids.len() == 1 { "waits" } else { "wait" };
        format!("{} {verb}: {waits}", words::some_of(ids, MAX_NAMED))
    };
    let mut lines: Vec<String> = reasons.iter().take(MAX_REASONS).map(line).collect();
    if reasons.len() > MAX_REASONS {
        lines.push("others wait, too: `estimand tasks show` has the reason of each".to_owned());
    }
    lines
}

fn table(tasks: &[TaskRecord], now: DateTime<Utc>) -> Table {
    let mut table = Table::new(["TASK", "STATE", "NODE", "AGE", "COMMAND"], 4);
    for task in tasks {
        table.row([
            Cell::from(task.id.as_str()),
            state(task),
            Cell::from(task.node.clone().unwrap_or_else(|| "-".to_owned())),
            Cell::from(words::age(task.submitted_at, now)),
            Cell::from(command(task)),
        ]);
    }
    table
}

fn state(task: &TaskRecord) -> Cell {
    let text = match &task.ending {
        Some(ending) if task.state == "FAILED" => format!("FAILED ({})", ending.word()),
        _ => words::task_state(task),
    };
    match task.state.as_str() {
        "FAILED" => Cell::toned(&text, Tone::Bad),
        "LOST" => Cell::toned(&text, Tone::Warning),
        _ => Cell::from(text),
    }
}

fn command(task: &TaskRecord) -> String {
    let given = task.document.get("command");
    let command = given.and_then(|value| Command::from_json(value).ok()).map(|command| command.to_string());
    let image = task.document.get("image").and_then(Value::as_str);
    match (image, command) {
        (Some(image), Some(command)) => format!("{image}: {command}"),
        (Some(image), None) => image.to_owned(),
        (None, command) => command.unwrap_or_default(),
    }
}

/// How many tasks of an array are in each state.
fn by_state(array: &TaskRecord) -> String {
    let states = array.states.iter().map(|(state, count)| format!("{count} {state}"));
    states.collect::<Vec<_>>().join(", ")
}

/// How a task that is over ended, in words.
pub fn outcome(task: &TaskRecord) -> String {
    let word = match task.state.as_str() {
        "SUCCEEDED" => return "succeeded".to_owned(),
        "CANCELLED" => "was cancelled",
        _ => "failed",
    };
    match &task.ending {
        _ if task.is_array() => format!("is over: {}", by_state(task)),
        Some(ending) if word == "failed" => format!("failed: {ending}"),
        Some(ending @ (TaskEnding::Dependency(_) | TaskEnding::Promise(_))) => format!("{word}: {ending}"),
        _ => word.to_owned(),
    }
}

pub async fn show(session: &mut Session, id: &str) -> Result<(), Failure> {
    let task = session.client.task(id, Duration::ZERO).await?;
    let out = &mut session.out;
    if out.json {
        return Ok(out.pretty(&task)?);
    }
    out.line(&task.id)?;
    out.facts(&facts(&task, Utc::now()))?;
    for transition in &task.transitions {
        out.line(&happened(transition))?;
    }
    Ok(())
}

fn facts(task: &TaskRecord, now: DateTime<Utc>) -> Vec<(String, Cell)> {
    let when = |at| Cell::from(format!("{} ({} ago)", words::instant(at), words::age(at, now)));
    let mut facts = vec![("state", state(task)), ("command", Cell::from(command(task)))];
    facts.extend(task.image.as_ref().map(|image| ("image", Cell::from(image.to_string()))));
    facts.extend(task.is_array().then(|| ("tasks", Cell::from(by_state(task)))));
    facts.extend(task.array.as_ref().map(|array| ("array", Cell::from(array))));
    facts.extend(task.waits.as_ref().map(|waits| ("waits", Cell::toned(waits, Tone::Warning))));
    facts.extend(task.node.as_ref().map(|node| ("node", Cell::from(node))));
    facts.extend(task.why.as_ref().and_then(why).map(|why| ("chosen by", Cell::from(why))));
    facts.extend((task.attempt > 0).then(|| ("attempt", Cell::from(task.attempt.to_string()))));
    facts.extend(task.progress.as_ref().map(|progress| ("progress", Cell::from(said(progress, now)))));
    let problem = task.progress_problem.as_ref();
    facts.extend(problem.map(|problem| ("no progress", Cell::toned(problem, Tone::Warning))));
    let last = task.used.last().filter(|used| used.attempt == task.attempt).map(|used| &used.usage);
    facts.extend(task.ending.as_ref().map(|ending| ("last end", Cell::from(usage::ending(ending, last)))));
    facts.extend(task.program.as_ref().map(|program| ("its program", Cell::from(program.to_string()))));
    facts.extend(usage::facts(task).into_iter().map(|(label, figures)| (label, Cell::from(figures))));
    facts.push(("submitted", when(task.submitted_at)));
    facts.push(("by", Cell::from(&task.submitted_by)));
    facts.extend(task.ended_at.map(|at| ("over", when(at))));
    facts.push(("log", Cell::from(words::count_u64(task.lines, "line"))));
    let kept = task.outputs.as_ref().map(|outputs| words::count_u64(outputs.files.len() as u64, "file"));
    facts.extend(kept.map(|kept| ("outputs", Cell::from(kept))));
    facts.into_iter().map(|(label, what)| (label.to_owned(), what)).collect()
}

/// The last progress of a task, such as `3/90 (3 %), accuracy 0.91, 5s ago`.
fn said(progress: &TaskProgress, now: DateTime<Utc>) -> String {
    let part = progress.fraction().map(|part| format!(" ({:.0} %)", (part * 100.0).floor()));
    let steps = progress.steps().map(|steps| format!("{steps}{}", part.unwrap_or_default()));
    let values = Some(words::values(progress)).filter(|values| !values.is_empty());
    let ago = Some(format!("{} ago", words::age(progress.at, now)));
    [steps, values, ago].into_iter().flatten().collect::<Vec<_>>().join(", ")
}

/// The policy, and of how many nodes it chose.
fn why(why: &Value) -> Option<String> {
    let (policy, nodes) = (why.get("policy")?.as_str()?, why.get("nodes")?.as_u64()?);
    let fact = why.pointer("/chosen/fact/thousandths").and_then(Value::as_f64);
    let fact = fact.map(|fact| format!(", its pressure was {}", fact / 1000.0)).unwrap_or_default();
    Some(format!("{policy}, of {} with room{fact}", words::count_u64(nodes, "node")))
}

fn happened(transition: &TaskTransition) -> String {
    let TaskTransition { at, from, to, cause, actor } = transition;
    let event = cause.get("event").and_then(Value::as_str).unwrap_or_default();
    let actor = match actor {
        Value::String(word) => word.clone(),
        Value::Object(named) => {
            let named =
                named.iter().map(|(kind, name)| format!("{kind} {}", name.as_str().unwrap_or_default()));
            named.collect::<Vec<_>>().join(", ")
        }
        _ => String::new(),
    };
    let used = usage::of_cause(cause).map(|used| format!("; {used}")).unwrap_or_default();
    let grace = grace(cause).unwrap_or_default();
    format!("  {}  {from} -> {to}  {event}, by {actor}{grace}{used}", words::instant(*at))
}

/// The grace in the cause of a stop, if it has one of its own, and what it was cut from.
fn grace(cause: &Value) -> Option<String> {
    let span = |cause: &Value, name| Span::from_micros(cause.get(name)?.as_u64()?.checked_mul(1_000)?).ok();
    let grace = span(cause, "graceMs").or_else(|| span(cause.get("stop")?, "graceMs"))?;
    let cut = span(cause, "cutFromMs").map(|from| format!(", cut from {from}")).unwrap_or_default();
    Some(format!("; a grace of {grace}{cut}"))
}

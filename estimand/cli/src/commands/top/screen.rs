//! The board of `top` as text: a screen of a terminal, or all of it for anything else.

use chrono::{DateTime, Utc};
use estimand_api::value::State;
use serde_json::Value as Json;

use super::board::{Board, Row, ShownValue};
use crate::arguments::top::Column;
use crate::output::Style;
use crate::output::table::{Cell, Table, Tone};
use crate::output::words;

/// Above the tables and below them, and between them.
const OTHER_LINES: usize = 3;
const KEYS: &str = "q quit  s sort  r reverse  arrows, PgUp, PgDn move";
/// The header of a table and one line of it.
const LEAST: usize = 2;

/// How many nodes and tasks are on a screen of so many lines. Tasks get at most half of it.
pub fn rooms(board: &Board, height: usize) -> (usize, usize) {
    let room = height.saturating_sub(OTHER_LINES).max(2 * LEAST);
    let tasks = if board.tasks.is_empty() { 0 } else { board.tasks.len() + 1 };
    let nodes = board.nodes.len() + 1;
    let for_tasks = tasks.min((room / 2).max(room.saturating_sub(nodes)));
    let for_nodes = room - for_tasks;
    (for_nodes.saturating_sub(1), for_tasks.saturating_sub(1))
}

/// One screen: at most `height` lines, each at most as wide as the terminal.
pub fn screen(board: &Board, server: &str, style: Style, height: usize, now: DateTime<Utc>) -> Vec<String> {
    let (for_nodes, for_tasks) = rooms(board, height);
    let mut lines = vec![fitted(&title(board, server, now), style)];
    lines.extend(lines_of(nodes(board, board.first, for_nodes), style));
    if for_tasks > 0 {
        lines.push(String::new());
        lines.extend(lines_of(tasks(board, for_tasks, now), style));
    }
    lines.truncate(height.saturating_sub(1));
    let order = if board.reversed { "reversed " } else { "" };
    lines.push(fitted(&format!("{KEYS}  ({order}by {})", board.sorted_by()), style));
    lines
}

/// All of it.
pub fn whole(board: &Board, style: Style, now: DateTime<Utc>) -> Vec<String> {
    let mut lines = lines_of(nodes(board, 0, usize::MAX), style);
    if !board.tasks.is_empty() {
        lines.push(String::new());
        lines.extend(lines_of(tasks(board, usize::MAX, now), style));
    }
    lines
}

fn title(board: &Board, server: &str, now: DateTime<Utc>) -> String {
    let lost = board.nodes.values().filter(|row| row.is_lost()).count();
    let running = board.tasks.iter().filter(|task| task.state == "RUNNING").count();
    let what = match &board.trouble {
        Some(trouble) => format!("no answer: {trouble}"),
        None => format!(
            "{}, {lost} lost; {}, {running} running",
            words::count(board.nodes.len(), "node"),
            words::count(board.tasks.len(), "task")
        ),
    };
    format!("{}  {server}  {what}", now.format("%H:%M:%S"))
}

/// The first column gives way where the terminal is narrow.
fn lines_of(rows: Vec<Vec<Cell>>, style: Style) -> Vec<String> {
    Table::of(rows, 0).render(style).lines().map(str::to_owned).collect()
}

fn fitted(text: &str, style: Style) -> String {
    let text = Cell::from(text).shown(false);
    text.chars().take(style.width.unwrap_or(usize::MAX)).collect()
}

fn nodes(board: &Board, first: usize, most: usize) -> Vec<Vec<Cell>> {
    let titles = board.columns.iter().map(|column| column.name.to_string().to_uppercase());
    let header =
        ["NODE".to_owned(), "STATE".to_owned()].into_iter().chain(titles).chain(["TASKS".to_owned()]);
    let mut lines = vec![header.map(Cell::from).collect::<Vec<_>>()];
    for (name, row) in board.rows().into_iter().skip(first).take(most) {
        let mut cells = vec![Cell::from(name.as_str()), state(row)];
        cells.extend(board.columns.iter().zip(&row.values).map(|(column, shown)| value(column, shown)));
        cells.push(Cell::from(row.tasks.map(|tasks| tasks.to_string()).unwrap_or_default()));
        lines.push(cells);
    }
    lines
}

fn state(row: &Row) -> Cell {
    match (row.is_lost(), row.cordoned, row.state) {
        (true, _, _) => Cell::toned("lost", Tone::Bad),
        (_, true, _) => Cell::toned("cordoned", Tone::Warning),
        (_, _, Some(state)) => Cell::from(state.as_str()),
        _ => Cell::from(""),
    }
}

fn value(column: &Column, shown: &Option<ShownValue>) -> Cell {
    let Some(ShownValue { value, state }) = shown else { return Cell::from("-") };
    let tone = match state {
        State::Fresh => Tone::Plain,
        State::Stale => Tone::Warning,
        State::Failed | State::NodeLost => Tone::Bad,
    };
    let field = column.field.as_ref().map_or("", |field| field.as_str());
    Cell::toned(&figure(field, value), tone)
}

/// A figure by the end of its field's name.
fn figure(field: &str, value: &Json) -> String {
    match value.as_f64() {
        Some(number) if field.ends_with("Fraction") => format!("{:.0}%", number * 100.0),
        Some(number) if field.ends_with("Bytes") => words::bytes(number.max(0.0) as u64),
        Some(number) if value.is_f64() => format!("{number:.2}"),
        _ => words::bare(value),
    }
}

fn tasks(board: &Board, most: usize, now: DateTime<Utc>) -> Vec<Vec<Cell>> {
    let header = ["TASK", "STATE", "NODE", "BY", "AGE"].map(Cell::from).into();
    let mut lines: Vec<Vec<Cell>> = vec![header];
    for task in board.tasks.iter().take(most) {
        let tone = if task.state == "LOST" { Tone::Bad } else { Tone::Plain };
        lines.push(vec![
            Cell::from(&task.id),
            Cell::toned(&words::task_state(task), tone),
            Cell::from(task.node.as_deref().unwrap_or_default()),
            Cell::from(&task.submitted_by),
            Cell::from(words::age(task.submitted_at, now)),
        ]);
    }
    lines
}

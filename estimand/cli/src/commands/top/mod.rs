//! `top`: nodes by chosen values, and tasks, while they change.
//!
//! Values come by their watch. The watch of tasks says when nodes and tasks are to be read again; without news they are
//! read now and then. Nothing here is spawned: all of it ends with the command.

use std::time::Duration;

use chrono::Utc;
use estimand_api::names::DataName;
use estimand_client::{Client, Error, Event, Options, Query, TaskEventQuery, TaskQuery};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::{Notify, mpsc};
use tokio::time::{MissedTickBehavior, interval, sleep, timeout};

use super::Session;
use crate::arguments::top::TopArgs;
use crate::output::Style;
use crate::output::failure::Failure;
use board::{Board, Rest};
use screen::rooms;
use terminal::{Key, Terminal};

mod board;
mod screen;
mod terminal;
#[cfg(test)]
mod tests;

/// Between two frames, at least: a slow line is not flooded.
const FRAME: Duration = Duration::from_millis(250);
/// A frame without news, for the clock.
const IDLE_FRAME: Duration = Duration::from_secs(1);
/// Nodes and tasks are read again after that without news, and at most once in the other.
const REST_EVERY: Duration = Duration::from_secs(10);
const REST_AT_MOST_EVERY: Duration = Duration::from_secs(1);
/// For one request.
const WITHIN: Duration = Duration::from_secs(5);
/// How many tasks are read.
const MAX_TASKS: u32 = 200;
const LIVE_STATES: &str = "RUNNING,PREPARING,ACCEPTED,STOPPING,PLACED,LOST,QUEUED";
/// News on their way to the board.
const NEWS: usize = 64;

enum News {
    Values(Event),
    Rest(Result<Rest, Error>),
}

pub async fn top(session: &mut Session, args: &TopArgs) -> Result<(), Failure> {
    let mut board = Board::new(args.values.clone());
    if let Some(title) = &args.sort {
        board.sort = board.key(title).map_err(Failure::Usage)?;
        board.reversed = false;
    }
    let options = Options { read_timeout: WITHIN, total_timeout: WITHIN, attempts: 1, ..Options::default() };
    let client = session.client_with(&options)?;
    let (values, _) = client.values(&Query { names: names(&board), ..Query::default() }).await?;
    values.iter().for_each(|value| board.show(value));
    match rest(&client).await {
        Ok(rest) => board.refresh(rest),
        Err(error) => board.trouble = Some(error.to_string()),
    }
    if session.out.json {
        return Ok(session.out.pretty(&board.as_json())?);
    }
    let Some(_) = session.out.style.width.filter(|_| !args.once) else {
        let lines = screen::whole(&board, session.out.style, Utc::now());
        return Ok(lines.iter().try_for_each(|line| session.out.verbatim(line))?);
    };
    Box::pin(live(session, &client, &mut board)).await
}

/// The names of the columns, each once.
fn names(board: &Board) -> Vec<DataName> {
    let mut names: Vec<DataName> = board.columns.iter().map(|column| column.name.clone()).collect();
    names.sort();
    names.dedup();
    names
}

/// Nodes and tasks. A service that does not serve a part of it is no failure: that part is not shown.
async fn rest(client: &Client) -> Result<Rest, Error> {
    let query = TaskQuery { states: LIVE_STATES.to_owned(), limit: Some(MAX_TASKS), ..TaskQuery::default() };
    let (nodes, capacity, tasks) = tokio::join!(client.nodes(), client.capacity(), client.tasks(&query));
    let mut tasks = served(tasks.map(|page| page.tasks))?;
    tasks.sort_by_key(|task| LIVE_STATES.find(&task.state));
    Ok(Rest { nodes: served(nodes)?, capacity: served(capacity)?, tasks })
}

fn served<T>(answer: Result<Vec<T>, Error>) -> Result<Vec<T>, Error> {
    match answer {
        Err(error) if matches!(error.status(), Some(401 | 403 | 404)) => Ok(Vec::new()),
        Err(Error::Unexpected { .. }) => Ok(Vec::new()),
        answer => answer,
    }
}

async fn live(session: &Session, client: &Client, board: &mut Board) -> Result<(), Failure> {
    let server = client.shown_address();
    let terminal = Terminal::enter()?;
    let (sender, mut news) = mpsc::channel(NEWS);
    let feeds = feeds(session.client.clone(), client.clone(), names(board), sender);
    tokio::pin!(feeds);
    let mut frames = interval(FRAME);
    frames.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let (mut interrupted, mut ended) = (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
    let (mut hung_up, mut resized) = (signal(SignalKind::hangup())?, signal(SignalKind::window_change())?);
    let (mut changed, mut frames_since) = (true, Duration::ZERO);
    loop {
        tokio::select! {
            refused = &mut feeds => return Err(refused.into()),
            keys = terminal.keys() => for key in keys? {
                if key == Key::Quit {
                    return Ok(());
                }
                press(board, key, Style::now().1);
                changed = true;
            },
            Some(news) = news.recv() => {
                match news {
                    News::Values(event) => board.take(event),
                    News::Rest(Ok(rest)) => board.refresh(rest),
                    News::Rest(Err(error)) => board.trouble = Some(error.to_string()),
                }
                changed = true;
            }
            _ = resized.recv() => changed = true,
            _ = interrupted.recv() => return Ok(()),
            _ = ended.recv() => return Ok(()),
            _ = hung_up.recv() => return Ok(()),
            _ = frames.tick() => {
                frames_since += FRAME;
                if changed || frames_since >= IDLE_FRAME {
                    let (style, height) = Style::now();
                    board.scroll(0, rooms(board, height).0);
                    terminal.draw(&screen::screen(board, &server, style, height, Utc::now()))?;
                    (changed, frames_since) = (false, Duration::ZERO);
                }
            }
        }
    }
}

fn press(board: &mut Board, key: Key, height: usize) {
    let (room, _) = rooms(board, height);
    let page = isize::try_from(room).unwrap_or(isize::MAX);
    match key {
        Key::Quit => {}
        Key::Sort => board.sort_by_next(),
        Key::Reverse => board.reversed = !board.reversed,
        Key::Lines(by) => board.scroll(by, room),
        Key::Pages(by) => board.scroll(by.saturating_mul(page), room),
        Key::First => board.first = 0,
        Key::Last => board.scroll(isize::MAX, room),
    }
}

/// Brings news until a service refuses the values.
async fn feeds(watching: Client, asking: Client, names: Vec<DataName>, news: mpsc::Sender<News>) -> Error {
    let poke = Notify::new();
    let values = async {
        let mut watch = watching.watch(names);
        loop {
            match watch.next().await {
                Ok(event) => drop(news.send(News::Values(event)).await),
                Err(error) => return error,
            }
        }
    };
    let tasks = async {
        loop {
            let mut watch = watching.watch_tasks(TaskEventQuery::default());
            while watch.next().await.is_ok() {
                poke.notify_one();
            }
            // There is no task service, or it does not keep what follows any more.
            sleep(REST_EVERY).await;
        }
    };
    let rest = async {
        loop {
            let _ = timeout(REST_EVERY, poke.notified()).await;
            drop(news.send(News::Rest(rest(&asking).await)).await);
            sleep(REST_AT_MOST_EVERY).await;
        }
    };
    tokio::select! {
        error = values => error,
        error = tasks => error,
        error = rest => error,
    }
}

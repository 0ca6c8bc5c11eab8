//! `logs`: the end of what instances wrote to standard error, and how their last runs ended.
//!
//! Following asks again and again, as there is nothing to watch: what a run writes is reported when it has
//! ended. A manager that is away meanwhile is waited for.

use std::collections::BTreeMap;
use std::time::Duration;

use chrono::{DateTime, Utc};
use estimand_api::names::NodeName;
use estimand_api::slot::{Instance, SlotActivity, Status};
use tokio::time::sleep;

use super::instances::{fetch, is_waited_for, note};
use super::{Session, absence, found};
use crate::arguments::nodes::LogsArgs;
use crate::output::failure::{Exit, Failure};
use crate::output::harmless::visible;
use crate::output::table::{Cell, Tone};
use crate::output::{Output, remark, words};

const EVERY: Duration = Duration::from_secs(1);

pub async fn logs(session: &mut Session, args: &LogsArgs) -> Result<(), Failure> {
    let instances = fetch(session, Some(&args.name), args.node.as_ref()).await?;
    match session.out.json {
        false => show(&mut session.out, &instances)?,
        true if args.follow => instances.iter().try_for_each(|instance| session.out.compact(instance))?,
        true => session.out.pretty(&instances)?,
    }
    if instances.is_empty()
        && !session.out.json
        && let Some(registered) = found(session.client.registration(&args.name).await)?
    {
        let why = absence::nowhere(session, &registered.registration, args.node.as_ref()).await;
        remark(&format!("`{}` has written nothing: {why}", args.name));
    }
    match args.follow {
        true => follow(session, args, Follower::from(instances)).await,
        false => Ok(()),
    }
}

fn show(out: &mut Output, instances: &[Instance]) -> Result<(), Failure> {
    let now = Utc::now();
    for (place, instance) in instances.iter().enumerate() {
        if instances.len() > 1 {
            if place > 0 {
                out.line("")?;
            }
            out.line(&heading(&instance.node_name))?;
        }
        for line in log(instance, now) {
            out.cell(&line)?;
        }
    }
    Ok(())
}

fn heading(node: &NodeName) -> String {
    format!("==> {node} <==")
}

/// All there is to say about one instance.
fn log(instance: &Instance, now: DateTime<Utc>) -> Vec<Cell> {
    let status = &instance.status;
    let mut lines: Vec<Cell> = words::lines(&status.stderr_tail).map(Cell::from).collect();
    if lines.is_empty() {
        lines.push(Cell::from("(nothing on standard error)"));
    }
    lines.push(Cell::from(last_run(status, now)));
    // A note that repeats the error says it better.
    let note = note(instance);
    let error = status.last_error.as_ref();
    let said =
        |error: &&String| note.as_ref().is_none_or(|note| !note.shown(false).contains(&*visible(error)));
    let error = error.filter(said);
    lines.extend(error.map(|error| Cell::verdict("", &format!("last error: {error}"), Tone::Warning)));
    // The line about its last run says that already.
    lines.extend(note.filter(|_| !is_waited_for(status) || status.note.is_some()));
    if !status.unenforced.is_empty() {
        let text = format!("not enforced on this machine: {}", status.unenforced.join(", "));
        lines.push(Cell::toned(&text, Tone::Warning));
    }
    lines
}

/// How its last run went, or goes.
fn last_run(status: &Status, now: DateTime<Utc>) -> String {
    let ago = |at: &DateTime<Utc>| format!("{} ago", words::age(*at, now));
    let took = || status.last_duration_ms.map(|ms| format!(", took {}", words::took(ms))).unwrap_or_default();
    match (&status.last_start, &status.last_exit) {
        (None, _) if status.doing == SlotActivity::Running => "its first run goes on".to_owned(),
        (None, _) => "it has not run yet".to_owned(),
        (Some(start), None) if started_nothing(status) => {
            format!("the last attempt, {}, started no process", ago(start))
        }
        (Some(start), None) if status.doing == SlotActivity::Running => match &status.last_good {
            None => format!("it began {} and has not answered yet", ago(start)),
            Some(value) => format!("it began {} and goes on; its last value came {}", ago(start), ago(value)),
        },
        (Some(start), None) => format!("last run: began {}{}", ago(start), took()),
        (Some(start), Some(exit)) => format!("last run: {exit}, began {}{}", ago(start), took()),
    }
}

/// Nothing has ended, and nothing goes on either: a stream goes on although a line of it was wrong.
fn started_nothing(status: &Status) -> bool {
    let between = matches!(
        status.doing,
        SlotActivity::Refused | SlotActivity::BackingOff | SlotActivity::Idle | SlotActivity::Waiting
    );
    between && status.last_error.is_some()
}

async fn follow(session: &mut Session, args: &LogsArgs, mut followed: Follower) -> Result<(), Failure> {
    let interrupted = tokio::signal::ctrl_c();
    tokio::pin!(interrupted);
    let mut away = false;
    session.out.flush()?;
    loop {
        let instances = tokio::select! {
            biased;
            asked = &mut interrupted => return Ok(asked?),
            instances = async {
                sleep(EVERY).await;
                session.client.instances(Some(&args.name), args.node.as_ref()).await
            } => instances,
        };
        let instances = match instances.map_err(Failure::from) {
            Ok(instances) => instances,
            Err(failure) if failure.exit() == Exit::Unreachable => {
                if !away {
                    remark(&format!("{failure}; waiting for it"));
                }
                away = true;
                continue;
            }
            Err(failure) => return Err(failure),
        };
        away = false;
        for instance in &instances {
            let news = followed.news(instance);
            match session.out.json {
                _ if news.is_empty() => {}
                true => session.out.compact(instance)?,
                false => {
                    if let Some(heading) = followed.heading(&instance.node_name) {
                        session.out.line(&heading)?;
                    }
                    news.iter().try_for_each(|line| session.out.cell(line))?;
                }
            }
        }
        session.out.flush()?;
    }
}

/// The output shown so far of the instances that are followed.
#[derive(Default)]
struct Follower {
    seen: BTreeMap<NodeName, ShownLog>,
    /// The node that the last line was about.
    last: Option<NodeName>,
}

struct ShownLog {
    start: Option<DateTime<Utc>>,
    tail: String,
    error: Option<String>,
}

impl From<Vec<Instance>> for Follower {
    fn from(instances: Vec<Instance>) -> Self {
        let mut followed =
            Follower { last: instances.last().map(|last| last.node_name.clone()), ..Self::default() };
        for instance in &instances {
            followed.news(instance);
        }
        followed
    }
}

impl Follower {
    /// The lines of an instance that were not shown before.
    fn news(&mut self, instance: &Instance) -> Vec<Cell> {
        let status = &instance.status;
        let seen = ShownLog {
            start: status.last_start,
            tail: status.stderr_tail.clone(),
            error: status.last_error.clone(),
        };
        let before = self.seen.insert(instance.node_name.clone(), seen);
        let text = match &before {
            Some(before) if before.tail == status.stderr_tail => "",
            // The same process goes on.
            Some(before) if before.start == status.last_start => added(&before.tail, &status.stderr_tail),
            _ => &status.stderr_tail,
        };
        let mut lines: Vec<Cell> = words::lines(text).map(Cell::from).collect();
        let known = before.and_then(|before| before.error);
        let error = status.last_error.as_ref().filter(|error| known.as_ref() != Some(*error));
        lines.extend(error.map(|error| Cell::verdict("", &format!("error: {error}"), Tone::Bad)));
        lines
    }

    /// The heading before lines about a node, if the lines before were about another one.
    fn heading(&mut self, node: &NodeName) -> Option<String> {
        let other = self.last.as_ref() != Some(node);
        self.last = Some(node.clone());
        (other && self.seen.len() > 1).then(|| heading(node))
    }
}

/// The end of the later text that was appended to the earlier one; only the end of either is kept.
fn added<'t>(before: &str, after: &'t str) -> &'t str {
    let starts = before.char_indices().map(|(start, _)| start);
    let common = starts.map(|start| &before[start..]).find(|end| after.starts_with(end));
    &after[common.map_or(0, str::len)..]
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use chrono::TimeDelta;

    use super::super::instances::samples::{self, NOW};
    use super::*;

    fn text(lines: &[Cell]) -> String {
        lines.iter().map(|line| line.shown(false) + "\n").collect()
    }

    #[test]
    fn a_log_is_what_was_written_and_how_it_ended() {
        let mut all: String = samples::instances()
            .iter()
            .map(|instance| format!("{}\n{}\n", heading(&instance.node_name), text(&log(instance, *NOW))))
            .collect();
        let mut hostile = samples::instance("a", "n");
        (hostile.status.failing, hostile.status.last_error) = (1, Some("\u{1b}[2J".to_owned()));
        assert_eq!(log(&hostile, *NOW).len(), 3);
        let mut stream = samples::instance("events", "node-1");
        stream.status.doing = SlotActivity::Running;
        stream.status.last_exit = None;
        stream.status.last_duration_ms = None;
        stream.status.unenforced = vec!["limits.memory".to_owned()];
        all.push_str(&text(&log(&stream, *NOW)));
        insta::assert_snapshot!(all);
    }

    #[test]
    fn an_instance_that_was_not_started_does_not_go_on() {
        let mut refused = samples::instance("a", "n");
        (refused.status.doing, refused.status.last_exit) = (SlotActivity::Refused, None);
        refused.status.last_error = Some("`a` is not run".to_owned());
        let shown = text(&log(&refused, *NOW));
        assert!(shown.contains("the last attempt, 2.1s ago, started no process\n"), "{shown}");
        refused.status.doing = SlotActivity::Running;
        assert!(
            text(&log(&refused, *NOW))
                .contains("it began 2.1s ago and goes on; its last value came 2.0s ago\n")
        );
        refused.status.last_good = None;
        assert!(text(&log(&refused, *NOW)).contains("it began 2.1s ago and has not answered yet\n"));
    }

    #[test]
    fn an_appended_text_is_found_also_when_the_beginning_is_gone() {
        assert_eq!(added("a\nb\n", "a\nb\nc\n"), "c\n");
        assert_eq!(added("a\nb\n", "b\nc\nd\n"), "c\nd\n");
        assert_eq!(added("a\n", "x\ny\n"), "x\ny\n");
        assert_eq!(added("", "x\n"), "x\n");
        assert_eq!(added("ü\n", "ü\nö\n"), "ö\n");
    }

    #[test]
    fn following_shows_what_is_new_and_on_which_node() {
        let mut instance = samples::instance("a", "n1");
        instance.status.stderr_tail = "one\n".to_owned();
        let other = samples::instance("a", "n2");
        let mut followed = Follower::from(vec![instance.clone(), other.clone()]);
        assert_eq!(text(&followed.news(&instance)), "");

        // The process goes on, and then there is another run that writes the same.
        instance.status.stderr_tail = "one\ntwo\n".to_owned();
        assert_eq!(text(&followed.news(&instance)), "two\n");
        assert_eq!(followed.heading(&instance.node_name).as_deref(), Some("==> n1 <=="));
        instance.status.last_start = Some(*NOW + TimeDelta::seconds(5));
        assert_eq!(text(&followed.news(&instance)), "");
        instance.status.last_start = Some(*NOW + TimeDelta::seconds(10));
        instance.status.stderr_tail = "two\nthree\n".to_owned();
        assert_eq!(text(&followed.news(&instance)), "two\nthree\n");
        assert_eq!(followed.heading(&instance.node_name), None);
        instance.status.last_error = Some("exit 1".to_owned());
        assert_eq!(text(&followed.news(&instance)), "error: exit 1\n");
        assert_eq!(text(&followed.news(&instance)), "");
        assert_eq!(followed.heading(&other.node_name).as_deref(), Some("==> n2 <=="));
    }
}

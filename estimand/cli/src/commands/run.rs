//! `run`: one run of something registered, by hand, with everything that comes of it.

use std::time::Duration;

use estimand_api::command::Command;
use estimand_api::names::{DataName, NodeName};
use estimand_api::node::Node;
use estimand_api::slot::{MAX_REPORT_OUTPUT_BYTES, RunReport};
use estimand_client::{Client, Options};

use super::Session;
use crate::arguments::nodes::RunArgs;
use crate::output::failure::{Exit, Failure};
use crate::output::table::{Cell, Tone};
use crate::output::words;

/// A little longer than the manager waits for the agent.
const WITHIN: Duration = Duration::from_secs(75);

pub async fn run(session: &mut Session, args: &RunArgs) -> Result<(), Failure> {
    let node = named_or_only(session, args.node.as_ref(), "--node").await?;
    let report = patient(session)?.run_by_hand(&args.name, &node).await?;
    show(session, &args.name, &node, &report)?;
    match report.error {
        None => Ok(()),
        Some(_) => Err(Failure::Said(Exit::Failed)),
    }
}

/// A client that waits as long as a run by hand may take.
pub fn patient(session: &Session) -> Result<Client, Failure> {
    let options = Options { read_timeout: WITHIN, total_timeout: WITHIN, ..Options::default() };
    Ok(session.client_with(&options)?)
}

/// The node that is named, or the one that there is.
pub async fn named_or_only(
    session: &Session,
    named: Option<&NodeName>,
    option: &str,
) -> Result<NodeName, Failure> {
    match named {
        Some(node) => Ok(node.clone()),
        None => only_node(session.client.nodes().await?, option),
    }
}

/// Prints everything about a run.
pub fn show(
    session: &mut Session,
    name: &DataName,
    node: &NodeName,
    report: &RunReport,
) -> Result<(), Failure> {
    let out = &mut session.out;
    if out.json {
        return Ok(out.pretty(report)?);
    }
    out.line(&format!("{name} on {node}"))?;
    out.facts(&facts(report))?;
    for line in body(report) {
        out.cell(&line)?;
    }
    Ok(())
}

/// The node that is meant if none is named.
fn only_node(nodes: Vec<Node>, option: &str) -> Result<NodeName, Failure> {
    let names: Vec<NodeName> = nodes.into_iter().map(|node| node.node_name).collect();
    match names.as_slice() {
        [] => Err(Failure::Missing("no node is known that could run it".to_owned())),
        [only] => Ok(only.clone()),
        several => {
            let several: Vec<&str> = several.iter().map(NodeName::as_str).collect();
            let known = words::some_of(&several, 10);
            Err(Failure::Usage(format!("there are several nodes: {known}"))
                .hint(format!("say which one with {option}")))
        }
    }
}

fn facts(report: &RunReport) -> Vec<(String, Cell)> {
    let exit = match (&report.exit, &report.error) {
        (None, Some(_)) => Some(Cell::toned("none: it was not run, or not to its end", Tone::Bad)),
        // Computed by the agent, without a process.
        (None, None) => None,
        (Some(exit), None) => Some(Cell::from(exit)),
        (Some(exit), Some(_)) => Some(Cell::toned(exit, Tone::Bad)),
    };
    let mut facts = vec![("command", Cell::from(Command::Argv(report.argv.clone()).to_string()))];
    facts.extend(exit.map(|exit| ("exit", exit)));
    let memory = match report.max_memory {
        0 => "little: it had ended before it was looked at".to_owned(),
        bytes => words::bytes(bytes),
    };
    // The usage of a run is known when it has ended.
    if report.exit.is_some() {
        facts.extend([
            ("took", Cell::from(words::took(report.duration_ms))),
            ("processor", Cell::from(words::took(report.cpu_ms))),
            ("memory", Cell::from(memory)),
        ]);
    }
    facts.into_iter().map(|(label, what)| (label.to_owned(), what)).collect()
}

/// Its output, and the values that it becomes.
fn body(report: &RunReport) -> Vec<Cell> {
    let mut lines = output(report);
    lines.push(Cell::from(""));
    if let Some(note) = &report.note {
        lines.push(Cell::toned(note, Tone::Warning));
    }
    match (&report.error, report.values.as_slice()) {
        (Some(error), _) => lines.push(Cell::verdict("", &format!("no value: {error}"), Tone::Bad)),
        (None, []) => lines.push(Cell::from("no value: it has nothing to say now, which is no failure")),
        (None, values) => lines.extend(values.iter().map(|value| {
            Cell::from(format!("the value for {} would be {}", value.node_name, value.data_value))
        })),
    }
    lines
}

/// The text that it wrote. An expression is computed without a process, so there is nothing that could write.
fn output(report: &RunReport) -> Vec<Cell> {
    if report.exit.is_none() && report.stdout.is_empty() && report.stderr.is_empty() {
        return Vec::new();
    }
    let size = match report.stdout_bytes > MAX_REPORT_OUTPUT_BYTES as u64 {
        true => format!("the first {MAX_REPORT_OUTPUT_BYTES} of {} bytes", report.stdout_bytes),
        false => words::count_u64(report.stdout_bytes, "byte"),
    };
    let mut lines = written("standard output", &size, &report.stdout);
    let size = words::count(report.stderr.len(), "byte");
    lines.extend(written("standard error", &size, &report.stderr));
    lines
}

fn written(what: &str, size: &str, text: &str) -> Vec<Cell> {
    if text.is_empty() {
        return vec![Cell::from(format!("nothing on {what}"))];
    }
    let mut lines = vec![Cell::from(format!("{what}, {size}:"))];
    lines.extend(words::lines(text).map(|line| Cell::from(format!("  {line}"))));
    lines
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use estimand_api::slot::RunValue;
    use serde_json::json;

    use super::*;
    use crate::output::table::line;

    fn shown(report: &RunReport) -> String {
        let facts = facts(report);
        let facts =
            facts.iter().map(|(label, what)| line(&[Cell::from(label), what.clone()], &[10, 80], false));
        facts.chain(body(report).iter().map(|line| line.shown(false))).collect::<Vec<_>>().join("\n")
    }

    fn report() -> RunReport {
        RunReport {
            argv: ["sh", "-c", "echo 0.42"].map(str::to_owned).into(),
            exit: Some("exit 0".to_owned()),
            duration_ms: 3.25,
            cpu_ms: 1.5,
            max_memory: 3_500_000,
            stdout: "0.42\n".to_owned(),
            stdout_bytes: 5,
            ..RunReport::default()
        }
    }

    #[test]
    fn a_run_is_shown_with_what_it_means() {
        let value = RunValue { node_name: NodeName::parse("node-1").unwrap(), data_value: json!(0.42) };
        insta::assert_snapshot!("a_good_run", shown(&RunReport { values: vec![value], ..report() }));
        let silent = RunReport { stdout: String::new(), stdout_bytes: 0, ..report() };
        assert!(shown(&silent).ends_with("no value: it has nothing to say now, which is no failure"));
        let refused =
            RunReport { exit: None, stdout: String::new(), error: Some("no".to_owned()), ..report() };
        assert!(!shown(&refused).contains("memory"), "{}", shown(&refused));
        assert!(!shown(&refused).contains("nothing on"), "{}", shown(&refused));
        let failed = RunReport {
            exit: Some("exit 3".to_owned()),
            stdout: "half a val".to_owned(),
            stdout_bytes: 2_000_000,
            stderr: "Traceback:\n\tline 1\u{7}\n".to_owned(),
            error: Some("exit 3: Traceback:".to_owned()),
            ..report()
        };
        insta::assert_snapshot!("a_failed_run", shown(&failed));
    }

    fn node(name: &str) -> Node {
        let at = "2026-01-31T12:00:00Z";
        let node = json!({ "nodeName": name, "state": "ready", "cordoned": false, "labels": {}, "facts": {},
            "lastHeartbeat": at, "knownSince": at, "instances": 0, "delivery": {} });
        serde_json::from_value(node).unwrap()
    }

    #[test]
    fn a_node_need_not_be_named_if_there_is_one() {
        assert_eq!(only_node(Vec::new(), "--node").unwrap_err().exit(), Exit::Missing);
        assert_eq!(only_node(vec![node("a")], "--node").unwrap().as_str(), "a");
        let several = only_node(vec![node("a"), node("b")], "--node").unwrap_err();
        assert_eq!(
            (several.exit(), several.to_string()),
            (Exit::Usage, "there are several nodes: a, b".to_owned())
        );
    }
}

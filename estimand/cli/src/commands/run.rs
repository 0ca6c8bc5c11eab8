//! `run`: one run of something registered, by hand, with everything that comes of it.

use std::time::Duration;

use estimand_api::command::Command;
use estimand_api::names::NodeName;
use estimand_api::node::Node;
use estimand_api::slot::{MAX_REPORT_OUTPUT_BYTES, RunReport};
use estimand_client::Options;

use super::Session;
use crate::arguments::nodes::RunArgs;
use crate::output::failure::{Exit, Failure};
use crate::output::table::{Cell, Tone};
use crate::output::words;

/// A little longer than the manager waits for the agent.
const WITHIN: Duration = Duration::from_secs(75);

pub async fn run(session: &mut Session, args: &RunArgs) -> Result<(), Failure> {
    let node = match &args.node {
        Some(node) => node.clone(),
        None => only_node(session.client.nodes().await?)?,
    };
    let options = Options { read_timeout: WITHIN, total_timeout: WITHIN, ..Options::default() };
    let report = session.client_with(&options)?.run_by_hand(&args.name, &node).await?;
    let out = &mut session.out;
    if out.json {
        out.pretty(&report)?;
    } else {
        out.line(&format!("{} on {node}", args.name))?;
        out.facts(&facts(&report))?;
        for line in body(&report) {
            out.cell(&line)?;
        }
    }
    match report.error {
        None => Ok(()),
        Some(_) => Err(Failure::Said(Exit::Failed)),
    }
}

/// The node that is meant if none is named.
fn only_node(nodes: Vec<Node>) -> Result<NodeName, Failure> {
    let names: Vec<NodeName> = nodes.into_iter().map(|node| node.node_name).collect();
    match names.as_slice() {
        [] => Err(Failure::Missing("no node is known that could run it".to_owned())),
        [only] => Ok(only.clone()),
        several => {
            let several: Vec<&str> = several.iter().map(NodeName::as_str).collect();
            let known = words::some_of(&several, 10);
            Err(Failure::Usage(format!("there are several nodes: {known}")).hint("say which one with --node"))
        }
    }
}

fn facts(report: &RunReport) -> Vec<(String, Cell)> {
    let exit = match (&report.exit, &report.error) {
        (None, _) => Cell::toned("none: it was not run, or not to its end", Tone::Bad),
        (Some(exit), None) => Cell::from(exit),
        (Some(exit), Some(_)) => Cell::toned(exit, Tone::Bad),
    };
    let mut facts =
        vec![("command", Cell::from(Command::Argv(report.argv.clone()).to_string())), ("exit", exit)];
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
    let size = match report.stdout_bytes > MAX_REPORT_OUTPUT_BYTES as u64 {
        true => format!("the first {MAX_REPORT_OUTPUT_BYTES} of {} bytes", report.stdout_bytes),
        false => words::count_u64(report.stdout_bytes, "byte"),
    };
    let mut lines = written("standard output", &size, &report.stdout);
    let size = words::count(report.stderr.len(), "byte");
    lines.extend(written("standard error", &size, &report.stderr));
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
        assert_eq!(only_node(Vec::new()).unwrap_err().exit(), Exit::Missing);
        assert_eq!(only_node(vec![node("a")]).unwrap().as_str(), "a");
        let several = only_node(vec![node("a"), node("b")]).unwrap_err();
        assert_eq!(
            (several.exit(), several.to_string()),
            (Exit::Usage, "there are several nodes: a, b".to_owned())
        );
    }
}

//! Tables for a terminal.

use std::fmt::Write as _;

use crate::columns::columns;
use crate::run::Run;

/// The runs side by side, then each with its nodes.
pub fn text(runs: &[Run]) -> String {
    let head = ["RUN", "POLICY", "SECONDS", "IDEAL", "OVER IDEAL", "MOVED", "FETCHED", "TWICE"];
    let mut rows = vec![head.map(str::to_owned)];
    for run in runs {
        rows.push([
            run.title.clone(),
            run.policy.to_string(),
            format!("{:.1}", run.makespan),
            number(run.ideal, 1),
            number(run.over_ideal(), 3),
            run.moved.to_string(),
            run.fetched.to_string(),
            run.duplicates.to_string(),
        ]);
    }
    let mut out = columns(&rows, &[2, 3, 4, 5, 6, 7]);
    for run in runs {
        // Writing to a string does not fail.
        let _ = one(run, &mut out);
    }
    out
}

fn one(run: &Run, out: &mut String) -> std::fmt::Result {
    writeln!(
        out,
        "\n{} ({}, {} images, facts of revision {})",
        run.title, run.policy, run.items, run.revision
    )?;
    let mut rows =
        vec![["NODE", "CAPABILITY", "HAD", "PLAN", "DID", "SECONDS", "IMAGES/S"].map(str::to_owned)];
    for node in &run.nodes {
        rows.push([
            node.name.clone(),
            format!("{:.3}", node.capability),
            node.held.to_string(),
            node.target.to_string(),
            node.did.to_string(),
            format!("{:.1}", node.seconds),
            number(node.fps, 2),
        ]);
    }
    out.push_str(&columns(&rows, &[1, 2, 3, 4, 5, 6]));
    for event in &run.events {
        let (what, why) = (event.kind.as_str(), if event.why.is_empty() { "" } else { ": " });
        writeln!(out, "at {:.1} s {} {what}{why}{}", event.at, event.node, event.why)?;
    }
    run.notes.iter().try_for_each(|note| writeln!(out, "note: {note}"))
}

fn number(value: Option<f64>, digits: usize) -> String {
    value.map_or("-".to_owned(), |value| format!("{value:.digits$}"))
}

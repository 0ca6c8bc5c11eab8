//! The data service's own figures at `/metrics`, and its values as gauges.

use std::fmt::Write as _;
use std::time::Duration;

use estimand_api::pointer::Pointer;
use estimand_runtime::metrics::{Counter, Exposition, Kind};

use crate::core::log::Log;
use crate::core::snapshot::Snapshot;
use crate::queue::Submit;

/// The writer's figures.
#[derive(Debug, Default)]
pub struct Figures {
    pub commits: Counter,
    pub changes: Counter,
    pub commit_micros: Counter,
    /// Groups that the database refused.
    pub refused: Counter,
    /// Commits during which the connection broke.
    pub broken: Counter,
}

impl Figures {
    pub fn commit(&self, took: Duration, changes: usize) {
        self.commits.add(1);
        self.changes.add(changes as u64);
        self.commit_micros.add(took.as_micros() as u64);
    }

    /// Appends everything in Prometheus's text form.
    pub fn render(&self, out: &mut String, snapshot: Option<&Snapshot>, log: Option<&Log>, submit: &Submit) {
        let mut exposition = Exposition::new(out);
        let mut figure = |name, kind, help, value| exposition.single(name, kind, help, value);
        figure(
            "estimand_commits_total",
            Kind::Counter,
            "Groups of writes stored.",
            self.commits.get() as f64,
        );
        figure("estimand_changes_total", Kind::Counter, "Changes stored.", self.changes.get() as f64);
        let seconds = self.commit_micros.get() as f64 / 1e6;
        figure(
            "estimand_commit_seconds_total",
            Kind::Counter,
            "Time spent storing groups of writes.",
            seconds,
        );
        figure(
            "estimand_commits_refused_total",
            Kind::Counter,
            "Groups that the database refused.",
            self.refused.get() as f64,
        );
        figure(
            "estimand_commits_broken_total",
            Kind::Counter,
            "Commits during which the connection broke.",
            self.broken.get() as f64,
        );
        figure(
            "estimand_write_queue_bytes",
            Kind::Gauge,
            "Requests that wait to be stored.",
            submit.waiting_bytes() as f64,
        );
        figure("estimand_watchers", Kind::Gauge, "Open watches.", log.map_or(0, Log::watchers) as f64);
        let Some(snapshot) = snapshot else { return };
        figure("estimand_values", Kind::Gauge, "Values known.", snapshot.values as f64);
        figure(
            "estimand_revision",
            Kind::Gauge,
            "The revision of the last change.",
            snapshot.revision as f64,
        );
        render_values(out, snapshot);
    }
}

/// Every value that is a number, as a gauge; also under the names that are bound, so that the gauge of a
/// stable name goes on over swaps.
fn render_values(out: &mut String, snapshot: &Snapshot) {
    out.push_str("# HELP estimand_value A value that is a number.\n# TYPE estimand_value gauge\n");
    let bindings = snapshot.bindings();
    for name in snapshot.own_names().into_iter().chain(bindings.keys()) {
        for shown in snapshot.table(name.as_str()).into_iter().flat_map(|table| table.all()) {
            let text = shown.text();
            // Names have no character that would need an escape in a label.
            if text.as_bytes().first().is_some_and(|b| b.is_ascii_digit() || *b == b'-') {
                let (node, state) = (&shown.facts().node, shown.facts().marks.state());
                let _ = writeln!(
                    out,
                    "estimand_value{{data_name=\"{name}\",node=\"{node}\",state=\"{state}\"}} {text}"
                );
            }
        }
    }
    out.push_str("# HELP estimand_binding Which name serves which one's values, or which part of each.\n");
    out.push_str("# TYPE estimand_binding gauge\n");
    for (name, bound) in bindings {
        let to = &bound.served.to;
        let field = bound.served.field.as_ref().map_or("", Pointer::as_str);
        let field = field.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
        let _ = writeln!(out, "estimand_binding{{data_name=\"{name}\",to=\"{to}\",field=\"{field}\"}} 1");
    }
}

//! The data service's own figures at `/metrics`, and its values.

pub mod values;

use std::time::{Duration, Instant};

use estimand_runtime::metrics::{Counter, Exposition, Kind};

use crate::core::backlog::Backlog;
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
    /// Writes that were older than what is stored.
    pub superseded: Counter,
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
            "estimand_writes_superseded_total",
            Kind::Counter,
            "Writes that were older than what is stored.",
            self.superseded.get() as f64,
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
        values::write_bindings(out, snapshot);
    }
}

/// Appends how far `t_data` is behind.
pub fn write_backlog(out: &mut String, backlog: &Backlog) {
    let mut exposition = Exposition::new(out);
    let mut figure = |name, help, value| exposition.single(name, Kind::Gauge, help, value);
    let help = "Changes of values that are durable in t_journal and not in t_data yet.";
    figure("estimand_journal_changes", help, backlog.changes() as f64);
    figure("estimand_journal_bytes", "The bytes of those changes.", backlog.bytes() as f64);
    let age = backlog.age(Instant::now()).as_secs_f64();
    figure("estimand_journal_age_seconds", "The age of the oldest of those changes.", age);
}

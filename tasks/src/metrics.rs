//! The figures of the task service on `/metrics`.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use estimand_runtime::metrics::{Counter, Exposition, Gauge, Kind};

use crate::bells::Bells;
use crate::change::Change;
use crate::core::state::State;
use crate::feed::Feed;
use crate::table::TaskTable;
use crate::task::Edit;
use crate::tunnels::Tunnels;

#[derive(Debug, Default)]
pub struct Figures {
    lines: Counter,
    placed: Counter,
    /// How often a request that waits was woken.
    pub wakes: Counter,
    /// By the word for the ending.
    ended: Mutex<BTreeMap<&'static str, u64>>,
}

impl Figures {
    /// Counts a change that is stored.
    pub fn count(&self, change: &Change) {
        for Edit { after, transitions, lines, .. } in &change.edits {
            self.lines.add(lines.len() as u64);
            for transition in transitions {
                if transition.to == State::Placed {
                    self.placed.increment();
                }
                if transition.to.is_final() {
                    let word = after.progress.ending.as_ref().map_or("cancelled", |ending| ending.word());
                    let mut ended = self.ended.lock().unwrap_or_else(PoisonError::into_inner);
                    *ended.entry(word).or_default() += 1;
                }
            }
        }
    }

    pub fn write(&self, out: &mut Exposition<'_>, table: &TaskTable, feed: &Feed, bells: &Bells) {
        let mut by_state: BTreeMap<State, u64> = State::ALL.into_iter().map(|state| (state, 0)).collect();
        table.all().for_each(|task| *by_state.entry(task.state()).or_default() += 1);
        let name = "estimand_tasks";
        out.family(name, Kind::Gauge, "Tasks that are kept, by state.");
        for (state, count) in by_state {
            out.sample(name, &[("state", state.as_str())], count as f64);
        }
        let name = "estimand_tasks_ended_total";
        out.family(name, Kind::Counter, "Tasks that are over, by how their last attempt ended.");
        for (word, count) in &*self.ended.lock().unwrap_or_else(PoisonError::into_inner) {
            out.sample(name, &[("ending", word)], *count as f64);
        }
        let placed = self.placed.get() as f64;
        out.single("estimand_tasks_placed_total", Kind::Counter, "Placements of tasks.", placed);
        let lines = self.lines.get() as f64;
        out.single("estimand_task_log_lines_total", Kind::Counter, "Lines of logs that were stored.", lines);
        let (name, help) =
            ("estimand_task_events_revision", "The newest revision of what happened to tasks.");
        out.single(name, Kind::Gauge, help, feed.newest() as f64);
        let (name, help) = ("estimand_task_watchers", "Connections that watch tasks.");
        out.single(name, Kind::Gauge, help, feed.watching() as f64);
        let help = "Requests that follow one task: its log, its end or its events.";
        out.single("estimand_task_followers", Kind::Gauge, help, bells.followers() as f64);
        let help = "How often a change woke a request that waited for one.";
        out.single("estimand_task_wakes_total", Kind::Counter, help, self.wakes.get() as f64);
    }
}

/// Writes how many connections to tasks there are and were.
pub fn write_tunnels(out: &mut Exposition<'_>, tunnels: &Tunnels) {
    let (name, help) =
        ("estimand_task_tunnels", "Connections to ports of tasks, with those that are waited for.");
    out.single(name, Kind::Gauge, help, tunnels.count() as f64);
    let name = "estimand_task_tunnels_total";
    out.family(name, Kind::Counter, "Connections to ports of tasks that were asked for, by what came of it.");
    for (outcome, count) in [("opened", &tunnels.opened), ("failed", &tunnels.failed)] {
        out.sample(name, &[("outcome", outcome)], count.get() as f64);
    }
}

/// How the publisher does.
#[derive(Debug, Default)]
pub struct PublisherFigures {
    pub published: Counter,
    pub lost: Counter,
    /// The revision up to which the broker has confirmed.
    pub confirmed: Gauge,
}

impl PublisherFigures {
    pub fn write(&self, out: &mut Exposition<'_>, newest: u64) {
        let (name, help) =
            ("estimand_task_events_published_total", "Events of tasks that RabbitMQ has confirmed.");
        out.single(name, Kind::Counter, help, self.published.get() as f64);
        let (name, help) =
            ("estimand_task_events_unpublished", "Events of tasks that RabbitMQ has not confirmed yet.");
        let confirmed = u64::try_from(self.confirmed.get()).unwrap_or(0);
        out.single(name, Kind::Gauge, help, newest.saturating_sub(confirmed) as f64);
        let help = "Events of tasks that RabbitMQ never got, because it was away for so long that they are not kept any more.";
        out.single("estimand_task_events_publishing_lost_total", Kind::Counter, help, self.lost.get() as f64);
    }
}

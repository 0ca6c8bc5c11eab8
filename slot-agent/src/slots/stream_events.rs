//! The news of streams and formulas for their slots while they go on.

use std::sync::Arc;
use std::time::Duration;

use estimand_api::names::{DataName, NodeName};
use estimand_api::slot::SlotActivity;
use estimand_api::write::Order;

use super::exec::{Outcome, RunResult};
use super::version::Shared;
use super::writes::{self, Origin};
use super::{Context, Slots};
use crate::timetable::Key;

/// A message of a stream to its slot.
pub struct StreamEvent {
    pub name: DataName,
    pub key: Key,
    pub what: StreamUpdate,
}

pub enum StreamUpdate {
    Started,
    /// A line and what became of it.
    Line(RunResult),
    /// It has written to standard error: the end of that, and what there is to say of it.
    Wrote {
        stderr: String,
        note: Option<String>,
    },
    /// Its process ended, or could not be started, and is started again after the pause.
    Ended {
        /// When it was started, in microseconds since 1970.
        began: i64,
        outcome: Outcome,
        stderr: String,
        exit: Option<String>,
        pause: Duration,
    },
}

impl Slots {
    pub(super) fn stream_said(&mut self, StreamEvent { name, key, what }: StreamEvent) {
        let now = self.context.clock.now_micros();
        let Some(slot) = self.slots.get_mut(&name) else { return };
        let on_trial = slot.trial.as_ref().is_some_and(|version| version.key == key);
        let serves = slot.serving.is_some();
        let version = slot.versions().find(|version| version.key == key);
        let Some((shared, streams)) = version.map(|v| (Arc::clone(&v.shared), v.is_stream())) else {
            return;
        };
        // While another version serves, the status is about that one.
        let tells = !(on_trial && serves);
        let nodes: Vec<NodeName> = slot.nodes.iter().cloned().collect();
        let (mut news, mut proved) = (false, false);
        match what {
            StreamUpdate::Started | StreamUpdate::Wrote { .. } if !tells => {}
            StreamUpdate::Started => slot.started(streams.then_some(now)),
            StreamUpdate::Wrote { stderr, note } => {
                slot.status.stderr_tail = stderr;
                slot.status.note.clone_from(&note);
                slot.stream_note = note;
            }
            StreamUpdate::Line(ended) => {
                let failed = ended.outcome.reason().is_some();
                news = slot.status.failing > 0 || slot.status.runs == 0 || failed;
                proved = slot.record(key, &ended);
                // A formula tells of the very nodes that it failed for.
                if failed && tells && streams {
                    mark_failed(&self.context, &shared, &nodes);
                }
            }
            StreamUpdate::Ended { began, outcome, stderr, exit, pause } => {
                let refused = matches!(outcome, Outcome::Refused(_));
                let ended = RunResult {
                    started_at: began,
                    ended_at: now,
                    outcome,
                    exit,
                    cpu_ms: None,
                    memory: None,
                    stderr,
                    goes_on: false,
                };
                slot.record(key, &ended);
                if tells {
                    slot.status.restarts += 1;
                    slot.status.doing =
                        if refused { SlotActivity::Refused } else { SlotActivity::BackingOff };
                    mark_failed(&self.context, &shared, &nodes);
                }
                news = true;
                tracing::debug!(%name, ?pause, "a stream ended and is started again");
            }
        }
        if proved {
            self.proved(&name);
        }
        self.post(&name, news || proved);
    }
}

/// The nodes whose values a stream's failure marks are told by its slot, which knows them.
fn mark_failed(context: &Context, shared: &Shared, nodes: &[NodeName]) {
    let now = context.clock.now_micros();
    let origin = Origin {
        registered: &shared.registered,
        node: &context.node,
        order: Order { epoch: shared.epoch(), sequence: context.sequencer.next() },
        run: 0,
        started_at: now,
        ended_at: now,
        exit: None,
        note: None,
    };
    context.outbox.put(writes::failed(&origin, nodes));
}

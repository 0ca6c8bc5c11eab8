//! Starts the slots that are due.

use std::sync::Arc;

use estimand_api::names::NodeName;
use estimand_api::registration::Mode;

use super::version::Version;
use super::{Slots, TaskResult, exec, formula, stream};
use crate::timetable::Start;

impl Slots {
    /// Starts what is due.
    pub(super) fn start_due(&mut self) {
        let now = self.now();
        for start in self.timetable.start(now) {
            self.start(start);
        }
    }

    fn start(&mut self, Start { key, waited_us, .. }: Start) {
        let now = self.now();
        let Some(slot) = self.by_key.get(&key).and_then(|name| self.slots.get_mut(name)) else {
            return self.timetable.ended(key, now);
        };
        let (busy, serves) = (slot.is_busy(), slot.serving.is_some());
        let on_trial = slot.trial.as_ref().is_some_and(|trial| trial.key == key);
        let failing_for: Vec<NodeName> = match (on_trial && serves, slot.nodes.is_empty()) {
            (true, _) => Vec::new(),
            (false, true) => vec![self.context.node.clone()],
            (false, false) => slot.nodes.iter().cloned().collect(),
        };
        if on_trial && serves && slot.trial.as_mut().is_some_and(Version::takes_a_break) {
            return self.timetable.ended(key, now);
        }
        let before = exec::PreviousValues { failing_for, gave_values: !slot.nodes.is_empty() };
        let run = slot.status.runs + 1;
        if busy && slot.version_mut(key).is_some_and(|version| !version.goes_on()) {
            slot.postpone(key);
            return self.timetable.ended(key, now);
        }
        let Some(version) = slot.version_mut(key) else { return self.timetable.ended(key, now) };
        version.shared.set_quiet(on_trial && serves);
        let shared = Arc::clone(&version.shared);
        let context = Arc::clone(&self.context);
        match version.shared.registered.registration.mode {
            Mode::Stream | Mode::Expr | Mode::Builtin if version.goes_on() => {
                if version.running {
                    shared.ask.notify_one();
                } else {
                    version.running = true;
                    let (events, streams) = (self.streams.0.clone(), version.is_stream());
                    self.work.spawn(async move {
                        match streams {
                            true => stream::stream(context, shared, key, events).await,
                            false => formula::formula(context, shared, key, events).await,
                        }
                        TaskResult::StreamOver { key }
                    });
                }
                self.timetable.ended(key, now);
            }
            Mode::Exec | Mode::Stream | Mode::Expr | Mode::Builtin => {
                version.running = true;
                self.work.spawn(async move {
                    let ended = exec::exec(context, shared, run, before).await;
                    TaskResult::Ran { key, ended, waited_us }
                });
            }
        }
    }
}

//! A scheduler beside the nodes and the queue, under the one clock: its driver's errands and questions are calls here.

use std::collections::BTreeMap;

use estimand_ordering::{Driver, Errand, Event, Scheduler, TaskAnswer, TaskEnd, TaskNews};
use estimand_placement::Millis;
use estimand_placement::plan::Plan;
use estimand_placement::queue::TaskNumber;
use estimand_placement::state::{Actor, Event as TaskEvent, Progress};

use super::{Outcome, SIGTERM, Setup, Simulation, SimulationError};
use crate::log::Entry;
use crate::trace::{Trace, TraceTask};

/// Runs a trace to its end, and beside it a scheduler that hears these requests, each at its instant. Its tasks wait in the
/// same queue as those of the trace, and its orders are asked of the same ledger.
pub fn simulate_driven<S: Scheduler<Task = TraceTask>>(
    setup: &Setup,
    trace: &Trace,
    driver: &mut Driver<S>,
    mut requests: Vec<(Millis, S::Request)>,
    log: &mut dyn FnMut(&Entry),
) -> Result<Outcome, SimulationError> {
    // The last one is the next.
    requests.sort_by_key(|(at, _)| *at);
    requests.reverse();
    let mut simulation = Simulation::begin(setup, trace, Plan::default(), log)?;
    let mut open = Open::default();
    let mut now = Millis(0);
    loop {
        let wake = driver.wake_at().map(|tick| Millis::of_tick(tick).max(now));
        let request = requests.last().map(|(at, _)| *at);
        let Some(next) = [simulation.next(now), wake, request].into_iter().flatten().min() else {
            return Ok(simulation.end());
        };
        now = next;
        simulation.step(now)?;
        driver.pass_time(now.tick());
        while let Some((_, request)) = requests.pop_if(|(at, _)| *at <= now) {
            driver.hear(now.tick(), Event::Request(request));
        }
        while simulation.tell(now, driver, &mut open) | simulation.carry(now, driver, &mut open)? {}
        simulation.settle(now)?;
    }
}

/// The tasks of the scheduler that are not over, and the revision up to which it has heard of promises.
#[derive(Default)]
struct Open {
    tasks: BTreeMap<String, TaskNumber>,
    promises_to: u64,
}

impl Simulation<'_> {
    /// Tells what has become of promises, and which tasks have ended; false if none has.
    fn tell<S: Scheduler<Task = TraceTask>>(
        &self,
        now: Millis,
        driver: &mut Driver<S>,
        open: &mut Open,
    ) -> bool {
        let end = |number: &TaskNumber| TaskEnd::of(self.outcome.states[number.0 as usize].state);
        for promise in self.promises.after(std::mem::replace(&mut open.promises_to, self.promises.revision)) {
            driver.hear_promise(now.tick(), &promise.record());
        }
        let ended = open.tasks.iter().filter_map(|(task, number)| Some((task.clone(), end(number)?)));
        let ended: Vec<(String, TaskEnd)> = ended.collect();
        for (task, end) in &ended {
            open.tasks.remove(task);
            driver.hear(now.tick(), Event::Task { task: task.clone(), news: TaskNews::Ended(*end) });
        }
        !ended.is_empty()
    }

    /// Carries what the driver has to be carried; false if that is nothing.
    fn carry<S: Scheduler<Task = TraceTask>>(
        &mut self,
        now: Millis,
        driver: &mut Driver<S>,
        open: &mut Open,
    ) -> Result<bool, SimulationError> {
        let errands = driver.errands();
        let questions = driver.questions();
        for errand in &errands {
            match errand {
                Errand::Submit { task, document } => {
                    open.tasks.insert(task.clone(), self.submit_beside(now, document.clone()));
                }
                Errand::Cancel { task, stop } => {
                    if let Some(number) = open.tasks.get(task) {
                        self.apply(
                            now,
                            *number,
                            TaskEvent::Cancel(stop.order(false, None)),
                            Actor::Scheduler,
                            None,
                        )?;
                        self.stop(now, *number, SIGTERM)?;
                    }
                }
            }
            driver.answer(now.tick(), errand, TaskAnswer::Done(None));
        }
        for (order, question) in &questions {
            let answer = self.answer(now, question)?;
            driver.answer_order(now.tick(), order, question, answer);
        }
        Ok(!errands.is_empty() || !questions.is_empty())
    }

    fn submit_beside(&mut self, now: Millis, task: TraceTask) -> TaskNumber {
        let index = self.tasks.len();
        self.tasks.to_mut().push(TraceTask { at: now, ..task });
        self.outcome.states.push(Progress::default());
        self.submit(now, index);
        TaskNumber(index as u64)
    }
}

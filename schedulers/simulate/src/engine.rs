//! The virtual clock: events in their order, from the first submission to the last end.
//!
//! Decisions are those of a [`Plan`], which follows tasks, nodes and promises as the task service's planner does. A task
//! starts as soon as it is placed, and one that is told to end does so at once. Facts are measured every so often, on all
//! nodes at once; in between nothing changes but by events, so a node is measured when the first event after that moment is
//! at hand.

use std::borrow::Cow;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use estimand_api::labels::LabelMap;
use estimand_api::resources::PLACES;
use estimand_api::selector::Selector;
use estimand_capacity::{Amounts, NodeId, Resource, Shares, Standing};
use estimand_placement::Millis;
use estimand_placement::decision::Why;
use estimand_placement::fit::misfit;
use estimand_placement::nodes::{Offer, PLACES_OF_NODE};
use estimand_placement::plan::{Placing, Plan};
use estimand_placement::policy::Policy;
use estimand_placement::pressure::Pressure;
use estimand_placement::promises::Promises;
use estimand_placement::queue::TaskNumber;
use estimand_placement::request::RequestKey;
use estimand_placement::retries::Ending;
use estimand_placement::state::{Actor, Event, Progress, Refused, Rules, State};

use crate::log::Entry;
use crate::node::SimulatedNode;
use crate::trace::{Trace, TraceTask};

/// How long a lost node's tasks may still run there.
const LEASE: Millis = Millis(10_000);
/// The signals by which a task makes room, and by which it ends with its promise.
const SIGUSR1: i32 = 10;
const SIGTERM: i32 = 15;

pub mod driven;
mod outcome;
mod promises;

pub use outcome::Outcome;

#[derive(Debug, Clone)]
pub struct Setup {
    /// Names and capacities; `cpu` in thousandths.
    pub nodes: Vec<(String, Amounts)>,
    pub policy: Policy,
    /// The time between two measurements.
    pub facts_every: Millis,
    pub seed: u64,
}

#[derive(Debug, thiserror::Error)]
pub enum SimulationError {
    #[error("the trace loses node `{0}`, which the cluster does not have")]
    UnknownNode(String),
    #[error("facts must be measured every so often, and the time between two measurements is 0")]
    NoFacts,
    #[error(transparent)]
    State(#[from] Refused),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Happening {
    End {
        node: NodeId,
        generation: u64,
    },
    Lost(usize),
    LeaseOver(TaskNumber, u32),
    Back(usize),
    /// The promise at this place of the trace is asked for.
    Promise(usize),
}

/// A task that runs.
#[derive(Clone, Copy)]
struct Run {
    node: NodeId,
    started_at: Millis,
}

struct Simulation<'a> {
    setup: &'a Setup,
    trace: &'a Trace,
    /// Tasks of the trace, and then those of a scheduler.
    tasks: Cow<'a, [TraceTask]>,
    next_task: usize,
    plan: Plan,
    promises: Promises,
    nodes: Vec<SimulatedNode>,
    changed: Vec<NodeId>,
    measured_at: Millis,
    misfits: BTreeMap<RequestKey, Option<String>>,
    happenings: BinaryHeap<Reverse<(Millis, Happening)>>,
    runs: BTreeMap<TaskNumber, Run>,
    any_node: Selector,
    outcome: Outcome,
    log: &'a mut dyn FnMut(&Entry),
}

/// Runs a trace to its end. Every event is handed to `log`.
pub fn simulate(
    setup: &Setup,
    trace: &Trace,
    log: &mut dyn FnMut(&Entry),
) -> Result<Outcome, SimulationError> {
    Simulation::begin(setup, trace, Plan::default(), log)?.run()
}

/// Runs a trace with a queue that serves the least share first, by the weights of these shares.
pub fn simulate_by_shares(
    setup: &Setup,
    shares: Shares,
    trace: &Trace,
    log: &mut dyn FnMut(&Entry),
) -> Result<Outcome, SimulationError> {
    Simulation::begin(setup, trace, Plan::by_shares(shares), log)?.run()
}

impl<'a> Simulation<'a> {
    fn begin(
        setup: &'a Setup,
        trace: &'a Trace,
        plan: Plan,
        log: &'a mut dyn FnMut(&Entry),
    ) -> Result<Self, SimulationError> {
        if setup.facts_every == Millis(0) {
            return Err(SimulationError::NoFacts);
        }
        let mut simulation = Simulation {
            setup,
            trace,
            tasks: Cow::Borrowed(&trace.tasks),
            next_task: 0,
            plan,
            promises: Promises::default(),
            nodes: Vec::new(),
            changed: Vec::new(),
            measured_at: Millis(0),
            misfits: BTreeMap::new(),
            happenings: BinaryHeap::new(),
            runs: BTreeMap::new(),
            any_node: Selector::default(),
            outcome: Outcome::default(),
            log,
        };
        simulation.take_trace()?;
        Ok(simulation)
    }

    /// Simulates until nothing is left to happen.
    fn run(mut self) -> Result<Outcome, SimulationError> {
        let mut now = Millis(0);
        while let Some(next) = self.next(now) {
            now = next;
            self.step(now)?;
            self.settle(now)?;
        }
        Ok(self.end())
    }

    fn take_trace(&mut self) -> Result<(), SimulationError> {
        let offer = |(name, capacity): &(String, Amounts)| {
            let places = Resource::parse(PLACES).ok().filter(|places| capacity.get(places) == 0);
            let capacity = capacity.clone();
            let capacity = match places {
                Some(places) => capacity.with(places, PLACES_OF_NODE),
                None => capacity,
            };
            Offer::new(name, LabelMap::new(), capacity)
        };
        self.outcome.states = vec![Progress::default(); self.trace.tasks.len()];
        self.set_nodes(Millis(0), self.setup.nodes.iter().map(offer).collect())?;
        self.plan.follow_promises(&self.promises, Millis(0));
        for (name, _) in &self.setup.nodes {
            let Some(node) = self.plan.book.cluster.ledger.node(name) else { continue };
            let cpu = self.plan.book.cluster.node(node).map_or(0, |node| node.cpu);
            self.nodes.push(SimulatedNode::new(cpu));
            self.learn(node, Millis(0));
        }
        for loss in &self.trace.losses {
            let unknown = || SimulationError::UnknownNode(loss.node.clone());
            let place = self.setup.nodes.iter().position(|(name, _)| *name == loss.node);
            let place = place.ok_or_else(unknown)?;
            self.happenings.push(Reverse((loss.lost_at, Happening::Lost(place))));
            let back = loss.back_at.map(|at| Reverse((at, Happening::Back(place))));
            self.happenings.extend(back);
        }
        let promises = self.trace.promises.iter().enumerate();
        let promises = promises.map(|(place, promise)| Reverse((promise.at, Happening::Promise(place))));
        self.happenings.extend(promises);
        Ok(())
    }

    /// When something is to happen next: now, if something is left of it.
    fn next(&self, now: Millis) -> Option<Millis> {
        let submission = self.trace.tasks.get(self.next_task).map(|task| task.at);
        let happening = self.happenings.peek().map(|Reverse((at, _))| *at);
        let due = self.plan.next_promise(&self.promises, now);
        [submission, happening, due].into_iter().flatten().min()
    }

    /// Does what is due at an instant, of several things the first.
    fn step(&mut self, now: Millis) -> Result<(), SimulationError> {
        let submission = self.trace.tasks.get(self.next_task).map(|task| task.at);
        let happening = self.happenings.peek().map(|Reverse((at, _))| *at);
        self.measure_before(now);
        self.pass_time(now)?;
        if happening == Some(now)
            && let Some(Reverse((_, happening))) = self.happenings.pop()
        {
            self.happen(now, happening)?;
        } else if submission == Some(now) {
            self.submit(now, self.next_task);
            self.next_task += 1;
        }
        Ok(())
    }

    /// Has tasks make room and start, as follows from all that is known by now.
    fn settle(&mut self, now: Millis) -> Result<(), SimulationError> {
        self.plan.follow_promises(&self.promises, now);
        self.make_room(now)?;
        self.place(now)
    }

    /// The last measurement before `now`, if it is to come: it has all that happened until its own moment.
    fn measure_before(&mut self, now: Millis) {
        let every = self.setup.facts_every.0;
        let at = Millis(now.0.saturating_sub(1) / every * every);
        if at > self.measured_at {
            self.measured_at = at;
            for node in std::mem::take(&mut self.changed) {
                self.learn(node, at);
            }
        }
    }

    fn learn(&mut self, node: NodeId, measured_at: Millis) {
        let thousandths = self.nodes[node.index()].pressure();
        if let Some(view) = self.plan.book.cluster.node_mut(node) {
            let revision = view.pressure.fact().map_or(0, |fact| fact.revision) + 1;
            view.pressure.learn(Some(Pressure { thousandths, measured_at, revision }));
        }
    }

    fn submit(&mut self, now: Millis, index: usize) {
        let task = TaskNumber(index as u64);
        let document = &self.tasks[index];
        let progress = &self.outcome.states[index];
        let view = document.view(task, self.setup.policy, &self.any_node, progress);
        let request = view.request(&mut self.plan.book.cluster.ledger);
        let cluster = &self.plan.book.cluster;
        let find = || misfit(cluster, &request).map(|misfit| misfit.to_string());
        let misfit = match &document.promise {
            Some(promise) => self.missing(promise),
            None => self.misfits.entry(request.key()).or_insert_with(find).clone(),
        };
        (self.log)(&Entry::Submitted { task, document: document.clone(), misfit: misfit.clone() });
        match misfit {
            Some(reason) => *self.outcome.misfits.entry(reason).or_default() += 1,
            None => self.plan.follow(task, Some(&view), now),
        }
    }

    /// Applies an event to a task, which the plan follows.
    fn apply(
        &mut self,
        at: Millis,
        task: TaskNumber,
        event: Event,
        actor: Actor,
        why: Option<Why>,
    ) -> Result<(), Refused> {
        let document = &self.tasks[task.0 as usize];
        let progress = &mut self.outcome.states[task.0 as usize];
        if let Some(transition) = progress.apply(&Rules::default(), at, event, actor)? {
            (self.log)(&Entry::Transition { task, transition, why });
            let view = document.view(task, self.setup.policy, &self.any_node, progress);
            self.plan.follow(task, Some(&view), at);
        }
        Ok(())
    }

    fn place(&mut self, now: Millis) -> Result<(), SimulationError> {
        let states = &self.outcome.states;
        let attempt_of = |task: TaskNumber| states[task.0 as usize].attempt;
        let placings = self.plan.decide(now, self.setup.seed, attempt_of);
        let stored = placings.iter().map(|placing| placing.task).collect();
        self.plan.answer_placings(&stored, now);
        placings.into_iter().try_for_each(|placing| self.start(now, placing))
    }

    fn start(&mut self, now: Millis, placing: Placing) -> Result<(), SimulationError> {
        let Placing { task, node: name, why } = placing;
        let attempt = self.outcome.states[task.0 as usize].attempt + 1;
        self.apply(now, task, Event::Place { attempt, node: name.clone() }, Actor::Scheduler, Some(why))?;
        self.apply(now, task, Event::Start { attempt }, Actor::Agent(name), None)?;
        let Some(placed) = self.plan.book.placed(task) else { return Ok(()) };
        let (Some(node), weight) = (placed.at, placed.weight) else { return Ok(()) };
        self.nodes[node.index()].start(now, task, weight, self.tasks[task.0 as usize].service);
        self.runs.insert(task, Run { node, started_at: now });
        self.foresee(node);
        Ok(())
    }

    /// Puts the next end on a node among what will happen.
    fn foresee(&mut self, node: NodeId) {
        self.changed.push(node);
        let simulated = &self.nodes[node.index()];
        let end = simulated.next_end();
        let generation = simulated.generation;
        self.happenings.extend(end.map(|at| Reverse((at, Happening::End { node, generation }))));
    }

    fn happen(&mut self, now: Millis, happening: Happening) -> Result<(), SimulationError> {
        match happening {
            Happening::End { node, generation } if self.nodes[node.index()].generation == generation => {
                self.finish(now, node)
            }
            Happening::End { .. } => Ok(()),
            Happening::Lost(place) => self.lose(now, place),
            Happening::LeaseOver(task, attempt) => {
                self.apply(now, task, Event::LeaseOver { attempt }, Actor::Scheduler, None)?;
                self.outcome.restarts += 1;
                Ok(())
            }
            Happening::Back(place) => {
                let name = self.setup.nodes[place].0.clone();
                let node = self.set_standing(now, &name, Standing::Up)?;
                (self.log)(&Entry::NodeBack { at: now, node: name });
                self.changed.extend(node);
                Ok(())
            }
            Happening::Promise(place) => self.promise(now, place),
        }
    }

    fn finish(&mut self, now: Millis, node: NodeId) -> Result<(), SimulationError> {
        if let Some(task) = self.nodes[node.index()].finish(now) {
            let attempt = self.outcome.states[task.0 as usize].attempt;
            let event = Event::End { attempt, ending: Ending::Exit(0), program: None, used: None };
            self.apply(now, task, event, Actor::Agent(self.name(node)), None)?;
            if let Some(run) = self.runs.remove(&task) {
                let submitted_at = self.tasks[task.0 as usize].at;
                self.outcome.responses.push(now - submitted_at);
                self.outcome.waits.push(run.started_at - submitted_at);
                if let Some(user) = &self.tasks[task.0 as usize].user {
                    let waits = self.outcome.waits_by_user.entry(user.clone()).or_default();
                    waits.push(run.started_at - submitted_at);
                }
                self.outcome.end = now;
            }
        }
        self.foresee(node);
        Ok(())
    }

    /// A task that was told to end does so.
    fn stop(&mut self, now: Millis, task: TaskNumber, signal: i32) -> Result<(), SimulationError> {
        let Some(Run { node, .. }) = self.runs.remove(&task) else { return Ok(()) };
        self.nodes[node.index()].stop(now, task);
        let attempt = self.outcome.states[task.0 as usize].attempt;
        let event = Event::End { attempt, ending: Ending::Signal(signal), program: None, used: None };
        self.apply(now, task, event, Actor::Agent(self.name(node)), None)?;
        self.foresee(node);
        Ok(())
    }

    fn lose(&mut self, now: Millis, place: usize) -> Result<(), SimulationError> {
        let name = self.setup.nodes[place].0.clone();
        let node = self.set_standing(now, &name, Standing::Lost)?;
        (self.log)(&Entry::NodeLost { at: now, node: name });
        let Some(node) = node else { return Ok(()) };
        for task in self.nodes[node.index()].clear(now) {
            let attempt = self.outcome.states[task.0 as usize].attempt;
            self.apply(now, task, Event::NodeLost { attempt }, Actor::Scheduler, None)?;
            self.runs.remove(&task);
            self.happenings.push(Reverse((now + LEASE, Happening::LeaseOver(task, attempt))));
        }
        Ok(())
    }

    fn name(&self, node: NodeId) -> String {
        self.plan.book.cluster.node(node).map_or_else(String::new, |node| node.name.to_string())
    }

    fn end(mut self) -> Outcome {
        let cpu: u64 = self.plan.book.cluster.nodes().map(|node| node.cpu).sum();
        let busy: f64 = self.nodes.iter().map(|node| node.busy).sum();
        self.outcome.waiting = self.plan.waiting();
        self.outcome.utilization = busy / (cpu as f64 * self.outcome.end.0 as f64).max(1.0);
        debug_assert!(self.outcome.states.iter().all(|progress| progress.state != State::Running));
        self.outcome
    }
}

//! The virtual clock: events in their order, from the first submission to the last end.
//!
//! A task starts as soon as it is placed. Facts are measured every so often, on all nodes at once; in between nothing
//! changes but by events, so a node is measured when the first event after that moment is at hand.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use estimand_api::labels::LabelMap;
use estimand_api::selector::Selector;
use estimand_capacity::{Amounts, Ledger, LedgerError, LoanId, NodeId};
use estimand_placement::Millis;
use estimand_placement::cluster::Cluster;
use estimand_placement::decision::{Decision, Why};
use estimand_placement::fit::misfit;
use estimand_placement::nodes::Offer;
use estimand_placement::planner::place_waiting;
use estimand_placement::policy::Policy;
use estimand_placement::pressure::Pressure;
use estimand_placement::queue::{Queue, TaskNumber};
use estimand_placement::request::{Request, RequestKey};
use estimand_placement::retries::Ending;
use estimand_placement::state::{Actor, Event, Progress, Refused, Rules, State};

use crate::log::Entry;
use crate::node::SimulatedNode;
use crate::trace::Trace;

/// How long a lost node's tasks may still run there.
const LEASE: Millis = 10_000;

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
    Ledger(#[from] LedgerError),
    #[error(transparent)]
    State(#[from] Refused),
}

#[derive(Debug, Clone, Default, PartialEq)]
pub struct Outcome {
    /// From submission to the end, of each task that ended.
    pub responses: Vec<Millis>,
    /// From submission to its last start, the same tasks.
    pub waits: Vec<Millis>,
    /// Why tasks fit nowhere, and how many for each reason.
    pub misfits: BTreeMap<String, usize>,
    /// Tasks that could never start, because nodes were lost for good.
    pub waiting: usize,
    pub restarts: usize,
    pub end: Millis,
    /// The part of the processors that was in use.
    pub utilization: f64,
    pub states: Vec<Progress>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Happening {
    End { node: NodeId, generation: u64 },
    Lost(NodeId),
    LeaseOver(TaskNumber, u32),
    Back(NodeId),
}

/// A task that runs.
#[derive(Clone, Copy)]
struct Run {
    loan: LoanId,
    cpu: u64,
    started_at: Millis,
}

struct Simulation<'a> {
    setup: &'a Setup,
    trace: &'a Trace,
    cluster: Cluster,
    queue: Queue,
    nodes: Vec<SimulatedNode>,
    changed: Vec<NodeId>,
    measured_at: Millis,
    requests: BTreeMap<RequestKey, (Request, Option<String>)>,
    happenings: BinaryHeap<Reverse<(Millis, Happening)>>,
    runs: BTreeMap<TaskNumber, Run>,
    outcome: Outcome,
    log: &'a mut dyn FnMut(&Entry),
}

/// Runs a trace to its end. Every event is handed to `log`.
pub fn simulate(
    setup: &Setup,
    trace: &Trace,
    log: &mut dyn FnMut(&Entry),
) -> Result<Outcome, SimulationError> {
    if setup.facts_every == 0 {
        return Err(SimulationError::NoFacts);
    }
    let mut simulation = Simulation {
        setup,
        trace,
        cluster: Cluster::new(Ledger::new(0)),
        queue: Queue::default(),
        nodes: Vec::new(),
        changed: Vec::new(),
        measured_at: 0,
        requests: BTreeMap::new(),
        happenings: BinaryHeap::new(),
        runs: BTreeMap::new(),
        outcome: Outcome::default(),
        log,
    };
    simulation.begin()?;
    simulation.go_on()?;
    Ok(simulation.end())
}

impl Simulation<'_> {
    fn begin(&mut self) -> Result<(), SimulationError> {
        for (name, capacity) in &self.setup.nodes {
            self.cluster.put_node(&Offer::new(name, LabelMap::new(), capacity.clone()));
            let Some(id) = self.cluster.ledger.node(name) else { continue };
            let cpu = self.cluster.node(id).map_or(0, |node| node.cpu);
            self.nodes.push(SimulatedNode::new(cpu));
            self.learn(id, 0);
        }
        for loss in &self.trace.losses {
            let unknown = || SimulationError::UnknownNode(loss.node.clone());
            let node = self.cluster.ledger.node(&loss.node).ok_or_else(unknown)?;
            self.happenings.push(Reverse((loss.lost_at, Happening::Lost(node))));
            let back = loss.back_at.map(|at| Reverse((at, Happening::Back(node))));
            self.happenings.extend(back);
        }
        self.outcome.states = vec![Progress::default(); self.trace.tasks.len()];
        Ok(())
    }

    fn go_on(&mut self) -> Result<(), SimulationError> {
        let mut next_task = 0;
        loop {
            let submission = self.trace.tasks.get(next_task).map(|task| task.at);
            let happening = self.happenings.peek().map(|Reverse((at, _))| *at);
            let now = match (submission, happening) {
                (None, None) => return Ok(()),
                (Some(at), None) | (None, Some(at)) => at,
                (Some(submission), Some(happening)) => submission.min(happening),
            };
            self.measure_before(now);
            self.cluster.ledger.advance(now)?;
            if happening == Some(now) {
                if let Some(Reverse((_, happening))) = self.happenings.pop() {
                    self.happen(now, happening)?;
                }
            } else {
                self.submit(now, next_task);
                next_task += 1;
            }
            for decision in place_waiting(&mut self.cluster, &mut self.queue, now, self.setup.seed) {
                self.start(now, decision)?;
            }
        }
    }

    /// The last measurement before `now`, if it is to come: it has all that happened until its own moment.
    fn measure_before(&mut self, now: Millis) {
        let at = now.saturating_sub(1) / self.setup.facts_every * self.setup.facts_every;
        if at > self.measured_at {
            self.measured_at = at;
            for node in std::mem::take(&mut self.changed) {
                self.learn(node, at);
            }
        }
    }

    fn learn(&mut self, node: NodeId, measured_at: Millis) {
        let thousandths = self.nodes[node.index()].pressure();
        if let Some(view) = self.cluster.node_mut(node) {
            let revision = view.pressure.fact().map_or(0, |fact| fact.revision) + 1;
            view.pressure.learn(Some(Pressure { thousandths, measured_at, revision }));
        }
    }

    fn submit(&mut self, now: Millis, index: usize) {
        let (task, document) = (TaskNumber(index as u64), &self.trace.tasks[index]);
        let ledger = &mut self.cluster.ledger;
        let request =
            Request::new(ledger, document.resources.clone(), Selector::default(), self.setup.policy);
        let key = request.key();
        if !self.requests.contains_key(&key) {
            let misfit = misfit(&self.cluster, &request).map(|misfit| misfit.to_string());
            self.requests.insert(key.clone(), (request, misfit));
        }
        let (request, misfit) = &self.requests[&key];
        (self.log)(&Entry::Submitted { task, document: document.clone(), misfit: misfit.clone() });
        match misfit {
            Some(reason) => *self.outcome.misfits.entry(reason.clone()).or_default() += 1,
            None => self.queue.push(task, now, document.priority, request),
        }
    }

    fn apply(
        &mut self,
        at: Millis,
        task: TaskNumber,
        event: Event,
        actor: Actor,
        why: Option<Why>,
    ) -> Result<(), Refused> {
        let progress = &mut self.outcome.states[task.0 as usize];
        if let Some(transition) = progress.apply(&Rules::default(), at, event, actor)? {
            (self.log)(&Entry::Transition { task, transition, why });
        }
        Ok(())
    }

    fn start(&mut self, now: Millis, decision: Decision) -> Result<(), SimulationError> {
        let Decision { task, node, loan, cpu, why, .. } = decision;
        let attempt = self.outcome.states[task.0 as usize].attempt + 1;
        let name = why.chosen.node.to_string();
        self.apply(now, task, Event::Place { attempt, node: name.clone() }, Actor::Scheduler, Some(why))?;
        self.apply(now, task, Event::Start { attempt }, Actor::Agent(name), None)?;
        if let Some(view) = self.cluster.node_mut(node) {
            view.start(now, cpu);
        }
        let simulated = &mut self.nodes[node.index()];
        simulated.start(now, task, cpu, self.trace.tasks[task.0 as usize].service);
        self.runs.insert(task, Run { loan, cpu, started_at: now });
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
            Happening::Lost(node) => self.lose(now, node),
            Happening::LeaseOver(task, attempt) => {
                self.apply(now, task, Event::LeaseOver { attempt }, Actor::Scheduler, None)?;
                self.outcome.restarts += 1;
                let document = &self.trace.tasks[task.0 as usize];
                let ledger = &mut self.cluster.ledger;
                let request =
                    Request::new(ledger, document.resources.clone(), Selector::default(), self.setup.policy);
                self.queue.push(task, document.at, document.priority, &request);
                Ok(())
            }
            Happening::Back(node) => {
                let name = self.name(node);
                self.cluster.ledger.restore(&name)?;
                (self.log)(&Entry::NodeBack { at: now, node: name });
                self.changed.push(node);
                Ok(())
            }
        }
    }

    fn finish(&mut self, now: Millis, node: NodeId) -> Result<(), SimulationError> {
        if let Some(task) = self.nodes[node.index()].finish(now) {
            let attempt = self.outcome.states[task.0 as usize].attempt;
            let event = Event::End { attempt, ending: Ending::Exit(0) };
            let name = self.name(node);
            self.apply(now, task, event, Actor::Agent(name), None)?;
            if let Some(run) = self.runs.remove(&task) {
                self.cluster.ledger.take_back(run.loan);
                self.left(now, node, run.cpu);
                let submitted_at = self.trace.tasks[task.0 as usize].at;
                self.outcome.responses.push(now - submitted_at);
                self.outcome.waits.push(run.started_at - submitted_at);
                self.outcome.end = now;
            }
        }
        self.foresee(node);
        Ok(())
    }

    fn lose(&mut self, now: Millis, node: NodeId) -> Result<(), SimulationError> {
        let name = self.name(node);
        self.cluster.ledger.lose(&name)?;
        (self.log)(&Entry::NodeLost { at: now, node: name });
        for task in self.nodes[node.index()].clear(now) {
            let attempt = self.outcome.states[task.0 as usize].attempt;
            self.apply(now, task, Event::NodeLost { attempt }, Actor::Scheduler, None)?;
            if let Some(run) = self.runs.remove(&task) {
                self.cluster.ledger.take_back(run.loan);
                self.left(now, node, run.cpu);
            }
            self.happenings.push(Reverse((now + LEASE, Happening::LeaseOver(task, attempt))));
        }
        Ok(())
    }

    fn left(&mut self, now: Millis, node: NodeId, cpu: u64) {
        if let Some(view) = self.cluster.node_mut(node) {
            view.uncount(cpu);
            view.relieve(now, cpu, true);
        }
    }

    fn name(&self, node: NodeId) -> String {
        self.cluster.node(node).map_or_else(String::new, |node| node.name.to_string())
    }

    fn end(mut self) -> Outcome {
        let cpu: u64 = self.cluster.nodes().map(|node| node.cpu).sum();
        let busy: f64 = self.nodes.iter().map(|node| node.busy).sum();
        self.outcome.waiting = self.queue.len();
        self.outcome.utilization = busy / (cpu as f64 * self.outcome.end as f64).max(1.0);
        debug_assert!(self.outcome.states.iter().all(|progress| progress.state != State::Running));
        self.outcome
    }
}

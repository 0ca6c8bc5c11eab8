//! The run itself: events in the order of their times, and of their making where times are equal.

use std::cmp::Ordering;
use std::collections::{BinaryHeap, HashSet, VecDeque};

use super::{Conditions, NodeTrace, SimulatedRun, Span, VirtualNode, ideal};
use crate::plan::{Action, ItemId, Policy};

/// Runs the policy over the cluster. The nodes that are there from the start come first and are those that the policy
/// knows, in its order. `homes` says for each item which of those holds it.
pub fn run(
    nodes: &[VirtualNode],
    homes: &[usize],
    policy: &mut dyn Policy,
    conditions: &Conditions,
) -> SimulatedRun {
    let mut world = World::new(nodes, homes, *conditions);
    let makespan = world.play(policy);
    let known = |node: usize| world.reported[node].clone();
    let done_by = policy
        .merged()
        .into_iter()
        .enumerate()
        .map(|(item, node)| node.and_then(|node| last_that_told(&world.traces, &known(node), item as ItemId)))
        .collect();
    SimulatedRun { makespan, ideal: ideal(nodes, homes.len() as f64), traces: world.traces, done_by }
}

/// A node of the policy can have been several, one after the other: the one whose report counted.
fn last_that_told(traces: &[NodeTrace], incarnations: &[usize], item: ItemId) -> Option<usize> {
    match incarnations {
        [one] => Some(*one),
        several => several.iter().copied().find(|trace| traces[*trace].told.contains(&item)),
    }
}

enum EventKind {
    Joins(usize),
    Ready(usize),
    /// The item that the node is working on is done.
    Done(usize),
    Dies(usize),
    /// Events for the policy.
    Started(usize),
    Report(usize, Vec<ItemId>, f64),
    Lost(usize),
    /// Events for the node.
    Give(usize, Vec<ItemId>),
    TakeBack(usize, Vec<ItemId>),
}

struct Event {
    at: f64,
    number: u64,
    kind: EventKind,
}

impl Ord for Event {
    /// The earliest is the greatest: the heap gives the greatest first.
    fn cmp(&self, other: &Self) -> Ordering {
        other.at.total_cmp(&self.at).then(other.number.cmp(&self.number))
    }
}

impl PartialOrd for Event {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Event {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Event {}

/// A node at work.
#[derive(Default)]
struct NodeState {
    ready: bool,
    dead: bool,
    queue: VecDeque<ItemId>,
    current: Option<(ItemId, f64)>,
    untold: Vec<ItemId>,
    worked: f64,
    told_at: f64,
}

struct World<'a> {
    nodes: &'a [VirtualNode],
    homes: &'a [usize],
    conditions: Conditions,
    states: Vec<NodeState>,
    traces: Vec<NodeTrace>,
    /// By the policy's numbers: the nodes that have been it; the last one is.
    reported: Vec<Vec<usize>>,
    /// By ours: the policy's number.
    numbers: Vec<Option<usize>>,
    events: BinaryHeap<Event>,
    made: u64,
    now: f64,
}

impl<'a> World<'a> {
    fn new(nodes: &'a [VirtualNode], homes: &'a [usize], conditions: Conditions) -> Self {
        let first = nodes.iter().take_while(|node| node.joins.is_none()).count();
        let trace = |node: &VirtualNode| NodeTrace { name: node.name.clone(), ..NodeTrace::default() };
        let mut world = World {
            nodes,
            homes,
            conditions,
            states: nodes.iter().map(|_| NodeState::default()).collect(),
            traces: nodes.iter().map(trace).collect(),
            reported: (0..first).map(|node| vec![node]).collect(),
            numbers: (0..nodes.len()).map(|node| (node < first).then_some(node)).collect(),
            events: BinaryHeap::new(),
            made: 0,
            now: 0.0,
        };
        for (i, node) in nodes.iter().enumerate() {
            match node.joins {
                Some(at) => world.at(at, EventKind::Joins(i)),
                None => world.at(node.startup, EventKind::Ready(i)),
            }
            if let Some(at) = node.dies {
                world.at(at, EventKind::Dies(i));
            }
        }
        world
    }

    fn at(&mut self, at: f64, kind: EventKind) {
        self.made += 1;
        self.events.push(Event { at, number: self.made, kind });
    }

    fn soon(&mut self, kind: EventKind) {
        self.at(self.now + self.conditions.delay, kind);
    }

    /// Runs until the policy is finished, or no event is left.
    fn play(&mut self, policy: &mut dyn Policy) -> Option<f64> {
        while let Some(event) = self.events.pop() {
            if event.at == f64::INFINITY {
                return None;
            }
            self.now = event.at;
            let actions = self.happen(event.kind, policy);
            for action in actions {
                match action {
                    Action::Give { node, items } => self.send(node, |node| EventKind::Give(node, items)),
                    Action::TakeBack { node, items } => {
                        self.send(node, |node| EventKind::TakeBack(node, items))
                    }
                    Action::Finished => return Some(self.now),
                }
            }
        }
        None
    }

    fn send(&mut self, number: usize, kind: impl FnOnce(usize) -> EventKind) {
        if let Some(node) = self.reported[number].last() {
            let kind = kind(*node);
            self.soon(kind);
        }
    }

    fn happen(&mut self, kind: EventKind, policy: &mut dyn Policy) -> Vec<Action> {
        match kind {
            EventKind::Joins(node) => return self.join(node, policy),
            EventKind::Ready(node) => {
                if !self.states[node].dead {
                    self.states[node].ready = true;
                    self.traces[node].ready = self.now;
                    self.states[node].told_at = self.now;
                    self.soon(EventKind::Started(node));
                }
            }
            EventKind::Done(node) => self.complete(node),
            EventKind::Dies(node) => {
                self.states[node] = NodeState { dead: true, ..NodeState::default() };
                self.traces[node].died = Some(self.now);
                self.at(self.now + self.conditions.detection, EventKind::Lost(node));
            }
            EventKind::Started(node) => {
                // A report about an earlier incarnation of the node means nothing any more.
                if let Some(number) = self.current_number(node).filter(|_| !self.states[node].dead) {
                    return policy.started(number);
                }
            }
            EventKind::Report(node, items, seconds) => {
                if let Some(number) = self.numbers[node] {
                    self.traces[node].told.extend(&items);
                    return policy.done(number, &items, seconds);
                }
            }
            EventKind::Lost(node) => {
                if let Some(number) = self.current_number(node) {
                    return policy.lost(number);
                }
            }
            EventKind::Give(node, items) => {
                self.states[node].queue.extend(items);
                self.begin(node);
            }
            EventKind::TakeBack(node, items) => {
                let items: HashSet<ItemId> = items.into_iter().collect();
                self.states[node].queue.retain(|item| !items.contains(item));
            }
        }
        Vec::new()
    }

    fn join(&mut self, node: usize, policy: &mut dyn Policy) -> Vec<Action> {
        let (number, actions) = policy.joined(&self.nodes[node].name, self.nodes[node].capability);
        if self.reported.len() <= number {
            self.reported.resize_with(number + 1, Vec::new);
        }
        self.reported[number].push(node);
        self.numbers[node] = Some(number);
        self.at(self.now + self.nodes[node].startup, EventKind::Ready(node));
        actions
    }

    fn current_number(&self, node: usize) -> Option<usize> {
        self.numbers[node].filter(|number| self.reported[*number].last() == Some(&node))
    }

    /// Begins the next item, if there is one and the node is free.
    fn begin(&mut self, node: usize) {
        let state = &mut self.states[node];
        if state.dead || !state.ready || state.current.is_some() {
            return;
        }
        let Some(item) = state.queue.pop_front() else { return };
        state.current = Some((item, self.now));
        let of = &self.nodes[node];
        let fetching = if self.is_home(node, item) { 0.0 } else { of.transfer };
        let end = of.speed.end_of(self.now + fetching, 1.0);
        self.at(end, EventKind::Done(node));
    }

    fn is_home(&self, node: usize, item: ItemId) -> bool {
        self.numbers[node] == Some(self.homes[item as usize])
    }

    fn complete(&mut self, node: usize) {
        let Some((item, begun)) = self.states[node].current.take() else { return };
        let at_home = self.is_home(node, item);
        let trace = &mut self.traces[node];
        trace.items += 1;
        trace.fetched += u64::from(!at_home);
        match trace.spans.last_mut() {
            Some(span) if span.to == begun => {
                span.to = self.now;
                span.items += 1;
            }
            _ => trace.spans.push(Span { from: begun, to: self.now, items: 1 }),
        }
        let state = &mut self.states[node];
        state.untold.push(item);
        state.worked += self.now - begun;
        if state.queue.is_empty() || self.now - state.told_at >= self.conditions.report_every {
            let items = std::mem::take(&mut state.untold);
            let seconds = std::mem::take(&mut state.worked);
            state.told_at = self.now;
            self.soon(EventKind::Report(node, items, seconds));
        }
        self.begin(node);
    }
}

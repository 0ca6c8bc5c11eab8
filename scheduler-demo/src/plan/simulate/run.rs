//! The run itself: events in the order of their times, and of their making where times are equal.

use std::cmp::Ordering;
use std::collections::{BinaryHeap, HashSet, VecDeque};

use super::{Conditions, Lane, Run, Span, VirtualNode, ideal};
use crate::plan::{Action, ItemId, Policy};

/// Runs the policy over the cluster. The nodes that are there from the start come first and are those that the policy
/// knows, in its order. `homes` says for each item which of those holds it.
pub fn run(nodes: &[VirtualNode], homes: &[usize], policy: &mut dyn Policy, conditions: &Conditions) -> Run {
    let mut world = World::new(nodes, homes, *conditions);
    let makespan = world.play(policy);
    let known = |node: usize| world.reported[node].clone();
    let done_by = policy
        .merged()
        .into_iter()
        .enumerate()
        .map(|(item, node)| node.and_then(|node| last_that_told(&world.lanes, &known(node), item as ItemId)))
        .collect();
    Run { makespan, ideal: ideal(nodes, homes.len() as f64), lanes: world.lanes, done_by }
}

/// A node of the policy can have been several, one after the other: the one whose report counted.
fn last_that_told(lanes: &[Lane], incarnations: &[usize], item: ItemId) -> Option<usize> {
    match incarnations {
        [one] => Some(*one),
        several => several.iter().copied().find(|lane| lanes[*lane].told.contains(&item)),
    }
}

enum What {
    Joins(usize),
    Ready(usize),
    /// The item that the node is working on is done.
    Done(usize),
    Dies(usize),
    /// The policy hears.
    Started(usize),
    Report(usize, Vec<ItemId>, f64),
    Lost(usize),
    /// The node hears.
    Give(usize, Vec<ItemId>),
    TakeBack(usize, Vec<ItemId>),
}

struct Event {
    at: f64,
    number: u64,
    what: What,
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
struct Hands {
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
    hands: Vec<Hands>,
    lanes: Vec<Lane>,
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
        let lane = |node: &VirtualNode| Lane { name: node.name.clone(), ..Lane::default() };
        let mut world = World {
            nodes,
            homes,
            conditions,
            hands: nodes.iter().map(|_| Hands::default()).collect(),
            lanes: nodes.iter().map(lane).collect(),
            reported: (0..first).map(|node| vec![node]).collect(),
            numbers: (0..nodes.len()).map(|node| (node < first).then_some(node)).collect(),
            events: BinaryHeap::new(),
            made: 0,
            now: 0.0,
        };
        for (i, node) in nodes.iter().enumerate() {
            match node.joins {
                Some(at) => world.at(at, What::Joins(i)),
                None => world.at(node.startup, What::Ready(i)),
            }
            if let Some(at) = node.dies {
                world.at(at, What::Dies(i));
            }
        }
        world
    }

    fn at(&mut self, at: f64, what: What) {
        self.made += 1;
        self.events.push(Event { at, number: self.made, what });
    }

    fn soon(&mut self, what: What) {
        self.at(self.now + self.conditions.delay, what);
    }

    /// Until the policy says that it is finished, or nothing happens any more.
    fn play(&mut self, policy: &mut dyn Policy) -> Option<f64> {
        while let Some(event) = self.events.pop() {
            if event.at == f64::INFINITY {
                return None;
            }
            self.now = event.at;
            let actions = self.happen(event.what, policy);
            for action in actions {
                match action {
                    Action::Give { node, items } => self.send(node, |node| What::Give(node, items)),
                    Action::TakeBack { node, items } => self.send(node, |node| What::TakeBack(node, items)),
                    Action::Finished => return Some(self.now),
                }
            }
        }
        None
    }

    fn send(&mut self, number: usize, what: impl FnOnce(usize) -> What) {
        if let Some(node) = self.reported[number].last() {
            let what = what(*node);
            self.soon(what);
        }
    }

    fn happen(&mut self, what: What, policy: &mut dyn Policy) -> Vec<Action> {
        match what {
            What::Joins(node) => return self.join(node, policy),
            What::Ready(node) => {
                if !self.hands[node].dead {
                    self.hands[node].ready = true;
                    self.lanes[node].ready = self.now;
                    self.hands[node].told_at = self.now;
                    self.soon(What::Started(node));
                }
            }
            What::Done(node) => self.complete(node),
            What::Dies(node) => {
                self.hands[node] = Hands { dead: true, ..Hands::default() };
                self.lanes[node].died = Some(self.now);
                self.at(self.now + self.conditions.detection, What::Lost(node));
            }
            What::Started(node) => {
                // What is told of a node that is another one by now means nothing any more.
                if let Some(number) = self.current_number(node).filter(|_| !self.hands[node].dead) {
                    return policy.started(number);
                }
            }
            What::Report(node, items, seconds) => {
                if let Some(number) = self.numbers[node] {
                    self.lanes[node].told.extend(&items);
                    return policy.done(number, &items, seconds);
                }
            }
            What::Lost(node) => {
                if let Some(number) = self.current_number(node) {
                    return policy.lost(number);
                }
            }
            What::Give(node, items) => {
                self.hands[node].queue.extend(items);
                self.begin(node);
            }
            What::TakeBack(node, items) => {
                let items: HashSet<ItemId> = items.into_iter().collect();
                self.hands[node].queue.retain(|item| !items.contains(item));
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
        self.at(self.now + self.nodes[node].startup, What::Ready(node));
        actions
    }

    fn current_number(&self, node: usize) -> Option<usize> {
        self.numbers[node].filter(|number| self.reported[*number].last() == Some(&node))
    }

    /// Begins the next item, if there is one and the node is free.
    fn begin(&mut self, node: usize) {
        let hands = &mut self.hands[node];
        if hands.dead || !hands.ready || hands.current.is_some() {
            return;
        }
        let Some(item) = hands.queue.pop_front() else { return };
        hands.current = Some((item, self.now));
        let of = &self.nodes[node];
        let fetching = if self.is_home(node, item) { 0.0 } else { of.transfer };
        let end = of.speed.end_of(self.now + fetching, 1.0);
        self.at(end, What::Done(node));
    }

    fn is_home(&self, node: usize, item: ItemId) -> bool {
        self.numbers[node] == Some(self.homes[item as usize])
    }

    fn complete(&mut self, node: usize) {
        let Some((item, begun)) = self.hands[node].current.take() else { return };
        let at_home = self.is_home(node, item);
        let lane = &mut self.lanes[node];
        lane.items += 1;
        lane.fetched += u64::from(!at_home);
        match lane.spans.last_mut() {
            Some(span) if span.to == begun => {
                span.to = self.now;
                span.items += 1;
            }
            _ => lane.spans.push(Span { from: begun, to: self.now, items: 1 }),
        }
        let hands = &mut self.hands[node];
        hands.untold.push(item);
        hands.worked += self.now - begun;
        if hands.queue.is_empty() || self.now - hands.told_at >= self.conditions.report_every {
            let items = std::mem::take(&mut hands.untold);
            let seconds = std::mem::take(&mut hands.worked);
            hands.told_at = self.now;
            self.soon(What::Report(node, items, seconds));
        }
        self.begin(node);
    }
}

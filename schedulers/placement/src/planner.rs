//! A pass over the queue: each task that fits somewhere is given the node that its policy ranks first, and the ledger
//! lends what it needs. What a pass decides counts for the tasks after it in the same pass.
//!
//! A line of tasks that found no room looks only at nodes on which something was freed since, so a pass costs what has
//! changed and not what waits. A task that has waited for [`PATIENCE`] has what it needs kept for it on one node, so that
//! small tasks that fit in between do not keep a large one out for ever.

use std::cell::Cell;
use std::sync::Arc;

use estimand_capacity::NodeId;

use super::Millis;
use super::cluster::{Cluster, NodeView};
use super::decision::{Alternative, Decision, MAX_ALTERNATIVES, Why};
use super::kept::KeptNode;
use super::policy::{POLICY_VERSION, Policy, Question, Score, mix, score};
use super::queue::{Queue, TaskNumber, Waiting};
use super::request::Request;

/// After so much waiting a node is kept for a task.
pub const PATIENCE: Millis = Millis(10 * 60_000);

/// Places what fits, in the order of the queue. What was freed in the ledger is looked at first.
pub fn place_waiting(cluster: &mut Cluster, queue: &mut Queue, now: Millis, seed: u64) -> Vec<Decision> {
    let mut freed: Vec<NodeId> = cluster.ledger.take_freed();
    let mut was_kept = queue.kept.take();
    if let Some(kept) = &mut was_kept {
        kept.forget_ended(cluster);
        freed.push(kept.node);
    }
    let mut owner = was_kept.as_ref().and_then(|kept| NodeOwner::of(cluster, queue, kept));
    let mut kept: Option<KeptNode> = None;
    let mut place = None;
    let mut decisions = Vec::new();
    while let Some((rank, line, waiting)) = queue.next_head(place, cluster.shares.as_mut()) {
        place = Some(rank);
        let is_blocked = line.is_blocked(&cluster.places);
        let nodes = is_blocked.then_some(freed.as_slice());
        let lot = mix(seed ^ mix(waiting.task.0));
        let may_keep = owner.as_ref().is_none_or(|owner| owner.user == line.request.holder().user);
        let kept_here = if may_keep { &mut kept } else { &mut was_kept };
        match choose(cluster, &line.request, nodes, kept_here.as_ref(), lot) {
            Ok(choice) => {
                let decision = lend(cluster, &line.request, waiting, choice);
                if let Some(kept) = kept_here.as_mut().filter(|kept| kept.node == decision.node) {
                    kept.add(decision.loan, &line.request);
                }
                queue.remove(waiting.task);
                decisions.push(decision);
            }
            Err(refusal) => {
                let is_kept_out = refusal == Refusal::KeptOut || (is_blocked && line.kept_out);
                let is_impatient = now.saturating_sub(waiting.submitted_at) >= PATIENCE;
                // A node that is kept for a user who has too much would stand idle.
                let is_suited = (may_keep && kept.is_none() && is_impatient && !is_kept_out).then(|| {
                    let nodes = line.unsuited.then_some(freed.as_slice());
                    kept = keep(cluster, &line.request, nodes, waiting.task, was_kept.take());
                    kept.is_some()
                });
                queue.block(rank, is_kept_out, is_suited);
            }
        }
        owner = owner.filter(|owner| owner.task != waiting.task && kept.is_none());
    }
    queue.kept = kept;
    queue.end_pass();
    decisions
}

/// The task and the user that a node stays with. By shares the order changes with each loan: a node that changed hands with it
/// would never be empty enough for anybody.
struct NodeOwner {
    task: TaskNumber,
    user: Arc<str>,
}

impl NodeOwner {
    /// None in the order of ranks, or if the task is not the first of its line any more, or the node does not suit it.
    fn of(cluster: &Cluster, queue: &Queue, kept: &KeptNode) -> Option<NodeOwner> {
        let holder = kept.request.holder_in(cluster)?;
        let is_so = queue.is_head(kept.task) && suits(cluster, &kept.request, kept.node);
        is_so.then_some(NodeOwner { task: kept.task, user: holder.user })
    }
}

/// A node has room for a request now, if none of it is kept for others.
pub fn has_room(cluster: &Cluster, request: &Request, node: &NodeView) -> bool {
    has_processor(request, node)
        && (request.is_for_all_nodes() || request.means(node))
        && cluster.ledger.can_lend(node.id, &request.shape)
}

/// The policy does not have a task wait for a processor of the node.
pub fn has_processor(request: &Request, node: &NodeView) -> bool {
    request.policy != Policy::Queue || node.is_free_for(request.weight)
}

struct Choice {
    node: NodeId,
    why: Why,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Refusal {
    NoRoom,
    /// A node has room, which it keeps for users who have less.
    KeptOut,
}

/// The node that the policy ranks first among those with room: of all nodes, or of these.
fn choose(
    cluster: &Cluster,
    request: &Request,
    nodes: Option<&[NodeId]>,
    kept: Option<&KeptNode>,
    lot: u64,
) -> Result<Choice, Refusal> {
    let window = cluster.ledger.near().ok_or(Refusal::NoRoom)?;
    let Request { policy, shape, asks, weight, .. } = request;
    let question = Question { policy: *policy, shape, window, asks: *asks, weight: *weight, lot };
    let is_kept_out = Cell::new(false);
    let has_room = |node: &&NodeView| {
        let is_kept =
            || kept.is_some_and(|kept| kept.node == node.id && !kept.has_room_for(cluster, request));
        let is_free = has_room(cluster, request, node) && !is_kept();
        let is_out = is_free && cluster.keeps_out(request, node);
        is_kept_out.set(is_kept_out.get() || is_out);
        is_free && !is_out
    };
    let mut ranking = Ranking::default();
    match (nodes, request.policy) {
        (Some(some), _) => {
            let some = some.iter().filter_map(|id| cluster.node(*id)).filter(has_room);
            some.for_each(|node| ranking.add(node, score(&question, cluster, node)));
        }
        // The first is as good as any, so the others need no look.
        (None, Policy::Queue) => {
            let first = cluster.nodes().find(has_room);
            first.into_iter().for_each(|node| ranking.add(node, score(&question, cluster, node)));
        }
        (None, Policy::TwoChoices) => {
            let with_room: Vec<&NodeView> = cluster.nodes().filter(has_room).collect();
            let drawn = two_of(with_room.len(), lot);
            drawn
                .into_iter()
                .for_each(|at| ranking.add(with_room[at], score(&question, cluster, with_room[at])));
        }
        (None, _) => {
            let with_room = cluster.nodes().filter(has_room);
            with_room.for_each(|node| ranking.add(node, score(&question, cluster, node)));
        }
    }
    let Ranking { nodes, best } = ranking;
    let alternative = |(score, node): &(Score, &NodeView)| Alternative {
        node: node.name.clone(),
        score: *score,
        fact: node.pressure.fact(),
    };
    let Some(((_, chosen), others)) = best.split_first() else {
        return Err(if is_kept_out.get() { Refusal::KeptOut } else { Refusal::NoRoom });
    };
    let why = Why {
        policy: request.policy,
        promise: None,
        version: POLICY_VERSION,
        lot,
        nodes,
        chosen: alternative(&best[0]),
        others: others.iter().map(alternative).collect(),
    };
    Ok(Choice { node: chosen.id, why })
}

/// The best few, in their order.
#[derive(Default)]
struct Ranking<'c> {
    nodes: usize,
    best: Vec<(Score, &'c NodeView)>,
}

impl<'c> Ranking<'c> {
    fn add(&mut self, node: &'c NodeView, score: Score) {
        self.nodes += 1;
        let full = self.best.len() > MAX_ALTERNATIVES;
        if full && self.best.last().is_some_and(|(last, _)| *last <= score) {
            return;
        }
        let place = self.best.partition_point(|(better, _)| *better <= score);
        self.best.insert(place, (score, node));
        self.best.truncate(MAX_ALTERNATIVES + 1);
    }
}

/// Two different places out of `count`, or as many as there are.
fn two_of(count: usize, lot: u64) -> Vec<usize> {
    let draw = |lot: u64, of: usize| usize::try_from(mix(lot) % of.max(1) as u64).unwrap_or(0);
    match count {
        0 => Vec::new(),
        1 => vec![0],
        count => {
            let (first, second) = (draw(lot, count), draw(!lot, count - 1));
            vec![first, if second < first { second } else { second + 1 }]
        }
    }
}

/// Has the ledger lend what the task needs, until it ends or has to make room.
fn lend(cluster: &mut Cluster, request: &Request, waiting: Waiting, choice: Choice) -> Decision {
    let Choice { node, why } = choice;
    let loan = cluster.ledger.lend(node, request.shape.clone(), value(waiting.priority));
    cluster.count(node, request.weight, request.user.as_ref());
    let holder = request.holder_in(cluster);
    cluster.count_loan(holder.as_ref(), &request.shape);
    if let Some(view) = cluster.node_mut(node) {
        view.load(request.weight);
    }
    Decision {
        task: waiting.task,
        node,
        loan,
        priority: waiting.priority,
        shape: request.shape.clone(),
        cpu: request.weight,
        user: request.user.clone(),
        holder,
        why,
    }
}

/// The worth of a task to the ledger. More priority is worth more; it is never less than nothing.
pub fn value(priority: i32) -> u64 {
    u64::from(priority.wrapping_sub(i32::MIN).cast_unsigned())
}

/// A node that would have room if all loans were back: the one that was kept already, or the emptiest of all nodes, or of these.
fn keep(
    cluster: &Cluster,
    request: &Request,
    nodes: Option<&[NodeId]>,
    task: TaskNumber,
    was_kept: Option<KeptNode>,
) -> Option<KeptNode> {
    let window = cluster.ledger.near()?;
    let suits = |id: NodeId| suits(cluster, request, id);
    let was_kept = was_kept.filter(|kept| suits(kept.node));
    if let Some(kept) = was_kept.as_ref().filter(|kept| kept.task != task) {
        return Some(KeptNode::new(kept.node, task, request));
    }
    was_kept.or_else(|| {
        let fullness = |id: &NodeId| cluster.ledger.fullness(*id, &request.shape, window);
        let emptiest = match nodes {
            Some(some) => some.iter().copied().filter(|id| suits(*id)).min_by_key(fullness),
            None => cluster.nodes().map(|node| node.id).filter(|id| suits(*id)).min_by_key(fullness),
        };
        Some(KeptNode::new(emptiest?, task, request))
    })
}

/// A node would have room for a request if all loans were back.
fn suits(cluster: &Cluster, request: &Request, node: NodeId) -> bool {
    cluster.node(node).is_some_and(|view| request.means(view))
        && cluster.ledger.can_lend_beside(node, &request.shape, &[])
}

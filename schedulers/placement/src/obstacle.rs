//! The obstacle that keeps a task waiting for a node, as the last pass over the queue left things.

use std::sync::Arc;

use estimand_api::resources;
use estimand_capacity::{Amounts, Resource, Standing};

use super::cluster::{Cluster, NodeView};
use super::fit::{Misfit, misfit};
use super::outline::PlanOutline;
use super::planner::{PATIENCE, has_processor, has_room};
use super::queue::{Rank, TaskNumber};
use super::request::Request;

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Obstacle {
    /// No node is large enough, or may have it.
    Misfit(Misfit),
    /// The nodes that are large enough, so many, take no tasks now; the first of them is this one.
    NotUp { nodes: usize, first: Arc<str>, standing: Standing },
    /// Each node has too little of something.
    NoRoom(NoRoom),
    /// Nodes have what it asks for, and its policy waits for a processor.
    NoProcessor { first: Option<TaskNumber> },
    /// A node has room, which is kept for another task.
    Kept { node: Arc<str>, task: TaskNumber },
    /// A node has room in its last places, so many, which are kept for users who have fewer than that.
    KeptPlaces { node: Arc<str>, kept: u64, user: Arc<str>, used: u64, all: u64 },
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NoRoom {
    pub asked: Amounts,
    /// The resource of which no node has enough, and the node that has most; none: each is there, and nowhere all of them.
    pub short: Option<Short>,
    /// Its labels, its image and its user leave it so many nodes, and another one would have room; none: that is not the cause.
    pub narrowed: Option<Narrowed>,
    /// The node that is kept for it.
    pub kept: Option<Arc<str>>,
    /// The first task before it in the queue that waits for the resource, too.
    pub first: Option<TaskNumber>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Short {
    pub resource: Resource,
    pub asked: u64,
    pub most: u64,
    pub node: Arc<str>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Narrowed {
    pub nodes: usize,
    /// The labels that it asks for, if it does.
    pub labels: String,
    pub has_image: bool,
    pub has_user: bool,
}

/// The obstacle in the way of a task with this rank and request; none: the next pass places it, or the last one did.
pub fn obstacle(plan: &PlanOutline, request: &Request, rank: Rank) -> Option<Obstacle> {
    let cluster = &plan.cluster;
    if plan.placing.contains(&rank.1) {
        return None;
    }
    // A resource that the ledger never heard of is on no node.
    let Some(shape) = cluster.ledger.known_shape(&request.amounts) else {
        return misfit(cluster, request).map(Obstacle::Misfit);
    };
    let request = Request { shape, ..request.clone() };
    let large_enough: Vec<&NodeView> = cluster
        .nodes()
        .filter(|node| request.means(node) && cluster.ledger.is_large_enough(node.id, &request.shape))
        .collect();
    let Some(node) = large_enough.first() else {
        return misfit(cluster, &request).map(Obstacle::Misfit);
    };
    let is_up = |node: &NodeView| cluster.ledger.standing(node.id) == Standing::Up;
    let up: Vec<&NodeView> = large_enough.iter().copied().filter(|node| is_up(node)).collect();
    if up.is_empty() {
        let standing = cluster.ledger.standing(node.id);
        return Some(Obstacle::NotUp { nodes: large_enough.len(), first: node.name.clone(), standing });
    }
    let is_before = |task| plan.heads.iter().any(|head| head.rank.1 == task && head.rank < rank);
    let kept = plan.kept.as_ref().filter(|kept| is_before(kept.task));
    let mut held_back = None;
    for node in up.iter().filter(|node| has_room(cluster, &request, node)) {
        if let Some(kept) = kept.filter(|kept| kept.node == node.id && !kept.has_room_for(cluster, &request))
        {
            held_back = Some(Obstacle::Kept { node: node.name.clone(), task: kept.task });
        } else if let Some(kept_out) = kept_out(cluster, &request, node) {
            held_back = Some(kept_out);
        } else {
            return None;
        }
    }
    held_back.or_else(|| Some(lack(plan, &request, rank, &up)))
}

/// The obstacle where a node has room in the part of its places that it keeps for users who have less.
fn kept_out(cluster: &Cluster, request: &Request, node: &NodeView) -> Option<Obstacle> {
    let user = request.user.as_ref().filter(|_| cluster.keeps_out(request, node))?;
    Some(Obstacle::KeptPlaces {
        node: node.name.clone(),
        kept: node.kept,
        user: Arc::clone(user),
        used: cluster.places.of(user),
        all: cluster.places.all,
    })
}

/// The obstacle where no node that is up has room.
fn lack(plan: &PlanOutline, request: &Request, rank: Rank, up: &[&NodeView]) -> Obstacle {
    let cluster = &plan.cluster;
    if up.iter().any(|node| cluster.ledger.can_lend(node.id, &request.shape)) {
        let rival = |other: &Request| other.policy == request.policy;
        return Obstacle::NoProcessor { first: first(plan, request, rank, rival) };
    }
    let short = short(cluster, request, up);
    let kept = plan.kept.as_ref().filter(|kept| kept.task == rank.1);
    let kept = kept.and_then(|kept| cluster.node(kept.node)).map(|node| node.name.clone());
    let rival = |other: &Request| short.as_ref().is_none_or(|short| other.amounts.get(&short.resource) > 0);
    let first = first(plan, request, rank, rival);
    let asked = request.amounts.clone();
    Obstacle::NoRoom(NoRoom { asked, short, narrowed: narrowed(cluster, request), kept, first })
}

/// The first resource of which no node has enough.
fn short(cluster: &Cluster, request: &Request, up: &[&NodeView]) -> Option<Short> {
    request.amounts.iter().enumerate().find_map(|(place, (resource, asked))| {
        let idle =
            |node: &NodeView| cluster.ledger.idle_parts(node.id, &request.shape).nth(place).unwrap_or(0);
        let (most, node) = up.iter().rev().map(|node| (idle(node), node)).max_by_key(|(most, _)| *most)?;
        let short = Short { resource: resource.clone(), asked, most, node: node.name.clone() };
        (most < asked).then_some(short)
    })
}

/// The labels, the image or the user, without which there would be room.
fn narrowed(cluster: &Cluster, request: &Request) -> Option<Narrowed> {
    let mut others = cluster.nodes().filter(|node| !request.means(node));
    let has_room =
        |node: &NodeView| has_processor(request, node) && cluster.ledger.can_lend(node.id, &request.shape);
    others.any(has_room).then(|| Narrowed {
        nodes: cluster.nodes().filter(|node| request.means(node)).count(),
        labels: request.nodes.to_string(),
        has_image: request.has_image,
        has_user: request.user.is_some(),
    })
}

/// The first task that waits before another one: of those with an equal request, else of its rivals.
fn first(
    plan: &PlanOutline,
    request: &Request,
    rank: Rank,
    is_rival: impl Fn(&Request) -> bool,
) -> Option<TaskNumber> {
    let key = request.key();
    let before = || plan.heads.iter().take_while(|head| head.rank < rank);
    let like = before().find(|head| *head.key == key);
    like.or_else(|| before().find(|head| is_rival(&head.request))).map(|head| head.rank.1)
}

impl Obstacle {
    /// The obstacle in words. `id_of` gives the id of a task, if the reader may know of it.
    pub fn text(&self, id_of: impl Fn(TaskNumber) -> Option<String>) -> String {
        let task =
            |number: TaskNumber| id_of(number).map_or("another task".to_owned(), |id| format!("`{id}`"));
        let before = |first: Option<TaskNumber>| {
            first.map_or_else(String::new, |first| format!("; {} is in front of it", task(first)))
        };
        match self {
            Obstacle::Misfit(misfit) => format!("it fits on no node: it {misfit}"),
            Obstacle::NotUp { nodes: 1, first, standing } => {
                format!("node `{first}`, on which alone it fits, is {standing}")
            }
            Obstacle::NotUp { nodes, .. } => {
                format!("each of the {nodes} nodes on which it fits is lost or cordoned")
            }
            Obstacle::NoRoom(no_room) => format!("{no_room}{}", before(no_room.first)),
            Obstacle::NoProcessor { first } => format!(
                "no processor is free now: its policy `queue` waits for one that no other task is expected to use{}",
                before(*first)
            ),
            Obstacle::Kept { node, task: number } => format!(
                "node `{node}` has room, but it is kept for {}, which is in front of it and has waited for more than {} \
                 minutes",
                task(*number),
                PATIENCE.0 / 60_000
            ),
            Obstacle::KeptPlaces { node, kept: 1, user, used, all } => format!(
                "node `{node}` has room, but its last place for tasks is kept for users who have none; `{user}` has {used} of \
                 all {all}"
            ),
            Obstacle::KeptPlaces { node, kept, user, used, all } => format!(
                "node `{node}` has room, but its last {kept} places for tasks are kept for users who have fewer; `{user}` has \
                 {used} of all {all}"
            ),
        }
    }
}

impl std::fmt::Display for NoRoom {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let text = |resource: &Resource, amount| resources::amount(resource.as_str(), amount);
        f.write_str("no node has room now: it needs ")?;
        match &self.short {
            Some(Short { resource, asked, most: 0, .. }) => {
                write!(f, "{resource}:{}, and none is free", text(resource, *asked))?;
            }
            Some(Short { resource, asked, most, node }) => {
                let asked = text(resource, *asked);
                let most = text(resource, *most);
                write!(f, "{resource}:{asked}, and the most that is free is {most}, on `{node}`")?;
            }
            None => {
                let part = |(of, asked): (&Resource, u64)| format!("{of}:{}", text(of, asked));
                let parts: Vec<String> = self.asked.iter().map(part).collect();
                write!(f, "{}, and no node has all of that free", parts.join(", "))?;
            }
        }
        if let Some(Narrowed { nodes, labels, has_image, has_user }) = &self.narrowed {
            let labels = (!labels.is_empty()).then(|| format!("with the labels `{labels}`"));
            let engine = has_image.then(|| "with an engine for containers".to_owned());
            let user = (*has_user && !*has_image).then(|| "that run tasks of users".to_owned());
            let which: Vec<String> = labels.into_iter().chain(engine).chain(user).collect();
            let noun = if *nodes == 1 { "node" } else { "nodes" };
            write!(f, "; there are others, but it may only be on {nodes} {noun} {}", which.join(" and "))?;
        }
        if let Some(node) = &self.kept {
            write!(f, "; `{node}` is kept for it")?;
        }
        Ok(())
    }
}

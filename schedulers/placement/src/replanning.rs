//! Promises that are planned anew, when nodes change or the lease of a task on a silent one is over.

use std::collections::BTreeMap;

use estimand_api::promise::{PromiseRequest, PromiseState};
use estimand_capacity::{
    Amounts, Claim, Ledger, Promise as Planned, PromiseId, Stage, Standing, Tick, Window,
};

use super::nodes::Offer;
use super::promise::{Promise, amounts};
use super::promises::Promises;

impl Promises {
    /// The promises that change when the nodes are these: they move where there is room, and break where there is none, the
    /// least value first. What is active stays where it is, unless its node is lost; there, too, as many units stay as have a task
    /// with a lease that is not over, which `held` says of a promise and a node.
    pub fn replanned(
        &self,
        nodes: &[Offer],
        now: Tick,
        held: &dyn Fn(&Promise, &str) -> usize,
    ) -> Vec<Promise> {
        let mut ledger = with_nodes(nodes, now);
        let is_gone = |name: &String| {
            nodes.iter().find(|node| node.name == *name).is_none_or(|node| node.standing == Standing::Lost)
        };
        let mut given = Vec::new();
        for promise in self.live() {
            let Ok(window) = Window::new(promise.from.max(now), promise.until) else { continue };
            for name in &promise.units {
                if ledger.node(name).is_none() {
                    ledger.set_node(name, promise.class(), &Amounts::default());
                    let _ = ledger.lose(name);
                }
            }
            let stays = staying(promise, &is_gone, held);
            let units: Vec<String> = of_others(&promise.units, &stays).cloned().collect();
            // Other work on a node that is lost has ended there, and is promised what is left of its time.
            let runs = promise.state == PromiseState::Active && !units.iter().any(is_gone);
            let stage = if runs { Stage::Running } else { Stage::Promised };
            let id = adopt(&mut ledger, &units, &promise.asked, window, stage);
            given.push((promise, stays, id));
        }
        let all: Vec<String> = ledger.nodes().map(|(_, name)| name.to_owned()).collect();
        for name in all.iter().filter(|name| is_gone(name)) {
            let _ = ledger.lose(name);
        }
        for node in nodes.iter().filter(|node| node.standing != Standing::Lost) {
            ledger.set_node(&node.name, node.class(), &node.capacity);
        }
        for node in nodes.iter().filter(|node| node.standing == Standing::Cordoned) {
            let _ = ledger.cordon(&node.name);
        }
        let outcomes = given.into_iter().filter_map(|(promise, stays, id)| {
            Self::outcome(promise, &stays, ledger.promise(id?), &ledger, &is_gone)
        });
        outcomes.collect()
    }

    /// A promise as it is after a re-planning of its units that do not stay, if that changed it.
    fn outcome(
        promise: &Promise,
        stays: &[bool],
        planned: Option<&Planned>,
        ledger: &Ledger,
        is_gone: &dyn Fn(&String) -> bool,
    ) -> Option<Promise> {
        let reason = match of_others(&promise.units, stays).find(|name| is_gone(name)) {
            Some(node) => format!("node `{node}` was lost"),
            None => "nodes have less to give, or were cordoned".to_owned(),
        };
        let Some(planned) = planned else {
            let cause = format!("{reason}, and no other of class `{}` has room", promise.class());
            return Some(promise.then(PromiseState::Broken, cause));
        };
        let name = |node| ledger.nodes().find(|(id, _)| *id == node).map(|(_, name)| name.to_owned());
        let mut moved = planned.claims.iter().filter_map(|claim| name(claim.node));
        let places = promise.units.iter().zip(stays);
        let units: Vec<String> = places
            .filter_map(|(unit, stays)| if *stays { Some(unit.clone()) } else { moved.next() })
            .collect();
        (units != promise.units).then(|| Promise { units, ..promise.then(promise.state, reason) })
    }
}

/// True for each unit that stays on its silent node because of its task.
fn staying(
    promise: &Promise,
    is_gone: &dyn Fn(&String) -> bool,
    held: &dyn Fn(&Promise, &str) -> usize,
) -> Vec<bool> {
    let mut left: BTreeMap<&str, usize> = BTreeMap::new();
    let stays = promise.units.iter().map(|unit| {
        if !is_gone(unit) {
            return false;
        }
        let left = left.entry(unit).or_insert_with(|| held(promise, unit));
        let stays = *left > 0;
        *left = left.saturating_sub(1);
        stays
    });
    stays.collect()
}

/// The units that do not stay.
fn of_others<'u>(units: &'u [String], stays: &[bool]) -> impl Iterator<Item = &'u String> {
    units.iter().zip(stays).filter(|(_, stays)| !**stays).map(|(unit, _)| unit)
}

fn with_nodes(nodes: &[Offer], now: Tick) -> Ledger {
    let mut ledger = Ledger::new(now);
    for node in nodes {
        ledger.set_node(&node.name, node.class(), &node.capacity);
        // Nothing is promised yet, so nothing moves.
        let _ = match node.standing {
            Standing::Up => Ok(Default::default()),
            Standing::Cordoned => ledger.cordon(&node.name),
            Standing::Lost => ledger.lose(&node.name),
        };
    }
    ledger
}

/// Counts a promise with its units on these nodes; those that the ledger does not know count nowhere.
fn adopt(
    ledger: &mut Ledger,
    nodes: &[String],
    asked: &PromiseRequest,
    window: Window,
    stage: Stage,
) -> Option<PromiseId> {
    let shape = ledger.shape(&amounts(asked));
    let nodes = nodes.iter().filter_map(|name| ledger.node(name));
    let claims: Vec<Claim> = nodes.map(|node| Claim { node, shape: shape.clone(), window }).collect();
    (!claims.is_empty()).then(|| ledger.adopt(claims, asked.value, stage))
}

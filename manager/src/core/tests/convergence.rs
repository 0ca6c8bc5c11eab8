//! Soon after the last fault the running instances are those that are registered, and none stays on a node that
//! refuses it while another one is free; and at no moment does a counted registration run on more nodes than it may.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use estimand_api::names::{DataName, NodeName};
use estimand_api::registration::Replicas;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

use super::agent::Agent;
use super::world::{TICK, World, settings};
use super::{labels, name, node, registered};
use crate::core::RemainingNodes;
use crate::core::place::Suitability;

const NAMES: usize = 4;
const NODES: usize = 6;
const SELECTORS: [&str; 4] = ["", "", "zone=a", "zone in (a,b)"];

#[derive(Debug, Clone)]
enum Action {
    Register { name: usize, replicas: u32, selector: usize },
    Delete { name: usize },
    Join { node: usize, zone: usize },
    Kill { agent: usize, for_ms: u64 },
    Leave { agent: usize, for_ms: u64 },
    Cut { agent: usize, out: bool, inward: bool },
    Heal,
    Relabel { agent: usize, zone: usize },
    Refuse { agent: usize, name: usize, refuses: bool },
    Slow { agent: usize, apply_ms: u64, stop_ms: u64 },
    Cordon { node: usize, cordoned: bool },
    Remove { node: usize },
    CrashManager { for_ms: u64 },
    PauseManager,
    StoreFails { for_ms: u64 },
}

fn action() -> impl Strategy<Value = Action> {
    let agent = 0..NODES + 2;
    prop_oneof![
        6 => (0..NAMES, 0..5u32, 0..SELECTORS.len())
            .prop_map(|(name, replicas, selector)| Action::Register { name, replicas, selector }),
        2 => (0..NAMES).prop_map(|name| Action::Delete { name }),
        4 => (0..NODES, 0..3usize).prop_map(|(node, zone)| Action::Join { node, zone }),
        3 => (agent.clone(), 0..3000u64).prop_map(|(agent, for_ms)| Action::Kill { agent, for_ms }),
        1 => (agent.clone(), 0..3000u64).prop_map(|(agent, for_ms)| Action::Leave { agent, for_ms }),
        3 => (agent.clone(), any::<bool>(), any::<bool>())
            .prop_map(|(agent, out, inward)| Action::Cut { agent, out, inward }),
        2 => Just(Action::Heal),
        2 => (agent.clone(), 0..3usize).prop_map(|(agent, zone)| Action::Relabel { agent, zone }),
        3 => (agent.clone(), 0..NAMES, prop::bool::weighted(0.8))
            .prop_map(|(agent, name, refuses)| Action::Refuse { agent, name, refuses }),
        2 => (agent, 10..600u64, 10..2000u64)
            .prop_map(|(agent, apply_ms, stop_ms)| Action::Slow { agent, apply_ms, stop_ms }),
        2 => (0..NODES, any::<bool>()).prop_map(|(node, cordoned)| Action::Cordon { node, cordoned }),
        1 => (0..NODES).prop_map(|node| Action::Remove { node }),
        2 => (0..2000u64).prop_map(|for_ms| Action::CrashManager { for_ms }),
        2 => Just(Action::PauseManager),
        2 => (0..1500u64).prop_map(|for_ms| Action::StoreFails { for_ms }),
    ]
}

#[derive(Default)]
struct Watch {
    versions: BTreeMap<DataName, u64>,
    /// The most nodes that any version of a name was for.
    most: BTreeMap<DataName, usize>,
    /// The number of holders and the epoch of the leader a tick ago.
    holders: BTreeMap<DataName, (u64, usize)>,
    /// Of names that never were for more than one node: where it ran last, and by which epoch.
    last: BTreeMap<DataName, (NodeName, u64)>,
    placements_seen: usize,
    highest: BTreeMap<DataName, (u64, u32)>,
    /// The placements that were stored, once or more often.
    known: BTreeSet<(DataName, NodeName, u64, u32)>,
}

fn act(world: &mut World, watch: &mut Watch, action: &Action) {
    let now = world.now;
    let zone = |index: usize| labels(&[("zone", ["a", "b", "c"][index])]);
    match *action {
        Action::Register { name: index, replicas, selector } => {
            let name = name(index);
            let version = watch.versions.entry(name.clone()).or_default();
            *version += 1;
            let new = registered(name.as_str(), replicas, SELECTORS[selector], *version);
            let most = watch.most.entry(name.clone()).or_default();
            *most = (*most).max(replicas as usize);
            world.registry.insert(name, Arc::new(new));
            hurry(world);
        }
        Action::Delete { name: index } => {
            world.registry.remove(&name(index));
            // A deletion is a version of its own.
            *watch.versions.entry(name(index)).or_default() += 1;
            hurry(world);
        }
        Action::Join { node: index, zone: of } => {
            let id = format!("agent-{}", world.agents.len());
            if world.agents.len() < NODES + 2 {
                world.agents.push(Agent::new(id, node(index), zone(of), now));
            }
        }
        Action::CrashManager { for_ms } => {
            world.leader = None;
            world.leads_at = now + for_ms;
        }
        Action::PauseManager => world.take_over(),
        Action::StoreFails { for_ms } => world.store_fails_until = now + for_ms,
        Action::Heal => {
            for agent in &mut world.agents {
                (agent.cut_in, agent.cut_out) = (false, false);
            }
        }
        Action::Cordon { node: index, cordoned } => {
            if let Some(leader) = &mut world.leader {
                let _ = leader.cluster.cordon(&node(index), cordoned);
            }
        }
        Action::Remove { node: index } => {
            if let Some(leader) = &mut world.leader {
                let _ = leader.cluster.remove(&node(index));
            }
        }
        Action::Leave { agent, for_ms } => {
            if world.agents.get(agent).is_some_and(Agent::is_up) {
                world.leave(agent, now + for_ms);
            }
        }
        Action::Kill { agent, .. }
        | Action::Cut { agent, .. }
        | Action::Relabel { agent, .. }
        | Action::Refuse { agent, .. }
        | Action::Slow { agent, .. } => {
            let Some(agent) = world.agents.get_mut(agent) else { return };
            match *action {
                Action::Kill { for_ms, .. } => agent.kill(now + for_ms),
                Action::Cut { out, inward, .. } => (agent.cut_out, agent.cut_in) = (out, inward),
                Action::Slow { apply_ms, stop_ms, .. } => {
                    (agent.apply_ms, agent.stop_ms) = (apply_ms, stop_ms);
                }
                Action::Refuse { name: index, refuses, .. } => {
                    agent.refuses.remove(&name(index));
                    agent.refuses.extend(refuses.then(|| name(index)));
                }
                Action::Relabel { zone: of, .. } => {
                    agent.labels = zone(of);
                    agent.kill(now + 10);
                }
                _ => {}
            }
        }
    }
}

/// A poke; it may be lost.
fn hurry(world: &mut World) {
    if world.chance.below(3) > 0
        && let Some(leader) = &mut world.leader
    {
        leader.reads_at = world.now;
    }
}

fn check(world: &World, watch: &mut Watch) -> Result<(), TestCaseError> {
    placements_grow(world, watch)?;
    for name in (0..NAMES).map(name) {
        let mut nodes = BTreeSet::new();
        for agent in &world.agents {
            let leased = agent.running.iter().filter(|((of, _), process)| *of == name && process.leased);
            for (_, process) in leased {
                nodes.insert(agent.node.clone());
                // An old version goes on for a while beside the new one.
                if process.ends_at.is_none() {
                    follows_its_predecessor(watch, &name, &agent.node, process.epoch)?;
                }
            }
        }
        let most = watch.most.get(&name).copied().unwrap_or(0);
        prop_assert!(nodes.len() <= most, "{name} is for {most} nodes and runs on {nodes:?}");
        for node in &nodes {
            let stored = world.store.placements.contains_key(&(name.clone(), node.clone()));
            prop_assert!(stored, "{name} runs on {node} and no placement says so");
        }
        let Some(leader) = &world.leader else { continue };
        let holders = leader.cluster.holders(&name);
        for node in &nodes {
            prop_assert!(holders.contains(node), "{name} runs on {node}, and the leader does not think so");
        }
        let count = match leader.cluster.registered(&name).map(|one| one.registration.replicas) {
            Some(Replicas::Count(count)) => count as usize,
            _ => 0,
        };
        let before = watch.holders.insert(name.clone(), (world.store.epoch, holders.len()));
        if let Some((epoch, before)) = before
            && epoch == world.store.epoch
            && holders.len() > count
        {
            prop_assert!(holders.len() <= before, "{name} is for {count} nodes and grew to {holders:?}");
        }
    }
    Ok(())
}

/// An instance that came to another node writes by a higher epoch than the one before.
fn follows_its_predecessor(
    watch: &mut Watch,
    name: &DataName,
    node: &NodeName,
    epoch: u64,
) -> Result<(), TestCaseError> {
    if watch.most.get(name) == Some(&1) {
        if let Some((last, before)) = watch.last.get(name) {
            // Of two leaders the former may have read the registry later, so versions may go back for a moment.
            let same_version = epoch >> 24 == *before >> 24;
            let later = last == node || !same_version || epoch > *before;
            prop_assert!(later, "{name} on {node} writes by {epoch:x}, on {last} it did by {before:x}");
        }
        watch.last.insert(name.clone(), (node.clone(), epoch));
    }
    Ok(())
}

/// A later placement outranks all earlier ones under the same registration.
fn placements_grow(world: &World, watch: &mut Watch) -> Result<(), TestCaseError> {
    let mut new: Vec<_> = world.placed[watch.placements_seen..].iter().collect();
    // Those of one write are in no order.
    new.sort_by_key(|(placed, _)| placed.moves);
    for (placed, version) in new {
        let version = *version;
        let key = (placed.data_name.clone(), placed.node_name.clone(), version, placed.moves);
        let highest = watch.highest.entry(placed.data_name.clone()).or_default();
        if watch.known.insert(key) {
            // Under a new version the old rows are still written now and then.
            let fresh = version > highest.0;
            let higher = placed.moves > highest.1;
            prop_assert!(fresh || higher, "{placed:?} comes after {highest:?}");
            *highest = (version, if fresh { placed.moves } else { placed.moves.max(highest.1) });
        }
    }
    watch.placements_seen = world.placed.len();
    Ok(())
}

/// No more faults. Of two agents that are one node the first stays.
fn calm_down(world: &mut World) {
    let now = world.now;
    world.calm = true;
    world.store_fails_until = 0;
    let mut seen = BTreeSet::new();
    for agent in &mut world.agents {
        (agent.cut_in, agent.cut_out, agent.apply_ms, agent.stop_ms) = (false, false, 10, 30);
        if !seen.insert(agent.node.clone()) {
            agent.kill(u64::MAX);
        } else if let Some(until) = agent.down_until {
            // One that was superseded by a late word of its own is started again.
            agent.down_until = Some(until.min(now + 500));
        }
    }
}

/// How long everything that is on its way may take, and losses after that, and moves after those; from nodes that
/// refuse it an instance may move several times.
fn bound_ms() -> u64 {
    let settings = settings();
    let lease_ms = settings.missed * (NODES as u64 + 2) * 1000 / settings.heartbeats_per_second;
    let late_ms = 2000 + 500 + settings.takeover_ms;
    late_ms + 2 * (lease_ms + settings.margin_ms) + 2500 + NODES as u64 * 700
}

fn converged(world: &mut World) -> Result<(), TestCaseError> {
    let leader = world.leader.as_mut().unwrap();
    for view in leader.cluster.node_views() {
        let _ = leader.cluster.remove(&view.node_name);
    }
    let live: Vec<_> = world.agents.iter().filter(|agent| agent.is_up()).collect();
    let runs = |agent: &Agent, name: &DataName| -> Vec<u64> {
        agent.running.keys().filter(|(of, _)| of == name).map(|(_, version)| *version).collect()
    };
    for name in (0..NAMES).map(name) {
        let one = world.registry.get(&name);
        let version = one.map_or(0, |one| one.version);
        let matches = |agent: &Agent| one.is_some_and(|one| one.registration.nodes.matches(&agent.labels));
        let on: Vec<_> = live.iter().filter(|agent| !runs(agent, &name).is_empty()).collect();
        for agent in &on {
            prop_assert!(matches(agent), "{name} runs on {}, where it does not belong", agent.node);
            prop_assert_eq!(runs(agent, &name), vec![version], "versions of {} on {}", name, agent.node);
        }
        let open = |agent: &Agent| {
            matches(agent) && !leader.cluster.node_view(&agent.node).is_some_and(|node| node.cordoned)
        };
        let missing = live.iter().filter(|agent| match one.map(|one| one.registration.replicas) {
            Some(Replicas::All) => matches(agent),
            _ => open(agent),
        });
        let missing: Vec<_> =
            missing.filter(|agent| runs(agent, &name).is_empty()).map(|agent| &agent.node).collect();
        let count = match one.map(|one| one.registration.replicas) {
            Some(Replicas::Count(count)) => count as usize,
            Some(Replicas::All) => usize::MAX,
            None => 0,
        };
        prop_assert!(on.len() <= count, "{} runs on {} of {}", name, on.len(), count);
        prop_assert!(on.len() == count || missing.is_empty(), "{name} is missing on {missing:?}");
        let suits = |node: &NodeName| {
            let suitability = leader.cluster.run_reports.suitability(&name, node);
            suitability != Suitability::Unsuitable
        };
        let free = missing.iter().find(|node| suits(node));
        if let (Some(agent), Some(free)) = (on.iter().find(|agent| !suits(&agent.node)), free) {
            let stays = one.is_some_and(|one| one.registration.replicas == Replicas::All);
            prop_assert!(stays, "{name} stays on {}, which refuses it, and {free} is free", agent.node);
        }
        prop_assert_eq!(
            leader.cluster.remaining_nodes(&name),
            RemainingNodes::default(),
            "{} is not gone",
            name
        );
        if one.is_none() {
            let rows: Vec<_> = world.store.placements.keys().filter(|(of, _)| *of == name).collect();
            prop_assert!(rows.is_empty(), "{rows:?} are left of what is registered no more");
        }
    }
    let names = |agent: &&Agent| agent.running.keys().map(|(name, _)| name.clone()).collect::<Vec<_>>();
    for agent in &live {
        let views = leader.cluster.instance_views(None, Some(&agent.node));
        let shown: Vec<_> = views.into_iter().map(|view| view.status.data_name).collect();
        prop_assert_eq!(shown, names(agent), "instances shown of {}", &agent.node);
    }
    Ok(())
}

fn story(seed: u64, actions: &[(u64, Action)]) -> Result<(), TestCaseError> {
    let (mut world, mut watch) = (World::new(seed), Watch::default());
    let run = |world: &mut World, watch: &mut Watch, for_ms: u64| {
        for _ in 0..for_ms.div_ceil(TICK) {
            world.tick();
            check(world, watch)?;
        }
        Ok::<_, TestCaseError>(())
    };
    for (after_ms, action) in actions {
        run(&mut world, &mut watch, *after_ms)?;
        act(&mut world, &mut watch, action);
    }
    calm_down(&mut world);
    run(&mut world, &mut watch, bound_ms())?;
    converged(&mut world)
}

#[test]
fn running_instances_match_the_registrations_soon_after_any_faults() {
    let long = std::env::var_os("ESTIMAND_LONG").is_some();
    let (cases, most) = if long { (5_000, 120) } else { (400, 50) };
    // A few nodes to begin with, so that there is something to lose.
    let beginning = prop::collection::vec((0..100u64, (0..NODES, 0..3usize)), 2..NODES).prop_map(|joins| {
        joins
            .into_iter()
            .map(|(after, (node, zone))| (after, Action::Join { node, zone }))
            .collect::<Vec<_>>()
    });
    let pause = prop_oneof![4 => 0..300u64, 1 => 0..3000u64];
    let rest = prop::collection::vec((pause, action()), 1..most);
    let config = Config { cases, max_shrink_iters: 4000, failure_persistence: None, ..Config::default() };
    TestRunner::new(config)
        .run(&(any::<u64>(), beginning, rest), |(seed, mut actions, rest)| {
            actions.extend(rest);
            story(seed, &actions)
        })
        .unwrap();
}

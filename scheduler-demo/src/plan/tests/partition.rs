//! Algorithm 1: the paper's steps, the cases that the paper leaves open, and what must hold for all.

use std::collections::{HashSet, VecDeque};

use estimand_api::value::State;
use proptest::prelude::*;

use super::*;
use crate::plan::{CapabilityUse, Note, Part, Transfer, expected, partition};

#[test]
fn equal_nodes_get_equal_parts_of_unequal_loads() {
    let plan = partition(&problem(nodes(&[(400, 1.0), (0, 1.0), (0, 1.0), (0, 1.0)])));
    assert_eq!(targets(&plan), [100, 100, 100, 100]);
    let moves = [(0, 1), (0, 2), (0, 3)].map(|(from, to)| Transfer { from, to, count: 100 });
    assert_eq!(plan.transfers, moves);
    assert_eq!(plan.parts[0], Part { held: 400, target: 100 });
    assert_eq!((plan.parts[0].kept(), plan.parts[0].sent(), plan.parts[0].received()), (100, 300, 0));
    assert_eq!((plan.moved(), plan.notes.as_slice()), (300, &[][..]));
}

#[test]
fn a_split_that_fits_moves_nothing() {
    let plan = partition(&problem(nodes(&[(40, 4.0), (20, 2.0), (10, 1.0)])));
    assert!(plan.transfers.is_empty());
}

#[test]
fn no_capability_anywhere_is_an_equal_split_and_said() {
    let problem = problem(nodes(&[(9, 0.0), (0, 0.0), (0, 0.0)]));
    let plan = partition(&problem);
    assert_eq!(targets(&plan), [3, 3, 3]);
    assert_eq!(plan.notes, [Note::EqualSplit { among: 3 }]);
    assert_eq!(expected(&problem, &plan).makespan, None);
}

#[test]
fn an_equal_split_leaves_out_excluded_nodes() {
    let mut nodes = nodes(&[(9, 0.0), (0, 0.0), (0, 7.0)]);
    nodes[2].state = State::NodeLost;
    let plan = partition(&problem(nodes));
    assert_eq!(targets(&plan), [5, 4, 0]);
    assert_eq!(plan.notes, [Note::EqualSplit { among: 2 }]);
}

#[test]
fn data_with_no_capability_moves_away() {
    let plan = partition(&problem(nodes(&[(10, 0.0), (0, 1.0), (2, 3.0)])));
    assert_eq!(targets(&plan), [0, 3, 9]);
    assert_eq!(plan.parts[0].sent(), 10);
}

#[test]
fn edge_cases_of_one_node_no_data_and_no_nodes() {
    let one = partition(&problem(nodes(&[(7, 0.25)])));
    assert_eq!((targets(&one), one.transfers.len()), (vec![7], 0));
    let problem = problem(nodes(&[(0, 1.0), (0, 2.0)]));
    let none = partition(&problem);
    assert_eq!((targets(&none), none.transfers.len()), (vec![0, 0], 0));
    assert_eq!(expected(&problem, &none).over_ideal(), Some(1.0));
    assert_eq!(Problem::new(Vec::new(), &TrustRules::default()).unwrap_err(), Error::NoNodes);
}

#[test]
fn each_state_is_trusted_as_the_caller_says() {
    let mut of = nodes(&[(30, 2.0), (0, 2.0), (0, 2.0), (0, 2.0)]);
    for (node, state) in of.iter_mut().zip([State::Fresh, State::Stale, State::Failed, State::NodeLost]) {
        (node.state, node.spread) = (state, 0.5);
    }
    let mixed =
        TrustRules { stale: Trust::LastKnown, failed: Trust::Widen { k: 2.0 }, node_lost: Trust::Exclude };
    let problem = Problem::new(of.clone(), &mixed).unwrap();
    assert_eq!(problem.weights(), [2.0, 2.0, 1.0, 0.0]);
    assert_eq!(
        [0, 1, 2, 3].map(|node| problem.capability_use(node)),
        [CapabilityUse::Fresh, CapabilityUse::LastKnown, CapabilityUse::Widened, CapabilityUse::Excluded]
    );
    assert_eq!(targets(&partition(&problem)), [12, 12, 6, 0]);
    let wide = Problem::new(of.clone(), &TrustRules::all(Trust::Widen { k: 9.0 })).unwrap();
    assert_eq!(wide.weights(), [2.0, 0.0, 0.0, 0.0]);
    of.remove(0);
    let none = Problem::new(of, &TrustRules::all(Trust::Exclude)).unwrap_err();
    assert_eq!(none, Error::AllExcluded { nodes: 3 });
}

#[test]
fn an_invalid_capability_is_rejected_with_its_node() {
    for bad in [f64::NAN, -1.0, -1e-300, f64::INFINITY, 1.1e15] {
        let error =
            Problem::new(nodes(&[(1, 1.0), (1, bad)]), &TrustRules::default()).unwrap_err().to_string();
        assert!(error.starts_with("the capability of node node-0001 is "), "{error}");
        assert!(error.ends_with("expected a number of 0 to 1e15"), "{error}");
    }
    let mut spread = nodes(&[(1, 1.0)]);
    spread[0].spread = -0.5;
    assert!(matches!(Problem::new(spread, &TrustRules::default()), Err(Error::Spread { .. })));
    let mut cost = nodes(&[(1, 1.0)]);
    cost[0].costs.startup = f64::NAN;
    assert!(matches!(Problem::new(cost, &TrustRules::default()), Err(Error::Cost { .. })));
    let twice = vec![Node::new("a", 1, 1.0), Node::new("b", 1, 1.0), Node::new("a", 1, 1.0)];
    assert_eq!(
        Problem::new(twice, &TrustRules::default()).unwrap_err(),
        Error::DuplicateNode { node: "a".to_owned() }
    );
    let much = nodes(&[(u64::MAX, 1.0), (1, 1.0)]);
    assert_eq!(Problem::new(much, &TrustRules::default()).unwrap_err(), Error::LoadOverflow);
    let k = TrustRules::all(Trust::Widen { k: f64::NAN });
    assert!(matches!(Problem::new(nodes(&[(1, 1.0)]), &k), Err(Error::Widening { .. })));
}

#[test]
fn a_hundred_thousand_nodes() {
    let of: Vec<(u64, f64)> = (0..100_000).map(|i| (i % 97, f64::from((i % 13) as u32) / 4.0)).collect();
    let problem =
        problem(of.iter().enumerate().map(|(i, (l, c))| Node::new(i.to_string(), *l, *c)).collect());
    let plan = partition(&problem);
    assert_eq!(targets(&plan).iter().sum::<u64>(), problem.total());
    assert!(plan.transfers.len() < 100_000);
}

/// The fewest moves of single items from one distribution to another, by looking at all that can be reached.
fn fewest_moves(from: &[u64], to: &[u64]) -> u64 {
    let mut seen = HashSet::from([from.to_vec()]);
    let mut next = VecDeque::from([(from.to_vec(), 0)]);
    while let Some((at, moves)) = next.pop_front() {
        if at == to {
            return moves;
        }
        for (giver, taker) in (0..at.len()).flat_map(|giver| (0..at.len()).map(move |taker| (giver, taker))) {
            let mut then = at.clone();
            if giver != taker && then[giver] > 0 {
                then[giver] -= 1;
                then[taker] += 1;
                if seen.insert(then.clone()) {
                    next.push_back((then, moves + 1));
                }
            }
        }
    }
    unreachable!("every distribution can be reached")
}

/// All ways to write the total as that many numbers.
pub(super) fn splits(total: u64, parts: usize) -> Vec<Vec<u64>> {
    if parts == 1 {
        return vec![vec![total]];
    }
    (0..=total)
        .flat_map(|first| {
            splits(total - first, parts - 1).into_iter().map(move |mut rest| {
                rest.insert(0, first);
                rest
            })
        })
        .collect()
}

proptest! {
    #[test]
    fn a_plan_is_a_partition_with_few_transfers(of in prop::collection::vec((0u64..1000, capability()), 1..60)) {
        let problem = problem(nodes(&of));
        let plan = partition(&problem);
        prop_assert_eq!(targets(&plan).iter().sum::<u64>(), problem.total());
        prop_assert!(plan.transfers.len() < of.len().max(1));
        // Carried out, the transfers lead from what is held to the targets, and no node both gives and receives.
        let mut has: Vec<u64> = plan.parts.iter().map(|part| part.held).collect();
        for one in &plan.transfers {
            prop_assert!(one.count > 0 && plan.parts[one.from].sent() > 0 && plan.parts[one.to].received() > 0);
            has[one.from] -= one.count;
            has[one.to] += one.count;
        }
        prop_assert_eq!(has, targets(&plan));
        for (part, weight) in plan.parts.iter().zip(problem.weights()) {
            prop_assert!(*weight > 0.0 || part.target == 0);
        }
    }

    #[test]
    fn the_order_of_nodes_changes_nothing(
        of in prop::collection::vec((0u64..50, capability()), 1..30),
        keys in prop::collection::vec(any::<u32>(), 30),
    ) {
        let nodes = nodes(&of);
        let mut shuffled: Vec<(u32, Node)> = keys.into_iter().zip(nodes.clone()).collect();
        shuffled.sort_by_key(|(key, _)| *key);
        let shuffled = shuffled.into_iter().map(|(_, node)| node).collect();
        let (one, other) = (problem(nodes), problem(shuffled));
        prop_assert_eq!(one.nodes(), other.nodes());
        prop_assert_eq!(partition(&one), partition(&other));
    }

    #[test]
    fn nodes_are_in_the_order_of_their_names(
        beginning in "[a-c]{0,3}",
        ends in prop::collection::btree_set("[\\x00a-c.é-]{0,12}", 1..40),
        keys in prop::collection::vec(any::<u32>(), 40),
    ) {
        let sorted: Vec<String> = ends.iter().map(|end| format!("{beginning}{end}")).collect();
        let mut mixed: Vec<(u32, String)> = keys.into_iter().zip(sorted.clone()).collect();
        mixed.sort();
        let problem = problem(mixed.into_iter().map(|(_, name)| Node::new(name, 1, 1.0)).collect());
        prop_assert!(problem.nodes().iter().map(|node| &node.name).eq(&sorted));
        prop_assert!(sorted.iter().enumerate().all(|(i, name)| problem.find(name) == Some(i)));
    }

    /// Of all splits that are nearest to the quotas, none can be reached with fewer moves.
    #[test]
    fn no_plan_moves_fewer_items(of in prop::collection::vec((0u64..4, 0u64..5), 1..5)) {
        let weights: i64 = of.iter().map(|(_, weight)| *weight as i64).sum();
        prop_assume!(weights > 0);
        let held: Vec<u64> = of.iter().map(|(load, _)| *load).collect();
        let total: u64 = held.iter().sum();
        let plan = partition(&problem(nodes(
            &of.iter().map(|(load, weight)| (*load, *weight as f64)).collect::<Vec<_>>(),
        )));
        let distance = |split: &[u64]| -> i64 {
            let off = |(n, (_, w)): (&u64, &(u64, u64))| *n as i64 * weights - total as i64 * *w as i64;
            split.iter().zip(&of).map(off).map(|off| off * off).sum()
        };
        let all = splits(total, of.len());
        let nearest = all.iter().map(|split| distance(split)).min().unwrap();
        let fewest = all
            .iter()
            .filter(|split| distance(split) == nearest)
            .map(|split| fewest_moves(&held, split))
            .min()
            .unwrap();
        prop_assert_eq!(distance(&targets(&plan)), nearest);
        prop_assert_eq!(plan.moved(), fewest);
    }
}

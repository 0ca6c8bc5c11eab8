//! The optimum against all splits there are, and Algorithm 1 against the optimum.

use proptest::prelude::*;

use super::partition::splits;
use super::*;
use crate::plan::{Costs, expected, optimal, partition};

/// The time of a split, node by node and item by item.
fn time(of: &[Node], split: &[u64]) -> f64 {
    let one = |(node, count): (&Node, &u64)| {
        let fetched = count.saturating_sub(node.load);
        match (*count, node.capability) {
            (0, _) => 0.0,
            (_, 0.0) => f64::INFINITY,
            (count, rate) => node.costs.startup + count as f64 / rate + fetched as f64 * node.costs.transfer,
        }
    };
    of.iter().zip(split).map(one).fold(0.0, f64::max)
}

#[test]
fn a_start_that_takes_longer_than_the_work_is_not_worth_it() {
    let mut of = nodes(&[(10, 1.0), (0, 1.0)]);
    of[1].costs.startup = 10.0;
    let best = optimal(&problem(of.clone()));
    assert_eq!((targets(&best.plan), best.makespan), (vec![10, 0], Some(10.0)));
    of[1].costs.startup = 8.0;
    let best = optimal(&problem(of));
    assert_eq!((targets(&best.plan), best.makespan), (vec![9, 1], Some(9.0)));
}

#[test]
fn data_stays_where_fetching_costs_more_than_doing() {
    let mut of = nodes(&[(8, 1.0), (0, 1.0)]);
    of[1].costs.transfer = 3.0;
    let best = optimal(&problem(of));
    assert_eq!((targets(&best.plan), best.makespan, best.plan.moved()), (vec![7, 1], Some(7.0), 1));
}

#[test]
fn an_empty_load_takes_no_time_and_unknown_speeds_have_no_makespan() {
    let none = optimal(&problem(nodes(&[(0, 1.0)])));
    assert_eq!((targets(&none.plan), none.makespan), (vec![0], Some(0.0)));
    let unknown = optimal(&problem(nodes(&[(4, 0.0), (0, 0.0)])));
    assert_eq!((targets(&unknown.plan), unknown.makespan), (vec![2, 2], None));
}

#[test]
fn numbers_far_apart_end_exactly() {
    let mut of = nodes(&[(1_000_000_000, 1e15), (0, 1e-300), (5, 1e-6), (7, 3.0)]);
    of[0].costs.startup = 1e12;
    let problem = problem(of);
    let best = optimal(&problem);
    let done: u64 = targets(&best.plan).iter().sum();
    assert_eq!(done, problem.total());
    assert_eq!(expected(&problem, &best.plan).makespan, best.makespan);
}

fn costs() -> impl Strategy<Value = Costs> {
    (prop_oneof![Just(0.0), 0.0..5.0f64], prop_oneof![Just(0.0), 0.0..2.0f64])
        .prop_map(|(startup, transfer)| Costs { startup, transfer })
}

proptest! {
    #[test]
    fn no_split_is_faster(
        of in prop::collection::vec((0u64..4, prop_oneof![Just(0.0), 0.1..4.0f64, Just(1.0)], costs()), 1..5),
    ) {
        let mut nodes = nodes(&of.iter().map(|(load, rate, _)| (*load, *rate)).collect::<Vec<_>>());
        for (node, (_, _, costs)) in nodes.iter_mut().zip(&of) {
            node.costs = *costs;
        }
        prop_assume!(nodes.iter().any(|node| node.capability > 0.0));
        let problem = problem(nodes.clone());
        let best = optimal(&problem);
        let split = targets(&best.plan);
        prop_assert_eq!(split.iter().sum::<u64>(), problem.total());
        let fastest = splits(problem.total(), nodes.len())
            .iter()
            .map(|split| time(&nodes, split))
            .fold(f64::INFINITY, f64::min);
        let makespan = best.makespan.unwrap();
        prop_assert!((makespan - fastest).abs() <= 1e-12 * fastest, "{} is not {}", makespan, fastest);
        prop_assert_eq!(expected(&problem, &best.plan).makespan, Some(makespan));
    }

    /// Of the splits that are as fast, none moves less. Round numbers make many of them as fast.
    #[test]
    fn no_split_that_is_as_fast_moves_less(
        of in prop::collection::vec((0u64..5, 1u8..3, 0u8..3, 0u8..2), 1..5),
    ) {
        let rates = of.iter().map(|(load, rate, ..)| (*load, f64::from(*rate))).collect::<Vec<_>>();
        let mut nodes = nodes(&rates);
        for (node, (_, _, startup, transfer)) in nodes.iter_mut().zip(&of) {
            node.costs = Costs { startup: f64::from(*startup), transfer: f64::from(*transfer) };
        }
        let best = optimal(&problem(nodes.clone()));
        let makespan = best.makespan.unwrap();
        let moved = |split: &Vec<u64>| -> u64 {
            split.iter().zip(&nodes).map(|(count, node)| count.saturating_sub(node.load)).sum()
        };
        let all = splits(nodes.iter().map(|node| node.load).sum(), nodes.len());
        let least = all.iter().filter(|split| time(&nodes, split) <= makespan).map(moved).min();
        prop_assert_eq!(Some(best.plan.moved()), least);
    }

    /// Where nothing but the work costs time, Algorithm 1 is within one item of the optimum: no node does more than
    /// one item beyond its part of the optimum, so none ends later than one item of its own after it; and the optimum
    /// is the closed form, total over the sum of speeds, within one item.
    #[test]
    fn static_is_the_optimum_within_one_item(of in prop::collection::vec((0u64..500, 0.01..100.0f64), 1..40)) {
        let problem = problem(nodes(&of));
        let plain = partition(&problem);
        let best = optimal(&problem);
        let closed = expected(&problem, &plain).ideal.unwrap();
        let makespan = best.makespan.unwrap();
        let slowest = problem.weights().iter().copied().fold(f64::INFINITY, f64::min);
        prop_assert!(makespan >= closed * (1.0 - 1e-12) && makespan <= closed + 1.0 / slowest);
        for ((part, other), rate) in plain.parts.iter().zip(&best.plan.parts).zip(problem.weights()) {
            prop_assert!(part.target <= other.target + 1, "{} beside {}", part.target, other.target);
            prop_assert!(part.target as f64 / rate <= (makespan + 1.0 / rate) * (1.0 + 1e-12));
        }
    }

    /// With two nodes the counts themselves differ by at most one.
    #[test]
    fn the_counts_of_two_nodes_are_within_one(of in prop::collection::vec((0u64..5000, 0.01..100.0f64), 2)) {
        let problem = problem(nodes(&of));
        let (plain, best) = (targets(&partition(&problem)), targets(&optimal(&problem).plan));
        prop_assert!(plain[0].abs_diff(best[0]) <= 1);
    }
}

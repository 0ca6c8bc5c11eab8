//! Runs on virtual clusters: the simulator itself, the figures that are promised, and faults.

use proptest::prelude::*;

use super::*;
use crate::plan::simulate::{Conditions, SimulatedRun, Span, Speed, VirtualNode, ideal, run};
use crate::plan::{DynamicPolicy, DynamicSettings, FixedPolicy, Policy, partition};

const AT_ONCE: Conditions = Conditions { report_every: 0.0, delay: 0.0, detection: 0.0 };

fn homes(parts: &[Vec<ItemId>]) -> Vec<usize> {
    parts.iter().enumerate().flat_map(|(node, part)| part.iter().map(move |_| node)).collect()
}

/// Runs both policies on a job that is planned by those capabilities: static, dynamic.
fn both(
    cluster: &[VirtualNode],
    believed: &[f64],
    items: u64,
    conditions: &Conditions,
) -> (SimulatedRun, SimulatedRun) {
    let known: Vec<(u64, f64)> =
        believed.iter().enumerate().map(|(i, c)| (if i == 0 { items } else { 0 }, *c)).collect();
    let parts = in_order(&targets(&partition(&problem(nodes(&known)))));
    let members: Vec<(String, f64)> = believed.iter().enumerate().map(|(i, c)| (name(i), *c)).collect();
    let mut fixed = FixedPolicy::new(members.clone(), parts.clone()).unwrap();
    let mut dynamic = DynamicPolicy::new(members, parts.clone(), DynamicSettings::default()).unwrap();
    let homes = homes(&parts);
    (run(cluster, &homes, &mut fixed, conditions), run(cluster, &homes, &mut dynamic, conditions))
}

fn cluster(rates: &[f64]) -> Vec<VirtualNode> {
    rates.iter().enumerate().map(|(i, rate)| VirtualNode::new(name(i), *rate)).collect()
}

#[test]
fn known_and_steady_speeds_leave_nothing_to_gain() {
    let rates = [1.0, 1.0, 0.5, 0.25];
    let (fixed, dynamic) = both(&cluster(&rates), &rates, 10_000, &AT_ONCE);
    assert_eq!(fixed.ideal, Some(10_000.0 / 2.75));
    assert!(fixed.over_ideal().unwrap() < 1.001);
    assert!(dynamic.over_ideal().unwrap() < 1.002);
    assert_eq!((fixed.wasted(), fixed.traces[0].spans.len(), fixed.traces[0].items), (0, 1, 3637));
}

/// One capability is 20 % too high, and another node becomes three times slower halfway through.
#[test]
fn a_wrong_capability_and_a_node_that_slows_down() {
    let rates = [1.0, 1.0, 0.5, 0.25];
    let halfway = 10_000.0 / 2.75 / 2.0;
    let mut slowed = cluster(&rates);
    slowed[0].speed = Speed::constant(1.0).then(halfway, 1.0 / 3.0);
    let (fixed, dynamic) = both(&slowed, &[1.0, 1.2, 0.5, 0.25], 10_000, &AT_ONCE);
    let (fixed, dynamic) = (fixed.over_ideal().unwrap(), dynamic.over_ideal().unwrap());
    assert!((1.45..1.6).contains(&fixed), "static {fixed}");
    assert!(dynamic <= 1.05, "dynamic {dynamic}");
}

#[test]
fn late_reports_and_orders_cost_little() {
    let rates = [10.0, 10.0, 5.0, 2.5];
    let mut slowed = cluster(&rates);
    slowed[0].speed = Speed::constant(10.0).then(180.0, 3.3);
    let late = Conditions { report_every: 1.0, delay: 0.1, detection: 0.0 };
    let (fixed, dynamic) = both(&slowed, &[10.0, 12.0, 5.0, 2.5], 10_000, &late);
    assert!(fixed.over_ideal().unwrap() > 1.4);
    assert!(dynamic.over_ideal().unwrap() <= 1.05, "dynamic {:?}", dynamic.over_ideal());
}

#[test]
fn time_runs_as_the_speeds_say() {
    let parts = vec![vec![0, 1], vec![2]];
    let mut nodes = cluster(&[1.0, 0.5]);
    nodes[0].startup = 3.0;
    nodes[0].speed = Speed::constant(1.0).then(3.5, 0.25);
    nodes[1].transfer = 5.0;
    let members: Vec<(String, f64)> = vec![(name(0), 1.0), (name(1), 1.0)];
    let mut fixed = FixedPolicy::new(members, parts).unwrap();
    // Item 2 is at home on node 0. Item 0: half at 1, half at 1/4; item 1 at 1/4.
    let run = run(&nodes, &[0, 0, 0], &mut fixed, &AT_ONCE);
    assert_eq!(run.traces[0].spans, [Span { from: 3.0, to: 9.5, items: 2 }]);
    assert_eq!(run.traces[1].spans, [Span { from: 0.0, to: 7.0, items: 1 }]);
    assert_eq!((run.traces[1].fetched, run.makespan), (1, Some(9.5)));
    // 1.5 a second until 3.5 are more than enough for three.
    assert_eq!(run.ideal, Some(2.0));
}

#[test]
fn the_ideal_counts_only_nodes_that_are_present() {
    let mut nodes = cluster(&[1.0, 2.0]);
    nodes[0].dies = Some(4.0);
    nodes[1].joins = Some(2.0);
    // 2 until 2, 6 more until 4, then 2 a second.
    assert_eq!(ideal(&nodes, 8.0), Some(4.0));
    assert_eq!(ideal(&nodes, 12.0), Some(6.0));
    nodes[1].dies = Some(5.0);
    assert_eq!(ideal(&nodes, 12.0), None);
}

#[test]
fn a_run_without_nodes_has_no_makespan() {
    let mut alone = cluster(&[1.0]);
    alone[0].dies = Some(2.5);
    let (fixed, dynamic) = both(&alone, &[1.0], 4, &AT_ONCE);
    for run in [fixed, dynamic] {
        assert_eq!((run.makespan, run.ideal, run.done_by), (None, None, vec![Some(0), Some(0), None, None]));
    }
}

#[test]
fn a_node_that_comes_again_goes_on() {
    let mut nodes = cluster(&[1.0]);
    nodes[0].dies = Some(5.5);
    nodes.push(VirtualNode { joins: Some(7.0), ..VirtualNode::new(name(0), 1.0) });
    let parts = in_order(&[10]);
    let mut dynamic = DynamicPolicy::new(vec![(name(0), 1.0)], parts, DynamicSettings::default()).unwrap();
    // Its death is noticed after it has come again, which must not count as the death of the new one.
    let late = Conditions { detection: 3.0, ..AT_ONCE };
    let run = run(&nodes, &[0; 10], &mut dynamic, &late);
    // Items are reported one by one, so its work up to then counts.
    assert_eq!(run.makespan, Some(12.0));
    assert_eq!((run.traces[0].told.len(), run.traces[1].told.len(), run.wasted()), (5, 5, 0));
}

/// A node that comes and goes when it likes, of a speed that changes once; and what is believed of it.
fn fate() -> impl Strategy<Value = VirtualNode> {
    (
        (0.2..4.0f64, prop::option::of((0.0..100.0f64, 0.02..4.0f64)), capability()),
        (prop_oneof![Just(0.0), 0.0..30.0f64], prop_oneof![Just(0.0), 0.0..1.0f64]),
        (prop::option::weighted(0.3, 0.0..80.0f64), prop::option::weighted(0.4, 0.0..120.0f64)),
    )
        .prop_map(|((rate, change, capability), (startup, transfer), (joins, lives))| {
            let speed = Speed::constant(rate);
            VirtualNode {
                name: String::new(),
                capability,
                speed: change.map_or(speed.clone(), |(at, to)| speed.then(at, to)),
                startup,
                transfer,
                joins,
                dies: lives.map(|lives| joins.unwrap_or(0.0) + lives),
            }
        })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]
    /// Under deaths, late joins, changing speeds and delays each item counts once, for a node that did it and told of
    /// it; and as long as one node stays to the end, the job ends.
    #[test]
    fn each_item_counts_once(
        fates in prop::collection::vec(fate(), 0..6),
        survivor in capability(),
        items in 1u64..150,
        conditions in (0.0..3.0f64, 0.0..2.0f64, 0.0..10.0f64)
            .prop_map(|(report_every, delay, detection)| Conditions { report_every, delay, detection }),
    ) {
        let mut cluster = fates;
        cluster.push(VirtualNode { capability: survivor, ..VirtualNode::new("", 0.5) });
        cluster.sort_by_key(|node| node.joins.is_some());
        for (i, node) in cluster.iter_mut().enumerate() {
            node.name = name(i);
        }
        let first = cluster.iter().take_while(|node| node.joins.is_none());
        let members: Vec<(String, f64)> = first.map(|node| (node.name.clone(), node.capability)).collect();
        let known: Vec<(u64, f64)> =
            members.iter().enumerate().map(|(i, (_, c))| (if i == 0 { items } else { 0 }, *c)).collect();
        let parts = in_order(&targets(&partition(&problem(nodes(&known)))));
        let mut dynamic = DynamicPolicy::new(members.clone(), parts.clone(), DynamicSettings::default()).unwrap();
        let mut fixed = FixedPolicy::new(members, parts.clone()).unwrap();
        let policies: [&mut dyn Policy; 2] = [&mut dynamic, &mut fixed];
        for policy in policies {
            let run = run(&cluster, &homes(&parts), policy, &conditions);
            prop_assert_eq!(run.done_by.len() as u64, items);
            for (item, trace) in run.done_by.iter().enumerate() {
                prop_assert!(run.traces[trace.unwrap()].told.contains(&(item as ItemId)));
            }
            prop_assert!(run.makespan.unwrap() >= run.ideal.unwrap() * (1.0 - 1e-9));
        }
    }
}

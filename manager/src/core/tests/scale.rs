//! How long the calls take with many nodes. To be run alone, and with optimization.

use std::sync::Arc;
use std::time::Instant;

use estimand_api::node::Heartbeat;
use estimand_api::slot::Status;

use super::{labels, name, node, registered};
use crate::core::{Cluster, Settings};

const NODES: usize = 10_000;
/// Every other one is counted.
const NAMES: usize = 50;

fn beat(index: usize, applied: u64, names: usize) -> Heartbeat {
    Heartbeat {
        agent: format!("agent-{index}"),
        boot: 1,
        labels: labels(&[("zone", ["a", "b", "c"][index % 3]), ("kernel", "6.1")]),
        applied,
        statuses: (0..names).map(|index| Status::new(name(index * 2), 1)).collect(),
        ..Heartbeat::default()
    }
}

fn settle(cluster: &mut Cluster, what: &str) {
    let mut times = Vec::new();
    loop {
        let begun = Instant::now();
        let step = cluster.reconcile(1, 1);
        times.push(begun.elapsed());
        if step.store.is_empty() {
            break;
        }
        let begun = Instant::now();
        cluster.committed(step);
        times.push(begun.elapsed());
    }
    println!("{what}: {times:.1?}");
}

#[test]
#[ignore = "measures"]
fn calls_with_ten_thousand_nodes() {
    let mut cluster = Cluster::new(Settings::default(), 1, Vec::new(), Vec::new(), 0);
    let version = |changed: usize| {
        let one = move |index: usize| {
            let selector = ["", "zone=a", "zone in (a,b),kernel"][index % 3];
            let count = if index.is_multiple_of(2) { 0 } else { 3 };
            Arc::new(registered(name(index).as_str(), count, selector, 1 + u64::from(index < changed)))
        };
        (0..NAMES).map(one).collect::<Vec<_>>()
    };
    for index in 0..NODES {
        cluster.heartbeat(&node(index), beat(index, 0, 0), 1, 1).unwrap();
    }
    settle(&mut cluster, "10,000 nodes join");
    cluster.set_registrations(version(0));
    settle(&mut cluster, "50 registrations");
    cluster.set_registrations(version(2));
    settle(&mut cluster, "2 are replaced");
    let beats: Vec<_> = (0..NODES)
        .map(|index| {
            let applied = cluster.desired(&node(index)).unwrap().0;
            (node(index), beat(index, applied, 20))
        })
        .collect();
    let begun = Instant::now();
    for (node, beat) in beats {
        cluster.heartbeat(&node, beat, 1, 1).unwrap();
    }
    println!("a heartbeat with 20 statuses: {:.1?}", begun.elapsed() / NODES as u32);
    settle(&mut cluster, "all confirmed");
    settle(&mut cluster, "no news");
    cluster.heartbeat(&node(0), Heartbeat { labels: labels(&[]), ..beat(0, 0, 0) }, 1, 1).unwrap();
    settle(&mut cluster, "one node relabelled");
    let begun = Instant::now();
    let step = cluster.reconcile(60_000_000, 1);
    println!("all lost: {:.1?}", begun.elapsed());
    drop(step);
}

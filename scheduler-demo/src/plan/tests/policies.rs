//! Both policies under random events: every item is done once, even if reports are late, lost or repeated.

use std::collections::VecDeque;

use proptest::prelude::*;

use super::*;
use crate::plan::{Action, DynamicPolicy, DynamicSettings, FixedPolicy, Policy};

/// A random event; its numbers choose among the nodes and reports that exist.
#[derive(Debug, Clone, Copy)]
enum Happens {
    Starts(usize),
    /// A node does some of what it has; its report comes at once, or later.
    Works(usize, usize, u32, bool),
    /// A report that is late comes.
    Comes(usize),
    Dies(usize),
    Joins(usize, f64),
    Idles(usize),
}

/// State of the driver and of its nodes.
struct World<'a> {
    policy: &'a mut dyn Policy,
    /// The owner of each item by the orders.
    owner: Vec<Option<usize>>,
    /// The items that each node really has: orders to take back reach it only when it works.
    queues: Vec<VecDeque<ItemId>>,
    to_take: Vec<Vec<ItemId>>,
    /// Started and not lost.
    working: Vec<bool>,
    late: Vec<(usize, Vec<ItemId>, f64)>,
    first_to_tell: Vec<Option<usize>>,
    finished: u32,
}

impl<'a> World<'a> {
    fn new(policy: &'a mut dyn Policy, nodes: usize, items: usize) -> Self {
        World {
            policy,
            owner: vec![None; items],
            queues: vec![VecDeque::new(); nodes],
            to_take: vec![Vec::new(); nodes],
            working: vec![false; nodes],
            late: Vec::new(),
            first_to_tell: vec![None; items],
            finished: 0,
        }
    }

    fn is_done(&self) -> bool {
        self.first_to_tell.iter().all(Option::is_some)
    }

    fn obey(&mut self, actions: Vec<Action>) {
        for action in actions {
            match action {
                Action::Give { node, items } => {
                    assert!(self.working[node], "{node} is not at work");
                    assert!(!items.is_empty());
                    for item in items {
                        assert_eq!(self.owner[item as usize], None, "{item} is somebody's");
                        assert_eq!(self.first_to_tell[item as usize], None, "{item} is done");
                        self.owner[item as usize] = Some(node);
                        self.to_take[node].retain(|other| *other != item);
                        if !self.queues[node].contains(&item) {
                            self.queues[node].push_back(item);
                        }
                    }
                }
                Action::TakeBack { node, items } => {
                    for item in items {
                        assert_eq!(self.owner[item as usize], Some(node));
                        self.owner[item as usize] = None;
                        self.to_take[node].push(item);
                    }
                }
                Action::Finished => self.finished += 1,
            }
        }
        assert_eq!(self.finished > 0, self.is_done());
    }

    fn tell(&mut self, node: usize, items: &[ItemId], seconds: f64) {
        for item in items {
            let first = &mut self.first_to_tell[*item as usize];
            if first.is_none() {
                *first = Some(node);
                if self.owner[*item as usize] == Some(node) {
                    self.owner[*item as usize] = None;
                }
            }
        }
        let actions = self.policy.done(node, items, seconds);
        self.obey(actions);
    }

    fn happen(&mut self, what: Happens) {
        let nodes = self.queues.len();
        match what {
            Happens::Starts(node) => {
                let node = node % nodes;
                self.working[node] = true;
                let actions = self.policy.started(node);
                self.obey(actions);
            }
            Happens::Works(node, count, tenths, at_once) => {
                let node = node % nodes;
                let count = count.min(self.queues[node].len());
                let items: Vec<ItemId> = self.queues[node].drain(..count).collect();
                // Only now does it hear what was taken back.
                let taken = std::mem::take(&mut self.to_take[node]);
                self.queues[node].retain(|item| !taken.contains(item));
                let seconds = f64::from(tenths) / 10.0;
                if at_once {
                    self.tell(node, &items, seconds);
                } else {
                    self.late.push((node, items, seconds));
                }
            }
            Happens::Comes(late) if !self.late.is_empty() => {
                let (node, items, seconds) = self.late.swap_remove(late % self.late.len());
                self.tell(node, &items, seconds);
                // Some reports come twice.
                self.tell(node, &items[..items.len() / 2], seconds);
            }
            Happens::Comes(_) => {}
            Happens::Dies(node) => {
                self.clear(node % nodes);
                let actions = self.policy.lost(node % nodes);
                self.obey(actions);
            }
            Happens::Joins(node, capability) => {
                // Its name may be a known one.
                if node < nodes {
                    self.clear(node);
                } else {
                    self.queues.push(VecDeque::new());
                    self.to_take.push(Vec::new());
                    self.working.push(false);
                }
                let number = node.min(nodes);
                let (given, actions) = self.policy.joined(&name(number), capability);
                assert_eq!(given, number);
                self.obey(actions);
            }
            Happens::Idles(node) => self.tell(node % nodes, &[], 1.0),
        }
    }

    /// A node is gone with all it has and has not told of.
    fn clear(&mut self, node: usize) {
        self.working[node] = false;
        self.queues[node].clear();
        self.to_take[node].clear();
        for owner in self.owner.iter_mut().filter(|owner| **owner == Some(node)) {
            *owner = None;
        }
    }

    /// Lets all work that are there, and one more, until there is no more to do.
    fn settle(&mut self) {
        self.happen(Happens::Joins(usize::MAX, 1.0));
        for node in 0..self.queues.len() {
            // Reports that never came are those of nodes that died.
            if !self.working[node] {
                self.happen(Happens::Starts(node));
            }
        }
        let lost: Vec<usize> = self.late.drain(..).map(|(node, _, _)| node).collect();
        for node in lost {
            self.happen(Happens::Dies(node));
            self.happen(Happens::Starts(node));
        }
        for _ in 0..self.owner.len() + 1 {
            for node in 0..self.queues.len() {
                self.happen(Happens::Works(node, 2, 10, true));
            }
        }
        assert!(self.is_done(), "{} are left", self.first_to_tell.iter().filter(|of| of.is_none()).count());
        assert_eq!(self.finished, 1);
        assert_eq!(self.policy.merged(), self.first_to_tell);
    }
}

fn happens() -> impl Strategy<Value = Happens> {
    let node = 0usize..7;
    prop_oneof![
        2 => node.clone().prop_map(Happens::Starts),
        6 => (node.clone(), 0usize..12, 0u32..40, any::<bool>())
            .prop_map(|(node, count, tenths, at_once)| Happens::Works(node, count, tenths, at_once)),
        3 => any::<usize>().prop_map(Happens::Comes),
        1 => node.clone().prop_map(Happens::Dies),
        1 => (node.clone(), capability()).prop_map(|(node, capability)| Happens::Joins(node, capability)),
        1 => node.prop_map(Happens::Idles),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 600, ..ProptestConfig::default() })]
    #[test]
    fn every_item_is_done_once(
        of in prop::collection::vec((0u64..30, capability()), 1..6),
        story in prop::collection::vec(happens(), 0..120),
        min_chunk in 0usize..9,
        ahead_seconds in prop_oneof![Just(0.0), 0.0..5.0f64],
    ) {
        let members: Vec<(String, f64)> = of.iter().enumerate().map(|(i, (_, c))| (name(i), *c)).collect();
        let sizes: Vec<u64> = of.iter().map(|(items, _)| *items).collect();
        let items = sizes.iter().sum::<u64>() as usize;
        let settings = DynamicSettings { min_chunk, ahead_seconds, ..DynamicSettings::default() };
        let mut dynamic = DynamicPolicy::new(members.clone(), in_order(&sizes), settings).unwrap();
        let mut fixed = FixedPolicy::new(members, in_order(&sizes)).unwrap();
        let policies: [&mut dyn Policy; 2] = [&mut dynamic, &mut fixed];
        for policy in policies {
            let mut world = World::new(policy, of.len(), items);
            if items == 0 {
                continue;
            }
            for what in &story {
                world.happen(*what);
            }
            world.settle();
        }
    }
}

#[test]
fn parts_that_are_no_partition_are_rejected() {
    let one = || vec![("a".to_owned(), 1.0)];
    for parts in [vec![vec![0, 0]], vec![vec![1]], vec![vec![0], vec![1]], vec![]] {
        assert!(
            matches!(FixedPolicy::new(one(), parts.clone()), Err(Error::NotAPartition { .. })),
            "{parts:?}"
        );
        assert!(matches!(
            DynamicPolicy::new(one(), parts, DynamicSettings::default()),
            Err(Error::NotAPartition { .. })
        ));
    }
}

#[test]
fn an_empty_job_is_finished_with_the_first_start() {
    let mut dynamic =
        DynamicPolicy::new(vec![("a".to_owned(), 1.0)], vec![vec![]], DynamicSettings::default()).unwrap();
    assert_eq!(dynamic.started(0), [Action::Finished]);
    assert_eq!(dynamic.started(0), []);
}

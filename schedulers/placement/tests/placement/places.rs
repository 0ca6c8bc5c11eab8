//! The last places of the nodes are kept for users who have few, whatever waits before them, and nothing else is kept for anybody.

use std::collections::{BTreeMap, BTreeSet};

use estimand_capacity::Standing;
use estimand_placement::obstacle::{Obstacle, obstacle};
use estimand_placement::outline::PlanOutline;
use estimand_placement::queue::rank;

use super::*;

/// Nodes, a queue, and tasks with numbers of their own.
#[derive(Default)]
struct Bench {
    cluster: Cluster,
    queue: Queue,
    submitted: Vec<Request>,
    running: Vec<Decision>,
}

impl Bench {
    /// Nodes with so many places, each with its name as the label `node`.
    fn new(nodes: &[(&str, u64)]) -> Bench {
        let mut bench = Bench::default();
        nodes.iter().for_each(|(name, places)| bench.put(name, *places));
        bench
    }

    fn put(&mut self, name: &str, places: u64) {
        let labels = LabelMap::from([("node".to_owned(), name.to_owned())]);
        put(&mut self.cluster, name, labels, &[("cpu", 1_000_000), ("tasks", places)]);
    }

    fn submit(&mut self, user: Option<&str>, nodes: &str, cpu: u64, count: usize) {
        let asked = amounts(&[("cpu", cpu), ("tasks", 1)]);
        let nodes = nodes.parse().unwrap();
        let request = Request::new(&mut self.cluster.ledger, asked, nodes, Policy::Pack).with_user(user);
        for _ in 0..count {
            self.queue.push(TaskNumber(self.submitted.len() as u64), Millis(0), 0, &request);
            self.submitted.push(request.clone());
        }
    }

    /// How many tasks of each user a pass places.
    fn pass(&mut self, now: u64) -> BTreeMap<&str, usize> {
        let from = self.running.len();
        self.running.extend(place_waiting(&mut self.cluster, &mut self.queue, Millis(now), 1));
        let mut placed = BTreeMap::new();
        for decision in &self.running[from..] {
            *placed.entry(decision.user.as_deref().unwrap_or("")).or_default() += 1;
        }
        placed
    }

    fn end_one(&mut self, user: &str) {
        let of_user = |decision: &Decision| decision.user.as_deref() == Some(user);
        let ended = self.running.iter().position(of_user).unwrap();
        end(&mut self.cluster, &self.running.remove(ended), 0);
    }

    fn obstacle(&self, task: usize) -> Option<Obstacle> {
        let plan = PlanOutline::new(&self.cluster, &self.queue, BTreeSet::new());
        obstacle(&plan, &self.submitted[task], rank(TaskNumber(task as u64), Millis(0), 0))
    }
}

#[test]
fn a_user_who_has_most_places_leaves_the_last_ones_to_others() {
    let mut bench = Bench::new(&[("n0", 256)]);
    bench.submit(Some("eve"), "", 0, 1_000);
    assert_eq!(bench.pass(0), [("eve", 240)].into());
    let said = bench.obstacle(999).unwrap().text(|_| None);
    assert_eq!(
        said,
        "node `n0` has room, but its last 16 places for tasks are kept for users who have fewer; `eve` has 240 of all 256"
    );
    bench.submit(Some("bob"), "", 0, 20);
    bench.submit(None, "", 0, 0);
    assert_eq!(bench.pass(1), [("bob", 16)].into(), "they waited behind 760 of hers");
    bench.end_one("eve");
    bench.submit(Some("cem"), "", 0, 1);
    assert_eq!(bench.pass(2), [("cem", 1)].into(), "bob has his part");
    // Operators' tasks stand in the order of the queue, as if nothing were kept.
    bench.end_one("bob");
    bench.submit(None, "", 0, 1);
    bench.submit(Some("dora"), "", 0, 1);
    assert_eq!(bench.pass(3), [("bob", 1)].into(), "he has fewer than his part, and came first");
    bench.end_one("bob");
    bench.end_one("bob");
    bench.queue = Queue::default();
    bench.submit(None, "", 0, 9);
    assert_eq!(bench.pass(4), [("", 2)].into());
}

#[test]
fn each_node_keeps_its_part_and_nothing_is_kept_where_no_user_runs() {
    let mut bench = Bench::new(&[("n0", 256), ("n1", 256), ("n2", 256)]);
    let refusing = bench.cluster.ledger.node("n2").unwrap();
    bench.cluster.node_mut(refusing).unwrap().refuses_users = true;
    bench.cluster.keep_places();
    bench.submit(Some("eve"), "node=n0", 0, 300);
    assert_eq!(bench.pass(0), [("eve", 240)].into());
    bench.submit(Some("bob"), "node=n0", 0, 1);
    assert_eq!(bench.pass(0), [("bob", 1)].into(), "n1 is empty, and is no help");
    bench.submit(Some("eve"), "", 0, 500);
    assert_eq!(bench.pass(0), [("eve", 240)].into());
    bench.submit(None, "node=n2", 0, 300);
    assert_eq!(bench.pass(0), [("", 256)].into());
}

#[test]
fn some_nodes_keep_a_place_where_a_sixteenth_of_one_is_less() {
    let names: Vec<String> = (0..32).map(|number| format!("n{number}")).collect();
    let nodes: Vec<(&str, u64)> = names.iter().map(|name| (name.as_str(), 1)).collect();
    let mut bench = Bench::new(&nodes);
    bench.submit(Some("eve"), "!none", 0, 40);
    let placed = bench.pass(0)["eve"];
    // Her first task is on a node that keeps its place for whoever has none.
    assert_eq!(placed, 31);
    bench.submit(Some("bob"), "", 0, 2);
    assert_eq!(bench.pass(0), [("bob", 1)].into());
    // One place is anybody's; of two the last one is kept.
    let mut bench = Bench::new(&[("n0", 1)]);
    bench.submit(Some("eve"), "", 0, 1);
    assert_eq!(bench.pass(0).len(), 1);
    let mut bench = Bench::new(&[("n0", 2)]);
    bench.submit(Some("eve"), "", 0, 2);
    assert_eq!(bench.pass(0), [("eve", 1)].into());
    let said = bench.obstacle(1).unwrap().text(|_| None);
    assert!(
        said.contains("its last place for tasks is kept for users who have none; `eve` has 1 of all 2"),
        "{said}"
    );
}

#[test]
fn a_user_who_has_few_places_again_is_looked_for_on_all_nodes() {
    let mut bench = Bench::new(&[("n0", 16), ("n1", 16)]);
    bench.submit(Some("eve"), "node=n0", 0, 1);
    bench.pass(0);
    bench.submit(None, "node=n1", 0, 15);
    bench.submit(Some("eve"), "node=n1", 0, 1);
    assert_eq!(bench.pass(0), [("", 15)].into(), "she has a place already");
    bench.end_one("eve");
    assert_eq!(bench.pass(1), [("eve", 1)].into(), "nothing was freed there, but she has none by now");
}

#[test]
fn nothing_is_kept_for_a_task_that_is_kept_out() {
    let mut bench = Bench::new(&[("n0", 16)]);
    bench.submit(Some("eve"), "", 60_000, 16);
    assert_eq!(bench.pass(0), [("eve", 15)].into());
    bench.submit(Some("bob"), "", 100_000, 1);
    assert_eq!(
        bench.pass(PATIENCE),
        [("bob", 1)].into(),
        "the processors are his, though her task waits for longer"
    );
}

#[test]
fn a_node_that_is_changed_keeps_another_part() {
    let mut bench = Bench::new(&[("n0", 32)]);
    bench.submit(Some("eve"), "", 0, 64);
    assert_eq!(bench.pass(0), [("eve", 30)].into());
    bench.put("n1", 16);
    assert_eq!(bench.pass(0), [("eve", 15)].into());
    let id = bench.cluster.ledger.node("n1").unwrap();
    bench.cluster.ledger.set_standing(id, Standing::Lost);
    bench.put("n0", 64);
    assert_eq!(bench.pass(0), [("eve", 19)].into(), "all that there are");
}

proptest! {
    /// By a plain count: nobody who has a node's part gets a place of it, and each task that waits has room nowhere, or only in
    /// parts that are kept from its user.
    #[test]
    fn the_last_places_go_to_users_who_have_few(
        nodes in proptest::collection::vec(0..40_u64, 1..6),
        steps in proptest::collection::vec((0..8_usize, 0..4_usize, 0..3_u64, 1..30_usize), 1..40),
    ) {
        let names: Vec<String> = (0..nodes.len()).map(|number| format!("n{number}")).collect();
        let mut bench = Bench::default();
        names.iter().zip(&nodes).for_each(|(name, places)| bench.put(name, *places));
        let mut kept: BTreeMap<&str, u64> = BTreeMap::new();
        let mut all = 0_u64;
        for (name, places) in names.iter().zip(&nodes) {
            let before = all.div_ceil(16);
            all += places;
            kept.insert(name, all.div_ceil(16) - before);
        }
        let users = [None, Some("alice"), Some("bob"), Some("eve")];
        let mut users_of: BTreeMap<TaskNumber, Option<&str>> = BTreeMap::new();
        let mut idle: BTreeMap<&str, u64> = names.iter().map(String::as_str).zip(nodes.iter().copied()).collect();
        let mut places: BTreeMap<&str, u64> = BTreeMap::new();
        for (now, (step, which, cpu, count)) in steps.into_iter().enumerate() {
            let now = now as u64;
            if step < 4 {
                let only = names.get(step).map(|name| format!("node={name}")).unwrap_or_default();
                bench.submit(users[which], &only, cpu * 1000, count);
                let numbers = bench.submitted.len() - count..bench.submitted.len();
                users_of.extend(numbers.map(|number| (TaskNumber(number as u64), users[which])));
            }
            for ended in 0..if step < 4 { 0 } else { count.min(bench.running.len()) } {
                let decision = bench.running.swap_remove(ended * 7 % bench.running.len());
                *idle.get_mut(&*decision.why.chosen.node).unwrap() += 1;
                if let Some(user) = users_of[&decision.task] {
                    *places.get_mut(user).unwrap() -= 1;
                }
                end(&mut bench.cluster, &decision, now);
            }
            let from = bench.running.len();
            bench.pass(now);
            for decision in &bench.running[from..] {
                let node = &*decision.why.chosen.node;
                if let Some(user) = users_of[&decision.task] {
                    let has = places.entry(user).or_default();
                    prop_assert!(*has < kept[node] || idle[node] > kept[node], "{user} on {node}");
                    *has += 1;
                }
                *idle.get_mut(node).unwrap() -= 1;
            }
            let heads = bench.queue.heads();
            prop_assert!(heads.is_sorted_by_key(|head| head.rank));
            for head in heads {
                let user = head.request.user.as_deref();
                let has = user.map_or(0, |user| places.get(user).copied().unwrap_or(0));
                let is_open = |node: &&str| {
                    let labels = LabelMap::from([("node".to_owned(), (*node).to_owned())]);
                    let is_left = user.is_none() || has < kept[*node] || idle[*node] > kept[*node];
                    head.request.nodes.matches(&labels) && idle[*node] > 0 && is_left
                };
                let open = names.iter().map(String::as_str).find(is_open);
                prop_assert_eq!(open, None, "{:?} of {:?} waits", head.rank, user);
                let obstacle = bench.obstacle(head.rank.1.0 as usize);
                prop_assert!(obstacle.is_some());
                let has_room = |node: &&str| {
                    let labels = LabelMap::from([("node".to_owned(), (*node).to_owned())]);
                    head.request.nodes.matches(&labels) && idle[*node] > 0
                };
                let is_room = names.iter().map(String::as_str).any(|node| has_room(&node));
                prop_assert_eq!(matches!(obstacle, Some(Obstacle::KeptPlaces { .. })), is_room);
            }
        }
    }
}

//! The reason why a task waits is that which keeps it waiting, and no other.

use std::collections::BTreeSet;

use estimand_placement::obstacle::{Obstacle, obstacle};
use estimand_placement::outline::PlanOutline;
use estimand_placement::queue::rank;

use super::*;

/// A cluster whose queue is looked at after each pass.
struct Bench {
    cluster: Cluster,
    queue: Queue,
}

impl Bench {
    fn new(nodes: &[(&str, &[(&str, u64)])]) -> Bench {
        let mut cluster = Cluster::new(Ledger::new(0));
        for (node, capacity) in nodes {
            let labels = LabelMap::from([("node".to_owned(), (*node).to_owned())]);
            put(&mut cluster, node, labels, capacity);
        }
        Bench { cluster, queue: Queue::default() }
    }

    fn asks(&mut self, of: &[(&str, u64)], nodes: &str, policy: Policy) -> Request {
        Request::new(&mut self.cluster.ledger, amounts(of), nodes.parse().unwrap(), policy)
    }

    fn submit(&mut self, task: u64, at: u64, request: &Request) {
        self.queue.push(TaskNumber(task), Millis(at), 0, request);
    }

    fn pass(&mut self, now: u64) -> Vec<Decision> {
        place_waiting(&mut self.cluster, &mut self.queue, Millis(now), 0)
    }

    fn obstacle(&self, task: u64, at: u64, request: &Request) -> Option<Obstacle> {
        let plan = PlanOutline::new(&self.cluster, &self.queue, BTreeSet::new());
        obstacle(&plan, request, rank(TaskNumber(task), Millis(at), 0))
    }

    fn reason(&self, task: u64, at: u64, request: &Request) -> Option<String> {
        self.obstacle(task, at, request)
            .map(|obstacle| obstacle.text(|number| Some(format!("t{}", number.0))))
    }

    #[track_caller]
    fn check(&self, task: u64, at: u64, request: &Request, expected: &str) {
        assert_eq!(self.reason(task, at, request).as_deref(), Some(expected));
    }
}

const CPU: &str = "cpu";

#[test]
fn a_task_that_the_next_pass_places_has_no_reason() {
    let mut bench = Bench::new(&[("n0", &[(CPU, 2000)])]);
    let request = bench.asks(&[(CPU, 2000)], "", Policy::Estimated);
    assert_eq!(bench.reason(1, 0, &request), None, "it was not looked at yet");
    bench.submit(1, 0, &request);
    let placing = bench.pass(0).iter().map(|decision| decision.task).collect();
    let plan = PlanOutline::new(&bench.cluster, &bench.queue, placing);
    assert_eq!(obstacle(&plan, &request, rank(TaskNumber(1), Millis(0), 0)), None, "it has the room");
    assert!(bench.reason(2, 0, &request).is_some());
}

#[test]
fn too_little_of_a_resource_is_named_in_its_unit_with_the_node_that_has_most() {
    let memory = |gib: u64| ("memory", gib << 30);
    let mut bench = Bench::new(&[
        ("n0", &[(CPU, 2000), memory(8), ("gpu", 1)]),
        ("n1", &[(CPU, 2000), memory(2), ("gpu", 0)]),
    ]);
    let half = bench.asks(&[(CPU, 500), ("gpu", 1)], "", Policy::Pack);
    bench.submit(1, 0, &half);
    assert_eq!(names(&bench.pass(0)), [(1, "n0")]);
    let gpu = bench.asks(&[("gpu", 1)], "", Policy::Pack);
    bench.submit(2, 1, &gpu);
    let more = bench.asks(&[(CPU, 2000), memory(4)], "", Policy::Pack);
    bench.submit(3, 2, &more);
    bench.submit(4, 3, &more);
    assert!(bench.pass(3).is_empty());
    bench.check(2, 1, &gpu, "no node has room now: it needs gpu:1, and none is free");
    let said = "no node has room now: it needs cpu:2, and the most that is free is 1.5, on `n0`";
    bench.check(3, 2, &more, said);
    bench.check(4, 3, &more, &format!("{said}; `t3` is in front of it"));
}

#[test]
fn amounts_that_are_free_on_different_nodes_are_named_together() {
    let mut bench = Bench::new(&[("n0", &[(CPU, 2000), ("gpu", 1)]), ("n1", &[(CPU, 2000), ("gpu", 1)])]);
    for (task, node, of) in [(1, "node=n0", (CPU, 2000)), (2, "node=n1", ("gpu", 1))] {
        let request = bench.asks(&[of], node, Policy::Pack);
        bench.submit(task, 0, &request);
    }
    assert_eq!(bench.pass(0).len(), 2);
    let both = bench.asks(&[(CPU, 1000), ("gpu", 1)], "", Policy::Pack);
    bench.submit(3, 0, &both);
    bench.pass(0);
    bench.check(3, 0, &both, "no node has room now: it needs cpu:1, gpu:1, and no node has all of that free");
}

#[test]
fn labels_are_named_only_if_they_are_the_cause() {
    let mut bench = Bench::new(&[("n0", &[(CPU, 1000)]), ("n1", &[(CPU, 1000)])]);
    let there = bench.asks(&[(CPU, 1000)], "node=n0", Policy::Pack);
    (1..3).for_each(|task| bench.submit(task, 0, &there));
    assert_eq!(bench.pass(0).len(), 1);
    let free = "no node has room now: it needs cpu:1, and none is free";
    let narrowed = "; there are others, but it may only be on 1 node with the labels `node=n0`";
    bench.check(2, 0, &there, &format!("{free}{narrowed}"));
    let anywhere = bench.asks(&[(CPU, 1000)], "", Policy::Pack);
    bench.submit(3, 0, &anywhere);
    assert_eq!(names(&bench.pass(0)), [(3, "n1")]);
    bench.check(2, 0, &there, free);
}

#[test]
fn nodes_that_take_nothing_now_are_named() {
    let mut bench = Bench::new(&[("n0", &[(CPU, 4000)]), ("n1", &[(CPU, 1000)])]);
    let large = bench.asks(&[(CPU, 2000)], "", Policy::Estimated);
    let small = bench.asks(&[(CPU, 1000)], "", Policy::Estimated);
    for node in ["n0", "n1"] {
        bench.cluster.ledger.cordon(node).unwrap();
    }
    bench.check(1, 0, &large, "node `n0`, on which alone it fits, is cordoned");
    bench.check(2, 0, &small, "each of the 2 nodes on which it fits is lost or cordoned");
    let never = bench.asks(&[(CPU, 5000)], "", Policy::Estimated);
    assert!(bench.reason(3, 0, &never).unwrap().starts_with("it fits on no node: it needs cpu"));
}

#[test]
fn a_policy_that_waits_for_a_processor_says_so() {
    let mut bench = Bench::new(&[("n0", &[(CPU, 1000), ("tasks", 256)])]);
    let request = bench.asks(&[("tasks", 1)], "", Policy::Queue);
    (1..4).for_each(|task| bench.submit(task, 0, &request));
    assert_eq!(bench.pass(0).len(), 1);
    let said =
        "no processor is free now: its policy `queue` waits for one that no other task is expected to use";
    bench.check(2, 0, &request, said);
    bench.check(3, 0, &request, &format!("{said}; `t2` is in front of it"));
}

#[test]
fn the_task_that_a_node_is_kept_for_is_named() {
    let mut bench = Bench::new(&[("n0", &[(CPU, 4000), ("tasks", 256)])]);
    let [nothing, one, two, three] =
        [0, 1000, 2000, 3000].map(|cpu| bench.asks(&[(CPU, cpu), ("tasks", 1)], "", Policy::Estimated));
    bench.submit(1, 0, &two);
    bench.submit(2, 0, &one);
    let running = bench.pass(0);
    assert_eq!(running.len(), 2);
    bench.submit(3, 1, &three);
    bench.pass(PATIENCE + 1);
    let free = "no node has room now: it needs cpu:3, and the most that is free is 1, on `n0`";
    bench.check(3, 1, &three, &format!("{free}; `n0` is kept for it"));
    assert_eq!(bench.reason(4, PATIENCE, &nothing), None, "it fits beside it");
    bench.submit(5, PATIENCE, &one);
    assert_eq!(bench.pass(PATIENCE + 2).len(), 1, "so does this one");
    end(&mut bench.cluster, &running[1], PATIENCE + 3);
    bench.submit(6, PATIENCE, &one);
    assert!(bench.pass(PATIENCE + 4).is_empty());
    let kept = |task: &str| {
        format!(
            "node `n0` has room, but it is kept for {task}, which is in front of it and has waited for more than 10 minutes"
        )
    };
    bench.check(6, PATIENCE, &one, &kept("`t3`"));
    let obstacle = bench.obstacle(6, PATIENCE, &one).unwrap();
    assert_eq!(obstacle.text(|_| None), kept("another task"), "to a reader who may not know of it");
}

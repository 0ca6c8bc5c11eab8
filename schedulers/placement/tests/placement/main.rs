//! Placement over queue, ledger and facts: each policy, priority with age, and what is said of a task that fits nowhere.

#![allow(clippy::unwrap_used)]

use estimand_api::labels::LabelMap;
use estimand_api::selector::Selector;
use estimand_capacity::{Amounts, Ledger, Resource};
use estimand_placement::Millis;
use estimand_placement::cluster::Cluster;
use estimand_placement::decision::Decision;
use estimand_placement::fit::misfit;
use estimand_placement::nodes::Offer;
use estimand_placement::planner::place_waiting;
use estimand_placement::policy::Policy;
use estimand_placement::pressure::Pressure;
use estimand_placement::queue::{Queue, TaskNumber};
use estimand_placement::request::Request;
use proptest::prelude::*;

mod keeping;
mod lines;
mod places;
mod reasons;
mod shares;

const AGEING: u64 = estimand_placement::queue::AGEING.0;
const PATIENCE: u64 = estimand_placement::planner::PATIENCE.0;

fn amounts(of: &[(&str, u64)]) -> Amounts {
    of.iter().map(|(name, amount)| (Resource::parse(name).unwrap(), *amount)).collect()
}

fn put(cluster: &mut Cluster, name: &str, labels: LabelMap, capacity: &[(&str, u64)]) {
    cluster.put_node(&Offer::new(name, labels, amounts(capacity)));
    cluster.keep_places();
}

/// Nodes with these processors, each with its number as the label `n`.
fn cluster(processors: &[u64]) -> Cluster {
    let mut cluster = Cluster::new(Ledger::new(0));
    for (number, cpu) in processors.iter().enumerate() {
        let labels = LabelMap::from([("n".to_owned(), number.to_string())]);
        put(&mut cluster, &format!("n{number}"), labels, &[("cpu", cpu * 1000)]);
    }
    cluster
}

fn request(cluster: &mut Cluster, cpu: u64, policy: Policy) -> Request {
    let nodes = Selector::default();
    Request::new(&mut cluster.ledger, amounts(&[("cpu", cpu)]), nodes, policy)
}

fn facts(cluster: &mut Cluster, thousandths: &[u64], at: u64) {
    for (number, thousandths) in thousandths.iter().enumerate() {
        let id = cluster.ledger.node(&format!("n{number}")).unwrap();
        let fact =
            Pressure { thousandths: *thousandths, measured_at: Millis(at), revision: at + number as u64 };
        cluster.node_mut(id).unwrap().pressure.learn(Some(fact));
    }
}

/// The task is done.
fn end(cluster: &mut Cluster, decision: &Decision, at: u64) {
    assert!(cluster.ledger.take_back(decision.loan));
    cluster.uncount(decision.node, decision.cpu, decision.user.as_ref());
    let node = cluster.node_mut(decision.node).unwrap();
    node.start(Millis(at), decision.cpu);
    node.relieve(Millis(at), decision.cpu, true);
}

fn names(decisions: &[Decision]) -> Vec<(u64, &str)> {
    decisions.iter().map(|decision| (decision.task.0, &*decision.why.chosen.node)).collect()
}

/// The nodes that five tasks get, each of which asks for a processor.
fn five(policy: Policy, pressures: &[u64]) -> Vec<String> {
    five_that_ask(1000, policy, pressures)
}

fn five_that_ask(cpu: u64, policy: Policy, pressures: &[u64]) -> Vec<String> {
    let (mut cluster, mut queue) = (cluster(&[8, 4, 8]), Queue::default());
    facts(&mut cluster, pressures, 1);
    let request = request(&mut cluster, cpu, policy);
    (0..5).for_each(|task| queue.push(TaskNumber(task), Millis(2), 0, &request));
    let decisions = place_waiting(&mut cluster, &mut queue, Millis(2), 7);
    names(&decisions).into_iter().map(|(_, node)| node.to_owned()).collect()
}

#[test]
fn each_policy_ranks_by_its_own() {
    assert_eq!(five(Policy::Queue, &[900, 0, 0]), ["n0"; 5]);
    assert_eq!(
        five(Policy::LeastPressure, &[900, 100, 500])[..4],
        ["n1"; 4],
        "as it was measured, whatever was placed"
    );
    // Each task adds 125 to n0 and n2, and 250 to n1, which has half the processors.
    assert_eq!(five_that_ask(0, Policy::Estimated, &[300, 0, 1000]), ["n1", "n0", "n1", "n0", "n0"]);
    assert_eq!(five(Policy::Pack, &[0, 0, 0]), ["n1", "n1", "n1", "n1", "n0"]);
    let mut spread = five(Policy::Spread, &[0, 0, 0]);
    spread.sort();
    assert_eq!(spread, ["n0", "n0", "n1", "n2", "n2"]);
    let random = five(Policy::Random, &[0, 0, 0]);
    assert_eq!(random, five(Policy::Random, &[900, 900, 900]), "the same seed draws the same");
    assert!(random.iter().any(|node| *node != random[0]));
}

#[test]
fn work_that_asks_for_nothing_still_takes_a_processor() {
    let place = |policy: Policy| {
        let (mut cluster, mut queue) = (cluster(&[2, 1]), Queue::default());
        let nodes = Selector::default();
        let request = Request::new(&mut cluster.ledger, Amounts::default(), nodes, policy);
        (0..5).for_each(|task| queue.push(TaskNumber(task), Millis(0), 0, &request));
        let decisions = place_waiting(&mut cluster, &mut queue, Millis(0), 0);
        let nodes: Vec<String> = names(&decisions).into_iter().map(|(_, node)| node.to_owned()).collect();
        if let Some(first) = decisions.first() {
            end(&mut cluster, first, 1);
        }
        (nodes, place_waiting(&mut cluster, &mut queue, Millis(2), 0).len())
    };
    let (nodes, next) = place(Policy::Queue);
    assert_eq!(
        (nodes.as_slice(), next),
        (["n0", "n0", "n1"].map(String::from).as_slice(), 1),
        "one is free again"
    );
    assert_eq!(place(Policy::Pack).0, ["n1", "n0", "n0", "n0", "n0"], "beyond full the least overfull");
}

#[test]
fn the_default_fits_by_what_is_asked_and_avoids_busy_processors() {
    let place = |tasks: u64, pressures: &[u64], asked: &[(&str, u64)]| {
        let mut cluster = Cluster::new(Ledger::new(0));
        for (node, cpu) in [("n0", 4000), ("n1", 4000), ("n2", 8000)] {
            let capacity = [("cpu", cpu), ("memory", 8 << 30), ("tasks", 256)];
            put(&mut cluster, node, LabelMap::new(), &capacity);
        }
        facts(&mut cluster, pressures, 1);
        let asked = amounts(asked).with(Resource::parse("tasks").unwrap(), 1);
        let request = Request::new(&mut cluster.ledger, asked, Selector::default(), Policy::default());
        let mut queue = Queue::default();
        (0..tasks).for_each(|task| queue.push(TaskNumber(task), Millis(2), 0, &request));
        let decisions = place_waiting(&mut cluster, &mut queue, Millis(2), 7);
        names(&decisions).into_iter().map(|(_, node)| node.to_owned()).collect::<Vec<_>>()
    };
    // The least pressure decides among equal fits, and then that node is filled up.
    assert_eq!(place(5, &[50, 0, 0], &[("cpu", 1000)]), ["n1", "n1", "n1", "n1", "n0"]);
    // Something else runs on n0 and n1.
    assert_eq!(place(5, &[1500, 1000, 0], &[("cpu", 1000)]), ["n2"; 5]);
    let busy = place(5, &[3000, 2000, 2000], &[("cpu", 1000)]);
    assert_eq!(busy[..2], ["n2", "n1"], "all are busy: the least pressure with the task on it");
    // Tasks that ask for memory alone take a processor, whether there are facts of it or not.
    assert_eq!(place(5, &[0, 0, 0], &[("memory", 1 << 30)]), ["n2"; 5]);
    assert_eq!(place(5, &[], &[("memory", 1 << 30)]), ["n0", "n0", "n0", "n0", "n1"]);
    // Beyond that they are spread.
    let many = place(48, &[], &[("memory", 1 << 26)]);
    for node in ["n0", "n1", "n2"] {
        let there = many.iter().filter(|name| *name == node).count();
        assert_eq!(there, 16, "{node}: {many:?}");
    }
    // A place among the tasks of a node is not what fills a node up.
    let nothing = place(5, &[0, 0, 0], &[]);
    assert!(nothing.iter().any(|node| *node != nothing[0]), "{nothing:?}");
}

#[test]
fn a_node_of_which_nothing_is_known_comes_last() {
    let (mut cluster, mut queue) = (cluster(&[4, 4]), Queue::default());
    facts(&mut cluster, &[9000], 1);
    let request = request(&mut cluster, 1000, Policy::Estimated);
    queue.push(TaskNumber(1), Millis(0), 0, &request);
    let decisions = place_waiting(&mut cluster, &mut queue, Millis(2), 0);
    let why = &decisions[0].why;
    assert_eq!((&*why.chosen.node, why.nodes, &*why.others[0].node), ("n0", 2, "n1"));
    assert_eq!(why.chosen.fact.unwrap().revision, 1);
    assert!(why.others[0].score.unknown && why.chosen.score < why.others[0].score);
}

#[test]
fn priority_counts_and_so_does_age() {
    let (mut cluster, mut queue) = (cluster(&[1]), Queue::default());
    let request = request(&mut cluster, 1000, Policy::Queue);
    queue.push(TaskNumber(1), Millis(0), 0, &request);
    queue.push(TaskNumber(2), Millis(1), 2, &request);
    queue.push(TaskNumber(3), Millis(AGEING * 3), 2, &request);
    let mut order = Vec::new();
    for now in 0..3 {
        let decisions = place_waiting(&mut cluster, &mut queue, Millis(now), 0);
        assert_eq!(decisions.len(), 1, "there is room for one");
        order.push(decisions[0].task.0);
        end(&mut cluster, &decisions[0], now);
    }
    assert_eq!(order, [2, 1, 3], "the third has waited too little for its priority");
    assert!(queue.is_empty() && !queue.remove(TaskNumber(1)));
}

#[test]
fn labels_that_are_only_claimed_choose_no_node_for_secrets_and_inputs() {
    let (mut cluster, mut queue) = (cluster(&[8, 8]), Queue::default());
    let asks = |cluster: &mut Cluster, needs_bound_labels: bool| {
        let nodes = "n=1".parse().unwrap();
        let request = Request::new(&mut cluster.ledger, Amounts::default(), nodes, Policy::Spread);
        request.with_bound_labels(needs_bound_labels)
    };
    let plain = asks(&mut cluster, false);
    let bound = asks(&mut cluster, true);
    queue.push(TaskNumber(1), Millis(0), 0, &plain);
    queue.push(TaskNumber(2), Millis(0), 0, &bound);
    assert_eq!(names(&place_waiting(&mut cluster, &mut queue, Millis(0), 1)), [(1, "n1")]);
    let said = misfit(&cluster, &bound).unwrap().to_string();
    assert!(
        said.contains("has secrets or inputs") && said.contains("`n=1`") && said.contains("only claim"),
        "{said}"
    );

    let id = cluster.ledger.node("n1").unwrap();
    let labels = cluster.node(id).unwrap().labels.clone();
    cluster.node_mut(id).unwrap().bound_labels = labels;
    assert_eq!(misfit(&cluster, &bound), None);
    let mut anew = Queue::default();
    anew.push(TaskNumber(2), Millis(0), 0, &bound);
    assert_eq!(names(&place_waiting(&mut cluster, &mut anew, Millis(0), 1)), [(2, "n1")]);
}

#[test]
fn a_container_is_placed_only_where_containers_run() {
    let mut cluster = cluster(&[8, 8]);
    let container = request(&mut cluster, 1000, Policy::Queue).with_image(true);
    let said = misfit(&cluster, &container).unwrap().to_string();
    assert!(said.contains("runs containers") && said.contains("`--docker`"), "{said}");
    let mut labels = LabelMap::from([("docker".to_owned(), "yes".to_owned())]);
    labels.insert("n".to_owned(), "9".to_owned());
    put(&mut cluster, "n9", labels, &[("cpu", 2000)]);
    assert_eq!(misfit(&cluster, &container), None);
    let mut queue = Queue::default();
    (0..3).for_each(|task| queue.push(TaskNumber(task), Millis(0), 0, &container));
    let placed = place_waiting(&mut cluster, &mut queue, Millis(0), 1);
    assert_eq!(names(&placed), [(0, "n9"), (1, "n9")], "the third one waits");
}

#[test]
fn a_process_of_a_user_is_placed_only_where_an_agent_runs_those() {
    let mut cluster = cluster(&[8, 8]);
    let refuse = |cluster: &mut Cluster, node: &str, refuses: bool| {
        let id = cluster.ledger.node(node).unwrap();
        cluster.node_mut(id).unwrap().refuses_users = refuses;
    };
    refuse(&mut cluster, "n0", true);
    refuse(&mut cluster, "n1", true);
    let process = request(&mut cluster, 8000, Policy::Queue).with_user(Some("alice"));
    let said = misfit(&cluster, &process).unwrap().to_string();
    assert!(said.contains("task of a user") && said.contains("`--run-as USER`"), "{said}");
    // A container has nothing of the agent's.
    let container = process.clone().with_image(true);
    assert!(misfit(&cluster, &container).unwrap().to_string().contains("runs containers"));
    let of_operators = request(&mut cluster, 8000, Policy::Queue);
    assert_eq!(misfit(&cluster, &of_operators), None);
    let mut queue = Queue::default();
    (0..3).for_each(|task| queue.push(TaskNumber(task), Millis(0), 0, &process));
    assert_eq!(names(&place_waiting(&mut cluster, &mut queue, Millis(0), 1)), []);
    refuse(&mut cluster, "n1", false);
    assert_eq!(misfit(&cluster, &process), None);
    let mut anew = Queue::default();
    (0..3).for_each(|task| anew.push(TaskNumber(task), Millis(0), 0, &process));
    assert_eq!(names(&place_waiting(&mut cluster, &mut anew, Millis(0), 1)), [(0, "n1")], "the others wait");
}

#[test]
fn a_task_that_fits_nowhere_is_told_why() {
    let mut cluster = cluster(&[2, 8]);
    let (mut check, mut nodes) = (Vec::new(), LabelMap::new());
    nodes.insert("disk".to_owned(), String::new());
    put(&mut cluster, "g", nodes, &[("cpu", 1000), ("gpu", 1)]);
    let mut why = |of: &[(&str, u64)], nodes: &str| {
        let nodes = nodes.parse().unwrap();
        let request = Request::new(&mut cluster.ledger, amounts(of), nodes, Policy::Queue);
        check.push(misfit(&cluster, &request).map(|misfit| misfit.to_string()));
    };
    why(&[("gpu", 2)], "");
    why(&[("cpu", 4000), ("gpu", 1)], "");
    why(&[("cpu", 4000)], "disk");
    why(&[("cpu", 1)], "zone=z");
    why(&[("cpu", 8000)], "");
    let said: Vec<&str> = check.iter().map(|misfit| misfit.as_deref().unwrap_or("fits")).collect();
    assert_eq!(
        said,
        [
            "needs gpu:2; the most any node has is 1",
            "needs cpu:4, gpu:1; no node has all of them",
            "needs cpu:4; the most any node has is 1",
            "needs a node with the labels `zone=z`; no node has them",
            "fits",
        ]
    );
}

proptest! {
    /// A pass that looks only at what changed places the same as one that looks at everything.
    #[test]
    fn what_waits_is_placed_as_soon_as_there_is_room(
        steps in proptest::collection::vec((0..3_usize, 0..4_u64, 0..7_usize), 1..60),
    ) {
        let (mut cluster, mut queue) = (cluster(&[3, 2, 1]), Queue::default());
        let mut running: Vec<Decision> = Vec::new();
        for (now, (step, size, which)) in steps.into_iter().enumerate() {
            let now = now as u64;
            if step > 0 {
                let request = request(&mut cluster, 1000 * size, Policy::ALL[which]);
                queue.push(TaskNumber(now), Millis(now), size as i32, &request);
            } else if !running.is_empty() {
                let ended = running.swap_remove(which % running.len());
                end(&mut cluster, &ended, now);
            }
            running.extend(place_waiting(&mut cluster, &mut queue, Millis(now), 1));
            // Each task that still waits has no room anywhere.
            for size in 0..4 {
                for policy in Policy::ALL {
                    let request = request(&mut cluster, 1000 * size, policy);
                    let free = |cpu| policy != Policy::Queue || cpu;
                    let fits = cluster.nodes().any(|node| {
                        let free = free(node.is_free_for(request.weight));
                        free && cluster.ledger.can_lend(node.id, &request.shape)
                    });
                    prop_assert!(!fits || queue.waiting_like(&request) == 0, "{size} {policy:?}");
                }
            }
        }
    }
}

//! A queue by shares: users' first, then frameworks' within a user, then priority and age.

use estimand_capacity::{Shares, Weight};

use super::*;

/// Nodes that count shares, and tasks that ask for a processor each.
struct Bench {
    cluster: Cluster,
    queue: Queue,
    submitted: u64,
}

impl Bench {
    fn new(processors: &[u64]) -> Bench {
        let mut cluster = cluster(processors);
        let mut shares = Shares::default();
        shares.follow_nodes(&cluster.ledger);
        cluster.shares = Some(shares);
        Bench { cluster, queue: Queue::by_shares(), submitted: 0 }
    }

    fn submit(&mut self, count: u64, priority: i32, user: &str, framework: &str) {
        self.submit_for(1, count, priority, user, framework);
    }

    fn submit_for(&mut self, processors: u64, count: u64, priority: i32, user: &str, framework: &str) {
        let request = request(&mut self.cluster, processors * 1000, Policy::Pack);
        let request = request.with_user(Some(user)).with_framework(Some(framework));
        for _ in 0..count {
            self.submitted += 1;
            self.queue.push(TaskNumber(self.submitted), Millis(0), priority, &request);
        }
    }

    /// Places what fits; returns the users and frameworks in the order in which they are served.
    fn place(&mut self, now: u64) -> Vec<String> {
        let decisions = place_waiting(&mut self.cluster, &mut self.queue, Millis(now), 0);
        let holder = |decision: Decision| {
            let holder = decision.holder.unwrap();
            format!("{} {}", holder.user, holder.framework)
        };
        decisions.into_iter().map(holder).collect()
    }

    fn shares(&mut self) -> &mut Shares {
        self.cluster.shares.as_mut().unwrap()
    }
}

#[test]
fn users_are_served_in_turns_however_many_tasks_they_have() {
    let mut bench = Bench::new(&[4, 2]);
    bench.submit(100, 0, "bob", "all");
    bench.submit(3, 0, "alice", "all");
    let served = bench.place(0);
    assert_eq!(served, ["bob all", "alice all", "bob all", "alice all", "bob all", "alice all"]);
    assert_eq!(bench.shares().of_user("bob"), bench.shares().of_user("alice"));
}

#[test]
fn more_frameworks_are_no_larger_share() {
    let mut bench = Bench::new(&[8]);
    (0..4).for_each(|name| bench.submit(9, 0, "bob", &format!("f{name}")));
    bench.submit(9, 0, "alice", "all");
    let served = bench.place(0);
    assert_eq!(served.iter().filter(|holder| *holder == "alice all").count(), 4);
    let of_bob: Vec<&String> = served.iter().filter(|holder| holder.starts_with("bob")).collect();
    assert_eq!(of_bob, ["bob f0", "bob f1", "bob f2", "bob f3"]);
}

#[test]
fn weights_are_of_users_and_of_their_frameworks() {
    let mut bench = Bench::new(&[8]);
    bench.shares().set_user_weight("alice", Weight::new(3).unwrap());
    let large = estimand_capacity::Holder::new("alice", "large");
    bench.shares().set_weight(&large, Weight::new(2).unwrap());
    bench.submit(9, 0, "alice", "small");
    bench.submit(9, 0, "alice", "large");
    bench.submit(9, 0, "bob", "all");
    let served = bench.place(0);
    let count = |name: &str| served.iter().filter(|holder| *holder == name).count();
    assert_eq!((count("alice large"), count("alice small"), count("bob all")), (4, 2, 2));
}

#[test]
fn shares_come_before_priority_and_priority_counts_within_a_framework() {
    let mut bench = Bench::new(&[3]);
    bench.submit(2, 0, "alice", "all");
    bench.submit(5, 9, "bob", "all");
    assert_eq!(bench.place(0), ["bob all", "alice all", "bob all"]);
    let mut bench = Bench::new(&[1]);
    bench.submit(1, 0, "alice", "all");
    bench.submit(1, 1, "alice", "all");
    let placed = place_waiting(&mut bench.cluster, &mut bench.queue, Millis(0), 0);
    assert_eq!(names(&placed), [(2, "n0")]);
}

#[test]
fn a_task_that_does_not_fit_lets_others_pass() {
    let mut bench = Bench::new(&[2]);
    bench.submit_for(3, 1, 0, "alice", "all");
    bench.submit(2, 0, "bob", "all");
    assert_eq!(bench.place(0), ["bob all", "bob all"]);
    assert!(bench.place(0).is_empty(), "it is full");
}

#[test]
fn a_node_stays_with_the_user_that_it_is_kept_for() {
    let mut bench = Bench::new(&[2]);
    bench.submit(1, 0, "alice", "all");
    bench.submit(1, 0, "bob", "all");
    let running = place_waiting(&mut bench.cluster, &mut bench.queue, Millis(0), 0);
    assert_eq!(running.len(), 2);
    // Two tasks want the whole node, and alice's is in front.
    bench.submit_for(2, 1, 1, "alice", "all");
    bench.submit_for(2, 1, 0, "bob", "all");
    assert!(bench.place(PATIENCE).is_empty());
    // Now bob has nothing and would come first, but half of the node does not do for his, nor is it given to eve.
    bench.take_back(&running[1]);
    bench.submit(1, 0, "eve", "all");
    assert!(bench.place(PATIENCE).is_empty());
    bench.take_back(&running[0]);
    assert_eq!(bench.place(PATIENCE), ["alice all"]);
}

impl Bench {
    /// The task is done.
    fn take_back(&mut self, decision: &Decision) {
        end(&mut self.cluster, decision, PATIENCE);
        self.shares().take_back(decision.holder.as_ref().unwrap(), &decision.shape);
    }
}

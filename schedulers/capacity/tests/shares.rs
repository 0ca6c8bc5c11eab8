//! Dominant shares: the worked example, the properties that make them fair, and an order that equals a sort from scratch.
//!
//! Properties of dominant resource fairness hold for work that can be divided without end. Tasks are whole, so each holds
//! up to one task, as the tests say.

#![allow(clippy::unwrap_used)]

use std::collections::{BTreeMap, BTreeSet};

use estimand_capacity::{Amounts, Holder, Ledger, NodeId, Resource, Share, ShareOrder, Shares, Weight};
use proptest::prelude::*;

const RESOURCES: [&str; 3] = ["cpu", "memory", "gpu"];

type Demand = [u64; 3];

fn amounts(of: Demand) -> Amounts {
    RESOURCES.iter().zip(of).map(|(name, amount)| (Resource::parse(name).unwrap(), amount)).collect()
}

fn share(used: u64, whole: u64) -> Share {
    Share::new(used.into(), whole.into(), Weight::default()).unwrap()
}

/// A node, on which users have tasks of one kind each, as many as there is room for.
struct Pool {
    ledger: Ledger,
    node: NodeId,
    shares: Shares,
    demands: Vec<Demand>,
    tasks: Vec<u64>,
}

impl Pool {
    fn new(whole: Demand, demands: &[Demand]) -> Pool {
        let mut ledger = Ledger::new(0);
        let (node, _) = ledger.set_node("n1", "", &amounts(whole));
        let mut shares = Shares::default();
        shares.follow_nodes(&ledger);
        Pool { ledger, node, shares, demands: demands.to_vec(), tasks: vec![0; demands.len()] }
    }

    fn holder(user: usize) -> Holder {
        Holder::new(&format!("u{user}"), "all")
    }

    /// A task of whoever is first, until none of anybody's fits.
    fn fill(mut self) -> Pool {
        let mut order = ShareOrder::default();
        for user in 0..self.demands.len() {
            order.insert(&Pool::holder(user), user, &self.shares);
        }
        while let Some((holder, user)) = order.first() {
            let shape = self.ledger.shape(&amounts(self.demands[user]));
            if self.ledger.can_lend(self.node, &shape) {
                self.ledger.lend(self.node, shape.clone(), 0);
                self.shares.lend(&holder, &shape);
                self.tasks[user] += 1;
                order.refresh(&mut self.shares);
            } else {
                order.remove(&holder, user, &self.shares);
            }
        }
        self
    }
}

/// The number of tasks of one kind that fit into amounts.
fn count(bundle: Demand, demand: Demand) -> u64 {
    let parts = bundle.iter().zip(demand).filter(|(_, demand)| *demand > 0);
    parts.map(|(have, demand)| have / demand).min().unwrap_or(0)
}

fn times(demand: Demand, tasks: u64) -> Demand {
    demand.map(|amount| amount * tasks)
}

/// The dominant share of amounts, as a number of parts of the product of all wholes.
fn parts(whole: Demand, bundle: Demand) -> u64 {
    let all: u64 = whole.iter().product();
    bundle.iter().zip(whole).map(|(have, whole)| have * (all / whole)).max().unwrap_or(0)
}

#[test]
fn two_users_of_nine_processors_have_three_and_two_tasks() {
    let pool = Pool::new([9, 18, 0], &[[1, 4, 0], [3, 1, 0]]).fill();
    assert_eq!(pool.tasks, [3, 2]);
    assert_eq!(pool.shares.of_user("u0"), share(2, 3));
    assert_eq!(pool.shares.of_user("u0").to_string(), "2/3");
    assert_eq!(pool.shares.of_user("u1"), share(2, 3));
    let dominant = |user| pool.shares.dominant_of_user(&pool.ledger, user).map(Resource::as_str);
    assert_eq!((dominant("u0"), dominant("u1"), dominant("u2")), (Some("memory"), Some("cpu"), None));
}

#[test]
fn tasks_of_one_resource_are_divided_by_weight() {
    let mut pool = Pool::new([12, 12, 1], &[[1, 0, 0], [1, 0, 0]]);
    pool.shares.set_user_weight("u1", Weight::new(3).unwrap());
    let pool = pool.fill();
    assert_eq!(pool.tasks, [3, 9]);
    assert_eq!(pool.shares.of_user("u0"), pool.shares.of_user("u1"));
}

#[test]
fn ten_frameworks_have_the_share_of_one_user() {
    let mut ledger = Ledger::new(0);
    let (node, _) = ledger.set_node("n1", "", &amounts([20, 0, 0]));
    let shape = ledger.shape(&amounts([1, 0, 0]));
    let mut shares = Shares::default();
    shares.follow_nodes(&ledger);
    let mut order = ShareOrder::default();
    let of_many: Vec<Holder> = (0..10).map(|name| Holder::new("many", &format!("f{name}"))).collect();
    let of_one = Holder::new("one", "all");
    for (rank, holder) in of_many.iter().chain([&of_one]).enumerate() {
        order.insert(holder, rank, &shares);
    }
    while let Some((holder, _)) = order.first().filter(|_| ledger.can_lend(node, &shape)) {
        ledger.lend(node, shape.clone(), 0);
        shares.lend(&holder, &shape);
        order.refresh(&mut shares);
    }
    assert_eq!((shares.of_user("many"), shares.of_user("one")), (share(1, 2), share(1, 2)));
    assert!(of_many.iter().all(|holder| shares.of(holder) == share(1, 20)));
}

#[test]
fn a_resource_that_no_node_has_counts_for_nobody() {
    let mut ledger = Ledger::new(0);
    ledger.set_node("n1", "", &amounts([4, 0, 0]));
    let shape = ledger.shape(&amounts([1, 0, 7]));
    let mut shares = Shares::default();
    shares.follow_nodes(&ledger);
    let holder = Holder::new("u", "f");
    shares.lend(&holder, &shape);
    assert_eq!(shares.of_user("u"), share(1, 4));
    ledger.set_node("n2", "", &amounts([0, 0, 14]));
    shares.follow_nodes(&ledger);
    assert_eq!(shares.of_user("u"), share(1, 2));
    shares.take_back(&holder, &shape);
    assert_eq!((shares.of_user("u"), shares.holders().count()), (Share::NONE, 0));
}

fn demand() -> impl Strategy<Value = Demand> {
    [0..5_u64, 0..5_u64, 0..3_u64]
        .prop_filter("a task asks for something", |demand| demand.iter().sum::<u64>() > 0)
}

fn whole() -> impl Strategy<Value = Demand> {
    [5..25_u64, 5..25_u64, 3..9_u64]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    /// Sharing incentive: the tasks of each user are those of a part of the pool that is its own, but for one task of each. A
    /// user is refused as the one with the least share, and each other one is ahead of it by one task at most.
    #[test]
    fn each_user_has_its_part_of_the_pool(whole in whole(), demands in proptest::collection::vec(demand(), 1..5)) {
        let pool = Pool::new(whole, &demands).fill();
        let all: u64 = whole.iter().product();
        let of_tasks: u64 = demands.iter().map(|demand| parts(whole, *demand)).sum();
        for (demand, tasks) in demands.iter().zip(&pool.tasks) {
            let own = parts(whole, times(*demand, *tasks));
            prop_assert!(own * demands.len() as u64 + of_tasks > all);
        }
    }

    /// Envy-freeness: a user could not make more tasks of what another one has, less one task of that.
    #[test]
    fn no_user_would_change_with_another(whole in whole(), demands in proptest::collection::vec(demand(), 2..5)) {
        let pool = Pool::new(whole, &demands).fill();
        for (own, tasks) in demands.iter().zip(&pool.tasks) {
            for (other, others) in demands.iter().zip(&pool.tasks) {
                let less_one = times(*other, others.saturating_sub(1));
                prop_assert!(count(less_one, *own) <= *tasks);
            }
        }
    }

    /// Pareto efficiency: tasks ask for amounts in one proportion, so whoever could have more without another having less could have
    /// one more beside what all have.
    #[test]
    fn no_task_of_anybody_fits_into_what_is_left(whole in whole(), demands in proptest::collection::vec(demand(), 1..5)) {
        let pool = Pool::new(whole, &demands).fill();
        let mut left = whole;
        for (demand, tasks) in demands.iter().zip(&pool.tasks) {
            let used = times(*demand, *tasks);
            left.iter_mut().zip(used).for_each(|(left, used)| *left -= used);
        }
        prop_assert!(demands.iter().all(|demand| count(left, *demand) == 0));
    }
}

/// Strategy-proofness, by trying each lie: no user has more by asking for other amounts than its tasks need, but for the largest
/// single task of all, by which whole tasks differ from divided ones.
#[test]
fn no_lie_gains_more_than_a_task() {
    const WHOLE: Demand = [7, 6, 1];
    let all: Vec<Demand> =
        (0..4).flat_map(|cpu| (0..4).map(move |memory| [cpu, memory, 0])).skip(1).collect();
    let mut gains = 0;
    for truth in &all {
        for other in &all {
            let honest = Pool::new(WHOLE, &[*truth, *other]).fill();
            let own = parts(WHOLE, times(*truth, honest.tasks[0]));
            for lie in &all {
                let pool = Pool::new(WHOLE, &[*lie, *other]).fill();
                let useful = count(times(*lie, pool.tasks[0]), *truth);
                let gained = parts(WHOLE, times(*truth, useful));
                let task = [truth, other, lie].map(|demand| parts(WHOLE, *demand)).into_iter().max().unwrap();
                assert!(
                    gained <= own + task,
                    "{truth:?} beside {other:?} as {lie:?}: {own} and {gained}, {task}"
                );
                gains += usize::from(gained > own);
            }
        }
    }
    // Whole tasks do leave something to gain, or the bound would say nothing.
    assert!(gains > 0);
}

#[derive(Debug, Clone)]
enum Change {
    Insert(usize, usize),
    Remove(usize),
    Lend(usize, Demand),
    TakeBack(usize),
    Weigh(usize, u32),
    WeighUser(usize, u32),
    Nodes(Demand),
}

fn change() -> impl Strategy<Value = Change> {
    let holder = || 0..9_usize;
    prop_oneof![
        5 => (holder(), 0..60_usize).prop_map(|(holder, head)| Change::Insert(holder, head)),
        2 => (0..60_usize).prop_map(Change::Remove),
        5 => (holder(), demand()).prop_map(|(holder, demand)| Change::Lend(holder, demand)),
        3 => (0..60_usize).prop_map(Change::TakeBack),
        1 => (holder(), 1..4_u32).prop_map(|(holder, weight)| Change::Weigh(holder, weight)),
        1 => (holder(), 1..4_u32).prop_map(|(holder, weight)| Change::WeighUser(holder, weight)),
        1 => whole().prop_map(Change::Nodes),
    ]
}

fn some_holder(number: usize) -> Holder {
    Holder::new(&format!("u{}", number / 3), &format!("f{}", number % 3))
}

/// Shares and order, counted from scratch.
#[derive(Default)]
struct Model {
    whole: Demand,
    heads: BTreeMap<usize, Holder>,
    loans: Vec<(Holder, Demand)>,
    weights: BTreeMap<Holder, u32>,
    user_weights: BTreeMap<String, u32>,
}

impl Model {
    fn share(&self, weight: Option<&u32>, has: impl Fn(&Holder) -> bool) -> Share {
        let mut sum = [0; 3];
        for (_, demand) in self.loans.iter().filter(|(holder, _)| has(holder)) {
            sum.iter_mut().zip(demand).for_each(|(sum, amount)| *sum += *amount);
        }
        let weight = Weight::new(weight.copied().unwrap_or(1)).unwrap();
        let shares = sum
            .iter()
            .zip(self.whole)
            .filter_map(|(sum, whole)| Share::new(u128::from(*sum), u128::from(whole), weight));
        shares.max().unwrap_or(Share::NONE)
    }

    /// A sort of all heads: each by its user's share and first head, its framework's, and its own rank.
    fn sorted(&self) -> Vec<(Holder, usize)> {
        let mut by_holder: BTreeMap<&Holder, BTreeSet<usize>> = BTreeMap::new();
        for (head, holder) in &self.heads {
            by_holder.entry(holder).or_default().insert(*head);
        }
        let framework = |holder: &Holder| {
            let share = self.share(self.weights.get(holder), |other| other == holder);
            (share, *by_holder[holder].first().unwrap(), holder.framework.clone())
        };
        let user = |holder: &Holder| {
            let of_user = by_holder.keys().filter(|other| other.user == holder.user);
            let (_, first, _) = of_user.map(|other| framework(other)).min().unwrap();
            let share = self.share(self.user_weights.get(&*holder.user), |other| other.user == holder.user);
            (share, first, holder.user.clone())
        };
        let mut sorted: Vec<_> = self.heads.iter().map(|(head, holder)| (holder.clone(), *head)).collect();
        sorted.sort_by_cached_key(|(holder, head)| (user(holder), framework(holder), *head));
        sorted
    }
}

proptest! {
    #[test]
    fn the_order_is_that_of_a_sort_from_scratch(changes in proptest::collection::vec(change(), 1..80)) {
        let mut ledger = Ledger::new(0);
        let mut model = Model { whole: [10, 10, 5], ..Model::default() };
        ledger.set_node("n1", "", &amounts(model.whole));
        let mut shares = Shares::default();
        let mut order = ShareOrder::default();
        shares.follow_nodes(&ledger);
        for change in changes {
            match change {
                Change::Insert(holder, head) => {
                    if model.heads.contains_key(&head) {
                        continue;
                    }
                    model.heads.insert(head, some_holder(holder));
                    order.insert(&some_holder(holder), head, &shares);
                }
                Change::Remove(head) => {
                    let Some(holder) = model.heads.remove(&head) else { continue };
                    order.remove(&holder, head, &shares);
                }
                Change::Lend(holder, demand) => {
                    model.loans.push((some_holder(holder), demand));
                    shares.lend(&some_holder(holder), &ledger.shape(&amounts(demand)));
                }
                Change::TakeBack(loan) => {
                    if loan >= model.loans.len() {
                        continue;
                    }
                    let (holder, demand) = model.loans.swap_remove(loan);
                    shares.take_back(&holder, &ledger.shape(&amounts(demand)));
                }
                Change::Weigh(holder, weight) => {
                    model.weights.insert(some_holder(holder), weight);
                    shares.set_weight(&some_holder(holder), Weight::new(weight).unwrap());
                }
                Change::WeighUser(holder, weight) => {
                    let user = some_holder(holder).user;
                    model.user_weights.insert(user.to_string(), weight);
                    shares.set_user_weight(&user, Weight::new(weight).unwrap());
                }
                Change::Nodes(whole) => {
                    model.whole = whole;
                    ledger.set_node("n1", "", &amounts(whole));
                    shares.follow_nodes(&ledger);
                }
            }
            order.refresh(&mut shares);
            prop_assert_eq!(order.iter().collect::<Vec<_>>(), model.sorted());
        }
    }
}

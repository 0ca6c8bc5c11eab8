//! The plan follows promises by what changed of them, at a cost that does not grow with those that stay as they are.

use std::alloc::{GlobalAlloc, Layout, System};
use std::borrow::Cow;
use std::cell::Cell;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use estimand_api::labels::LabelMap;
use estimand_api::promise::{PromiseRequest, PromiseState};
use estimand_api::resources::PLACES;
use estimand_api::selector::Selector;
use estimand_capacity::{Amounts, Ledger, Resource, Tick, Window};
use proptest::prelude::*;

use super::*;
use crate::cluster::CPU;
use crate::nodes::Offer;
use crate::promise::{Promise, PromiseChange};
use crate::promises::Promises;
use crate::state::Progress;
use crate::usage::Tally;

const NODES: [&str; 3] = ["n0", "n1", "n2"];
const NOW: Tick = 1_000;

/// The allocator of these tests, which counts the bytes that each thread asks for.
struct Counting;

thread_local! {
    static BYTES: Cell<usize> = const { Cell::new(0) };
}

#[global_allocator]
static COUNTING: Counting = Counting;

// SAFETY: each call is that of the system's allocator, with what was given.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        BYTES.with(|bytes| bytes.set(bytes.get() + layout.size()));
        // SAFETY: the caller's promise.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(at, layout) }
    }
}

fn amounts(cpu: u64) -> Amounts {
    Amounts::from_iter([(Resource::parse(CPU).unwrap(), cpu), (Resource::parse(PLACES).unwrap(), 1_000_000)])
}

fn promises() -> Promises {
    let offer = |name: &&str| Offer::new(name, LabelMap::new(), amounts(1_000_000));
    let nodes = Some(Arc::new(NODES.iter().map(offer).collect()));
    let mut promises = Promises::default();
    promises.apply(&PromiseChange { nodes, revision: 1, ..PromiseChange::default() });
    promises
}

fn asked(width: u64, from: Tick, until: Tick) -> PromiseRequest {
    PromiseRequest {
        resources: [(CPU.to_owned(), 1)].into(),
        width,
        from: Some(from),
        until,
        ..Default::default()
    }
}

fn promise(number: u64, asked: PromiseRequest, units: Vec<String>, revision: u64) -> Promise {
    Promise {
        number,
        id: format!("p{number}"),
        key: Some(format!("order {number}")),
        state: PromiseState::Promised,
        from: asked.from.unwrap(),
        until: asked.until,
        asked,
        units,
        cause: String::new(),
        tally: Tally::default(),
        revision,
        made_at: NOW,
        made_by: String::new(),
    }
}

/// A task that waits.
fn view<'t>(progress: &'t Progress, nodes: &'t Selector) -> TaskView<'t> {
    TaskView {
        number: TaskNumber(0),
        submitted_at: Millis(0),
        priority: 0,
        promise: None,
        amounts: Cow::default(),
        nodes,
        policy: Policy::default(),
        needs_bound_labels: false,
        has_image: false,
        user: None,
        framework: None,
        progress,
    }
}

fn change(promises: Vec<Promise>, revision: u64) -> PromiseChange {
    let promises = promises.into_iter().map(Arc::new).collect();
    PromiseChange { promises, revision, ..PromiseChange::default() }
}

/// Promises and their book, as the task service's writer keeps them.
#[derive(Default)]
struct Kept {
    promises: Promises,
    book: Book,
}

impl Kept {
    fn new() -> Kept {
        let promises = promises();
        let mut book = Book::default();
        book.follow_all(&promises);
        Kept { promises, book }
    }

    fn apply(&mut self, change: &PromiseChange) {
        self.promises.apply(change);
        self.book.apply(change);
    }

    fn follow(&mut self, other: &Kept, change: &PromiseChange) {
        let numbers = numbers(change);
        self.promises.follow(&other.promises, &numbers);
        self.book.follow(&self.promises, numbers);
    }
}

fn numbers(change: &PromiseChange) -> BTreeSet<u64> {
    change.promises.iter().map(|promise| promise.number).chain(change.removed.iter().copied()).collect()
}

/// The bytes that are allocated for eight promises beside so many live ones: placed, staged, shown, and planned for.
fn bytes_of_a_batch(live: u64) -> usize {
    let mut staged = Kept::new();
    let mut shown = Kept::new();
    let mut plan = Plan::default();
    let before = (1..=live).map(|number| {
        let (from, node) = (NOW + 1_000 + number * 7, NODES[number as usize % NODES.len()]);
        promise(number, asked(1, from, from + 10), vec![node.to_owned()], 2)
    });
    let before = change(before.collect(), 2);
    staged.apply(&before);
    shown.follow(&staged, &before);
    plan.follow_promises(&shown.promises, Millis::of_tick(NOW));

    let counted = BYTES.with(Cell::get);
    let windows: Vec<(PromiseRequest, Window)> = (0..8)
        .map(|place| {
            let from = NOW + 2_000 + place;
            (asked(2, from, from + 10), Window::new(from, from + 10).unwrap())
        })
        .collect();
    let units = staged.book.promise(&windows).unwrap();
    let made = windows.into_iter().zip(units).zip(live + 1..);
    let made =
        change(made.map(|(((asked, _), units), number)| promise(number, asked, units, 3)).collect(), 3);
    staged.apply(&made);
    shown.follow(&staged, &made);
    let shown = shown.promises;
    assert!(!shown.is_due(NOW) && shown.due(NOW).is_empty());
    plan.follow_promises(&shown, Millis::of_tick(NOW));
    assert!(plan.displace().is_empty() && plan.decide(Millis::of_tick(NOW), 0, |_| 0).is_empty());
    assert!(plan.next_promise(&shown, Millis::of_tick(NOW)).is_some());
    assert_eq!(plan.book.cluster.outline().nodes().count(), NODES.len());
    BYTES.with(Cell::get) - counted
}

#[test]
fn a_promise_costs_the_same_beside_ten_thousand_as_beside_a_hundred() {
    let (few, many) = (bytes_of_a_batch(100), bytes_of_a_batch(10_000));
    println!("{few} bytes for eight promises beside 100, {many} beside 10,000");
    assert!(many < few * 2, "{few} bytes beside 100, {many} beside 10,000");
}

#[derive(Debug, Clone)]
enum Step {
    Make {
        width: usize,
        node: usize,
        from: Tick,
        length: Tick,
    },
    Move(usize, usize),
    Extend(usize, Tick),
    End(usize, PromiseState),
    /// One that is over is kept no more.
    Remove(usize),
    /// The plan does not look before the next step.
    Skip,
    Pass(Tick),
}

fn step() -> impl Strategy<Value = Step> {
    let ends =
        prop_oneof![Just(PromiseState::Released), Just(PromiseState::Over), Just(PromiseState::Active)];
    prop_oneof![
        4 => (1..4_usize, 0..3_usize, 0..40_u64, 1..20_u64)
            .prop_map(|(width, node, from, length)| Step::Make { width, node, from, length }),
        2 => (0..8_usize, 0..3_usize).prop_map(|(which, node)| Step::Move(which, node)),
        1 => (0..8_usize, 1..20_u64).prop_map(|(which, by)| Step::Extend(which, by)),
        2 => (0..8_usize, ends).prop_map(|(which, state)| Step::End(which, state)),
        1 => (0..8_usize).prop_map(Step::Remove),
        2 => Just(Step::Skip),
        1 => (1..5_u64).prop_map(Step::Pass),
    ]
}

/// The promises that a step changes or takes away.
fn stepped(promises: &Promises, step: &Step, now: Tick) -> Option<PromiseChange> {
    let revision = promises.revision + 1;
    let nth = |which: usize| promises.live().nth(which).map(|promise| Promise::clone(promise));
    let one = match *step {
        Step::Make { width, node, from, length } => {
            let from = now + from;
            let units = (0..width).map(|place| NODES[(node + place) % NODES.len()].to_owned()).collect();
            promise(promises.highest + 1, asked(width as u64, from, from + length), units, revision)
        }
        Step::Move(which, node) => {
            let units = vec![NODES[node].to_owned()];
            Promise { units, revision, ..nth(which)? }
        }
        Step::Extend(which, by) => {
            let promise = nth(which)?;
            Promise { until: promise.until + by, revision, ..promise }
        }
        Step::End(which, state) => Promise { state, revision, ..nth(which)? },
        Step::Remove(which) => {
            let over = promises.oldest_over(which + 1).pop()?;
            let (removed, base) = (vec![over.number], over.revision);
            return Some(PromiseChange { removed, base, revision, ..PromiseChange::default() });
        }
        Step::Skip | Step::Pass(_) => return None,
    };
    Some(change(vec![one], revision))
}

#[test]
fn tasks_leave_inside_the_window_of_their_promise() {
    let mut promises = promises();
    let given = |until: Tick, revision: u64| {
        let units = vec![NODES[0].to_owned()];
        change(vec![promise(1, asked(1, NOW, until), units, revision)], revision)
    };
    let left = |promises: &Promises, now: Millis| promises.leaving(now).count();
    promises.apply(&given(NOW + 50, 2));
    assert_eq!(
        (left(&promises, Millis::of_tick(NOW + 45) - Millis(1)), left(&promises, Millis::of_tick(NOW + 45))),
        (0, 1)
    );
    let end = promises.live().next().unwrap().end_from(Millis::of_tick(NOW + 20), None).unwrap();
    assert_eq!((end.until, end.left_ms, end.grace_ms), (NOW + 50, 30_000, 5_000));
    assert_eq!(end.checkpoint_ms, None);
    let with_checkpoint = |seconds: u64| {
        let promise = promises.live().next().unwrap();
        let end = promise.end_from(Millis::of_tick(NOW + 20), Some(Duration::from_secs(seconds))).unwrap();
        assert_eq!((end.left_ms, end.grace_ms), (30_000, 5_000), "as an agent of before knows it");
        end.checkpoint_ms
    };
    assert_eq!([2, 12, 60].map(with_checkpoint), [Some(5_000), Some(12_000), Some(25_000)]);
    // It was extended, and a longer window has no longer end.
    promises.apply(&given(NOW + 500, 3));
    assert_eq!(
        (
            left(&promises, Millis::of_tick(NOW + 490) - Millis(1)),
            left(&promises, Millis::of_tick(NOW + 490))
        ),
        (0, 1)
    );
    assert_eq!(promises.next_due(Millis::of_tick(NOW + 60), 3), Some(Millis::of_tick(NOW + 490)));
}

#[test]
fn shares_have_what_is_lent_until_it_is_back() {
    let promises = promises();
    let mut plan = Plan::by_shares(Shares::default());
    plan.follow_promises(&promises, Millis::of_tick(NOW));
    let nodes = Selector::default();
    let waits = Progress::default();
    let amounts = Cow::Owned(Amounts::from_iter([(Resource::parse(CPU).unwrap(), 500)]));
    let task = TaskView { user: Some("bob"), framework: Some("f"), amounts, ..view(&waits, &nodes) };
    plan.follow(task.number, Some(&task), Millis::of_tick(NOW));
    let [placing] = &plan.decide(Millis::of_tick(NOW), 0, |_| 0)[..] else { panic!("there is room") };
    let of_bob = |plan: &Plan| plan.book.cluster.shares.as_ref().unwrap().of_user("bob").to_string();
    assert_eq!(of_bob(&plan), "1/6000", "500 of three times 1,000,000");

    // The trial is dropped, and the decision is made again, stored and heard of.
    plan.answer_placings(&BTreeSet::new(), Millis::of_tick(NOW));
    assert_eq!(of_bob(&plan), "0");
    let node = placing.node.clone();
    let mut progress = Progress::default();
    let place = crate::state::Event::Place { attempt: 1, node };
    let rules = crate::state::Rules::default();
    progress.apply(&rules, Millis::of_tick(NOW), place, crate::state::Actor::Scheduler).unwrap();
    let placed = TaskView { progress: &progress, ..task.clone() };
    plan.follow(task.number, Some(&placed), Millis::of_tick(NOW));
    plan.follow(task.number, Some(&placed), Millis::of_tick(NOW));
    assert_eq!(of_bob(&plan), "1/6000");
    plan.follow(task.number, None, Millis::of_tick(NOW));
    assert_eq!(plan.book.cluster.shares.unwrap().holders().count(), 0);
}

#[test]
fn a_ledger_learns_no_resources_from_tasks_and_they_begin_when_a_node_has_them() {
    let mut promises = promises();
    let mut plan = Plan::default();
    plan.follow_promises(&promises, Millis::of_tick(NOW));
    let strange = |name: &str| Amounts::from_iter([(Resource::parse(name).unwrap(), 1)]);
    let (progress, nodes) = (Progress::default(), Selector::default());
    for number in 0..100 {
        let amounts = Cow::Owned(strange(&format!("r{number}")));
        let task = TaskView { number: TaskNumber(number), amounts, ..view(&progress, &nodes) };
        plan.follow(task.number, Some(&task), Millis::of_tick(NOW));
    }
    assert!(plan.decide(Millis::of_tick(NOW), 0, |_| 0).is_empty());
    let known = |plan: &Plan, name: &str| plan.book.cluster.ledger.known_shape(&strange(name)).is_some();
    assert_eq!((plan.waiting(), known(&plan, "r7"), known(&plan, CPU)), (100, false, true));
    plan.follow(TaskNumber(8), None, Millis::of_tick(NOW));

    let capacity = amounts(1_000).with(Resource::parse("r7").unwrap(), 1);
    let offer = Offer::new("n9", LabelMap::new(), capacity);
    let nodes = Some(Arc::new(vec![offer]));
    promises.apply(&PromiseChange { nodes, revision: 2, ..PromiseChange::default() });
    plan.follow_promises(&promises, Millis::of_tick(NOW));
    let placed = plan.decide(Millis::of_tick(NOW), 0, |_| 0);
    assert_eq!(placed.iter().map(|one| (one.task.0, &*one.node)).collect::<Vec<_>>(), [(7, "n9")]);
    assert_eq!((plan.waiting(), known(&plan, "r8")), (98, false));
}

proptest! {
    #[test]
    fn a_plan_that_follows_is_as_a_new_one(steps in proptest::collection::vec(step(), 0..40)) {
        let mut promises = promises();
        let mut followed = Plan::default();
        let mut now = NOW;
        for (place, step) in steps.iter().enumerate() {
            if let Some(change) = stepped(&promises, step, now) {
                promises.apply(&change);
            }
            if let Step::Pass(ticks) = step {
                now += ticks;
            }
            let is_skipped = matches!(step, Step::Skip) || matches!(steps.get(place + 1), Some(Step::Skip));
            if is_skipped {
                continue;
            }
            followed.follow_promises(&promises, Millis::of_tick(now));
            let mut new = Plan::default();
            new.follow_promises(&promises, Millis::of_tick(now));
            let (followed, new) = (&followed.book.cluster.ledger, &new.book.cluster.ledger);
            let window = Window::new(now, now + 100).unwrap();
            for name in NODES {
                let node = new.node(name).unwrap();
                prop_assert_eq!(followed.free(node, window), new.free(node, window));
            }
            for class in new.classes() {
                let cpu = Resource::parse(CPU).unwrap();
                let used = |ledger: &Ledger| ledger.used_over(class, &cpu, window);
                prop_assert_eq!(used(followed), used(new));
            }
            prop_assert_eq!(followed.promises().count(), new.promises().count());
            prop_assert_eq!(promises.is_due(now), !promises.due(now).is_empty());
            prop_assert_eq!(promises.next_due(Millis::of_tick(now), 3), next_due(&promises, Millis::of_tick(now), 3));
        }
    }
}

/// The next instant as a look at all of them finds it.
fn next_due(promises: &Promises, now: Millis, notice: u64) -> Option<Millis> {
    let all = promises.live().flat_map(|promise| {
        let begins = (promise.state == PromiseState::Promised).then_some(promise.from);
        let ticks = [begins.map(|from| from.saturating_sub(notice)), begins, Some(promise.until)];
        ticks.into_iter().flatten().map(Millis::of_tick).chain([promise.leave_at()])
    });
    all.filter(|at| *at > now).min()
}

//! Runs over the fake dispatcher: under all faults, every image counts once, for a node that did it.
#![allow(clippy::unwrap_used)]

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::future::pending;

use estimand_api::command::Command;
use estimand_api::value::State;
use proptest::prelude::*;

use super::*;
use crate::facts::{Capability, Facts, NodeFacts};
use crate::fake::{FakeDispatcher, FakeWorker, NetworkConditions};
use crate::job::JobNames;
use crate::job_plan::{Options as PlanOptions, PolicyKind};
use crate::plan::{DynamicSettings, Item};

fn job() -> Job {
    Job::new(JobNames::new("birds").unwrap(), Command::line("worker work").unwrap())
}

/// Nodes with capabilities, and so many items, which they hold in turn.
fn job_plan(nodes: &[(&str, f64)], items: usize, policy: PolicyKind) -> JobPlan {
    let known = |(name, value): &(&str, f64)| NodeFacts {
        name: (*name).to_owned(),
        load: None,
        capability: Some(Capability { value: *value, spread: 0.0, samples: None }),
        state: State::Fresh,
    };
    let item = |i: usize| Item { name: format!("{i:05}.jpg"), on: vec![nodes[i % nodes.len()].0.to_owned()] };
    let facts = Facts {
        revision: 3,
        items: (0..items).map(item).collect(),
        nodes: nodes.iter().map(known).collect(),
    };
    let settings = DynamicSettings { ahead_seconds: 0.5, ..DynamicSettings::default() };
    JobPlan::new(facts, PlanOptions { policy, settings, ..PlanOptions::default() }).unwrap()
}

fn drive(job_plan: &JobPlan, fake: &mut FakeDispatcher, options: &Options) -> Result<Run, Error> {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(run(&job(), job_plan, fake, options, pending(), |_| {}))
}

/// Every image counts once, for a node that did it, and no more was reported than was done.
#[track_caller]
fn check(run: &Run, fake: &FakeDispatcher, items: usize) {
    let did: HashSet<(&str, &str)> =
        fake.results.iter().map(|(image, node)| (image.as_str(), node.as_str())).collect();
    let mut counted = BTreeSet::new();
    for record in &run.nodes {
        for image in &record.images {
            assert!(counted.insert(image.clone()), "{image} counts twice");
            assert!(
                did.contains(&(image.as_str(), record.name.as_str())),
                "{} did not do {image}",
                record.name
            );
        }
    }
    assert_eq!(counted.len(), items);
    assert!(run.duplicates <= (fake.results.len() - items) as u64);
    assert!(fake.is_stopped);
    let spans: u64 = run.nodes.iter().flat_map(|record| record.spans.iter().map(|span| span.items)).sum();
    let told: u64 = run.nodes.iter().map(|record| record.did).sum();
    assert_eq!((spans, told), (items as u64 + run.duplicates, items as u64 + run.duplicates));
}

fn workers(rates: &[(&str, f64)]) -> Vec<FakeWorker> {
    rates.iter().map(|(name, rate)| FakeWorker::new(name, *rate)).collect()
}

const FOUR: [(&str, f64); 4] = [("a", 20.0), ("b", 20.0), ("c", 10.0), ("d", 5.0)];

#[test]
fn a_plan_by_the_true_speeds_is_near_the_ideal() {
    for policy in PolicyKind::ALL {
        let job_plan = job_plan(&FOUR, 550, policy);
        let mut fake = FakeDispatcher::new(workers(&FOUR), NetworkConditions::default());
        let run = drive(&job_plan, &mut fake, &Options::new("true")).unwrap();
        check(&run, &fake, 550);
        let over = run.over_ideal().unwrap();
        assert!((0.99..1.05).contains(&over), "{policy}: {over}");
        assert!((run.ideal.unwrap() - 10.0).abs() < 0.1, "{:?}", run.ideal);
        assert_eq!((run.revision, run.items), (3, 550));
        // An item that is stolen may have been done just then.
        let most = if policy == PolicyKind::Dynamic { 4 } else { 0 };
        assert!(run.duplicates <= most, "{policy}: {}", run.duplicates);
    }
}

#[test]
fn a_wrong_capability_costs_the_fixed_plan_and_not_the_dynamic_one() {
    let believed = [("a", 24.0), ("b", 20.0), ("c", 10.0), ("d", 5.0)];
    let over = |policy| {
        let job_plan = job_plan(&believed, 550, policy);
        let mut slow = workers(&FOUR);
        slow[1].slows = Some((5.0, 20.0 / 3.0));
        let mut fake = FakeDispatcher::new(slow, NetworkConditions::default());
        let run = drive(&job_plan, &mut fake, &Options::new("wrong")).unwrap();
        check(&run, &fake, 550);
        run.makespan
    };
    let (fixed, dynamic) = (over(PolicyKind::Static), over(PolicyKind::Dynamic));
    assert!(dynamic < 0.8 * fixed, "{dynamic} s is hardly better than {fixed} s");
}

#[test]
fn all_workers_begin_together_even_if_one_starts_late() {
    let job_plan = job_plan(&FOUR, 110, PolicyKind::Static);
    let mut late = workers(&FOUR);
    late[3].ready_at = 30.0;
    let mut fake = FakeDispatcher::new(late, NetworkConditions::default());
    let run = drive(&job_plan, &mut fake, &Options::new("late")).unwrap();
    check(&run, &fake, 110);
    assert!(run.startup > 29.9 && run.makespan < 3.0, "{} and {}", run.startup, run.makespan);
}

#[test]
fn the_items_of_a_dead_worker_are_done_by_the_others() {
    for (is_told, at) in [(true, 2.0), (false, 12.0)] {
        let job_plan = job_plan(&FOUR, 550, PolicyKind::Static);
        let mut dying = workers(&FOUR);
        (dying[0].dies_at, dying[0].is_told) = (Some(2.0), is_told);
        let mut fake = FakeDispatcher::new(dying, NetworkConditions::default());
        let run = drive(&job_plan, &mut fake, &Options::new("death")).unwrap();
        check(&run, &fake, 550);
        let lost = &run.events[0];
        assert_eq!((lost.node.as_str(), lost.kind), ("a", RunEventKind::Lost));
        assert!((lost.at - at).abs() < 0.6, "{lost:?}");
        let did = run.nodes[0].images.len();
        assert!((30..=40).contains(&did), "{did}");
    }
}

#[test]
fn a_returning_worker_gets_waiting_items_only() {
    for policy in [PolicyKind::Static, PolicyKind::Dynamic] {
        let job_plan = job_plan(&FOUR, 550, policy);
        let mut dying = workers(&FOUR);
        (dying[0].dies_at, dying[0].back_at) = (Some(2.0), Some(4.0));
        let mut fake = FakeDispatcher::new(dying, NetworkConditions::default());
        let run = drive(&job_plan, &mut fake, &Options::new("back")).unwrap();
        check(&run, &fake, 550);
        let whats: Vec<RunEventKind> = run.events.iter().map(|event| event.kind).collect();
        assert_eq!(whats, [RunEventKind::Lost, RunEventKind::Back], "{policy}");
        let twice = fake.results.len() - 550;
        assert!(twice <= 6, "{policy}: {twice} were done twice");
        let did = run.nodes[0].images.len();
        // Its items stay with the others, unless the policy is dynamic.
        match policy {
            PolicyKind::Dynamic => assert!(did > 100 && run.makespan < 12.0, "{did} in {} s", run.makespan),
            _ => assert!((30..45).contains(&did), "{did}"),
        }
    }
}

#[test]
fn a_returning_worker_waits_for_its_new_part() {
    let job_plan = job_plan(&FOUR[..2], 400, PolicyKind::Static);
    let mut silent = workers(&FOUR[..2]);
    // It is back with its old part before it has heard that it was lost.
    (silent[0].dies_at, silent[0].back_at, silent[0].is_told) = (Some(2.0), Some(9.0), false);
    let mut fake =
        FakeDispatcher::new(silent, NetworkConditions { delay: 0.5, ..NetworkConditions::default() });
    let options = Options { silence: 6.5, ..Options::new("silent") };
    let run = drive(&job_plan, &mut fake, &options).unwrap();
    check(&run, &fake, 400);
    let whats: Vec<RunEventKind> = run.events.iter().map(|event| event.kind).collect();
    assert_eq!(whats, [RunEventKind::Lost, RunEventKind::Back]);
    // It began at 9 s with what it had before; at 9.3 s it was told that this is not its own any more.
    assert!(run.events[1].at > 9.2, "{:?}", run.events);
    let twice = fake.results.len() - 400;
    assert!(twice <= 40, "{twice} were done twice");
}

#[test]
fn an_unknown_node_gets_work() {
    let job_plan = job_plan(&FOUR[1..], 550, PolicyKind::Dynamic);
    let mut more = workers(&FOUR);
    more[0].ready_at = 3.0;
    let mut fake = FakeDispatcher::new(more, NetworkConditions::default());
    let run = drive(&job_plan, &mut fake, &Options::new("more")).unwrap();
    check(&run, &fake, 550);
    assert_eq!(run.events[0].kind, RunEventKind::Joined);
    assert!(run.nodes[0].images.len() > 80, "{}", run.nodes[0].images.len());
    assert!(run.fetched >= run.nodes[0].images.len() as u64, "it holds none of them");
}

#[test]
fn a_missing_worker_does_not_stop_the_others() {
    let job_plan = job_plan(&FOUR, 110, PolicyKind::Static);
    let mut three = workers(&FOUR[..3]);
    three.rotate_left(1);
    let mut fake = FakeDispatcher::new(three, NetworkConditions::default());
    let run =
        drive(&job_plan, &mut fake, &Options { start_patience: 8.0, ..Options::new("missing") }).unwrap();
    check(&run, &fake, 110);
    // Its ten images are divided by capability: four to a and b each, two to c.
    let did: BTreeMap<&str, usize> =
        run.nodes.iter().map(|record| (record.name.as_str(), record.images.len())).collect();
    assert_eq!(did, BTreeMap::from([("a", 44), ("b", 44), ("c", 22), ("d", 0)]));
}

#[test]
fn an_outage_of_the_plane_makes_no_node_lost() {
    for policy in PolicyKind::ALL {
        let job_plan = job_plan(&FOUR, 1_100, policy);
        let network = NetworkConditions { away: Some((3.0, 15.0)), ..NetworkConditions::default() };
        let mut fake = FakeDispatcher::new(workers(&FOUR), network);
        let options = Options { silence: 2.0, ..Options::new("away") };
        let run = drive(&job_plan, &mut fake, &options).unwrap();
        check(&run, &fake, 1_100);
        assert_eq!(run.events, []);
    }
}

#[test]
fn a_run_without_workers_fails_with_the_last_problem() {
    let job_plan = job_plan(&FOUR[..1], 100, PolicyKind::Static);
    let mut dying = workers(&FOUR[..1]);
    dying[0].dies_at = Some(1.0);
    let mut fake = FakeDispatcher::new(dying, NetworkConditions::default());
    let error = drive(&job_plan, &mut fake, &Options::new("nobody")).unwrap_err().to_string();
    assert!(error.starts_with("no worker was at work for 60 s, and 8"), "{error}");
    assert!(error.ends_with("the last problem: a: its worker ended"), "{error}");
    assert!(fake.is_stopped);
}

#[test]
fn progress_grows_and_a_cancelled_run_is_cleared_away() {
    let job_plan = job_plan(&FOUR, 550, PolicyKind::Static);
    let mut fake = FakeDispatcher::new(workers(&FOUR), NetworkConditions::default());
    let seen = std::cell::RefCell::new(Vec::new());
    let (tell, cancelled) = tokio::sync::oneshot::channel::<()>();
    let tell = std::cell::Cell::new(Some(tell));
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let options = Options::new("cancelled");
    let job = job();
    let ended = run(&job, &job_plan, &mut fake, &options, async { drop(cancelled.await) }, |now| {
        seen.borrow_mut().push(now.done);
        assert!(now.nodes.iter().all(|node| node.done <= node.of));
        if now.done > 100 {
            tell.take();
        }
    });
    assert!(matches!(runtime.block_on(ended), Err(Error::Cancelled)));
    let seen = seen.into_inner();
    assert!(seen.is_sorted() && (101..300).contains(seen.last().unwrap()), "{seen:?}");
    assert!(fake.is_stopped);
}

#[test]
fn an_empty_job_ends_at_once() {
    let job_plan = job_plan(&FOUR, 0, PolicyKind::Static);
    let mut fake = FakeDispatcher::new(workers(&FOUR), NetworkConditions::default());
    let run = drive(&job_plan, &mut fake, &Options::new("nothing")).unwrap();
    assert_eq!((run.makespan, run.items, fake.writes), (0.0, 0, 0));
}

fn worker(i: usize) -> impl Strategy<Value = FakeWorker> {
    let times = (prop::option::of(0.5..15.0f64), prop::option::of(0.5..8.0f64));
    (2.0..30.0f64, 0.0..3.0f64, times, any::<bool>()).prop_map(
        move |(rate, ready_at, (dies, back), is_told)| {
            let mut worker = FakeWorker::new(["a", "b", "c", "d", "e"][i], rate);
            (worker.ready_at, worker.is_told) = (ready_at, is_told);
            // The first one lives, so that one worker is left.
            if i > 0 {
                worker.dies_at = dies.map(|dies| ready_at + dies);
                worker.back_at = worker.dies_at.zip(back).map(|(dies, back)| dies + back);
            }
            worker
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, ..ProptestConfig::default() })]

    /// Reported and silent deaths, returning, joining and misjudged nodes, lost lines.
    #[test]
    fn every_image_counts_once_under_random_faults(
        workers in (worker(0), worker(1), worker(2), worker(3), worker(4)),
        known in 2..=5usize,
        policy in prop::sample::select(PolicyKind::ALL.to_vec()),
        items in 1..400usize,
        loses_one_in in 0..6u64,
        delay in 0.0..0.6f64,
        together in any::<bool>(),
    ) {
        let workers = vec![workers.0, workers.1, workers.2, workers.3, workers.4];
        let nodes: Vec<(&str, f64)> =
            workers[..known].iter().enumerate().map(|(i, of)| (of.name.as_str(), of.rate * (1.0 + i as f64 / 3.0))).collect();
        let job_plan = job_plan(&nodes, items, policy);
        // Of every line but one being lost, something has to come through.
        let loses_one_in = if loses_one_in == 1 { 0 } else { loses_one_in };
        let network = NetworkConditions { delay, loses_one_in, ..NetworkConditions::default() };
        let mut fake = FakeDispatcher::new(workers.clone(), network);
        let options = Options { together, silence: 4.0, start_patience: 20.0, ..Options::new("any") };
        let run = drive(&job_plan, &mut fake, &options).unwrap();
        check(&run, &fake, items);
    }
}

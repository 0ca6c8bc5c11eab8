//! Simulations: what the figures say, what the log replays to, losses, and traces.

#![allow(clippy::unwrap_used)]

use estimand_capacity::{Amounts, Resource};
use estimand_placement::Millis;
use estimand_placement::policy::Policy;
use estimand_placement::queue::TaskNumber;
use estimand_placement::state::{Event, Rules, State};
use estimand_simulate::trace::{Loss, Trace, TraceTask};
use estimand_simulate::{Entry, Load, Outcome, Setup, Study, Summary, nodes_of, replay, simulate};

fn setup(nodes: usize, processors: u64, policy: Policy) -> Setup {
    Setup { nodes: nodes_of(nodes, processors, None), policy, facts_every: Millis(5_000), seed: 3 }
}

fn cpu(thousandths: u64) -> Amounts {
    [(Resource::parse("cpu").unwrap(), thousandths)].into_iter().collect()
}

fn task(at: u64, service: u64, thousandths: u64) -> TraceTask {
    TraceTask {
        at: Millis(at),
        service: Millis(service),
        resources: cpu(thousandths),
        ..TraceTask::default()
    }
}

fn run(setup: &Setup, trace: &Trace) -> (Outcome, String) {
    let mut log = String::new();
    let outcome = simulate(setup, trace, &mut |entry| {
        log += &serde_json::to_string(entry).unwrap();
        log.push('\n');
    });
    (outcome.unwrap(), log)
}

/// The set-up that the figures are compared in: Poisson arrivals, exponential service of 4 s, facts every 5 s.
fn mean_response(policy: Policy, load: f64) -> f64 {
    summary(policy, (8, 1), 10, &Load::new(2_000, 8, load, Millis(4_000))).mean_response
}

/// The wait of tasks of a minute that ask for 1, 2 or 4 processors.
fn mean_wait(policy: Policy, nodes: usize, processors: u64) -> f64 {
    let load = Load::new(20_000, nodes as u64 * processors, 0.8, Millis(60_000));
    summary(policy, (nodes, processors), 1, &Load { asks: vec![1_000, 2_000, 4_000], ..load }).mean_wait
}

fn summary(policy: Policy, (nodes, processors): (usize, u64), seeds: u64, load: &Load) -> Summary {
    let nodes = nodes_of(nodes, processors, None);
    let study = Study { policies: vec![policy], nodes, facts_every: Millis(5_000), seeds };
    study.of(Some(load.part), &|seed| load.trace(seed), &mut |_| {}).unwrap().remove(0)
}

/// The policies that place a task as soon as there is room for what it asks.
const AT_ONCE: [Policy; 6] = [
    Policy::Random,
    Policy::LeastPressure,
    Policy::Estimated,
    Policy::TwoChoices,
    Policy::Pack,
    Policy::Spread,
];

#[test]
fn the_default_is_close_to_the_best_whether_tasks_ask_for_processors_or_not() {
    let best = |figure: &dyn Fn(Policy) -> f64| AT_ONCE.map(figure).into_iter().fold(f64::INFINITY, f64::min);
    let default = Policy::default();
    let nothing = |policy| mean_response(policy, 0.8);
    assert!(nothing(default) <= 1.1 * best(&nothing), "tasks that ask for nothing");
    for (nodes, processors) in [(32, 4), (8, 8)] {
        let wait = |policy| mean_wait(policy, nodes, processors);
        let ours = wait(default);
        let best = best(&wait);
        assert!(ours <= 1.1 * best, "{ours} and {best}: {nodes} nodes of {processors} processors");
        assert!(ours < wait(Policy::Random) && ours < wait(Policy::Spread), "{ours}");
    }
}

#[test]
fn the_estimate_is_ahead_of_what_was_measured_elsewhere() {
    for (load, random_elsewhere, corrected_elsewhere) in [(0.5, 7.8, 4.7), (0.8, 18.1, 7.0), (0.9, 30.9, 9.4)]
    {
        let [random, stale, two, estimated] =
            [Policy::Random, Policy::LeastPressure, Policy::TwoChoices, Policy::Estimated]
                .map(|policy| mean_response(policy, load));
        assert!(
            (random / random_elsewhere - 1.0).abs() < 0.2,
            "{random} is another set-up than {random_elsewhere}"
        );
        assert!(estimated <= corrected_elsewhere, "{estimated} at {load}");
        assert!(estimated < 0.76 * random, "{estimated} and {random} at {load}");
        assert!(
            estimated < stale.min(two) && stale.max(two) < random,
            "{estimated} {stale} {two} {random} at {load}"
        );
    }
}

#[test]
fn one_node_shares_its_processor() {
    // Two at once take twice as long; the second has half of its work left when the first is done.
    let trace = Trace { tasks: vec![task(0, 1_000, 0), task(0, 2_000, 0)], ..Trace::default() };
    let (outcome, _) = run(&setup(1, 1, Policy::Random), &trace);
    assert_eq!(outcome.responses, [Millis(2_000), Millis(3_000)]);
    assert!((outcome.utilization - 1.0).abs() < 1e-9);
    // A task that asks for processors gets them, and waits until they are free.
    let trace = Trace { tasks: vec![task(0, 1_000, 1_000), task(0, 2_000, 1_000)], ..Trace::default() };
    let (outcome, _) = run(&setup(1, 1, Policy::Queue), &trace);
    assert_eq!(
        (outcome.responses, outcome.waits),
        (vec![Millis(1_000), Millis(3_000)], vec![Millis(0), Millis(1_000)])
    );
}

#[test]
fn the_same_input_is_the_same_log_and_the_log_replays_to_the_same_states() {
    let mut trace = Load::new(500, 4, 0.9, Millis(4_000)).trace(1);
    trace.losses.push(Loss { node: "n2".to_owned(), lost_at: Millis(60_000), back_at: Some(Millis(90_000)) });
    let setup = setup(4, 1, Policy::Estimated);
    let (outcome, log) = run(&setup, &trace);
    assert_eq!((&outcome, &log), (&run(&setup, &trace).0, &run(&setup, &trace).1));
    let states = replay(&log, &Rules::default()).unwrap();
    assert_eq!(states.into_values().collect::<Vec<_>>(), outcome.states);
    assert!(outcome.states.iter().all(|progress| progress.state == State::Succeeded));
    assert!(outcome.restarts > 0, "something ran on the lost node");
    let again = outcome.states.iter().filter(|progress| progress.attempt > 1).count();
    assert_eq!(again, outcome.restarts);
    let torn = log.replacen("SUCCEEDED", "FAILED", 1);
    assert!(replay(&torn, &Rules::default()).unwrap_err().message.contains("and not Failed"));
}

#[test]
fn each_placement_says_why() {
    let trace = Load::new(50, 3, 0.8, Millis(4_000)).trace(1);
    let (_, log) = run(&setup(3, 1, Policy::Estimated), &trace);
    let mut placements = 0;
    for line in log.lines() {
        let Entry::Transition { transition, why, .. } = serde_json::from_str(line).unwrap() else { continue };
        let Event::Place { node, .. } = transition.cause else { continue };
        let why = why.unwrap();
        assert_eq!((*node).to_owned(), why.chosen.node.to_string());
        assert_eq!((why.policy, why.nodes, why.others.len()), (Policy::Estimated, 3, 2));
        assert!(why.others.iter().all(|other| why.chosen.score < other.score && other.fact.is_some()));
        placements += 1;
    }
    assert_eq!(placements, 50);
}

#[test]
fn nothing_runs_on_a_node_that_is_lost_for_good() {
    let losses = vec![Loss { node: "n1".to_owned(), lost_at: Millis(500), back_at: None }];
    let trace =
        Trace { tasks: vec![task(0, 1_000, 1_000), task(600, 1_000, 1_000)], losses, ..Trace::default() };
    let (outcome, log) = run(&setup(1, 1, Policy::Queue), &trace);
    assert_eq!((outcome.waiting, outcome.responses.len()), (2, 0));
    assert_eq!(replay(&log, &Rules::default()).unwrap()[&TaskNumber(0)].state, State::Queued);
    let unknown = vec![Loss { node: "n9".to_owned(), lost_at: Millis(0), back_at: None }];
    let trace = Trace { losses: unknown, ..Trace::default() };
    assert!(simulate(&setup(1, 1, Policy::Queue), &trace, &mut |_| {}).is_err());
}

#[test]
fn a_promise_has_room_made_for_it_thirty_seconds_before_it_begins() {
    let text = "{\"promise\":\"p\",\"from\":60,\"until\":120,\"resources\":{\"cpu\":1000}}\n\
        {\"promise\":\"other\",\"from\":100,\"until\":130,\"resources\":{\"cpu\":1000}}\n\
        {\"at\":0,\"service\":100000,\"resources\":{\"cpu\":1000}}\n\
        {\"at\":0,\"service\":30000,\"resources\":{\"cpu\":1000},\"promise\":\"p\"}\n\
        {\"at\":0,\"service\":300000,\"resources\":{\"cpu\":1000},\"promise\":\"p\"}\n\
        {\"at\":0,\"service\":1000,\"promise\":\"other\"}\n";
    let (outcome, log) = run(&setup(1, 1, Policy::Estimated), &Trace::parse(text).unwrap());
    assert_eq!((outcome.refused, outcome.displaced), (1, 1), "the other promise has no room beside it");
    let made_room = log.lines().find(|line| line.contains("makeRoom")).unwrap();
    assert!(made_room.contains("\"at\":30000,"), "{made_room}");
    // One on the promise ends in time, one is ended with it, and the one that made room begins anew when it is over.
    assert_eq!(outcome.responses, [Millis(90_000), Millis(220_000)]);
    assert_eq!(outcome.waits, [Millis(60_000), Millis(120_000)]);
    assert_eq!(outcome.states[2].state, State::Failed);
    assert!(log.contains("needs the promise `other`"));
    let states = replay(&log, &Rules::default()).unwrap();
    assert_eq!(states.into_values().collect::<Vec<_>>(), outcome.states);
}

#[test]
fn a_job_of_the_standard_workload_format_is_a_task() {
    let text = "; Version: 2.2\n\
        1 0 5 10 2 -1 -1 2 20 -1 1 1 1 1 1 -1 -1 -1\n\
        2 3 -1 -1 4 -1 -1 4 20 -1 0 1 1 1 1 -1 -1 -1\n\
        3 7 -1 1.5 -1 -1 64 3 20 128 1 1 1 1 1 -1 -1 -1 ; the third\n";
    let trace = Trace::parse(text).unwrap();
    let memory = Resource::parse("memory").unwrap();
    assert_eq!(trace.tasks.len(), 2, "the second never ran");
    assert_eq!(trace.tasks[0], task(0, 10_000, 2_000));
    assert_eq!((trace.tasks[1].at.0, trace.tasks[1].service.0), (7_000, 1_500));
    assert_eq!(trace.tasks[1].resources.get(&memory), 3 * 128 * 1024);
    let (outcome, _) = run(&setup(2, 2, Policy::Pack), &trace);
    assert_eq!(outcome.responses, [Millis(10_000)]);
    let reason = "needs cpu:3; the most any node has is 2";
    assert_eq!(outcome.misfits.into_iter().collect::<Vec<_>>(), [(reason.to_owned(), 1)]);
    let wrong = |text: &str| Trace::parse(text).unwrap_err().to_string();
    assert_eq!(wrong("1 0 5\n"), "line 1: has 3 fields; a job of the standard workload format has 18");
    assert!(wrong("; x\n1 0 a\n").starts_with("line 2: has something that is no number"));
}

#[test]
fn our_own_lines_are_read_and_unknown_words_refused() {
    let text = "{\"at\":5,\"service\":10,\"resources\":{\"cpu\":500},\"priority\":2}\n\
        {\"node\":\"n1\",\"lostAt\":7,\"backAt\":9}\n{\"at\":1,\"service\":3}\n";
    let trace = Trace::parse(text).unwrap();
    assert_eq!((trace.tasks[0].at.0, trace.tasks[1].priority, trace.losses.len()), (1, 2, 1));
    let wrong = |text: &str| Trace::parse(text).unwrap_err().to_string();
    assert!(wrong("{\"at\":5,\"service\":1,\"cpus\":1}").contains("unknown field `cpus`"));
    assert!(wrong("{\"node\":\"n1\",\"lostAt\":7,\"backAt\":7}").contains("not after"));
    assert!(wrong("{\"at\":5}\nx").starts_with("line 1"));
}

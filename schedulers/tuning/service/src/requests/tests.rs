//! Requests in any order, with proposals that are made at any moment: a study repeats, and no trial is given twice.

use std::sync::{Arc, Mutex};

use estimand_runtime::Clock;
use estimand_service::{Decision, Request, State as _};
use estimand_tuning::{Measure, Report};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::document::Document;
use crate::proposing::{Plan, history, is_pruned};
use crate::shared::Shared;
use crate::shelves::{Chain, Shelves};
use crate::storage::{Storage, rows};
use crate::study::StudyState;
use crate::trial::TrialState;
use crate::writer::StudiesState;

/// A clock that a test sets.
struct SetClock(Mutex<i64>);

impl Clock for SetClock {
    fn now_micros(&self) -> i64 {
        *self.0.lock().unwrap()
    }

    fn steady_micros(&self) -> i64 {
        self.now_micros()
    }
}

struct World {
    state: StudiesState,
    clock: Arc<SetClock>,
    chain: Chain,
}

fn document(more: &Value) -> Document {
    let mut all = json!({
        "id": "s", "direction": "minimize", "seed": 5,
        "parameters": [
            { "name": "x", "type": "float", "low": 0, "high": 1 },
            { "name": "n", "type": "integer", "low": 1, "high": 3 },
        ],
    });
    all.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    Document::parse(all.to_string().as_bytes()).unwrap()
}

impl World {
    fn new(more: &Value) -> World {
        let clock = Arc::new(SetClock(Mutex::new(1_000_000_000)));
        let shared = Arc::new(Shared::new(Arc::clone(&clock) as Arc<dyn Clock>, Shelves::new().0));
        // No change is stored, so no file is made.
        let storage = Storage::new("sqlite:///nowhere/nothing.db".parse().unwrap());
        let mut world = World { state: StudiesState::new(shared, storage), clock, chain: Chain::from([]) };
        world.create(document(more)).unwrap();
        world
    }

    /// Has a request decided, and what it decides take effect.
    fn decide<R: Request<StudiesState>>(&mut self, request: R) -> Result<R::Reply, Rejection> {
        Ok(match request.decide(&self.state)? {
            Decision::Nothing(reply) => reply,
            Decision::Change(change, reply) => {
                self.state.stage(&change);
                assert!(self.state.table().has(std::slice::from_ref(&change)), "{change:?}");
                reply(&self.state, &change)
            }
        })
    }

    fn create(&mut self, document: Document) -> Result<CreateOutcome, Rejection> {
        self.decide(Create { document, seed: 9, scope: Scope::default(), by: "operator".to_owned() })
    }

    fn study(&self) -> &Study {
        self.state.table().of_id("s").unwrap()
    }

    /// Makes the proposals that are missing.
    fn propose(&mut self, wanted: u64) {
        while let Some(plan) = Plan::new(self.study(), &self.chain, wanted) {
            self.chain = plan.make();
        }
    }

    fn ask(&mut self, count: u64, key: Option<&str>) -> TakeOutcome {
        let id = "s".to_owned();
        let scope = Scope::default();
        let chain = Arc::clone(&self.chain);
        self.decide(Take { id, scope, count, key: key.map(str::to_owned), chain }).unwrap()
    }

    /// The numbers of the trials that are given.
    fn given(&mut self, count: u64, key: Option<&str>) -> Vec<u64> {
        match self.ask(count, key) {
            TakeOutcome::Trials(trials) => trials.iter().map(|trial| trial.number).collect(),
            TakeOutcome::Nothing | TakeOutcome::Stale => Vec::new(),
        }
    }

    fn report(&mut self, trial: u64, step: u64, value: f64) -> Result<bool, Rejection> {
        let report = Report { step, measure: Measure::new(value).unwrap() };
        let (definition, trials) =
            self.decide(ReportValue { id: "s".to_owned(), scope: Scope::default(), trial, report })?;
        let stop = is_pruned(&definition, &trials, trial);
        if stop {
            self.decide(StopVerdict { study: definition.number, trial })?;
        }
        Ok(stop)
    }

    fn tell(&mut self, trial: u64, ending: TrialEnding) -> Result<Arc<Trial>, Rejection> {
        self.decide(Tell { id: "s".to_owned(), scope: Scope::default(), trial, ending })
    }

    fn complete(&mut self, trial: u64, value: f64) -> Result<Arc<Trial>, Rejection> {
        self.tell(trial, TrialEnding::Complete(Measure::new(value).unwrap()))
    }

    fn steer(&mut self, step: Step) -> Result<(), Rejection> {
        self.decide(Steer { id: "s".to_owned(), scope: Scope::default(), step }).map(drop)
    }

    fn wait(&self, seconds: i64) {
        *self.clock.0.lock().unwrap() += seconds * 1_000_000;
    }

    /// Each trial is what the core proposes from the records.
    fn check_repeats(&self) {
        let study = self.study();
        for trial in study.trials.iter() {
            let mut earlier = study.trials.clone();
            earlier.truncate(trial.number);
            let again = study.definition.proposer.propose(trial.number, &history(&earlier, trial.seen));
            assert_eq!(again.as_ref(), Some(&*trial.parameters), "trial {}", trial.number);
        }
    }
}

fn over(world: &World) -> Option<&'static str> {
    let progress = world.study().progress;
    (progress.state == StudyState::Over).then(|| progress.reason.unwrap().as_str())
}

#[test]
fn the_same_document_is_the_same_study() {
    let mut world = World::new(&json!({}));
    assert!(matches!(world.create(document(&json!({}))), Ok(CreateOutcome::Known(_))));
    let other = world.create(document(&json!({ "seed": 6 })));
    assert!(matches!(other, Err(Rejection::Taken(id)) if id == "s"));
}

#[test]
fn a_question_with_a_key_has_one_answer() {
    let mut world = World::new(&json!({ "stop": { "trials": 5 } }));
    assert!(matches!(world.ask(1, None), TakeOutcome::Stale), "nothing is proposed yet");
    world.propose(3);
    assert_eq!(world.given(2, Some("k")), [0, 1]);
    assert_eq!(world.given(2, Some("k")), [0, 1]);
    assert_eq!(world.given(1, None), [2]);
    world.propose(9);
    assert_eq!(world.given(9, Some("l")), [3, 4], "no more than the study has");
    assert!(matches!(world.ask(1, None), TakeOutcome::Nothing));
    assert!(world.study().is_done());
}

#[test]
fn a_trial_has_one_result() {
    let mut world = World::new(&json!({}));
    world.propose(2);
    world.given(2, None);
    assert_eq!(world.complete(0, 0.5).unwrap().progress.place, Some(0));
    assert_eq!(world.complete(0, 0.5).unwrap().progress.place, Some(0), "the same again");
    for other in [
        TrialEnding::Pruned,
        TrialEnding::Failed("x".to_owned()),
        TrialEnding::Complete(Measure::new(1.0).unwrap()),
    ] {
        let told = world.tell(0, other).unwrap_err();
        assert_eq!(told.to_string(), "trial 0 has another result already: it is COMPLETE with 0.5");
    }
    assert!(matches!(world.report(0, 9, 1.0), Err(Rejection::NotRunning { .. })));
    assert!(matches!(world.complete(7, 0.5), Err(Rejection::UnknownTrial { .. })));
    world.report(1, 3, 0.25).unwrap();
    world.report(1, 3, 0.25).unwrap();
    assert!(matches!(world.report(1, 3, 0.5), Err(Rejection::Report { .. })));
    assert!(matches!(world.report(1, 2, 0.5), Err(Rejection::Report { .. })));
    let pruned = world.tell(1, TrialEnding::Pruned).unwrap();
    assert_eq!((pruned.progress.value, pruned.progress.place), (Some(0.25), Some(1)));
    assert_eq!(world.study().best.unwrap().number, 0);
}

#[test]
fn a_proposal_that_was_not_given_leaves_nothing_behind() {
    let mut world = World::new(&json!({ "sampler": "gp" }));
    for _ in 0..12 {
        world.propose(1);
        let trial = world.given(1, None)[0];
        world.complete(trial, (trial as f64 - 3.2).abs()).unwrap();
    }
    // Proposals are made ahead, and a result comes before any is given: those of before know too little.
    world.propose(3);
    let [running] = world.given(1, None)[..] else { panic!() };
    let before = Arc::clone(&world.chain);
    world.complete(running, 0.1).unwrap();
    world.propose(3);
    let seen = |world: &World| world.study().trials.last().unwrap().seen;
    assert_eq!((world.given(1, None), seen(&world)), (vec![13], 13));
    // A proposal of before stood after another trial 13: it is never given.
    world.chain = before;
    assert!(matches!(world.ask(1, None), TakeOutcome::Stale));
    world.propose(1);
    assert_eq!((world.given(1, None), seen(&world)), (vec![14], 13));
    world.check_repeats();
}

#[test]
fn rules_end_a_study() {
    for (stop, values, expected) in [
        (json!({ "trials": 2 }), vec![0.5, 0.4], Some("trials")),
        (json!({ "trials": 3 }), vec![0.5, 0.4], None),
        (json!({ "target": 0.1 }), vec![0.5, 0.1], Some("target")),
        (json!({ "target": 0.1 }), vec![0.5, 0.2], None),
        (json!({ "plateau": 2 }), vec![0.5, 0.6, 0.5], Some("plateau")),
        (json!({ "plateau": 2 }), vec![0.5, 0.6, 0.4, 0.5], None),
    ] {
        let mut world = World::new(&json!({ "stop": stop }));
        for value in values {
            world.propose(1);
            let trial = world.given(1, None)[0];
            world.complete(trial, value).unwrap();
        }
        assert_eq!(over(&world), expected, "{stop}");
    }
    let mut world = World::new(&json!({ "stop": { "time": "10s" } }));
    world.decide(EndByTime(1)).unwrap();
    assert_eq!(over(&world), None);
    world.wait(10);
    world.decide(EndByTime(1)).unwrap();
    assert_eq!(over(&world), Some("time"));
}

#[test]
fn a_grid_ends_with_its_last_point() {
    let mut world = World::new(&json!({ "sampler": { "name": "grid", "levels": 2 } }));
    world.propose(100);
    assert_eq!(world.given(9, None), [0, 1, 2, 3]);
    assert!(matches!(world.ask(1, None), TakeOutcome::Nothing));
    assert_eq!((over(&world), world.study().is_done()), (None, true));
    for trial in 0..4 {
        world.tell(trial, TrialEnding::Failed("x".to_owned())).unwrap();
    }
    assert_eq!(over(&world), Some("space"));
}

#[test]
fn silence_ends_a_trial_and_a_report_breaks_it() {
    let mut world = World::new(&json!({ "silence": "10s" }));
    world.propose(1);
    world.given(1, None);
    let silent = |world: &mut World| {
        world.decide(FailSilent { study: 1, trial: 0 }).unwrap();
        world.study().trials.get(0).unwrap().progress.state
    };
    world.wait(9);
    world.report(0, 1, 0.5).unwrap();
    world.wait(9);
    assert_eq!(silent(&mut world), TrialState::Running);
    world.wait(1);
    assert_eq!(silent(&mut world), TrialState::Failed);
}

#[test]
fn a_pruner_says_that_a_trial_should_stop() {
    let mut world = World::new(&json!({ "pruner": { "name": "median", "leastTrials": 2 } }));
    world.propose(3);
    world.given(3, None);
    assert!(!world.report(0, 1, 0.1).unwrap() && !world.report(1, 1, 0.2).unwrap());
    assert!(world.report(2, 1, 0.9).unwrap());
    assert!(world.study().trials.get(2).unwrap().progress.stop);
}

#[test]
fn a_deleted_study_goes_in_pieces_and_frees_its_id() {
    let mut world = World::new(&json!({ "sampler": "random" }));
    while world.study().trials.next() < 1_500 {
        world.propose(100);
        world.given(100, None);
    }
    let first = world.study().definition.number;
    world.steer(Step::Delete).unwrap();
    assert!(matches!(world.steer(Step::Pause), Err(Rejection::Unknown(_))));
    assert!(matches!(world.create(document(&json!({ "seed": 6 }))), Ok(CreateOutcome::New(Some(_)))));
    for left in [Some(500), None] {
        world.decide(CutDeleted(first)).unwrap();
        assert_eq!(world.state.table().get(first).map(|study| study.trials.next()), left);
    }
    let new = world.study();
    assert_eq!((new.definition.number, world.state.table().bytes()), (first + 1, new.bytes));
}

#[test]
fn a_paused_study_gives_nothing_and_listens() {
    let mut world = World::new(&json!({}));
    world.propose(2);
    world.given(1, None);
    world.steer(Step::Pause).unwrap();
    assert!(matches!(world.ask(1, None), TakeOutcome::Nothing));
    assert!(!world.study().is_done());
    world.complete(0, 0.5).unwrap();
    world.steer(Step::Resume).unwrap();
    world.propose(1);
    assert_eq!(world.given(1, None), [1]);
    world.steer(Step::Stop).unwrap();
    assert_eq!(over(&world), Some("stopped"));
    assert!(matches!(world.steer(Step::Resume), Err(Rejection::Over(_))));
    world.complete(1, 0.4).unwrap();
    assert_eq!(over(&world), Some("stopped"));
}

#[derive(Debug, Clone)]
enum Event {
    Propose(u64),
    Ask(u64),
    Tell { of: usize, value: u8 },
    Fail { of: usize },
    Forget,
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        3 => (1..4_u64).prop_map(Event::Propose),
        4 => (1..4_u64).prop_map(Event::Ask),
        4 => (0..9_usize, any::<u8>()).prop_map(|(of, value)| Event::Tell { of, value }),
        1 => (0..9_usize).prop_map(|of| Event::Fail { of }),
        1 => Just(Event::Forget),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn a_study_repeats_whatever_happens(events in prop::collection::vec(event(), 1..60), sampler in prop_oneof![Just("tpe"), Just("auto"), Just("random")]) {
        let mut world = World::new(&json!({ "sampler": sampler, "enqueued": [{ "x": 0.5, "n": 2 }] }));
        let mut given = Vec::new();
        for event in events {
            let running: Vec<u64> = world.study().running.iter().copied().collect();
            match event {
                // Results may come after proposals were made, so that some know too little.
                Event::Propose(wanted) => world.propose(wanted),
                Event::Ask(count) => given.extend(world.given(count, None)),
                Event::Tell { of, value } => {
                    if let Some(trial) = running.get(of) {
                        world.complete(*trial, f64::from(value)).unwrap();
                    }
                }
                Event::Fail { of } => {
                    if let Some(trial) = running.get(of) {
                        world.tell(*trial, TrialEnding::Failed("x".to_owned())).unwrap();
                    }
                }
                // The process is killed, and what is stored is loaded again; the proposals of before are still there.
                Event::Forget => world.reload(),
            }
        }
        let count = world.study().trials.next();
        prop_assert_eq!(given, (0..count).collect::<Vec<_>>());
        world.check_repeats();
    }
}

impl World {
    /// The rows of everything, read again.
    fn reload(&mut self) {
        let study = self.study();
        let definition = Arc::clone(&study.definition);
        let trials: Vec<Arc<Trial>> = study.trials.iter().cloned().collect();
        let edits = [Edit::Made(definition), Edit::Asked { study: 1, trials }];
        let group = rows::group(&[Change(edits.to_vec())], self.state.table());
        let stored = estimand_store::StoredStudies {
            studies: group.studies,
            trials: group.trials,
            reports: Vec::new(),
        };
        let loaded = rows::table(stored, 0, 0);
        let before = self.study();
        let after = loaded.of_id("s").unwrap();
        assert_eq!((before.counts, before.best, before.bytes), (after.counts, after.best, after.bytes));
        assert_eq!((&before.progress, &before.running), (&after.progress, &after.running));
        self.state.set_table(loaded);
    }
}

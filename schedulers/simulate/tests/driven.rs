//! A scheduler that orders capacity, beside a trace under its clock.

#![allow(clippy::unwrap_used)]

use estimand_api::promise::{PromiseRequest, PromiseResize, PromiseState};
use estimand_ordering::{Command, Done, Driver, Event, OrderNews, Scheduler, TaskEnd, TaskNews};
use estimand_placement::Millis;
use estimand_placement::policy::Policy;
use estimand_simulate::trace::{Trace, TraceTask};
use estimand_simulate::{Setup, nodes_of, simulate_driven};

/// Orders a processor for a minute, runs a task on it, and gives back what is left.
#[derive(Default)]
struct Planner {
    revision: u64,
    heard: Vec<String>,
}

impl Planner {
    fn order(&self, now: u64) -> Vec<Command<TraceTask>> {
        let promise = PromiseRequest {
            id: Some("p".to_owned()),
            resources: [("cpu".to_owned(), 1_000)].into(),
            width: 1,
            from: Some(now + 60),
            until: now + 120,
            ..PromiseRequest::default()
        };
        vec![Command::Order { order: "o".to_owned(), revision: self.revision, promises: vec![promise] }]
    }

    fn done(&mut self, done: &Done) -> Vec<Command<TraceTask>> {
        self.revision = done.revision;
        let order = "o".to_owned();
        match done.promises.first().map(|promise| promise.until) {
            Some(140) => {
                let to = PromiseResize { from: None, until: 200, width: None, if_revision: None };
                let task = TraceTask {
                    service: Millis(90_000),
                    promise: Some("p".to_owned()),
                    ..TraceTask::default()
                };
                vec![
                    Command::Submit { task: "t".to_owned(), document: task },
                    Command::Change { order, revision: self.revision, to },
                    Command::WakeAt(50),
                ]
            }
            _ => Vec::new(),
        }
    }
}

impl Scheduler for Planner {
    type Request = ();
    type Task = TraceTask;

    fn hear(&mut self, now: u64, event: Event<()>) -> Vec<Command<TraceTask>> {
        let (said, commands) = match event {
            Event::Request(()) => ("asked".to_owned(), self.order(now)),
            Event::Order { news: OrderNews::NoRoom(room), .. } => {
                self.revision = room.revision;
                ("moved on".to_owned(), self.order(now))
            }
            Event::Order { news: OrderNews::Done(done), .. } => {
                let until = done.promises.first().map(|promise| promise.until);
                (format!("done until {until:?}"), self.done(&done))
            }
            Event::Order { news: OrderNews::Promise(record), .. } if record.state == PromiseState::Active => {
                ("begun".to_owned(), Vec::new())
            }
            Event::Task { news: TaskNews::Ended(TaskEnd::Succeeded), .. } => {
                ("ended".to_owned(), vec![Command::GiveBack { order: "o".to_owned() }])
            }
            Event::Time => ("woken".to_owned(), Vec::new()),
            Event::Order { news: OrderNews::Promise(_), .. } => return Vec::new(),
            other => panic!("{other:?}"),
        };
        self.heard.push(format!("{now}: {said}"));
        commands
    }
}

#[test]
fn a_scheduler_has_its_orders_from_the_ledger_of_the_simulation() {
    let setup =
        Setup { nodes: nodes_of(1, 1, None), policy: Policy::Queue, facts_every: Millis(5_000), seed: 3 };
    // A task of somebody else makes room.
    let trace = Trace::parse("{\"at\":0,\"service\":100000,\"resources\":{\"cpu\":1000}}\n").unwrap();
    let mut driver = Driver::new("planner", Planner::default());
    let requests = vec![(Millis::of_tick(20), ())];
    let outcome = simulate_driven(&setup, &trace, &mut driver, requests, &mut |_| {}).unwrap();
    let heard = [
        "20: asked",
        "20: moved on",
        "20: done until Some(140)",
        "20: done until Some(200)",
        "50: woken",
        "80: begun",
        "170: ended",
        "170: done until None",
    ];
    assert_eq!(driver.scheduler().heard, heard);
    assert_eq!(outcome.displaced, 1);
    // The one on the promise, and the other one anew when that is given back.
    assert_eq!(outcome.responses, [150, 270].map(Millis::of_tick));
}

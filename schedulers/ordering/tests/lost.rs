//! Questions and answers that are lost, late or twice, refusals and restarts: an order ends with its promises once, or with
//! none of them.

#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;

use estimand_api::problem::Problem;
use estimand_api::promise::{PromiseRequest, PromiseResize, Room};
use estimand_ordering::{Answer, Done, Order, OrderKey, Question, Stage};
use proptest::prelude::*;

/// The units of the ledger, and a width that it always refuses.
const UNITS: u64 = 10;
const REFUSED: u64 = 7;

/// A ledger that would promise one id twice, so that it is up to the order that this never happens.
#[derive(Default)]
struct Ledger {
    revision: u64,
    /// The units that others have.
    others: u64,
    promised: Vec<(String, u64)>,
    keys: BTreeMap<String, usize>,
}

impl Ledger {
    fn used(&self) -> u64 {
        self.others + self.promised.iter().map(|(_, width)| width).sum::<u64>()
    }

    fn done(&mut self) -> Answer {
        Answer::Done(Done { revision: self.revision, promises: Vec::new() })
    }

    fn change(&mut self) -> Answer {
        self.revision += 1;
        self.done()
    }

    fn no_room(&self) -> Answer {
        Answer::NoRoom(Box::new(Room { revision: self.revision, ..Room::default() }))
    }

    fn answer(&mut self, question: &Question) -> Answer {
        match question {
            Question::Promise { key, .. } if self.keys.contains_key(key) => self.done(),
            Question::Promise { batch, .. } if batch.if_revision != Some(self.revision) => self.no_room(),
            Question::Promise { batch, .. } if batch.all_or_none.iter().any(|one| one.width == REFUSED) => {
                refused()
            }
            Question::Promise { key, batch } => {
                let more: u64 = batch.all_or_none.iter().map(|one| one.width).sum();
                if self.used() + more > UNITS {
                    return self.no_room();
                }
                self.keys.insert(key.clone(), batch.all_or_none.len());
                let ids = batch.all_or_none.iter().map(|one| (one.id.clone().unwrap(), one.width));
                self.promised.extend(ids);
                self.change()
            }
            Question::Change { promise, to } => self.resize(promise, to),
            Question::GiveBack { promises } => {
                self.promised.retain(|(id, _)| !promises.contains(id));
                self.change()
            }
        }
    }

    fn resize(&mut self, promise: &str, to: &PromiseResize) -> Answer {
        let Some(place) = self.promised.iter().position(|(id, _)| id == promise) else { return refused() };
        let before = self.promised[place].1;
        let width = to.width.unwrap_or(before);
        if width == before {
            return self.done();
        }
        if to.if_revision != Some(self.revision) || self.used() - before + width > UNITS {
            return self.no_room();
        }
        if width == REFUSED {
            return refused();
        }
        self.promised[place].1 = width;
        self.change()
    }
}

fn refused() -> Answer {
    Answer::Refused(Box::new(Problem::conflict("never")))
}

/// An event of the world around an order.
#[derive(Debug, Clone)]
enum Act {
    /// Its question is asked, reaches the ledger or not, and its answer comes back or not.
    Ask {
        arrives: bool,
        returns: bool,
    },
    /// A question of before reaches the ledger again, and its answer comes or not.
    Again {
        which: prop::sample::Index,
        returns: bool,
    },
    /// The owner ends, and goes on from what it has stored.
    Restart,
    Others(u64),
    Plan(u64),
    Change(u64),
    GiveBack,
}

struct World {
    ledger: Ledger,
    order: Order,
    stored: Order,
    asked: Vec<Question>,
    keys: u64,
    members: u64,
    is_given_back: bool,
}

fn promises(members: u64, width: u64) -> Vec<Vec<PromiseRequest>> {
    let one = |member: u64| PromiseRequest {
        id: Some(format!("p{member}")),
        width,
        until: 9,
        ..PromiseRequest::default()
    };
    vec![(0..members).map(one).collect()]
}

impl World {
    fn new(members: u64, width: u64) -> World {
        let key = OrderKey { key: "key 0".to_owned(), revision: 0 };
        let order = Order::new(key, promises(members, width));
        let (ledger, stored) = (Ledger::default(), order.clone());
        World { ledger, order, stored, asked: Vec::new(), keys: 0, members, is_given_back: false }
    }

    fn act(&mut self, act: &Act) {
        match *act {
            Act::Ask { arrives, returns } => self.ask(arrives, returns),
            Act::Again { ref which, returns } if !self.asked.is_empty() => {
                let question = which.get(&self.asked).clone();
                let answer = self.ledger.answer(&question);
                if returns {
                    self.order.hear(&question, answer);
                }
            }
            Act::Again { .. } => {}
            Act::Restart => self.order = self.stored.clone(),
            Act::Others(units) => {
                self.ledger.others = units.min(UNITS + self.ledger.others - self.ledger.used());
                self.ledger.revision += 1;
            }
            Act::Plan(width) => self.plan(width),
            Act::Change(width) => {
                let to = PromiseResize { from: None, until: 9, width: Some(width), if_revision: None };
                self.order.change(self.ledger.revision, to);
                self.stored = self.order.clone();
            }
            Act::GiveBack => {
                self.is_given_back = true;
                self.order.give_back();
                self.stored = self.order.clone();
            }
        }
        let all = self.members as usize;
        assert!([0, all].contains(&self.ledger.promised.len()), "{:?}", self.ledger.promised);
    }

    fn plan(&mut self, width: u64) {
        self.keys += 1;
        let key = OrderKey { key: format!("key {}", self.keys), revision: self.ledger.revision };
        self.order.plan(key, promises(self.members, width));
    }

    /// It is stored before it is asked, and what is heard is stored before the next question.
    fn ask(&mut self, arrives: bool, returns: bool) {
        let Some(question) = self.order.question() else { return };
        self.stored = self.order.clone();
        self.asked.push(question.clone());
        let answer = if arrives { self.ledger.answer(&question) } else { Answer::Unknown(String::new()) };
        let lost = Answer::Unknown("lost".to_owned());
        self.order.hear(&question, if returns { answer } else { lost });
    }

    /// All goes well from now on, but late copies of all questions come.
    fn finish(&mut self) {
        self.act(&Act::Restart);
        for _ in 0..200 {
            if *self.order.stage() == Stage::Open {
                self.plan(1);
            }
            self.act(&Act::Ask { arrives: true, returns: true });
        }
        for question in self.asked.clone().into_iter().rev() {
            self.ledger.answer(&question);
        }
    }
}

fn act() -> impl Strategy<Value = Act> {
    prop_oneof![
        6 => (any::<bool>(), any::<bool>()).prop_map(|(arrives, returns)| Act::Ask { arrives, returns }),
        3 => (any::<prop::sample::Index>(), any::<bool>())
            .prop_map(|(which, returns)| Act::Again { which, returns }),
        2 => Just(Act::Restart),
        2 => (0..=UNITS).prop_map(Act::Others),
        2 => (1..=UNITS).prop_map(Act::Plan),
        2 => (1..=UNITS).prop_map(Act::Change),
        1 => Just(Act::GiveBack),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, ..ProptestConfig::default() })]

    #[test]
    fn an_order_ends_with_its_promises_once_or_with_none(
        members in 1_u64..3,
        width in 1..=UNITS,
        acts in prop::collection::vec(act(), 0..40),
    ) {
        let mut world = World::new(members, width);
        acts.iter().for_each(|act| world.act(act));
        world.finish();
        let held: Vec<(String, u64)> = world.ledger.promised.clone();
        match world.order.stage() {
            Stage::Held => {
                let known = world.order.promises().map(|one| (one.id.clone().unwrap(), one.width));
                prop_assert_eq!(known.collect::<Vec<_>>(), held);
                prop_assert!(!world.is_given_back);
            }
            Stage::Ended => prop_assert!(held.is_empty()),
            other => prop_assert!(false, "it never ends: {other:?}"),
        }
    }
}

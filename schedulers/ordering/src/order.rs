//! An order: promises from the first question until they are given back.
//!
//! ```text
//!   ASKED ──done──▶ HELD ──change──▶ CHANGING ──any answer──▶ HELD
//!    │  ▲             └──give back──▶ RETURNING ──done──▶ ENDED
//!    │  └──plan── OPEN ◀── no room
//!    └──refused──▶ ENDED
//! ```
//!
//! The revision of the ledger makes an answer final: a copy of a question that is under way for long finds that the ledger
//! has moved on, and does nothing. So an order without a revision cannot be made here.

use estimand_api::problem::Problem;
use estimand_api::promise::{PromiseBatch, PromiseRequest, PromiseResize, Room};
use serde::{Deserialize, Serialize};

use crate::question::{Answer, Done, Question};

/// How often an order is planned anew before it is refused: each time somebody else was faster.
const MAX_ROUNDS: usize = 64;

#[derive(Debug, Clone, PartialEq)]
pub struct Order {
    /// The parts are asked for together, and each is wanted without the others, too.
    parts: Vec<Vec<PromiseRequest>>,
    stage: Stage,
    rounds: usize,
    is_given_back: bool,
}

/// The key of an order among all, and the revision of the ledger for which it is planned.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OrderKey {
    pub key: String,
    pub revision: u64,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Stage {
    /// The ledger is to be asked for it, on the condition that it is at the revision of the key.
    Asked(OrderKey),
    /// The ledger had no room: it is to be planned anew, or given up.
    Open,
    Held,
    /// The ledger is to be asked for a change of its promise, which has a revision.
    Changing(PromiseResize),
    /// The ledger is to be told that it is given back.
    Returning,
    /// The ledger has nothing of it.
    Ended,
}

/// A consequence of an answer.
#[derive(Debug, Clone, PartialEq)]
pub enum Step {
    /// It is promised, changed or given back, as it was asked for.
    Done(Done),
    /// The ledger had no room there. An order is to be planned anew; one that was to be changed is held as before.
    Plan(Box<Room>),
    /// Several parts together are refused for good: each is to be an order of its own.
    Apart(Problem),
    /// It is refused for good, or its change is and it is held as before.
    Refuse(Problem),
    /// The outcome is unknown: the same question is to be asked again.
    AskAgain(String),
}

impl Order {
    /// An order for the promises of all parts, or none. Each promise has an id, and each attempt a key of its own. It is stored
    /// before its question is asked.
    pub fn new(key: OrderKey, parts: Vec<Vec<PromiseRequest>>) -> Order {
        Order { parts, stage: Stage::Asked(key), rounds: 0, is_given_back: false }
    }

    /// An order that is held already.
    pub fn held(promise: PromiseRequest) -> Order {
        Order { parts: vec![vec![promise]], stage: Stage::Held, rounds: 0, is_given_back: false }
    }

    pub fn stage(&self) -> &Stage {
        &self.stage
    }

    /// The question that the ledger is to be asked now, if there is one. It stays the same until its answer is known.
    pub fn question(&self) -> Option<Question> {
        match &self.stage {
            Stage::Asked(OrderKey { key, revision }) => {
                let all_or_none = self.promises().cloned().collect();
                let batch = PromiseBatch { if_revision: Some(*revision), all_or_none };
                Some(Question::Promise { key: key.clone(), batch })
            }
            Stage::Changing(to) => {
                let promise = self.ids().next()?.to_owned();
                Some(Question::Change { promise, to: *to })
            }
            Stage::Returning => {
                Some(Question::GiveBack { promises: self.ids().map(str::to_owned).collect() })
            }
            Stage::Open | Stage::Held | Stage::Ended => None,
        }
    }

    /// Hears the answer to a question; none: the question is an older one, whose answer means nothing any more.
    pub fn hear(&mut self, question: &Question, answer: Answer) -> Option<Step> {
        if !self.asks(question) {
            return None;
        }
        Some(match answer {
            Answer::Done(done) => {
                self.take_effect();
                Step::Done(done)
            }
            Answer::Unknown(reason) => Step::AskAgain(reason),
            Answer::NoRoom(room) => {
                if self.begin_round() {
                    self.fall_back(Stage::Open);
                    Step::Plan(room)
                } else {
                    self.fall_back(Stage::Ended);
                    Step::Refuse(faster())
                }
            }
            Answer::Refused(problem) => {
                let is_apart = self.parts.len() > 1 && matches!(self.stage, Stage::Asked(_));
                self.fall_back(Stage::Ended);
                if is_apart { Step::Apart(*problem) } else { Step::Refuse(*problem) }
            }
        })
    }

    fn asks(&self, question: &Question) -> bool {
        match (&self.stage, question) {
            (Stage::Asked(order), Question::Promise { key, .. }) => order.key == *key,
            (Stage::Changing(to), Question::Change { promise, to: asked }) => {
                to == asked && self.ids().any(|id| id == promise)
            }
            (Stage::Returning, Question::GiveBack { promises }) => self.ids().eq(promises),
            _ => false,
        }
    }

    /// Asks for it anew under another key, for the parts that are still wanted.
    pub fn plan(&mut self, key: OrderKey, parts: Vec<Vec<PromiseRequest>>) {
        if self.stage == Stage::Open {
            self.stage = Stage::Asked(key);
            self.parts = parts;
        }
    }

    /// Asks for another window and width, planned at a revision; false unless it is held and is one promise.
    pub fn change(&mut self, revision: u64, to: PromiseResize) -> bool {
        let may_change = self.stage == Stage::Held && self.promises().count() == 1;
        if may_change {
            self.stage = Stage::Changing(PromiseResize { if_revision: Some(revision), ..to });
        }
        may_change
    }

    /// Gives it back: at once if it is held, else as soon as it is known if it was promised or changed.
    pub fn give_back(&mut self) {
        self.is_given_back = true;
        match self.stage {
            Stage::Held => self.stage = Stage::Returning,
            Stage::Open => self.stage = Stage::Ended,
            Stage::Asked(_) | Stage::Changing(_) | Stage::Returning | Stage::Ended => {}
        }
    }

    /// Counts a round in which it is planned anew; false if there were too many.
    pub fn begin_round(&mut self) -> bool {
        self.rounds += 1;
        self.rounds < MAX_ROUNDS
    }

    pub fn promises(&self) -> impl Iterator<Item = &PromiseRequest> {
        self.parts.iter().flatten()
    }

    fn ids(&self) -> impl Iterator<Item = &str> {
        self.promises().filter_map(|promise| promise.id.as_deref())
    }

    /// The ledger has done as it was asked.
    fn take_effect(&mut self) {
        if let Stage::Changing(to) = self.stage
            && let Some(promise) = self.parts.iter_mut().flatten().next()
        {
            promise.from = to.from.or(promise.from);
            promise.until = to.until;
            promise.width = to.width.unwrap_or(promise.width);
        }
        self.stage = match self.stage {
            Stage::Returning => Stage::Ended,
            _ if self.is_given_back => Stage::Returning,
            _ => Stage::Held,
        };
    }

    /// The ledger has done nothing: a change leaves it held, and an order that nobody wants any more is over.
    fn fall_back(&mut self, unpromised: Stage) {
        self.stage = match self.stage {
            Stage::Changing(_) if self.is_given_back => Stage::Returning,
            Stage::Changing(_) => Stage::Held,
            // Promises that are given back are never refused; what cannot be known any more is told again.
            Stage::Returning => Stage::Returning,
            _ if self.is_given_back => Stage::Ended,
            _ => unpromised,
        };
    }
}

/// Somebody else took the room each time.
fn faster() -> Problem {
    Problem::unavailable("others were faster each time; ask again", 1)
}

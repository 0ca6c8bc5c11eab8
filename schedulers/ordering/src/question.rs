//! Questions for the ledger of capacity, and its answers.

use estimand_api::problem::Problem;
use estimand_api::promise::{PromiseBatch, PromiseRecord, PromiseResize, Room};
use estimand_capacity::Tick;

/// A question for the ledger. Asked again as it was, it has its effect once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Question {
    /// All of these are to be promised, or none. The ledger knows them by the key.
    Promise { key: String, batch: PromiseBatch },
    /// A promise is to have another window and width.
    Change { promise: String, to: PromiseResize },
    /// Promises are given back; those that are over or not known are passed over.
    GiveBack { promises: Vec<String> },
}

/// The effect of a question.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Done {
    /// The revision of the ledger with it, or a later one.
    pub revision: u64,
    /// The promises that it is about, as they are since then; none that are given back.
    pub promises: Vec<PromiseRecord>,
}

/// An answer of the ledger.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    Done(Done),
    /// The ledger has moved on from the revision of the question, or has no room there.
    NoRoom(Box<Room>),
    /// The question is refused whatever the revision.
    Refused(Box<Problem>),
    /// The answer was lost, for this reason: the ledger may have done it or not.
    Unknown(String),
}

impl Question {
    /// The first tick of what is asked for; none: it begins when it is promised, or stays.
    fn begin(&self) -> Option<Tick> {
        match self {
            Question::Promise { batch, .. } => batch.all_or_none.iter().filter_map(|asked| asked.from).min(),
            Question::Change { to, .. } => to.from,
            Question::GiveBack { .. } => None,
        }
    }
}

impl Answer {
    /// The answer that a problem is, which came over HTTP at an instant.
    pub fn of_problem(problem: Problem, question: &Question, now: Tick) -> Answer {
        match (problem.status, &problem.room) {
            (409, Some(room)) => Answer::NoRoom(room.clone()),
            // Its start has come meanwhile.
            (400, _) if question.begin().is_some_and(|begin| begin < now) => Answer::NoRoom(Box::default()),
            (400..=499, _) => Answer::Refused(Box::new(problem)),
            _ => Answer::Unknown(problem.detail),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_problem_is_an_answer_by_its_status_and_its_room() {
        let to = PromiseResize { from: Some(50), until: 60, width: None, if_revision: Some(3) };
        let question = Question::Change { promise: "p".to_owned(), to };
        let answer = |status: u16, now: Tick| {
            let problem = Problem::new(status, "kind", "Title", "why");
            Answer::of_problem(problem, &question, now)
        };
        assert!(matches!(answer(400, 50), Answer::Refused(_)));
        assert_eq!(answer(400, 51), Answer::NoRoom(Box::default()), "its start has come meanwhile");
        assert!(matches!(answer(409, 51), Answer::Refused(_)));
        assert_eq!(answer(503, 0), Answer::Unknown("why".to_owned()));
        let room = Room { revision: 7, ..Room::default() };
        let problem = Problem { room: Some(Box::new(room.clone())), ..Problem::conflict("full") };
        assert_eq!(Answer::of_problem(problem, &question, 0), Answer::NoRoom(Box::new(room)));
    }
}

//! The trait of a scheduler: it hears what has happened, and says what is to be done.

use estimand_api::names::{DataName, NodeName};
use estimand_api::problem::Problem;
use estimand_api::promise::{PromiseRecord, PromiseRequest, PromiseResize, Room};
use estimand_api::task_state::TaskState;
use estimand_api::task_stop::StopRequest;
use estimand_capacity::Tick;
use serde_json::Value;

use crate::question::Done;

/// The decisions of a scheduler. It has no clock and waits for nothing: the same events give the same commands, in a service
/// as in a simulation.
pub trait Scheduler {
    /// A request of a user.
    type Request;
    /// A task to be submitted: its document, or whatever the service makes one of.
    type Task;

    /// Hears an event. Events come one at a time, in the order in which they happened, and some may come twice.
    fn hear(&mut self, now: Tick, event: Event<Self::Request>) -> Vec<Command<Self::Task>>;
}

/// An event that a scheduler hears of.
#[derive(Debug, Clone, PartialEq)]
pub enum Event<R> {
    /// A fact has another value; none: it is gone.
    Fact {
        name: DataName,
        node: NodeName,
        value: Option<Value>,
    },
    /// News of a task, by the name that it was submitted with.
    Task {
        task: String,
        news: TaskNews,
    },
    /// News of an order, by its name.
    Order {
        order: String,
        news: OrderNews,
    },
    /// The tick has come at which the scheduler wanted to be woken.
    Time,
    Request(R),
}

#[derive(Debug, Clone, PartialEq)]
pub enum TaskNews {
    /// The task says how far it is.
    Progress(Value),
    Ended(TaskEnd),
    /// The task service refuses it for good.
    Refused(Box<Problem>),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TaskEnd {
    Succeeded,
    Failed,
    Cancelled,
}

impl TaskEnd {
    /// The end that a state is, if it is one.
    pub fn of(state: TaskState) -> Option<TaskEnd> {
        match state {
            TaskState::Succeeded => Some(TaskEnd::Succeeded),
            TaskState::Failed => Some(TaskEnd::Failed),
            TaskState::Cancelled => Some(TaskEnd::Cancelled),
            _ => None,
        }
    }
}

#[derive(Debug, Clone, PartialEq)]
pub enum OrderNews {
    /// It is promised, changed or given back, as the last command wanted it.
    Done(Done),
    /// The ledger has no room there: the order is to be planned anew, or given back. A change leaves it as it was.
    NoRoom(Box<Room>),
    /// It is refused for good; a change leaves it as it was.
    Refused(Box<Problem>),
    /// A promise of it has begun, moved, ended or lost its capacity.
    Promise(Box<PromiseRecord>),
}

/// A command of a scheduler. A command that is given again has its effect once.
#[derive(Debug, Clone, PartialEq)]
pub enum Command<T> {
    /// Submits a task under a name of the scheduler's own.
    Submit {
        task: String,
        document: T,
    },
    /// Ends a task, at once or with a grace, and with a checkpoint if that is wanted.
    Cancel {
        task: String,
        stop: StopRequest,
    },
    /// Has all of these promised, or none, under a name of the scheduler's own.
    Order {
        order: String,
        revision: u64,
        promises: Vec<PromiseRequest>,
    },
    Change {
        order: String,
        revision: u64,
        to: PromiseResize,
    },
    GiveBack {
        order: String,
    },
    WakeAt(Tick),
}

//! The driver of a scheduler: it keeps what a scheduler has commanded until that is done.
//!
//! Commands become errands to the task service and questions to the ledger. Each stays until its answer is known, and is
//! carried again as it was if the answer is lost. Answers and news become events, in the order in which they come; news of
//! what is over, or was never commanded, is passed over. So the same events give the same commands, whoever carries them: a
//! service by HTTP, the simulator by calls.

use std::collections::{BTreeMap, BTreeSet};

use estimand_api::problem::Problem;
use estimand_api::promise::PromiseRecord;
use estimand_api::task_stop::StopRequest;
use estimand_capacity::Tick;

use crate::order::{Order, OrderKey, Stage, Step};
use crate::question::{Answer, Done, Question};
use crate::scheduler::{Command, Event, OrderNews, Scheduler, TaskEnd, TaskNews};

pub struct Driver<S: Scheduler> {
    /// The name of the scheduler, with which the keys of its orders begin.
    name: String,
    scheduler: S,
    orders: BTreeMap<String, Order>,
    keys: u64,
    /// The tasks that are to be submitted, or were and are not over.
    tasks: BTreeSet<String>,
    errands: Vec<Errand<S::Task>>,
    wakes: BTreeSet<Tick>,
}

/// A request to the task service. Carried again as it was, it has its effect once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Errand<T> {
    /// The name is the task's id, by which the task service knows it again.
    Submit {
        task: String,
        document: T,
    },
    Cancel {
        task: String,
        stop: StopRequest,
    },
}

/// An answer of the task service.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TaskAnswer {
    /// The errand is done, now or before; and the task is over already if it has an end.
    Done(Option<TaskEnd>),
    Refused(Box<Problem>),
    /// The answer was lost, for this reason.
    Unknown(String),
}

impl<T> Errand<T> {
    pub fn task(&self) -> &str {
        match self {
            Errand::Submit { task, .. } | Errand::Cancel { task, .. } => task,
        }
    }

    fn is_like(&self, other: &Errand<T>) -> bool {
        match (self, other) {
            (Errand::Submit { task, .. }, Errand::Submit { task: other, .. }) => task == other,
            (Errand::Cancel { task, stop }, Errand::Cancel { task: other, stop: other_stop }) => {
                task == other && stop == other_stop
            }
            _ => false,
        }
    }
}

impl<S: Scheduler> Driver<S> {
    pub fn new(name: &str, scheduler: S) -> Driver<S> {
        Driver {
            name: name.to_owned(),
            scheduler,
            orders: BTreeMap::new(),
            keys: 0,
            tasks: BTreeSet::new(),
            errands: Vec::new(),
            wakes: BTreeSet::new(),
        }
    }

    pub fn scheduler(&self) -> &S {
        &self.scheduler
    }

    /// The errands that may be carried now, in the order of their commands. A task is cancelled once it is known to be
    /// submitted, so that no submission under way comes after its end.
    pub fn errands(&self) -> Vec<Errand<S::Task>>
    where
        S::Task: Clone,
    {
        let is_submitted = |task: &str| {
            !self.errands.iter().any(|other| matches!(other, Errand::Submit { task: of, .. } if of == task))
        };
        let may_go = |errand: &&Errand<S::Task>| match errand {
            Errand::Submit { .. } => true,
            Errand::Cancel { task, .. } => is_submitted(task),
        };
        self.errands.iter().filter(may_go).cloned().collect()
    }

    /// The questions that the ledger is to be asked now, each with the name of its order.
    pub fn questions(&self) -> Vec<(String, Question)> {
        let questions = self.orders.iter();
        questions.filter_map(|(name, order)| Some((name.clone(), order.question()?))).collect()
    }

    /// Some order is not over, so that news of promises may be about it.
    pub fn has_orders(&self) -> bool {
        !self.orders.is_empty()
    }

    /// The tick at which the scheduler wants to be woken next.
    pub fn wake_at(&self) -> Option<Tick> {
        self.wakes.first().copied()
    }

    /// Wakes the scheduler if it wanted that by now.
    pub fn pass_time(&mut self, now: Tick) {
        let later = self.wakes.split_off(&now.saturating_add(1));
        if !std::mem::replace(&mut self.wakes, later).is_empty() {
            self.tell(now, Event::Time);
        }
    }

    /// Hears an event of outside: a fact, a request, or news of a task.
    pub fn hear(&mut self, now: Tick, event: Event<S::Request>) {
        let is_known = match &event {
            Event::Task { task, news: TaskNews::Progress(_) } => self.tasks.contains(task),
            Event::Task { task, .. } => {
                self.errands.retain(|errand| errand.task() != task);
                self.tasks.remove(task)
            }
            Event::Order { order, .. } => self.orders.contains_key(order),
            Event::Fact { .. } | Event::Request(_) | Event::Time => true,
        };
        if is_known {
            self.tell(now, event);
        }
    }

    /// Hears that a promise has begun, moved, ended or lost its capacity.
    pub fn hear_promise(&mut self, now: Tick, record: &PromiseRecord) {
        let has_it = |order: &Order| order.promises().any(|promise| promise.id.as_ref() == Some(&record.id));
        if let Some((order, _)) = self.orders.iter().find(|(_, order)| has_it(order)) {
            let news = OrderNews::Promise(Box::new(record.clone()));
            self.tell(now, Event::Order { order: order.clone(), news });
        }
    }

    /// Hears the answer to an errand. One that was not waited for any more means nothing.
    pub fn answer(&mut self, now: Tick, errand: &Errand<S::Task>, answer: TaskAnswer) {
        let Some(place) = self.errands.iter().position(|open| open.is_like(errand)) else { return };
        if matches!(answer, TaskAnswer::Unknown(_)) {
            return;
        }
        self.errands.remove(place);
        let news = match (errand, answer) {
            (_, TaskAnswer::Done(Some(end))) => TaskNews::Ended(end),
            (Errand::Submit { .. }, TaskAnswer::Refused(problem)) => TaskNews::Refused(problem),
            // A task that cannot be cancelled is over, and its end is told.
            (Errand::Cancel { .. }, TaskAnswer::Refused(_)) | (_, _) => return,
        };
        self.hear(now, Event::Task { task: errand.task().to_owned(), news });
    }

    /// Hears the answer to the question of an order.
    pub fn answer_order(&mut self, now: Tick, name: &str, question: &Question, answer: Answer) {
        let Some(order) = self.orders.get_mut(name) else { return };
        let Some(step) = order.hear(question, answer) else { return };
        let news = match (order.stage(), step) {
            // An order that is given back meanwhile is over when that is done.
            (_, Step::AskAgain(_)) | (Stage::Returning, _) => return,
            (Stage::Ended, Step::Plan(_)) => OrderNews::Done(Done::default()),
            (_, Step::Plan(room)) => OrderNews::NoRoom(room),
            (_, Step::Done(done)) => OrderNews::Done(done),
            (_, Step::Refuse(problem) | Step::Apart(problem)) => OrderNews::Refused(Box::new(problem)),
        };
        self.tell_of_order(now, name, news);
    }

    fn tell_of_order(&mut self, now: Tick, name: &str, news: OrderNews) {
        if self.orders.get(name).is_some_and(|order| *order.stage() == Stage::Ended) {
            self.orders.remove(name);
        }
        self.tell(now, Event::Order { order: name.to_owned(), news });
    }

    fn tell(&mut self, now: Tick, event: Event<S::Request>) {
        for command in self.scheduler.hear(now, event) {
            self.take(now, command);
        }
    }

    /// Takes a command. One that is given again, or is about what is over, changes nothing.
    fn take(&mut self, now: Tick, command: Command<S::Task>) {
        match command {
            Command::Submit { task, document } => {
                if self.tasks.insert(task.clone()) {
                    self.errands.push(Errand::Submit { task, document });
                }
            }
            Command::Cancel { task, stop } => {
                let cancel = Errand::Cancel { task, stop };
                if self.tasks.contains(cancel.task())
                    && !self.errands.iter().any(|open| open.is_like(&cancel))
                {
                    self.errands.push(cancel);
                }
            }
            Command::Order { order, revision, promises } => {
                self.keys += 1;
                let key = format!("{} {order} {revision} {}", self.name, self.keys);
                let key = OrderKey { key, revision };
                match self.orders.get_mut(&order) {
                    Some(open) => open.plan(key, vec![promises]),
                    None => drop(self.orders.insert(order, Order::new(key, vec![promises]))),
                }
            }
            Command::Change { order, revision, to } => {
                if let Some(order) = self.orders.get_mut(&order) {
                    order.change(revision, to);
                }
            }
            Command::GiveBack { order: name } => {
                let Some(order) = self.orders.get_mut(&name) else { return };
                order.give_back();
                if *order.stage() == Stage::Ended {
                    self.tell_of_order(now, &name, OrderNews::Done(Done::default()));
                }
            }
            Command::WakeAt(at) => drop(self.wakes.insert(at)),
        }
    }
}

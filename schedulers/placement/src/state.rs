//! The states of a task, as one machine.
//!
//! ```text
//!            place          accept           prepare            start
//!   QUEUED ────────▶ PLACED ───────▶ ACCEPTED ───────▶ PREPARING ───────▶ RUNNING
//!     ▲ ▲               │ end: a retry is left, after a pause                │
//!     │ └───────────────┴────────────────────────────────────────────────────┤ end
//!     │                                                                      ▼
//!     │ lease over, onLoss: restart       cancel: from each of them   SUCCEEDED, FAILED
//!   LOST ◀── node lost: from each         ──▶ STOPPING ── end ──▶ CANCELLED
//!     └── node heard of: as before
//! ```
//!
//! A task that has to make room for a promise, or is sent back to the queue, is STOPPING, too, and then QUEUED again, without
//! using a retry. One whose
//! promise has ended is STOPPING and then FAILED, or CANCELLED if it was QUEUED.
//!
//! A task that comes after others is QUEUED, too, and not placed before they are over. If one of them ends otherwise
//! than it wants, it is CANCELLED.
//!
//! An event names the attempt that it is about. One that is repeated, or about an attempt that is over, changes nothing;
//! one that skips states is taken, since what it says includes them. A task is never placed while an attempt may run.

pub use estimand_api::task_state::TaskState as State;
use estimand_api::task_stop::StopOrder;
use estimand_api::task_usage::{TaskUsage, UsageSoFar};
use serde::{Deserialize, Serialize};

use super::Millis;
use super::dependency::{Awaited, On};
use super::queue::TaskNumber;
use super::retries::{Ending, OnLoss, Retries};
use super::usage::Usage;

/// The author of a transition.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Actor {
    Scheduler,
    /// The agent of this node.
    Agent(String),
    User(String),
}

/// Something that happened to a task; the cause of a transition.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum Event {
    /// A node was chosen for the next attempt.
    Place {
        attempt: u32,
        node: String,
    },
    Accept {
        attempt: u32,
    },
    Prepare {
        attempt: u32,
    },
    Start {
        attempt: u32,
    },
    End {
        attempt: u32,
        ending: Ending,
        /// The end of its program, where the ending is the reason for which it was ended.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        program: Option<Ending>,
        /// None: nobody measured it, as in what versions of before stored.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        used: Option<Box<TaskUsage>>,
    },
    /// The task is to end for good.
    Cancel(StopOrder),
    /// The task is to end, and to wait for a node again.
    Yield(StopOrder),
    /// A promise needs the capacity on which it runs.
    MakeRoom {
        attempt: u32,
        promise: String,
        /// The grace that its document gives, and that is no longer than room may take.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        grace_ms: Option<u64>,
        /// The grace of its document, which is longer than room may take and was cut.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        cut_from_ms: Option<u64>,
    },
    /// The promise on whose capacity it runs, or was to run, has ended.
    PromiseEnded {
        reason: String,
        #[serde(default, skip_serializing_if = "StopOrder::is_plain")]
        stop: StopOrder,
    },
    NodeLost {
        attempt: u32,
    },
    /// Its node is heard of again, and has it.
    NodeBack {
        attempt: u32,
    },
    /// Its node is silent for so long that nothing of it can run there.
    LeaseOver {
        attempt: u32,
    },
    /// Something became of a task or array that it comes after.
    Dependency {
        number: TaskNumber,
        /// The task itself, or that of an array which did not succeed.
        task: String,
        /// False if any task did not succeed.
        succeeded: bool,
        /// False if other tasks of the array are not over.
        over: bool,
    },
}

/// Why a task is to end that nobody cancelled.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum StopCause {
    /// It is run again when it has made room.
    MakeRoom,
    /// The task is run again, since somebody sent it back to the queue.
    Yield,
    PromiseEnded(String),
}

/// The rules that a task's document gives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Rules {
    pub retries: Retries,
    pub on_loss: OnLoss,
}

/// How far a task is.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Progress {
    pub state: State,
    /// 0 before it was placed first.
    pub attempt: u32,
    /// Where the attempt is or was.
    pub node: Option<String>,
    /// The agent that the node had then; none: any, as versions of before had it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// The length of the attempt's lease in milliseconds; none: it has none, or that of slots, as versions of before had it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lease_ms: Option<Millis>,
    /// How the last attempt that ended did.
    pub ending: Option<Ending>,
    /// The end of that attempt's program, where the ending is the reason for which it was ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub program: Option<Ending>,
    /// How many of its retries are used.
    pub failures: u32,
    /// It is not placed again before that.
    pub not_before: Option<Millis>,
    /// The state before its node was lost.
    pub before_loss: Option<State>,
    /// The last step that is known, whatever was heard of its node since; 0 in what versions of before stored.
    #[serde(default)]
    pub since: Millis,
    /// The attempt has begun; versions of before did not store it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub begun: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stop: Option<StopCause>,
    /// The order to end, while it ends.
    #[serde(default, skip_serializing_if = "StopOrder::is_plain")]
    pub stop_order: StopOrder,
    /// The tasks that it comes after and that are not over.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub awaits: Vec<Awaited>,
    /// The part of its promise's window that it had so far.
    #[serde(default, skip_serializing_if = "Usage::is_empty")]
    pub usage: Usage,
    /// The means that its attempts used so far; none: no attempt was measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub used: Option<Box<UsageSoFar>>,
}

/// A change of a task, as it is stored.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Transition {
    pub at: Millis,
    pub from: State,
    pub to: State,
    pub cause: Event,
    pub actor: Actor,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    #[error(
        "attempt {given} cannot be placed: attempt {current} is {state:?}, and a task is placed only while it is queued"
    )]
    NotQueued { given: u32, current: u32, state: State },
    #[error("attempt {given} was never placed; the latest is {current}")]
    Unknown { given: u32, current: u32 },
    #[error("it comes after `{0}`, which is not over")]
    Awaits(String),
    #[error("it is not placed before {}, and it is {} now", not_before.0, at.0)]
    TooSoon { at: Millis, not_before: Millis },
}

impl Progress {
    /// Takes what happened. None: that was known, or is about an attempt that is over, and changes nothing.
    pub fn apply(
        &mut self,
        rules: &Rules,
        at: Millis,
        cause: Event,
        actor: Actor,
    ) -> Result<Option<Transition>, Refused> {
        let from = self.state;
        let next = self.after(rules, at, &cause)?;
        let Some(next) = next.filter(|next| next != self) else { return Ok(None) };
        let stage = |progress: &Progress| progress.before_loss.unwrap_or(progress.state);
        let is_step = stage(&next) != stage(self) && stage(&next) != State::Stopping;
        let since = if is_step || next.begun != self.begun { at } else { self.since };
        *self = Progress { since, ..next };
        Ok(Some(Transition { at, from, to: self.state, cause, actor }))
    }

    /// The same as a function: the progress after an event, if that changes anything.
    fn after(&self, rules: &Rules, at: Millis, event: &Event) -> Result<Option<Progress>, Refused> {
        match event {
            Event::Place { attempt, node } => self.placed(at, *attempt, node),
            Event::Cancel(order) => Ok(self.cancelled(*order)),
            Event::Yield(order) => Ok(self.yielding(*order)),
            Event::MakeRoom { attempt, grace_ms, .. } => {
                self.if_current(*attempt, || self.making_room(*grace_ms))
            }
            Event::PromiseEnded { reason, stop } => Ok(self.without_promise(reason, *stop)),
            Event::Accept { attempt } => self.if_current(*attempt, || self.reached(State::Accepted)),
            Event::Prepare { attempt } => self.if_current(*attempt, || self.reached(State::Preparing)),
            Event::Start { attempt } => self.if_current(*attempt, || self.reached(State::Running)),
            Event::End { attempt, ending, program, used } => self.if_current(*attempt, || {
                let used = match used {
                    Some(usage) => Some(Box::new(UsageSoFar::after(self.used.as_deref(), *attempt, **usage))),
                    None => self.used.clone(),
                };
                Some(Progress { used, program: program.clone(), ..self.ended(rules, at, ending) })
            }),
            Event::NodeLost { attempt } => self.if_current(*attempt, || {
                let lost = Progress { state: State::Lost, before_loss: Some(self.state), ..self.clone() };
                (self.state != State::Lost).then_some(lost)
            }),
            Event::NodeBack { attempt } => self.if_current(*attempt, || {
                let state = self.before_loss?;
                Some(Progress { state, before_loss: None, ..self.clone() })
            }),
            Event::LeaseOver { attempt } => self.if_current(*attempt, || self.lease_over(rules)),
            Event::Dependency { number, task, succeeded, over } => {
                Ok(self.after_another(*number, task, *succeeded, *over))
            }
        }
    }

    fn placed(&self, at: Millis, attempt: u32, node: &str) -> Result<Option<Progress>, Refused> {
        if attempt <= self.attempt {
            return Ok(None);
        }
        if self.state != State::Queued || attempt != self.attempt + 1 {
            return Err(Refused::NotQueued { given: attempt, current: self.attempt, state: self.state });
        }
        if let Some(awaited) = self.awaits.first() {
            return Err(Refused::Awaits(awaited.id.clone()));
        }
        if let Some(not_before) = self.not_before.filter(|not_before| at < *not_before) {
            return Err(Refused::TooSoon { at, not_before });
        }
        let node = Some(node.to_owned());
        let placed = Progress { state: State::Placed, attempt, node, not_before: None, ..self.clone() };
        Ok(Some(Progress { agent: None, lease_ms: None, begun: false, ..placed }))
    }

    /// The effect of an event about an attempt, if that attempt is under way.
    fn if_current(
        &self,
        attempt: u32,
        next: impl FnOnce() -> Option<Progress>,
    ) -> Result<Option<Progress>, Refused> {
        if attempt > self.attempt || attempt == 0 {
            return Err(Refused::Unknown { given: attempt, current: self.attempt });
        }
        Ok(if attempt == self.attempt && self.state.is_placed() { next() } else { None })
    }

    /// It is at least as far as that. Its node says so, so the node is not lost.
    fn reached(&self, state: State) -> Option<Progress> {
        let now = self.before_loss.unwrap_or(self.state);
        let begun = self.begun || (state >= State::Preparing && now != State::Running);
        let state = if now == State::Stopping { now } else { now.max(state) };
        Some(Progress { state, begun, before_loss: None, ..self.clone() })
    }

    /// It is to end, whether its node is heard of or not.
    pub fn is_stopping(&self) -> bool {
        self.before_loss.unwrap_or(self.state) == State::Stopping
    }

    fn after_another(&self, number: TaskNumber, task: &str, succeeded: bool, over: bool) -> Option<Progress> {
        let awaited = self.awaits.iter().find(|awaited| awaited.number == number)?;
        match awaited.on {
            On::Success if !succeeded => Some(self.not_begun(Ending::Dependency(task.to_owned()))),
            On::Success | On::End => over.then(|| {
                let awaits = self.awaits.iter().filter(|awaited| awaited.number != number).cloned();
                Progress { awaits: awaits.collect(), ..self.clone() }
            }),
        }
    }

    fn ended(&self, rules: &Rules, at: Millis, ending: &Ending) -> Progress {
        let mut next = Progress {
            ending: Some(ending.clone()),
            program: None,
            before_loss: None,
            stop: None,
            stop_order: StopOrder::default(),
            ..self.clone()
        };
        let may_retry = ending.may_pass() && self.failures < rules.retries.count;
        // Its node says itself what would be found out when the lease is over.
        let on_loss = (*ending == Ending::NodeLost).then_some(rules.on_loss);
        let restarts = on_loss == Some(OnLoss::Restart);
        match &self.stop {
            // It was done before it could be stopped.
            _ if ending.is_success() => {}
            Some(StopCause::MakeRoom | StopCause::Yield) => {
                return Progress { state: State::Queued, not_before: None, ..next };
            }
            Some(StopCause::PromiseEnded(reason)) => {
                return Progress {
                    state: State::Failed,
                    ending: Some(Ending::Promise(reason.clone())),
                    ..next
                };
            }
            None => {}
        }
        next.state = match ending {
            ending if ending.is_success() => State::Succeeded,
            Ending::Cancelled => State::Cancelled,
            _ if self.is_stopping() => State::Cancelled,
            _ if restarts => State::Queued,
            _ if on_loss == Some(OnLoss::Fail) => State::Failed,
            _ if may_retry => State::Queued,
            _ => State::Failed,
        };
        if next.state == State::Queued {
            // One that keeps losing its node does not keep the cluster busy.
            let pauses = if restarts { self.attempt.saturating_sub(1) } else { self.failures };
            next.not_before = Some(at + Millis(rules.retries.pause(pauses)));
            next.failures += u32::from(!restarts);
        }
        next
    }

    fn lease_over(&self, rules: &Rules) -> Option<Progress> {
        if self.state != State::Lost {
            return None;
        }
        if let Some(StopCause::PromiseEnded(_)) = self.stop {
            return Some(self.ended(rules, Millis(0), &Ending::NodeLost));
        }
        let state = match rules.on_loss {
            _ if self.is_stopping() && self.stop.is_none() => State::Cancelled,
            OnLoss::Restart => State::Queued,
            OnLoss::Fail => State::Failed,
            OnLoss::Wait => return None,
        };
        Some(Progress {
            state,
            ending: Some(Ending::NodeLost),
            program: None,
            before_loss: None,
            stop: None,
            stop_order: StopOrder::default(),
            ..self.clone()
        })
    }
}

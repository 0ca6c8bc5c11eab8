//! The ways in which a task is told to end before its end: a user cancels it or sends it back to the queue, a promise needs its
//! capacity, or its own promise has ended.

use estimand_api::promise::PromiseEnd;
use estimand_api::task_stop::{ROOM_GRACE, StopOrder};

use super::retries::Ending;
use super::state::{Progress, State, StopCause};

impl Progress {
    pub(super) fn cancelled(&self, order: StopOrder) -> Option<Progress> {
        match self.state {
            State::Queued => Some(self.not_begun(Ending::Cancelled)),
            state if state.is_final() => None,
            _ => Some(self.stopping(None, order)),
        }
    }

    /// A task that waits is where it should be, and one that is to end for good does.
    pub(super) fn yielding(&self, order: StopOrder) -> Option<Progress> {
        match self.stop {
            _ if !self.state.is_placed() || self.ends_for_good() => None,
            Some(StopCause::MakeRoom) => Some(self.stopping(self.stop.clone(), order)),
            _ => Some(self.stopping(Some(StopCause::Yield), order)),
        }
    }

    /// The task is to end; its node is told when it is heard of. An order that comes later makes no end come later.
    fn stopping(&self, stop: Option<StopCause>, order: StopOrder) -> Progress {
        let now = self.before_loss.unwrap_or(self.state);
        let begun = self.begun || matches!(now, State::Preparing | State::Running);
        let stop_order = if self.is_stopping() { self.present_order().sooner(order) } else { order };
        let next = Progress { stop, stop_order, begun, ..self.clone() };
        match self.state {
            State::Lost => Progress { before_loss: Some(State::Stopping), ..next },
            _ => Progress { state: State::Stopping, ..next },
        }
    }

    /// A task that is to end already, and has longer than room may take, has no longer than that.
    pub(super) fn making_room(&self, grace_ms: Option<u64>) -> Option<Progress> {
        let order = StopOrder { grace_ms, checkpoint: true }.within(ROOM_GRACE);
        match self.state {
            State::Lost => None,
            _ if self.is_stopping() => {
                let stop_order = self.present_order().within(ROOM_GRACE);
                (!self.leaves_soon()).then(|| Progress { stop_order, ..self.clone() })
            }
            _ => Some(self.stopping(Some(StopCause::MakeRoom), order)),
        }
    }

    pub(super) fn without_promise(&self, reason: &str, order: StopOrder) -> Option<Progress> {
        match self.state {
            State::Queued => Some(self.not_begun(Ending::Promise(reason.to_owned()))),
            state if state.is_final() => None,
            // A cancelled task is to end, and no more than that.
            _ if self.is_stopping() && self.stop.is_none() => None,
            _ => {
                // A task that saves its work goes on with that.
                let saves = self.is_stopping() && self.present_order().checkpoint;
                let order = if saves { self.present_order().within(ROOM_GRACE) } else { order };
                Some(self.stopping(Some(StopCause::PromiseEnded(reason.to_owned())), order))
            }
        }
    }

    /// The task is to end and is not run again.
    pub fn ends_for_good(&self) -> bool {
        self.is_stopping() && !matches!(self.stop, Some(StopCause::MakeRoom | StopCause::Yield))
    }

    /// The task is to end, and has no longer for that than room for a promise may take.
    pub fn leaves_soon(&self) -> bool {
        self.is_stopping() && self.present_order().kills_after() <= ROOM_GRACE
    }

    /// The order by which it ends. Versions of before stored none, and had a checkpoint from what makes room.
    pub fn present_order(&self) -> StopOrder {
        let checkpoint = self.stop_order.checkpoint
            || (self.stop_order.is_plain() && self.stop == Some(StopCause::MakeRoom));
        StopOrder { checkpoint, ..self.stop_order }
    }

    /// Its promise has come to its end, and it has not begun by then.
    pub(super) fn missed_its_end(&self) -> bool {
        let is_over = |stop: &StopCause| matches!(stop, StopCause::PromiseEnded(reason) if PromiseEnd::is_by_time(reason));
        !self.begun && self.stop.as_ref().is_some_and(is_over)
    }

    /// The end of a task that is on no node.
    pub(super) fn not_begun(&self, ending: Ending) -> Progress {
        let (state, ending) = (State::Cancelled, Some(ending));
        Progress { state, ending, program: None, not_before: None, awaits: Vec::new(), ..self.clone() }
    }
}

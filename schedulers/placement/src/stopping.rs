//! The ways in which a task is told to end before its end: a user cancels it, a promise needs its capacity, or its own
//! promise has ended.

use estimand_api::promise::PromiseEnd;

use super::retries::Ending;
use super::state::{Progress, State, StopCause};

impl Progress {
    pub(super) fn cancelled(&self) -> Option<Progress> {
        match self.state {
            State::Queued => Some(self.not_begun(Ending::Cancelled)),
            state if state.is_final() => None,
            _ => Some(self.stopping(None)),
        }
    }

    /// It is to end; its node is told when it is heard of.
    fn stopping(&self, stop: Option<StopCause>) -> Progress {
        let now = self.before_loss.unwrap_or(self.state);
        let begun = self.begun || matches!(now, State::Preparing | State::Running);
        match self.state {
            State::Lost => Progress { before_loss: Some(State::Stopping), stop, begun, ..self.clone() },
            _ => Progress { state: State::Stopping, stop, begun, ..self.clone() },
        }
    }

    pub(super) fn making_room(&self) -> Option<Progress> {
        let can = self.state != State::Lost && !self.is_stopping();
        can.then(|| self.stopping(Some(StopCause::MakeRoom)))
    }

    pub(super) fn without_promise(&self, reason: &str) -> Option<Progress> {
        match self.state {
            State::Queued => Some(self.not_begun(Ending::Promise(reason.to_owned()))),
            state if state.is_final() => None,
            // A cancelled task is to end, and no more than that.
            _ if self.is_stopping() && self.stop.is_none() => None,
            _ => Some(self.stopping(Some(StopCause::PromiseEnded(reason.to_owned())))),
        }
    }

    /// Its promise has come to its end, and it has not begun by then.
    pub(super) fn missed_its_end(&self) -> bool {
        let is_over = |stop: &StopCause| matches!(stop, StopCause::PromiseEnded(reason) if PromiseEnd::is_by_time(reason));
        !self.begun && self.stop.as_ref().is_some_and(is_over)
    }

    /// The end of a task that is on no node.
    pub(super) fn not_begun(&self, ending: Ending) -> Progress {
        let (state, ending) = (State::Cancelled, Some(ending));
        Progress { state, ending, not_before: None, awaits: Vec::new(), ..self.clone() }
    }
}

//! A task as the plan sees it: its progress, and what it asks of a node.

use std::borrow::Cow;

use estimand_api::selector::Selector;
use estimand_capacity::{Amounts, Ledger};

use super::Millis;
use super::policy::Policy;
use super::queue::TaskNumber;
use super::request::{Request, with_place};
use super::state::{Progress, State};

#[derive(Debug, Clone)]
pub struct TaskView<'t> {
    pub number: TaskNumber,
    pub submitted_at: Millis,
    pub priority: i32,
    /// The promise on whose capacity it is to run.
    pub promise: Option<&'t str>,
    pub amounts: Cow<'t, Amounts>,
    pub nodes: &'t Selector,
    pub policy: Policy,
    /// It is given secrets or files.
    pub needs_bound_labels: bool,
    pub has_image: bool,
    pub user: Option<&'t str>,
    /// The framework of its user that it is a part of; none: the user's other work.
    pub framework: Option<&'t str>,
    pub progress: &'t Progress,
}

impl TaskView<'_> {
    /// The request that it makes to a node.
    pub fn request(&self, ledger: &mut Ledger) -> Request {
        let request = Request::new(ledger, with_place(&self.amounts), self.nodes.clone(), self.policy);
        let request = request.with_bound_labels(self.needs_bound_labels).with_image(self.has_image);
        request.with_user(self.user).with_framework(self.framework)
    }

    /// The node on which something of it may be.
    pub fn placed_on(&self) -> Option<&str> {
        self.progress.placed_on()
    }

    pub fn has_started(&self) -> bool {
        self.progress.before_loss.unwrap_or(self.progress.state) >= State::Running
    }
}

impl Progress {
    /// The node on which something of it may be.
    pub fn placed_on(&self) -> Option<&str> {
        self.node.as_deref().filter(|_| self.state.is_placed())
    }
}

//! The connections to ports of tasks, and how many of them there may be. An engine makes them.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use estimand_api::problem::Problem;
use estimand_api::share::ShareKind;
use estimand_runtime::metrics::Counter;
use estimand_runtime::tunnel::Half;
use estimand_web::{Permit as SharePermit, User};

use crate::core::queue::TaskNumber;
use crate::core::state::State;
use crate::engines::{Engine, PlacedAttempt};
use crate::task::Task;

/// The most tunnels of one task, and of all together.
pub const MAX_OF_A_TASK: usize = 128;
pub const MAX_OF_ALL: usize = 512;

/// A connection to the port of a task.
pub struct Tunnel {
    pub half: Half,
    pub permit: Permit,
}

#[derive(Debug, Default)]
pub struct Tunnels {
    counts: Mutex<Counts>,
    pub opened: Counter,
    pub failed: Counter,
}

#[derive(Debug, Default)]
struct Counts {
    /// How many tunnels a task has, or waits for.
    of_tasks: HashMap<TaskNumber, usize>,
    of_all: usize,
}

/// A place among the tunnels of a task; given back when it is dropped.
#[derive(Debug)]
pub struct Permit {
    tunnels: Arc<Tunnels>,
    task: TaskNumber,
    /// The part of whoever uses it.
    _share: SharePermit,
}

impl Tunnels {
    fn counts(&self) -> MutexGuard<'_, Counts> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How many there are, those that are waited for among them.
    pub fn count(&self) -> usize {
        self.counts().of_all
    }

    /// A tunnel to the port of a task, which the engine makes meanwhile.
    pub async fn open(
        self: &Arc<Self>,
        engine: &dyn Engine,
        task: &Task,
        user: Option<&User>,
    ) -> Result<Tunnel, Problem> {
        let attempt = attempt_of(task)?;
        let permit = self.permit(task, user)?;
        let made = engine.connect(&attempt).await;
        let count = if made.is_ok() { &self.opened } else { &self.failed };
        count.increment();
        let half = made.map_err(|error| Problem::unavailable(error.to_string(), 1))?;
        Ok(Tunnel { half, permit })
    }

    fn permit(self: &Arc<Self>, task: &Task, user: Option<&User>) -> Result<Permit, Problem> {
        let share = SharePermit::take_for(user, ShareKind::Tunnels, MAX_OF_ALL as u64)?;
        let mut counts = self.counts();
        let of_task = counts.of_tasks.get(&task.number).copied().unwrap_or(0);
        let (id, most) = (&task.id, MAX_OF_A_TASK);
        if of_task >= most {
            return Err(Problem::unavailable(
                format!("`{id}` has {most} connections already, which is the most"),
                1,
            ));
        }
        if counts.of_all >= MAX_OF_ALL {
            let detail = format!("there are {MAX_OF_ALL} connections to tasks already, which is the most");
            return Err(Problem::unavailable(detail, 1));
        }
        counts.of_tasks.insert(task.number, of_task + 1);
        counts.of_all += 1;
        Ok(Permit { tunnels: Arc::clone(self), task: task.number, _share: share })
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        let mut counts = self.tunnels.counts();
        counts.of_all -= 1;
        if let Some(count) = counts.of_tasks.get_mut(&self.task) {
            *count -= 1;
            if *count == 0 {
                counts.of_tasks.remove(&self.task);
            }
        }
    }
}

/// The attempt at a task that runs and has a port.
fn attempt_of(task: &Task) -> Result<PlacedAttempt, Problem> {
    let (id, state) = (&task.id, task.state());
    if task.document.port.is_none() {
        return Err(Problem::conflict(format!(
            "`{id}` has no port: a task is given one when it is submitted, as `port` in its document"
        )));
    }
    let node = task.progress.node.as_deref();
    match (state, node) {
        (State::Running | State::Stopping, Some(node)) => {
            let attempt = task.progress.attempt;
            Ok(PlacedAttempt { node: node.to_owned(), id: id.clone(), attempt })
        }
        (State::Lost, Some(node)) => {
            Err(Problem::unavailable(format!("`{id}` cannot be reached: its node `{node}` is lost"), 5))
        }
        _ if state.is_final() => Err(Problem::conflict(format!(
            "`{id}` is over: it is {}, and nothing of it listens",
            state.as_str()
        ))),
        _ => Err(Problem::unavailable(format!("`{id}` does not run yet: it is {}", state.as_str()), 1)),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
#[path = "tunnels_tests.rs"]
mod tests;

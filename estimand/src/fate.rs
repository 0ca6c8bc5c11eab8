//! The end of a process that was not asked to end.

use std::sync::{Arc, Mutex, PoisonError};

use anyhow::bail;
use estimand_runtime::stop::StopTrigger;

/// The reason for which the process must end although it was not asked to.
#[derive(Clone)]
pub struct Fate {
    pub reason: Arc<Mutex<Option<String>>>,
    pub trigger: StopTrigger,
}

impl Fate {
    pub fn seal(&self, reason: &str) {
        tracing::error!(%reason, "cannot go on");
        self.reason.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert_with(|| reason.to_owned());
        self.trigger.request();
    }

    pub fn outcome(&self) -> anyhow::Result<()> {
        match self.reason.lock().unwrap_or_else(PoisonError::into_inner).take() {
            Some(reason) => bail!("{reason}"),
            None => Ok(()),
        }
    }
}

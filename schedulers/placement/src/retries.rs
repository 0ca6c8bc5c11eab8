//! The consequences when a task has ended or its node is lost: rules that the task's document gives.

use serde::{Deserialize, Serialize};

use super::Millis;

/// The end of one run.
pub use estimand_api::task::TaskEnding as Ending;

/// How often a task that failed is run again, and after which pause: twice as long each time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Retries {
    pub count: u32,
    pub back_off: Millis,
    pub max_back_off: Millis,
}

impl Default for Retries {
    fn default() -> Retries {
        Retries { count: 0, back_off: 1_000, max_back_off: 300_000 }
    }
}

impl Retries {
    /// The pause after so many failures before this one.
    pub fn pause(&self, failures: u32) -> Millis {
        let doubled = self.back_off.checked_shl(failures).filter(|pause| pause >> failures == self.back_off);
        doubled.unwrap_or(Millis::MAX).min(self.max_back_off)
    }
}

/// The fate of a task whose node is lost, once nothing of it can run there any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OnLoss {
    /// It is run on another node. This does not count as one of its retries.
    #[default]
    Restart,
    /// It has failed.
    Fail,
    /// It waits for its node.
    Wait,
}

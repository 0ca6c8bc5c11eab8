//! The rules that a task's document gives: how its node is chosen, which tasks come before it, and its fate after a failure
//! or the loss of its node.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// How the node of a task is chosen among those that have room.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Policy {
    /// The first node that has room and a processor that no other task is expected to use. Until there is one it waits.
    Queue,
    /// Any node that has room.
    Random,
    /// The least pressure, as it was measured last.
    LeastPressure,
    /// The best fit by what the task asks for, among nodes whose processors are not busy with it; then the least pressure with
    /// the task on it, corrected for what happened since it was measured.
    #[default]
    Estimated,
    /// The less pressed of two nodes drawn by lot.
    TwoChoices,
    /// The node that is fullest with the task on it, but not beyond what it has.
    Pack,
    /// The node that is emptiest with the task on it.
    Spread,
}

impl Policy {
    pub const ALL: [Policy; 7] = [
        Policy::Queue,
        Policy::Random,
        Policy::LeastPressure,
        Policy::Estimated,
        Policy::TwoChoices,
        Policy::Pack,
        Policy::Spread,
    ];

    pub fn as_str(self) -> &'static str {
        match self {
            Policy::Queue => "queue",
            Policy::Random => "random",
            Policy::LeastPressure => "least-pressure",
            Policy::Estimated => "estimated",
            Policy::TwoChoices => "two-choices",
            Policy::Pack => "pack",
            Policy::Spread => "spread",
        }
    }
}

impl FromStr for Policy {
    type Err = String;
    fn from_str(text: &str) -> Result<Policy, String> {
        Policy::ALL.into_iter().find(|policy| policy.as_str() == text).ok_or_else(|| {
            let known = Policy::ALL.map(Policy::as_str).join(", ");
            format!("`{text}` is not a policy: one of {known}")
        })
    }
}

/// How often a task that failed is run again, and after which pause: twice as long each time. Pauses are in milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Retries {
    pub count: u32,
    pub back_off: u64,
    pub max_back_off: u64,
}

impl Default for Retries {
    fn default() -> Retries {
        Retries { count: 0, back_off: 1_000, max_back_off: 300_000 }
    }
}

impl Retries {
    /// The pause after so many failures before this one.
    pub fn pause(&self, failures: u32) -> u64 {
        let doubled = self.back_off.checked_shl(failures).filter(|pause| pause >> failures == self.back_off);
        doubled.unwrap_or(u64::MAX).min(self.max_back_off)
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

impl OnLoss {
    pub const ALL: [OnLoss; 3] = [OnLoss::Restart, OnLoss::Fail, OnLoss::Wait];

    pub fn as_str(self) -> &'static str {
        match self {
            OnLoss::Restart => "restart",
            OnLoss::Fail => "fail",
            OnLoss::Wait => "wait",
        }
    }
}

/// The end of a task that one after it waits for. For an array it is the end of all its tasks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum On {
    #[default]
    Success,
    /// However it ends.
    End,
}

impl On {
    pub fn as_str(self) -> &'static str {
        match self {
            On::Success => "success",
            On::End => "end",
        }
    }
}

impl fmt::Display for On {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for On {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let found = [On::Success, On::End].into_iter().find(|on| on.as_str() == text);
        found.ok_or_else(|| format!("`{text}` is neither success nor end"))
    }
}

/// A dependency, as a document names it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct After {
    pub id: String,
    pub on: On,
}

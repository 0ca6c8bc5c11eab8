//! The cluster that a trace runs on, and the cost of rounds there.

use std::str::FromStr;

use serde::Serialize;

use super::reference::charge::Charge;

/// The cost of rounds for running jobs, as time without progress.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Cost {
    None,
    /// The reference's rule: all that run pay at each round.
    Rounds,
    /// Only jobs whose width changes pay.
    Changes,
}

impl FromStr for Cost {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "none" => Ok(Cost::None),
            "rounds" => Ok(Cost::Rounds),
            "changes" => Ok(Cost::Changes),
            _ => Err(format!("{text:?} is no cost; there are none, rounds and changes")),
        }
    }
}

/// A cluster for a trace. Times are milliseconds.
#[derive(Debug, Clone, Copy)]
pub struct Setup {
    pub accelerators: u32,
    /// The reference's least time between two rounds.
    pub slot: u64,
    pub cost: Cost,
    /// The cost of a change of width for the job, if only changes cost.
    pub change: u64,
}

impl Setup {
    /// The reference's charge, if rounds cost that.
    pub fn charge(&self) -> Option<Charge> {
        (self.cost == Cost::Rounds).then(|| Charge::new(self.accelerators, self.slot))
    }
}

/// The end of a job in a simulation.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Ending {
    pub is_accepted: bool,
    pub end: Option<u64>,
}

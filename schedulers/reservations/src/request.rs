//! Requests: amounts for a number of ticks, somewhere between two ticks. A request says nothing of its worth.

use std::ops::RangeInclusive;

use estimand_capacity::{Amounts, Tick};
use serde::{Deserialize, Serialize};

use crate::money::Money;

/// Amounts of one or more resources for `length` ticks in a row, begun at `from` or later and over at `deadline`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Request {
    pub amounts: Amounts,
    pub length: u64,
    pub from: Tick,
    pub deadline: Tick,
}

/// A request and the most that it is worth to whoever makes it. Prices never depend on the worth: they are asked for
/// with the request alone.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Bid {
    pub request: Request,
    pub value: Money,
}

/// Work that any number of equal workers between two bounds can do: more of them are done sooner. The number stays the
/// same from the start to the end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ElasticRequest {
    /// The amounts of one worker.
    pub amounts: Amounts,
    pub workers: RangeInclusive<u64>,
    /// The ticks that one worker alone would take.
    pub work: u64,
    pub from: Tick,
    pub deadline: Tick,
}

/// The price of a start: what a request would cost there.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Quote {
    pub request: Request,
    pub start: Tick,
    pub cost: Money,
}

impl Quote {
    pub fn end(&self) -> Tick {
        self.start.saturating_add(self.request.length)
    }
}

impl ElasticRequest {
    /// The narrowest request of each length that some number of workers takes, with that number, the narrowest first. No other
    /// one can be the cheapest: the same length with more workers costs no less.
    pub fn requests(&self) -> impl Iterator<Item = (u64, Request)> + '_ {
        let mut workers = *self.workers.start();
        let most = *self.workers.end();
        std::iter::from_fn(move || {
            if workers == 0 || workers > most {
                return None;
            }
            let length = self.work.div_ceil(workers);
            let amounts =
                self.amounts.iter().map(|(name, amount)| (name.clone(), amount.saturating_mul(workers)));
            let request =
                Request { amounts: amounts.collect(), length, from: self.from, deadline: self.deadline };
            let form = (workers, request);
            // The least number of workers that takes one tick less.
            workers = if length <= 1 { 0 } else { self.work.div_ceil(length - 1) };
            Some(form)
        })
    }
}

//! One day: each job asks for its time when it arrives, and gets it if it is worth the price.

use std::sync::Arc;

use estimand_capacity::{Amounts, Resource, ResourceError, Tick};
use serde::Serialize;

use crate::desk::Answer;
use crate::job::Job;
use crate::money::Money;
use crate::predict::Predictor;
use crate::pricing::Pricing;
use crate::request::{Bid, Request};
use crate::terms::{Terms, TermsError};

/// The resource that jobs ask for.
const RESOURCE: &str = "cpu";

#[derive(Clone)]
pub struct Setup {
    pub horizon: u64,
    pub terms: Terms,
    pub predictor: Arc<dyn Predictor>,
}

#[derive(Debug, thiserror::Error)]
pub enum SimulationError {
    #[error(transparent)]
    Terms(#[from] TermsError),
    #[error(transparent)]
    Resource(#[from] ResourceError),
}

/// The time that a job was given, and its price.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Grant {
    pub start: Tick,
    pub cost: Money,
}

/// The price of one unit at a tick when the tick begins, the units that were promised of it in the end, and their price.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Moment {
    pub at: Tick,
    /// None: all of it is promised.
    pub price: Option<Money>,
    pub used: u64,
    /// The mean of what was paid for a unit; none: no unit was promised.
    pub paid: Option<Money>,
}

/// The outcome of a day. Sums are in microcredits.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Outcome {
    /// By the jobs' order.
    pub grants: Vec<Option<Grant>>,
    /// The worth of all jobs that were accepted.
    pub welfare: u128,
    pub revenue: u128,
    /// Jobs for which not enough was free before their deadline.
    pub infeasible: usize,
    /// Jobs that were accepted and not over at their deadline.
    pub late: usize,
    /// Ticks at which more was used than there is.
    pub overfull: usize,
    /// From the tick after the first arrival to the last arrival.
    pub moments: Vec<Moment>,
    /// The units in use at each tick, from the first arrival to the last deadline.
    pub used: Vec<u64>,
}

impl Outcome {
    pub fn accepted(&self) -> usize {
        self.grants.iter().flatten().count()
    }

    /// The part of a capacity that was in use in the first so many ticks.
    pub fn utilization(&self, capacity: u64, ticks: u64) -> f64 {
        let ticks = usize::try_from(ticks).unwrap_or(usize::MAX).min(self.used.len());
        let used: u64 = self.used[..ticks].iter().sum();
        used as f64 / (capacity as f64 * ticks as f64).max(1.0)
    }
}

/// Prices jobs in the order in which they stand, which is that of their arrival.
pub fn replay(setup: &Setup, jobs: &[Job]) -> Result<Outcome, SimulationError> {
    let resource = Resource::parse(RESOURCE)?;
    let first = jobs.first().map_or(0, |job| job.arrival);
    let mut pricing = Pricing::new(first, setup.horizon)?;
    pricing.add(resource.clone(), setup.terms, Arc::clone(&setup.predictor))?;
    let unit: Amounts = [(resource.clone(), 1)].into_iter().collect();
    let mut outcome = Outcome::default();
    for job in jobs {
        while pricing.now() < job.arrival {
            pricing.advance(pricing.now() + 1);
            outcome.moments.push(moment(&pricing, &unit));
        }
        let amounts = [(resource.clone(), job.width)].into_iter().collect();
        let request = Request { amounts, length: job.length, from: job.from, deadline: job.deadline };
        let answer = pricing.reserve(&Bid { request, value: job.value });
        outcome.infeasible += usize::from(answer.is_err());
        outcome.grants.push(match answer {
            Ok(Answer::Accepted(quote)) => Some(Grant { start: quote.start, cost: quote.cost }),
            Ok(Answer::TooExpensive(_)) | Err(_) => None,
        });
    }
    outcome.account(jobs, setup.terms.capacity);
    Ok(outcome)
}

fn moment(pricing: &Pricing, unit: &Amounts) -> Moment {
    let at = pricing.now();
    let request = Request { amounts: unit.clone(), length: 1, from: at, deadline: at + 1 };
    Moment { at, price: pricing.quote(&request).ok().map(|quote| quote.cost), used: 0, paid: None }
}

impl Outcome {
    /// Adds up what was granted, from the grants alone: nothing here is what the pricing says of itself.
    pub fn account(&mut self, jobs: &[Job], capacity: u64) {
        let first = jobs.first().map_or(0, |job| job.arrival);
        let end = jobs.iter().map(|job| job.deadline).max().unwrap_or(first);
        let mut used = vec![0_u64; (end - first) as usize];
        let mut paid = vec![0_u128; used.len()];
        (self.welfare, self.revenue, self.late) = (0, 0, 0);
        for (job, grant) in jobs.iter().zip(&self.grants) {
            let Some(Grant { start, cost }) = grant else { continue };
            self.welfare += u128::from(job.value.as_microcredits());
            self.revenue += u128::from(cost.as_microcredits());
            let over = start + job.length;
            self.late += usize::from(*start < job.from || over > job.deadline);
            for at in *start..over.min(end) {
                used[(at - first) as usize] += job.width;
                paid[(at - first) as usize] +=
                    u128::from(cost.as_microcredits()) / u128::from(job.length.max(1));
            }
        }
        self.overfull = used.iter().filter(|used| **used > capacity).count();
        for moment in &mut self.moments {
            let place = (moment.at - first) as usize;
            moment.used = used[place];
            let mean = paid[place].checked_div(u128::from(moment.used));
            moment.paid = mean.map(|mean| Money::microcredits(u64::try_from(mean).unwrap_or(u64::MAX)));
        }
        self.used = used;
    }
}

//! The naive predictor: each job of the past wants its work spread evenly over its window, at the price that it is worth.

use std::sync::Arc;

use estimand_capacity::Tick;

use super::{GoesOn, Predictor};
use crate::demand::Demand;
use crate::job::Job;
use crate::rate::Rate;
use crate::terms::Terms;

/// The whole demand of each tick of the past, whether it has arrived by now or not. Each tick to come is like the one a
/// period before.
pub struct Spread {
    ticks: Vec<Arc<Demand>>,
}

impl Spread {
    /// `period` is the time after which everything begins again; ticks are counted from 0.
    pub fn train(past: &[Job], period: u64, terms: &Terms) -> Spread {
        Spread::train_while(past, period, terms, &|| true)
    }

    pub(super) fn train_while(past: &[Job], period: u64, terms: &Terms, goes_on: GoesOn<'_>) -> Spread {
        let period = usize::try_from(period.max(1)).unwrap_or(usize::MAX);
        let mut wanted: Vec<Vec<(Rate, f64)>> = vec![Vec::new(); period];
        for job in past.iter().filter(|job| job.is_possible()).take_while(|_| goes_on()) {
            let units = job.work() as f64 / job.window() as f64;
            for at in job.from..job.deadline {
                wanted[(at % period as u64) as usize].push((job.unit_value(), units));
            }
        }
        let ticks = wanted.into_iter().map(|wanted| Arc::new(Demand::of_parts(wanted, terms)));
        Spread { ticks: ticks.collect() }
    }
}

impl Predictor for Spread {
    fn demand(&self, _: Tick, at: Tick) -> Arc<Demand> {
        Arc::clone(&self.ticks[(at % self.ticks.len() as u64) as usize])
    }
}

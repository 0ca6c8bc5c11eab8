//! Demand that is still to come: of what a tick meets, only jobs that have not arrived by now. Those that have were
//! answered, and what they got is counted as promised.
//!
//! Ticks of the same part of the period (`bucket` of them) count as alike, and are averaged.

use std::sync::{Arc, OnceLock};

use estimand_capacity::Tick;

use super::levels::Levels;
use super::optimum::optimum_while;
use super::{GoesOn, Predictor, Season};
use crate::demand::Demand;
use crate::job::Job;
use crate::terms::Terms;

/// Leads up to this are told apart tick by tick.
const FINE_LEADS: u64 = 128;
/// Longer ones are told apart by so many ticks.
const COARSE_LEAD: u64 = 16;
/// The ticks that the optimum of the past counts as one.
const OPTIMUM_GRAIN: u64 = 5;

/// A part of the wanted units of a tick.
#[derive(Debug, Clone, Copy)]
struct Part {
    /// The lead from which on the job has not arrived yet, as a row.
    row: u32,
    level: u32,
    units: f64,
}

/// A part of the period.
struct Bucket {
    /// By growing row.
    parts: Vec<Part>,
    /// The demand of each row, made when it is asked for.
    rows: Vec<OnceLock<Arc<Demand>>>,
}

pub struct Profile {
    terms: Terms,
    period: u64,
    bucket: u64,
    levels: Levels,
    buckets: Vec<Bucket>,
}

/// The units that each job of the past takes at each tick of its window.
type Plan = Vec<Vec<f64>>;

impl Profile {
    /// Seasonal: the work of each job is spread evenly over its window.
    pub fn seasonal(past: &[Job], season: Season, terms: &Terms) -> Profile {
        Profile::seasonal_while(past, season, terms, &|| true)
    }

    pub(super) fn seasonal_while(
        past: &[Job],
        season: Season,
        terms: &Terms,
        goes_on: GoesOn<'_>,
    ) -> Profile {
        let plan = past.iter().map(|job| {
            let units = job.work() as f64 / job.window().max(1) as f64;
            vec![if job.is_possible() { units } else { 0.0 }; job.window() as usize]
        });
        Profile::of(past, &plan.collect(), season, terms, goes_on)
    }

    /// The fractional optimum of the past: the work of each job is where the optimum has it, and what the optimum leaves
    /// out is not wanted.
    pub fn optimum(past: &[Job], season: Season, terms: &Terms) -> Profile {
        Profile::optimum_while(past, season, terms, &|| true)
    }

    pub(super) fn optimum_while(past: &[Job], season: Season, terms: &Terms, goes_on: GoesOn<'_>) -> Profile {
        let plan = optimum_while(past, terms.capacity, OPTIMUM_GRAIN, goes_on).units;
        Profile::of(past, &plan, season, terms, goes_on)
    }

    fn of(past: &[Job], plan: &Plan, season: Season, terms: &Terms, goes_on: GoesOn<'_>) -> Profile {
        let period = season.period.max(1);
        let bucket = season.bucket.clamp(1, period);
        let values = || past.iter().filter(|job| job.is_possible()).map(Job::unit_value);
        let levels = Levels::between(values().min().unwrap_or_default(), values().max().unwrap_or_default());
        let mut sums: Vec<std::collections::BTreeMap<(u32, u32), f64>> =
            (0..period.div_ceil(bucket)).map(|_| Default::default()).collect();
        for (job, units) in past.iter().zip(plan).take_while(|_| goes_on()) {
            let level = levels.of(job.unit_value()) as u32;
            for (at, units) in (job.from..).zip(units).filter(|(_, units)| **units > 0.0) {
                // A job has not arrived yet at a lead of more than its lag.
                let row = row(at.saturating_sub(job.arrival) + 1) as u32;
                *sums[(at % period / bucket) as usize].entry((row, level)).or_default() += units;
            }
        }
        let buckets = sums.into_iter().enumerate().map(|(number, sums)| {
            let ticks = bucket.min(period - number as u64 * bucket) as f64;
            let part = |((row, level), units)| Part { row, level, units: units / ticks };
            let parts: Vec<Part> = sums.into_iter().map(part).collect();
            let rows = parts.last().map_or(0, |part| part.row + 1) as usize;
            Bucket { parts, rows: (0..=rows).map(|_| OnceLock::new()).collect() }
        });
        let buckets = buckets.collect();
        Profile { terms: *terms, period, bucket, levels, buckets }
    }

    /// All that is wanted by jobs of this row and those before it.
    fn demand_of(&self, bucket: &Bucket, row: usize) -> Demand {
        let mut wanted = vec![0.0; self.levels.len()];
        for part in bucket.parts.iter().take_while(|part| part.row as usize <= row) {
            wanted[part.level as usize] += part.units;
        }
        let priced = wanted.into_iter().enumerate().filter(|(_, units)| *units > 0.0);
        Demand::of_parts(priced.map(|(level, units)| (self.levels.price(level), units)), &self.terms)
    }
}

/// The row of a lead. Longer leads have later rows.
fn row(lead: u64) -> usize {
    let row = if lead <= FINE_LEADS { lead } else { FINE_LEADS + (lead - FINE_LEADS) / COARSE_LEAD };
    row as usize
}

impl Predictor for Profile {
    fn demand(&self, now: Tick, at: Tick) -> Arc<Demand> {
        let bucket = &self.buckets[(at % self.period / self.bucket) as usize];
        let row = row(at.saturating_sub(now)).min(bucket.rows.len() - 1);
        Arc::clone(bucket.rows[row].get_or_init(|| Arc::new(self.demand_of(bucket, row))))
    }
}

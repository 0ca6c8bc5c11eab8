//! A study: the same days at several capacities, under several ways to price.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use serde::Serialize;

use super::bounds::knapsack;
use super::replay::{Outcome, Setup, SimulationError, replay};
use crate::job::Job;
use crate::predict::{Nothing, Predictor, Profile, Season, Spread, optimum};
use crate::rate::Rate;
use crate::terms::Terms;

/// The highest price of a unit for a tick.
const CEILING: Rate = Rate::microcredits(1_000_000_000);
const ONE_CREDIT: Rate = Rate::microcredits(1_000_000);
/// Ticks that predictors count as alike.
const BUCKET: u64 = 60;
/// Ticks that the optimum counts as one.
const GRAIN: u64 = 5;

/// A way to price.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// Everything that fits is accepted.
    Free,
    /// One credit for a unit and tick.
    Fixed,
    Spread,
    Seasonal,
    Optimum,
}

impl Kind {
    pub const ALL: [Kind; 5] = [Kind::Free, Kind::Fixed, Kind::Spread, Kind::Seasonal, Kind::Optimum];

    pub fn as_str(self) -> &'static str {
        match self {
            Kind::Free => "free",
            Kind::Fixed => "fixed",
            Kind::Spread => "spread",
            Kind::Seasonal => "seasonal",
            Kind::Optimum => "optimum",
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl FromStr for Kind {
    type Err = String;

    fn from_str(text: &str) -> Result<Kind, String> {
        let names = Kind::ALL.map(Kind::as_str).join(", ");
        let unknown = || format!("`{text}` is no way to price; there are {names}");
        Kind::ALL.into_iter().find(|kind| kind.as_str() == text).ok_or_else(unknown)
    }
}

/// The jobs of a day, and those of another day that predictors are trained on.
pub struct Day {
    pub past: Vec<Job>,
    pub jobs: Vec<Job>,
    /// The ticks in which jobs arrive.
    pub ticks: u64,
}

/// The figures of some days that differ only in their draw: sums over all of them. Parts are of 1.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Figures {
    pub pricing: Kind,
    /// The capacity, as a part of all work.
    pub capacity: f64,
    pub days: usize,
    /// The worth of the accepted jobs, as a part of that of all.
    pub welfare: f64,
    /// The same, as a part of the bound: the fractional knapsack over the ticks in which jobs arrive. None for recorded days,
    /// whose jobs run on long after the last arrival, so that it bounds nothing.
    pub of_bound: Option<f64>,
    /// The bound, and the optimum of jobs that may be split and run until the last deadline: both as a part of all worth.
    pub bound: f64,
    pub optimum: f64,
    pub revenue: f64,
    /// The part of the capacity that was in use while jobs arrived.
    pub utilization: f64,
    pub jobs: usize,
    pub accepted: usize,
    pub infeasible: usize,
    pub late: usize,
    pub overfull: usize,
}

pub struct Study {
    pub pricings: Vec<Kind>,
    /// As parts of all work.
    pub capacities: Vec<f64>,
    pub days: Vec<Day>,
    /// The arrivals are those of a recorded day.
    pub is_recorded: bool,
}

/// The sums over days.
#[derive(Default)]
struct Sums {
    value: f64,
    bound: f64,
    optimum: f64,
}

impl Study {
    /// Each way to price at each capacity. `seen` is shown the outcome of every day.
    pub fn run(
        &self,
        seen: &mut dyn FnMut(Kind, f64, usize, &Outcome, u64),
    ) -> Result<Vec<Figures>, SimulationError> {
        let mut all = Vec::new();
        for capacity in &self.capacities {
            let mut sums = Sums::default();
            for day in &self.days {
                let units = day.capacity(*capacity);
                sums.value += day.jobs.iter().map(|job| job.value.as_microcredits() as f64).sum::<f64>();
                sums.bound += knapsack(&day.jobs, u128::from(units) * u128::from(day.ticks)) as f64;
                sums.optimum += optimum(&day.jobs, units, GRAIN).value as f64;
            }
            for pricing in &self.pricings {
                let mut figures = Figures::of(*pricing, *capacity, &sums);
                for (number, day) in self.days.iter().enumerate() {
                    let units = day.capacity(*capacity);
                    let outcome = replay(&day.setup(*pricing, units), &day.jobs)?;
                    seen(*pricing, *capacity, number, &outcome, units);
                    figures.add(day, &outcome, units);
                }
                figures.finish(&sums, self.is_recorded);
                all.push(figures);
            }
        }
        Ok(all)
    }
}

impl Day {
    /// The units that are this part of all work, spread over the day; at least one.
    pub fn capacity(&self, part: f64) -> u64 {
        let work: u64 = self.jobs.iter().map(Job::work).sum();
        ((work as f64 * part / self.ticks as f64).round() as u64).max(1)
    }

    fn setup(&self, pricing: Kind, capacity: u64) -> Setup {
        let floor = if pricing == Kind::Fixed { ONE_CREDIT } else { Rate::ZERO };
        let terms = Terms { capacity, floor, ceiling: CEILING };
        let longest = self.jobs.iter().map(Job::window).max().unwrap_or(1);
        let horizon = longest.max(self.ticks);
        // The day does not begin again before its last deadline.
        let period = 2 * horizon + self.ticks;
        let (past, season) = (&self.past, Season { period, bucket: BUCKET });
        let predictor: Arc<dyn Predictor> = match pricing {
            Kind::Free | Kind::Fixed => Arc::new(Nothing::new(&terms)),
            Kind::Spread => Arc::new(Spread::train(past, period, &terms)),
            Kind::Seasonal => Arc::new(Profile::seasonal(past, season, &terms)),
            Kind::Optimum => Arc::new(Profile::optimum(past, season, &terms)),
        };
        Setup { horizon, terms, predictor }
    }
}

impl Figures {
    fn of(pricing: Kind, capacity: f64, sums: &Sums) -> Figures {
        Figures {
            pricing,
            capacity,
            days: 0,
            welfare: 0.0,
            of_bound: None,
            bound: sums.bound / sums.value.max(1.0),
            optimum: sums.optimum / sums.value.max(1.0),
            revenue: 0.0,
            utilization: 0.0,
            jobs: 0,
            accepted: 0,
            infeasible: 0,
            late: 0,
            overfull: 0,
        }
    }

    fn add(&mut self, day: &Day, outcome: &Outcome, capacity: u64) {
        self.days += 1;
        self.welfare += outcome.welfare as f64;
        self.revenue += outcome.revenue as f64;
        self.utilization += outcome.utilization(capacity, day.ticks);
        self.jobs += day.jobs.len();
        self.accepted += outcome.accepted();
        self.infeasible += outcome.infeasible;
        self.late += outcome.late;
        self.overfull += outcome.overfull;
    }

    fn finish(&mut self, sums: &Sums, is_recorded: bool) {
        self.of_bound = (!is_recorded).then(|| self.welfare / sums.bound.max(1.0));
        self.welfare /= sums.value.max(1.0);
        self.revenue /= sums.value.max(1.0);
        self.utilization /= self.days.max(1) as f64;
    }
}

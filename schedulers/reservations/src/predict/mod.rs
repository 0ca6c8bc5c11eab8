//! Predictors: what will be wanted at a tick to come, as expected now. All are trained on jobs of the past.
//!
//! Floats appear in the training, as averages of many jobs; what comes out are whole units and whole parts of prices.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use estimand_capacity::Tick;
use serde::{Deserialize, Serialize};

use crate::demand::Demand;
use crate::job::Job;
use crate::terms::Terms;

mod levels;
mod optimum;
mod profile;
mod spread;

pub use optimum::{Allocation, optimum};
pub use profile::Profile;
pub use spread::Spread;

/// Says if training may go on. Once it may not, it never may again, and its result so far is of no use.
pub type GoesOn<'g> = &'g dyn Fn() -> bool;

/// The demand for a resource, tick by tick.
pub trait Predictor: Send + Sync {
    /// The demand that tick `at` meets, as it is expected at `now`.
    fn demand(&self, now: Tick, at: Tick) -> Arc<Demand>;
}

/// No demand is expected: every unit has the floor price. So the floor is a fixed price.
pub struct Nothing(Arc<Demand>);

impl Nothing {
    pub fn new(terms: &Terms) -> Nothing {
        Nothing(Arc::new(Demand::none(terms)))
    }
}

impl Predictor for Nothing {
    fn demand(&self, _: Tick, _: Tick) -> Arc<Demand> {
        Arc::clone(&self.0)
    }
}

/// The ticks after which demand is expected to repeat itself, and how many in a row count as alike.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Season {
    pub period: u64,
    pub bucket: u64,
}

/// A way to expect demand.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Method {
    Nothing,
    Spread,
    Seasonal,
    Optimum,
}

impl Method {
    pub const ALL: [Method; 4] = [Method::Nothing, Method::Spread, Method::Seasonal, Method::Optimum];

    pub fn as_str(self) -> &'static str {
        match self {
            Method::Nothing => "nothing",
            Method::Spread => "spread",
            Method::Seasonal => "seasonal",
            Method::Optimum => "optimum",
        }
    }

    /// Trains a predictor on jobs of the past; none if it might not go on.
    pub fn train(
        self,
        past: &[Job],
        season: Season,
        terms: &Terms,
        goes_on: GoesOn<'_>,
    ) -> Option<Arc<dyn Predictor>> {
        let predictor: Arc<dyn Predictor> = match self {
            Method::Nothing => Arc::new(Nothing::new(terms)),
            Method::Spread => Arc::new(Spread::train_while(past, season.period, terms, goes_on)),
            Method::Seasonal => Arc::new(Profile::seasonal_while(past, season, terms, goes_on)),
            Method::Optimum => Arc::new(Profile::optimum_while(past, season, terms, goes_on)),
        };
        goes_on().then_some(predictor)
    }
}

impl fmt::Display for Method {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl FromStr for Method {
    type Err = String;

    fn from_str(text: &str) -> Result<Method, String> {
        let names = Method::ALL.map(Method::as_str).join(", ");
        let unknown = || format!("`{text}` is no predictor; there are {names}");
        Method::ALL.into_iter().find(|method| method.as_str() == text).ok_or_else(unknown)
    }
}

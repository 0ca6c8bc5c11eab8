//! Predictors: what will be wanted at a tick to come, as expected now. All are trained on jobs of the past.
//!
//! Floats appear in the training, as averages of many jobs; what comes out are whole units and microcredits.

use std::sync::Arc;

use estimand_capacity::Tick;

use crate::demand::Demand;
use crate::terms::Terms;

mod levels;
mod optimum;
mod profile;
mod spread;

pub use optimum::{Allocation, optimum};
pub use profile::Profile;
pub use spread::Spread;

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

//! The terms under which a resource is priced.

use estimand_capacity::Resource;

use crate::rate::{PARTS, Rate};

/// The most money that can be counted, in parts of a [`Rate`].
pub(crate) const MOST: u128 = u64::MAX as u128 * PARTS as u128;

/// The longest horizon, in ticks.
pub const MAX_HORIZON: u64 = 1 << 24;

/// The units that there are of a resource at any tick, and the bounds of the price of one unit for one tick.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Terms {
    pub capacity: u64,
    /// The price where nothing else is expected to be wanted.
    pub floor: Rate,
    pub ceiling: Rate,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TermsError {
    #[error("the horizon is {0} ticks: it must be 1 to {MAX_HORIZON}")]
    Horizon(u64),
    #[error("`{resource}`: the floor of the price, {floor}, is above its ceiling, {ceiling}")]
    FloorAboveCeiling { resource: Resource, floor: Rate, ceiling: Rate },
    #[error(
        "`{resource}`: all of it over the whole horizon at the highest price, with that of the other resources, is more money than \
         can be counted: its ceiling can be at most {most}"
    )]
    TooMuchMoney { resource: Resource, most: Rate },
    #[error("`{0}` has prices already")]
    Twice(Resource),
}

impl Terms {
    /// The cost of all that there is, for a whole horizon, at the highest price, in parts.
    pub(crate) fn worst(&self, horizon: u64) -> u128 {
        self.ceiling.times(self.capacity).saturating_mul(u128::from(horizon))
    }
}

//! The terms under which an operator sells time.

use std::collections::BTreeMap;

use estimand_api::resources::{CPU, MEMORY};
use estimand_reservations::{EarlyEnd, Money};

use crate::celery::CeleryBroker;

/// The price of a unit is at most so many times its floor.
const CEILING_TIMES: u64 = 1_000;
const HOUR: u64 = 3_600;
const MEBIBYTE: u64 = 1 << 20;

/// The terms of sale.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// The seconds of a slot: time is sold in whole ones.
    pub slot: u64,
    /// How many slots ahead there are prices.
    pub horizon: u64,
    /// The least price of an hour: of a processor, of a GiB of memory, of one of anything else.
    pub floors: BTreeMap<String, Money>,
    /// The rule for the price of time that is given back after the start.
    pub early_end: EarlyEnd,
    /// The broker that workers of Celery read, if there is one.
    pub celery: Option<CeleryBroker>,
}

impl Default for Settings {
    /// Slots of a minute, a day ahead; a credit an hour for a processor, ten for a GPU.
    fn default() -> Self {
        let credits = |micros: u64| Money::microcredits(micros);
        let floors = [(CPU, credits(1_000_000)), (MEMORY, credits(10_000)), ("gpu", credits(10_000_000))];
        let floors = floors.map(|(name, floor)| (name.to_owned(), floor));
        Settings {
            slot: 60,
            horizon: 1_440,
            floors: floors.into(),
            early_end: EarlyEnd::default(),
            celery: None,
        }
    }
}

impl Settings {
    /// The broker of Celery tells whether a worker has taken a message.
    pub fn tells_what_is_unread(&self) -> bool {
        self.celery.as_ref().is_some_and(CeleryBroker::tells_what_is_unread)
    }

    /// Units of a resource are counted in so many of the ledger's: memory in MiB, anything else as it is.
    pub fn unit(resource: &str) -> u64 {
        if resource == MEMORY { MEBIBYTE } else { 1 }
    }

    /// The least and the highest price of a unit for a slot, rounded up. A resource that has no price of its own has that of
    /// memory's kind: nothing.
    pub fn bounds(&self, resource: &str) -> (Money, Money) {
        let hour = self.floors.get(resource).copied().unwrap_or_default().as_microcredits();
        let units = match resource {
            CPU => 1_000,
            MEMORY => 1_024,
            _ => 1,
        };
        let floor = (u128::from(hour) * u128::from(self.slot)).div_ceil(u128::from(units * HOUR));
        let floor = u64::try_from(floor).unwrap_or(u64::MAX);
        (Money::microcredits(floor), Money::microcredits(floor.saturating_mul(CEILING_TIMES)))
    }

    /// The slot in which an instant is, and the first one that begins then or later.
    pub fn slot_of(&self, at: u64) -> u64 {
        at / self.slot
    }

    pub fn slot_from(&self, at: u64) -> u64 {
        at.div_ceil(self.slot)
    }

    /// The instant at which a slot begins.
    pub fn instant(&self, slot: u64) -> u64 {
        slot.saturating_mul(self.slot)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prices_of_an_hour_become_prices_of_a_unit_and_slot() {
        let settings = Settings::default();
        // A processor is a thousand units, an hour sixty slots.
        assert_eq!(settings.bounds("cpu").0, Money::microcredits(17));
        assert_eq!(settings.bounds("memory").0, Money::microcredits(1));
        assert_eq!(settings.bounds("gpu").0, Money::microcredits(166_667));
        assert_eq!(settings.bounds("gpu").1, Money::microcredits(166_667_000));
        assert_eq!(settings.bounds("fpga"), (Money::ZERO, Money::ZERO));
        assert_eq!((settings.slot_of(119), settings.slot_from(119), settings.slot_from(120)), (1, 2, 2));
    }
}

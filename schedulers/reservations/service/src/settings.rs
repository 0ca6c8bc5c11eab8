//! The terms under which an operator sells time.

use std::collections::BTreeMap;

use estimand_api::resources::{CPU, MEMORY};
use estimand_reservations::{EarlyEnd, Money, PARTS, Rate};

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
    /// The abilities of the broker of Celery's workers; absent: there is no such broker.
    pub celery: Option<CeleryTerms>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CeleryTerms {
    /// The broker tells whether a worker has taken a message.
    pub tells_unread: bool,
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
        self.celery.is_some_and(|celery| celery.tells_unread)
    }

    /// Units of a resource are counted in so many of the ledger's: memory in MiB, anything else as it is.
    pub fn unit(resource: &str) -> u64 {
        if resource == MEMORY { MEBIBYTE } else { 1 }
    }

    /// The least price of a unit for a slot, which is exactly its part of that of an hour. A resource without a price of its own
    /// costs nothing.
    pub fn floor(&self, resource: &str) -> Rate {
        let hour = self.floors.get(resource).copied().unwrap_or_default().as_microcredits();
        Rate::parts(hour.saturating_mul(self.parts_of_slot(resource)))
    }

    /// The highest price of a unit whose least one is this.
    pub fn ceiling(floor: Rate) -> Rate {
        Rate::parts(floor.as_parts().saturating_mul(CEILING_TIMES))
    }

    /// The highest price of an hour that can be divided so.
    pub fn most(&self, resource: &str) -> Money {
        Money::microcredits(u64::MAX / self.parts_of_slot(resource).max(1))
    }

    /// The parts of a microcredit that a unit costs for a slot where an hour costs a microcredit.
    fn parts_of_slot(&self, resource: &str) -> u64 {
        let units = match resource {
            CPU => 1_000,
            MEMORY => 1_024,
            _ => 1,
        };
        self.slot.saturating_mul(PARTS / (units * HOUR))
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
    fn prices_of_an_hour_are_divided_exactly() {
        for slot in [1, 7, 60, 3_600] {
            let settings = Settings { slot, ..Settings::default() };
            // A processor is a thousand units, a GiB 1,024.
            for (resource, units) in [("cpu", 1_000), ("memory", 1_024), ("gpu", 1), ("fpga", 1)] {
                let hour = settings.floors.get(resource).copied().unwrap_or_default().as_microcredits();
                let floor = u128::from(settings.floor(resource).as_parts());
                let exact = u128::from(hour) * u128::from(slot) * u128::from(PARTS);
                assert_eq!(floor * units * u128::from(HOUR), exact, "{resource} in slots of {slot} s");
            }
        }
        let settings = Settings::default();
        assert_eq!(Settings::ceiling(settings.floor("gpu")).to_money(), Money::microcredits(166_666_667));
        let most = settings.most("gpu");
        let priced = |price| Settings { floors: [("gpu".to_owned(), price)].into(), ..Settings::default() };
        assert!(priced(most).floor("gpu") < Rate::parts(u64::MAX));
        assert_eq!(most.to_string(), "2401919.801264");
        assert_eq!((settings.slot_of(119), settings.slot_from(119), settings.slot_from(120)), (1, 2, 2));
    }
}

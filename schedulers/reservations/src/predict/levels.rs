//! Prices in steps of about two hundredths, so that a prediction has few of them.

use crate::rate::Rate;

/// A price rises to the next level by one part in so many.
const FINENESS: u64 = 50;

/// Levels from the least price that was seen to the highest.
pub(crate) struct Levels(Vec<u64>);

impl Levels {
    pub fn between(least: Rate, highest: Rate) -> Levels {
        let mut level = least.as_parts().max(1);
        let highest = highest.as_parts();
        let mut levels = vec![level];
        while level < highest {
            level = level.saturating_add((level / FINENESS).max(1));
            levels.push(level);
        }
        Levels(levels)
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// The highest level that a price reaches. One below all levels has the first.
    pub fn of(&self, price: Rate) -> usize {
        self.0.partition_point(|level| *level <= price.as_parts()).saturating_sub(1)
    }

    pub fn price(&self, level: usize) -> Rate {
        Rate::parts(self.0[level])
    }
}

//! Settlements: the part of a reservation's price that is paid, and the part that is given back, by what became of its time.

use serde::{Deserialize, Serialize};

use crate::money::Money;

/// Time that is given back costs one part in so many of its price, rounded up. Otherwise to reserve too much would be free.
const FEE_PART: u64 = 20;

/// The rule for the price of time that is given back after the start, because its task has ended or it was cancelled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum EarlyEnd {
    /// It is given back but for a fee.
    #[default]
    Refund,
    /// It is paid.
    Keep,
}

/// The time of a reservation, in seconds of all units together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Delivery {
    pub promised: u64,
    /// The part in which its task could have run and did not: it is not paid.
    pub missed: u64,
    /// The part that was not needed any more, and that others can have.
    pub given_back: u64,
}

/// The parts of a price, which are all of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Settlement {
    pub payment: Money,
    pub fee: Money,
    pub refund: Money,
}

impl Settlement {
    /// A settlement that gives a whole price back.
    pub fn refunded(price: Money) -> Settlement {
        Settlement { refund: price, ..Settlement::default() }
    }
}

impl Delivery {
    /// Divides a price by time. A remainder is the payer's.
    pub fn settle(self, price: Money, early_end: EarlyEnd) -> Settlement {
        let Delivery { promised, missed, given_back } = self;
        let missed = missed.min(promised);
        let given_back = match early_end {
            EarlyEnd::Refund => given_back.min(promised - missed),
            EarlyEnd::Keep => 0,
        };
        let rest = price.part(given_back, promised);
        let fee = fee(rest);
        let payment = price.part(promised - missed - given_back, promised);
        let refund =
            [payment, fee].into_iter().fold(price, |left, part| left.checked_sub(part).unwrap_or_default());
        Settlement { payment, fee, refund }
    }
}

/// The part of an amount that is kept when the time that it is for is given back.
pub fn fee(amount: Money) -> Money {
    Money::microcredits(amount.as_microcredits().div_ceil(FEE_PART))
}

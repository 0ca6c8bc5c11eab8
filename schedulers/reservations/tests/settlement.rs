//! Settlements of any reservation add up, and are what its time was.
#![allow(clippy::unwrap_used)]

use estimand_reservations::{Delivery, EarlyEnd, Money, Settlement, fee};
use proptest::prelude::*;

fn settled(delivery: (u64, u64, u64), price: u64, early_end: EarlyEnd) -> [u64; 3] {
    let (promised, missed, given_back) = delivery;
    let delivery = Delivery { promised, missed, given_back };
    let Settlement { payment, fee, refund } = delivery.settle(Money::microcredits(price), early_end);
    [payment, fee, refund].map(Money::as_microcredits)
}

#[test]
fn missed_time_is_not_paid_and_time_given_back_costs_a_twentieth() {
    for (delivery, kept, refunded) in [
        ((40, 0, 0), [400, 0, 0], [400, 0, 0]),
        ((40, 40, 0), [0, 0, 400], [0, 0, 400]),
        ((40, 10, 0), [300, 0, 100], [300, 0, 100]),
        ((40, 0, 20), [400, 0, 0], [200, 10, 190]),
        ((40, 10, 20), [300, 0, 100], [100, 10, 290]),
        ((40, 0, 40), [400, 0, 0], [0, 20, 380]),
        // More than there was.
        ((40, 50, 20), [0, 0, 400], [0, 0, 400]),
        ((0, 0, 0), [0, 0, 400], [0, 0, 400]),
    ] {
        assert_eq!(settled(delivery, 400, EarlyEnd::Keep), kept, "{delivery:?}");
        assert_eq!(settled(delivery, 400, EarlyEnd::Refund), refunded, "{delivery:?}");
    }
    assert_eq!(settled((3, 1, 1), 100, EarlyEnd::Refund), [33, 2, 65], "what does not divide is the payer's");
}

proptest! {
    #[test]
    fn the_parts_of_a_price_are_all_of_it(
        promised in 0_u64..1_000_000,
        missed in 0_u64..1_000_000,
        given_back in 0_u64..1_000_000,
        price: u64,
    ) {
        for early_end in [EarlyEnd::Refund, EarlyEnd::Keep] {
            let parts = settled((promised, missed, given_back), price, early_end);
            prop_assert_eq!(parts.iter().map(|part| u128::from(*part)).sum::<u128>(), u128::from(price));
        }
    }

    /// Each second that is missed is a second less that is paid for; the price of a second is the same for all.
    #[test]
    fn a_payment_is_the_price_of_the_time_that_was_had(
        units in 1_u64..50,
        seconds in 1_u64..10_000,
        missed in 0_u64..10_000,
        given_back in 0_u64..10_000,
        price_of_a_second in 0_u64..1_000_000,
    ) {
        let promised = units * seconds;
        let missed = missed.min(promised);
        let given_back = given_back.min(promised - missed);
        let price = promised * price_of_a_second;
        let [payment, kept, refund] = settled((promised, missed, given_back), price, EarlyEnd::Refund);
        let rest = given_back * price_of_a_second;
        prop_assert_eq!(payment, (promised - missed - given_back) * price_of_a_second);
        prop_assert_eq!(kept, fee(Money::microcredits(rest)).as_microcredits());
        prop_assert_eq!(refund, missed * price_of_a_second + rest - kept);
    }
}

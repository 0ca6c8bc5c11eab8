//! The figures of the reservation service on `/metrics`.

use std::collections::BTreeMap;

use estimand_runtime::metrics::{Counter, Exposition, Kind};

use crate::change::Change;
use crate::credits::{HELD, INCOME, Reason};
use crate::reservation::State;
use crate::table::Table;

#[derive(Debug, Default)]
pub struct Figures {
    pub quotes: Counter,
    /// Orders that the ledger refused because it had moved on, or had no room.
    pub repeated: Counter,
    broken: Counter,
    grants: Counter,
}

impl Figures {
    /// Counts a change that is stored.
    pub fn count(&self, change: &Change) {
        let broken = change.reservations.iter().filter(|one| one.state() == State::Broken);
        self.broken.add(broken.count() as u64);
        self.grants.add(change.entries.iter().filter(|entry| entry.reason == Reason::Grant).count() as u64);
    }

    pub fn write(&self, out: &mut Exposition<'_>, table: &Table) {
        let mut by_state: BTreeMap<State, u64> = State::ALL.into_iter().map(|state| (state, 0)).collect();
        table.all().for_each(|reservation| *by_state.entry(reservation.state()).or_default() += 1);
        let name = "estimand_reservations";
        out.family(name, Kind::Gauge, "Reservations that are kept, by state.");
        for (state, count) in by_state {
            out.sample(name, &[("state", state.as_str())], count as f64);
        }
        let counters = [
            ("estimand_reservation_quotes_total", "Prices that were asked for.", &self.quotes),
            (
                "estimand_reservation_orders_repeated_total",
                "Orders that were priced again, because the ledger had moved on or had no room.",
                &self.repeated,
            ),
            ("estimand_reservations_broken_total", "Reservations whose capacity was lost.", &self.broken),
            ("estimand_credit_grants_total", "Grants of credits.", &self.grants),
        ];
        for (name, help, counter) in counters {
            out.single(name, Kind::Counter, help, counter.get() as f64);
        }
        let credits = &table.credits;
        let sums = [
            ("granted", credits.granted()),
            ("held", credits.balance(HELD)),
            ("income", credits.balance(INCOME)),
        ];
        let name = "estimand_credits";
        out.family(
            name,
            Kind::Gauge,
            "Credits: all that were granted, those held for reservations, and the operator's.",
        );
        for (of, amount) in sums {
            out.sample(name, &[("of", of)], amount.as_microcredits() as f64 / 1e6);
        }
    }
}

//! The figures of the reservation service on `/metrics`.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use estimand_api::problem::kind;
use estimand_runtime::metrics::{Counter, Exposition, Gauge, Kind};

use crate::change::Change;
use crate::credits::{HELD, INCOME, Reason};
use crate::predictions::Predictions;
use crate::reservation::State;
use crate::table::Table;

/// A start that is published so many microseconds after its time is late.
const LATE: i64 = 1_000_000;

#[derive(Debug, Default)]
pub struct Figures {
    pub quotes: Counter,
    /// Orders that the ledger refused because it had moved on, or had no room.
    pub repeated: Counter,
    /// Requests that were promised.
    pub granted: Counter,
    /// Those that were refused, by the kinds of [`REFUSALS`].
    refused: [Counter; REFUSALS.len()],
    /// Refused bids that were not kept.
    pub lost_bids: Counter,
    /// 1 while the choice of a predictor makes no sense.
    pub wrong_choice: Gauge,
    trainings: Counter,
    failed_trainings: Counter,
    /// Microseconds that the last training took.
    training_took: AtomicU64,
    broken: Counter,
    grants: Counter,
    starts: Counter,
    late_starts: Counter,
}

/// The kinds of refusals that say something about demand: a time was wanted, and not at that price or not any more.
const REFUSALS: [&str; 3] = [kind::PRICE_ABOVE_VALUE, kind::INFEASIBLE, kind::TOO_FEW_CREDITS];

impl Figures {
    /// Counts a change that is stored.
    pub fn count(&self, change: &Change) {
        let broken = change.reservations.iter().filter(|one| one.state() == State::Broken);
        self.broken.add(broken.count() as u64);
        self.grants.add(change.entries.iter().filter(|entry| entry.reason == Reason::Grant).count() as u64);
    }

    /// Counts a refusal; false if it is another kind of problem.
    pub fn refused(&self, kind: &str) -> bool {
        let place = REFUSALS.iter().position(|refusal| *refusal == kind);
        let counter = place.and_then(|place| self.refused.get(place));
        counter.inspect(|counter| counter.increment()).is_some()
    }

    /// Counts a training.
    pub fn trained(&self, is_good: bool, took: Duration) {
        if is_good { &self.trainings } else { &self.failed_trainings }.increment();
        let took = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        self.training_took.store(took, Ordering::Relaxed);
    }

    pub fn write_training(&self, out: &mut Exposition<'_>, known: Option<&Predictions>, now: i64) {
        let name = "estimand_reservation_trainings_total";
        out.family(name, Kind::Counter, "Trainings of the predictor of demand, by how they ended.");
        for (outcome, count) in [("ok", &self.trainings), ("failed", &self.failed_trainings)] {
            out.sample(name, &[("outcome", outcome)], count.get() as f64);
        }
        let took = Duration::from_micros(self.training_took.load(Ordering::Relaxed)).as_secs_f64();
        let name = "estimand_reservation_training_seconds";
        out.single(name, Kind::Gauge, "How long the last training took.", took);
        let name = "estimand_reservation_predictor_wrong";
        let help = "1 while the value that chooses the predictor makes no sense, so the last choice stays.";
        out.single(name, Kind::Gauge, help, self.wrong_choice.get() as f64);
        let Some(predictions) = known else { return };
        let name = "estimand_reservation_predictor";
        out.family(name, Kind::Gauge, "The predictor of demand in force; the value is always 1.");
        out.sample(name, &[("name", predictions.choice.method.as_str())], 1.0);
        if let Some(training) = predictions.training {
            let age = Duration::from_micros(u64::try_from(now - training.at).unwrap_or(0)).as_secs_f64();
            let name = "estimand_reservation_predictor_age_seconds";
            out.single(name, Kind::Gauge, "The time since the predictor in force was trained.", age);
            let name = "estimand_reservation_predictor_bids";
            let help = "The bids that the predictor in force was trained on.";
            out.single(name, Kind::Gauge, help, training.bids as f64);
        }
    }

    /// Counts a start that was published for Celery, so many microseconds after its time.
    pub fn published(&self, after: i64) {
        self.starts.increment();
        self.late_starts.add(u64::from(after > LATE));
    }

    pub fn write(&self, out: &mut Exposition<'_>, table: &Table) {
        let mut by_state: BTreeMap<State, u64> = State::ALL.into_iter().map(|state| (state, 0)).collect();
        table.all().for_each(|reservation| *by_state.entry(reservation.state()).or_default() += 1);
        let name = "estimand_reservations";
        out.family(name, Kind::Gauge, "Reservations that are kept, by state.");
        for (state, count) in by_state {
            out.sample(name, &[("state", state.as_str())], count as f64);
        }
        let name = "estimand_reservation_requests_total";
        out.family(
            name,
            Kind::Counter,
            "Requests that were promised, and those that were refused, by the reason.",
        );
        out.sample(name, &[("outcome", "granted")], self.granted.get() as f64);
        for (kind, count) in REFUSALS.iter().zip(&self.refused) {
            out.sample(name, &[("outcome", kind)], count.get() as f64);
        }
        let counters = [
            ("estimand_reservation_bids_lost_total", "Refused bids that could not be kept.", &self.lost_bids),
            ("estimand_reservation_quotes_total", "Prices that were asked for.", &self.quotes),
            (
                "estimand_reservation_orders_repeated_total",
                "Orders that were priced again, because the ledger had moved on or had no room.",
                &self.repeated,
            ),
            ("estimand_reservations_broken_total", "Reservations whose capacity was lost.", &self.broken),
            ("estimand_credit_grants_total", "Grants of credits.", &self.grants),
            ("estimand_celery_starts_total", "Starts that were published for Celery.", &self.starts),
            (
                "estimand_celery_starts_late_total",
                "Those of them that were published more than a second after their time.",
                &self.late_starts,
            ),
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

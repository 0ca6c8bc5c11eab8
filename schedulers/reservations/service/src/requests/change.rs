//! A change of a reservation: what it costs more is held, the ledger is asked for it, and its answer is the end of it. Until
//! then the reservation is as it was.

use std::sync::Arc;

use estimand_api::promise::PromiseRecord;
use estimand_reservations::fee;
use estimand_service::{Decision, Request};

use super::Edit;
use crate::change::Rejection;
use crate::credits::{HELD, INCOME, Reason};
use crate::document::Document;
use crate::reservation::{PendingChange, Reservation, State, TaskStanding};
use crate::writer::ReservationsState;

/// A change is begun, or one of the same key is priced again.
pub struct PlanChange {
    pub number: u64,
    /// The document that it was made of.
    pub before: Arc<Document>,
    /// The credits held for it are in here.
    pub change: PendingChange,
    pub by: String,
}

impl Request<ReservationsState> for PlanChange {
    type Reply = Arc<Reservation>;

    fn decide(
        self,
        state: &ReservationsState,
    ) -> Result<Decision<ReservationsState, Self::Reply>, Rejection> {
        let table = state.table();
        let unknown = || Rejection::Unknown(format!("r{}", self.number));
        let reservation = table.get(self.number).ok_or_else(unknown)?;
        let (id, progress) = (|| reservation.id.clone(), &reservation.progress);
        if reservation.state() != State::Promised || progress.offer.start <= state.now() {
            return Err(Rejection::Begun { id: id(), state: reservation.state().as_str() });
        }
        let is_other = |change: &PendingChange| change.key != self.change.key;
        if reservation.document != self.before || progress.change.as_ref().is_some_and(is_other) {
            return Err(Rejection::Changing(id()));
        }
        let before = progress.change.as_ref().map(|change| change.held).unwrap_or_default();
        let held = self.change.offer.price.checked_sub(progress.offer.price).unwrap_or_default();
        let more = held.checked_sub(before).unwrap_or_default();
        table.credits.check(&reservation.account, more)?;
        let mut edit = Edit::new(table, reservation, &self.by);
        edit.pay(HELD, &reservation.account, before.checked_sub(held).unwrap_or_default(), Reason::Refund);
        edit.pay(&reservation.account, HELD, more, Reason::Hold);
        edit.after.progress.change = Some(PendingChange { held, ..self.change });
        Ok(edit.decision(state.now_us()))
    }
}

/// The ledger's answer to a change.
pub struct ChangeAnswered {
    pub number: u64,
    /// The key of the change. A reservation with another change stays as it is.
    pub key: String,
    pub answer: ChangeAnswer,
}

pub enum ChangeAnswer {
    /// The promise as it is since then.
    Made(Vec<PromiseRecord>),
    Refused,
}

impl Request<ReservationsState> for ChangeAnswered {
    type Reply = Arc<Reservation>;

    fn decide(
        self,
        state: &ReservationsState,
    ) -> Result<Decision<ReservationsState, Self::Reply>, Rejection> {
        let table = state.table();
        let unknown = || Rejection::Unknown(format!("r{}", self.number));
        let reservation = table.get(self.number).ok_or_else(unknown)?;
        let pending = reservation.progress.change.clone().filter(|change| change.key == self.key);
        let Some(change) = pending else { return Ok(Decision::Nothing(Arc::clone(reservation))) };
        let mut edit = Edit::new(table, reservation, "scheduler");
        edit.after.progress.change = None;
        match self.answer {
            ChangeAnswer::Made(records) => made(&mut edit, reservation, change, records),
            ChangeAnswer::Refused => edit.pay(HELD, &reservation.account, change.held, Reason::Refund),
        }
        Ok(edit.decision(state.now_us()))
    }
}

fn made(edit: &mut Edit<'_>, before: &Reservation, change: PendingChange, records: Vec<PromiseRecord>) {
    let old_price = before.progress.offer.price;
    // The difference, if it costs less, is given back as if so much was cancelled.
    let less = old_price.checked_sub(change.offer.price).unwrap_or_default();
    let kept = fee(less);
    edit.pay(HELD, INCOME, kept, Reason::Fee);
    edit.pay(HELD, &before.account, less.checked_sub(kept).unwrap_or_default(), Reason::Refund);
    edit.after.document = change.document;
    edit.after.progress.offer = change.offer;
    let is_as_wide = edit.after.width() == before.width();
    let progress = &mut edit.after.progress;
    progress.fees = progress.fees.checked_add(kept).unwrap_or(progress.fees);
    // It may have been heard of as it is later.
    if let Some(record) = records.into_iter().find(|record| record.revision > progress.revision) {
        (progress.revision, progress.nodes) = (record.revision, record.units);
    }
    if !is_as_wide && progress.task != TaskStanding::None {
        progress.task_changes += 1;
        if let TaskStanding::Submitted(id) = &progress.task {
            progress.task = TaskStanding::Stale(id.clone());
        }
    }
}

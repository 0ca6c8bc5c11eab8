//! Reservations as readers see them.

use std::sync::Arc;

use estimand_api::reservation::{
    CeleryRecord, Guarantee, PredictorRecord, PriceQuote, ReservationRecord, ReservationsMade,
};
use estimand_reservations::{Money, fee};
use estimand_service::rows;

use crate::celery::{self, Standing};
use crate::document::Document;
use crate::predictions::Predictions;
use crate::refusals::instant;
use crate::reservation::{Offer, Reservation, State, TaskStanding};

pub fn record(reservation: &Reservation) -> ReservationRecord {
    let progress = &reservation.progress;
    let state = reservation.state();
    let was_promised = !matches!(state, State::Pending | State::Refused);
    let task = match &progress.task {
        TaskStanding::Submitted(id) => Some(id.clone()),
        TaskStanding::None | TaskStanding::Due | TaskStanding::Stale(_) | TaskStanding::Refused(_) => None,
    };
    ReservationRecord {
        id: reservation.id.clone(),
        state: state.as_str().to_owned(),
        user: reservation.account.clone(),
        width: reservation.width(),
        price: progress.offer.price.to_string(),
        fees: (progress.fees > Money::ZERO).then(|| progress.fees.to_string()),
        list: progress.list.map(|number| format!("r{number}")),
        refund: (progress.refund > Money::ZERO).then(|| progress.refund.to_string()),
        start: instant(progress.offer.start),
        end: instant(progress.offer.end),
        promise: was_promised.then(|| reservation.promise_id()),
        task,
        celery: celery(reservation),
        reason: progress.reason.clone(),
        guarantee: was_promised.then(|| guarantee(reservation)),
        made_at: rows::instant(reservation.made_at),
        made_by: reservation.made_by.clone(),
        ended_at: reservation.ended_at.map(rows::instant),
        document: reservation.document.shown(),
    }
}

fn celery(reservation: &Reservation) -> Option<CeleryRecord> {
    let (state, published_at, waited_for) = match &reservation.progress.celery {
        Standing::None => return None,
        Standing::Due { waits_for, .. } => ("DUE", None, waits_for.clone()),
        Standing::Published { at, waited_for } => ("PUBLISHED", Some(*at), waited_for.clone()),
        Standing::Missed(reason) => ("MISSED", None, Some(reason.clone())),
    };
    let late = reservation.progress.celery.late(reservation.progress.offer.start);
    Some(CeleryRecord {
        id: celery::id(&reservation.promise_id()),
        state: state.to_owned(),
        published_at: published_at.map(rows::instant),
        late_milliseconds: published_at.map(|_| u64::try_from(late).unwrap_or(0) / 1_000),
        waited_for,
    })
}

fn guarantee(reservation: &Reservation) -> Guarantee {
    let progress = &reservation.progress;
    Guarantee {
        resources: reservation.document.resources.clone(),
        units: reservation.width(),
        promised_seconds: progress.offer.end - progress.offer.start,
        delivered_seconds: progress.delivered,
        had_seconds: progress.tasks.map(|tasks| tasks.had_milliseconds / 1_000),
        missed_seconds: progress.missed,
        given_back_seconds: progress.given_back,
        nodes: progress.nodes.clone(),
        moves: progress.moves,
        kept: match reservation.state() {
            State::Over => {
                let needed = progress.offer.end - progress.offer.start - progress.given_back;
                Some(progress.delivered == needed)
            }
            State::Broken => Some(false),
            _ => None,
        },
    }
}

pub fn predictor(predictions: &Predictions) -> PredictorRecord {
    let Predictions { choice, training, .. } = predictions;
    PredictorRecord {
        name: choice.method.as_str().to_owned(),
        since: (choice.since > 0).then(|| rows::instant(choice.since)),
        period: choice.period,
        trained_at: training.map(|training| rows::instant(training.at)),
        bids: training.map_or(0, |training| training.bids),
    }
}

pub fn quote(document: &Document, offer: &Offer, revision: u64) -> PriceQuote {
    PriceQuote {
        price: offer.price.to_string(),
        start: instant(offer.start),
        end: instant(offer.end),
        width: offer.width,
        covered: document.value.map(|value| value >= offer.price),
        more: None,
        refund: None,
        revision,
    }
}

/// The price of a change, beside that of the reservation as it is.
pub fn changed_quote(before: Money, document: &Document, offer: &Offer, revision: u64) -> PriceQuote {
    let more = offer.price.checked_sub(before);
    let less = before.checked_sub(offer.price).unwrap_or_default();
    let refund = less.checked_sub(fee(less)).unwrap_or_default();
    PriceQuote {
        more: more.map(|more| more.to_string()),
        refund: more.is_none().then(|| refund.to_string()),
        ..quote(document, offer, revision)
    }
}

/// The reservations of a list.
pub fn list(reservations: &[Arc<Reservation>]) -> ReservationsMade {
    ReservationsMade {
        price: reservations.iter().map(|one| one.progress.offer.price).sum::<Money>().to_string(),
        reservations: reservations.iter().map(|one| record(one)).collect(),
    }
}

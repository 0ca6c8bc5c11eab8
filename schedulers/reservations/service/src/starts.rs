//! The starts of reservations for a bridge to the workers of others, which publishes them when their time has come.

use std::sync::Arc;

use estimand_client::{Client, PeerError};
use estimand_runtime::Rounds;
use estimand_service::Writer;

use crate::celery::{CeleryStart, Standing, id};
use crate::refusals::micros;
use crate::requests::{StartNews, StartReport};
use crate::reservation::{Offer, Reservation};
use crate::shared::Shared;
use crate::writer::ReservationsState;

/// The start of one reservation. Instants are in microseconds since 1970.
#[derive(Debug, Clone, PartialEq)]
pub struct Start {
    /// The id of its message, the same each time.
    pub id: String,
    /// The number and the id of its reservation.
    pub number: u64,
    pub reservation: String,
    pub promise: String,
    pub begin: i64,
    pub end: i64,
    /// The node of each unit, and the resources that each needs there.
    pub nodes: Vec<String>,
    pub resources: Vec<String>,
    pub celery: Arc<CeleryStart>,
    /// The reason that it waits, as it is stored.
    pub waits_for: Option<String>,
    pub published_at: Option<i64>,
}

/// Starts that are due before an instant, and the begin of the first one after it.
#[derive(Debug, Default)]
pub struct DueStarts {
    /// The first to begin come first.
    pub near: Vec<Start>,
    pub next: Option<i64>,
}

/// All starts of a service, and the way back for what becomes of them.
pub struct Starts {
    shared: Arc<Shared>,
    writer: Writer<ReservationsState>,
}

impl Starts {
    pub(crate) fn new(shared: Arc<Shared>, writer: Writer<ReservationsState>) -> Starts {
        Starts { shared, writer }
    }

    /// Microseconds since 1970.
    pub fn now(&self) -> i64 {
        self.shared.clock.now_micros()
    }

    /// Asked for when starts have changed.
    pub fn rounds(&self) -> &Rounds {
        &self.shared.publishing
    }

    /// The task service, which knows the free capacity; none: not known yet.
    pub fn task_service(&self) -> Option<&Client> {
        self.shared.ledger.get()
    }

    /// The starts that are to be published.
    pub fn due(&self, before: i64) -> DueStarts {
        self.shared.table.look(|table| {
            // A reservation that is being changed may begin at another time.
            let due = table.unpublished().filter(|one| one.progress.celery.is_due());
            let due = due.filter(|one| one.progress.change.is_none());
            let mut near = Vec::new();
            let mut next: Option<i64> = None;
            for reservation in due {
                let begin = micros(reservation.progress.offer.start);
                if begin <= before {
                    near.extend(Start::of(reservation));
                } else {
                    next = Some(next.map_or(begin, |next| next.min(begin)));
                }
            }
            near.sort_by_key(|start| (start.begin, start.number));
            DueStarts { near, next }
        })
    }

    /// The starts that were published late and whose time is over: whether a worker took them is not known.
    pub fn late(&self) -> Vec<Start> {
        self.shared.table.look(|table| {
            let past = table.unpublished().filter(|one| !one.progress.celery.is_due());
            past.filter_map(|one| Start::of(one)).collect()
        })
    }

    /// Stores news of a start.
    pub async fn tell(&self, start: &Start, news: StartNews) -> Result<(), PeerError> {
        let published = match news {
            StartNews::Published(at) => Some(at),
            StartNews::Waits(_) | StartNews::Missed(_) | StartNews::Taken => None,
        };
        let report = StartReport { number: start.number, news };
        self.writer.submit(report).await?;
        if let Some(at) = published {
            self.shared.figures.published(at.saturating_sub(start.begin));
        }
        Ok(())
    }
}

impl Start {
    fn of(reservation: &Reservation) -> Option<Start> {
        let Offer { start, end, .. } = reservation.progress.offer;
        let (waits_for, published_at) = match &reservation.progress.celery {
            Standing::Due { waits_for, .. } => (waits_for.clone(), None),
            Standing::Published { at, .. } => (None, Some(*at)),
            Standing::None | Standing::Missed(_) => (None, None),
        };
        Some(Start {
            id: id(&reservation.promise_id()),
            number: reservation.number,
            reservation: reservation.id.clone(),
            promise: reservation.promise_id(),
            begin: micros(start),
            end: micros(end),
            nodes: reservation.progress.nodes.clone(),
            resources: reservation.document.resources.keys().cloned().collect(),
            celery: reservation.document.celery.clone()?,
            waits_for,
            published_at,
        })
    }

    /// How long its reservation lasts.
    pub fn seconds(&self) -> u64 {
        u64::try_from((self.end - self.begin) / 1_000_000).unwrap_or(0)
    }
}

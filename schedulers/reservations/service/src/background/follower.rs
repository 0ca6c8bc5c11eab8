//! Follows the ledger: hears of each promise that changed, and of each revision.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use estimand_api::promise::PromisePage;
use estimand_client::{Client, Error, PeerError, within};
use estimand_runtime::{Next, Work};
use estimand_service::Writer;
use futures_util::future::try_join_all;

use super::{ANSWER_WITHIN, look_up};
use crate::requests::Hear;
use crate::reservation::Reservation;
use crate::shared::Shared;
use crate::writer::ReservationsState;

const WAIT: Duration = Duration::from_secs(10);
const PAGE: u32 = 500;

pub struct Follower {
    shared: Arc<Shared>,
    writer: Writer<ReservationsState>,
    /// Everything up to this revision was heard; none: nothing was yet.
    heard: Option<u64>,
    /// While all promises are read anew: the reservations whose promise was among them.
    seen: Option<HashSet<u64>>,
}

impl Follower {
    pub fn new(shared: Arc<Shared>, writer: Writer<ReservationsState>) -> Self {
        Follower { shared, writer, heard: None, seen: None }
    }

    /// The revision after which something may be new: the least that a live reservation knows of its promise.
    fn begin(&self) -> u64 {
        self.shared.table.look(|table| {
            let live = table.open().filter(|one| one.is_live());
            live.map(|one| one.progress.revision.saturating_sub(1)).min().unwrap_or(0)
        })
    }

    async fn page(&self, client: &Client, after: u64) -> Result<PromisePage, Error> {
        match self.seen {
            Some(_) => client.promises_with_gaps(after, PAGE).await,
            None => client.promises(after, PAGE, WAIT).await,
        }
    }

    /// Looks up the promises that were not among all: the ledger has forgotten them.
    async fn look_up_unseen(&mut self, client: &Client) -> Result<(), PeerError> {
        let Some(seen) = &self.seen else { return Ok(()) };
        let unseen: Vec<Arc<Reservation>> = self.shared.table.look(|table| {
            let live = table.open().filter(|one| one.awaits_end());
            live.filter(|one| !seen.contains(&one.number)).cloned().collect()
        });
        for reservation in unseen {
            look_up(client, &self.writer, &reservation).await?;
        }
        self.seen = None;
        Ok(())
    }
}

impl Work for Follower {
    type Error = PeerError;

    async fn round(&mut self) -> Result<Next, PeerError> {
        let client = self.shared.ledger.wait().await.clone();
        if !self.shared.table.is_loaded() {
            return Ok(Next::Period);
        }
        let after = self.heard.unwrap_or_else(|| self.begin());
        let page = match within(ANSWER_WITHIN, self.page(&client, after)).await {
            // Changes of long ago are not known any more: all that is known is read.
            Err(PeerError::Client(error)) if error.status() == Some(410) => {
                (self.heard, self.seen) = (Some(0), Some(HashSet::new()));
                return Ok(Next::Period);
            }
            page => page?,
        };
        let known: Vec<(u64, Hear)> = self.shared.table.look(|table| {
            let known = page.promises.into_iter().filter_map(|promise| {
                let number = table.of_promise(&promise.id)?.number;
                Some((number, Hear(promise)))
            });
            known.collect()
        });
        if let Some(seen) = &mut self.seen {
            seen.extend(known.iter().map(|(number, _)| *number));
        }
        try_join_all(known.into_iter().map(|(_, news)| self.writer.submit(news))).await?;
        self.shared.heard_of(page.revision);
        self.heard = Some(page.next);
        if page.next >= page.revision {
            self.look_up_unseen(&client).await?;
        }
        Ok(Next::Period)
    }
}

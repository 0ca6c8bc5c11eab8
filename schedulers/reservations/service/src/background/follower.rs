//! Follows the ledger: hears of each promise that changed, and of each revision.

use std::sync::Arc;
use std::time::Duration;

use estimand_client::{PeerError, within};
use estimand_runtime::single_writer::Writer;
use estimand_runtime::{Next, Work};
use futures_util::future::try_join_all;

use super::ANSWER_WITHIN;
use crate::requests::Hear;
use crate::shared::Shared;
use crate::writer::ReservationsState;

const WAIT: Duration = Duration::from_secs(10);
const PAGE: u32 = 500;

pub struct Follower {
    shared: Arc<Shared>,
    writer: Writer<ReservationsState>,
    /// Everything up to this revision was heard; none: nothing was yet.
    heard: Option<u64>,
}

impl Follower {
    pub fn new(shared: Arc<Shared>, writer: Writer<ReservationsState>) -> Self {
        Follower { shared, writer, heard: None }
    }

    /// The revision after which something may be new: the least that a live reservation knows of its promise.
    fn begin(&self) -> u64 {
        self.shared.table(|table| {
            let live = table.open().filter(|one| one.is_live());
            live.map(|one| one.progress.revision.saturating_sub(1)).min().unwrap_or(0)
        })
    }
}

impl Work for Follower {
    type Error = PeerError;

    async fn round(&mut self) -> Result<Next, PeerError> {
        let client = self.shared.task_service().await;
        if !self.shared.is_loaded() {
            return Ok(Next::Period);
        }
        let after = self.heard.unwrap_or_else(|| self.begin());
        let page = match within(ANSWER_WITHIN, client.promises(after, PAGE, WAIT)).await {
            // Changes of long ago are not known any more: all that is known is read.
            Err(PeerError::Client(error)) if error.status() == Some(410) => {
                within(ANSWER_WITHIN, client.promises(0, PAGE, WAIT)).await?
            }
            page => page?,
        };
        let known: Vec<Hear> = self.shared.table(|table| {
            let known = page.promises.into_iter().filter(|promise| table.of_promise(&promise.id).is_some());
            known.map(Hear).collect()
        });
        try_join_all(known.into_iter().map(|news| self.writer.submit(news)))
            .await
            .map_err(PeerError::of_write)?;
        self.shared.heard_of(page.revision);
        self.heard = Some(page.next);
        Ok(Next::Period)
    }
}

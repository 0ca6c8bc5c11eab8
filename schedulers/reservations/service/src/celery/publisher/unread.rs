//! The messages of late starts: one that no worker has taken by its end was of no use to anybody.

use std::sync::Arc;

use estimand_client::PeerError;

use super::{BrokerError, LOOK_BACK, Link, Message, PublishError, Publisher, Standing, ends};
use crate::requests::StartKnown;
use crate::reservation::Reservation;

impl Publisher {
    /// Finds out whether workers had taken the messages of late starts whose time is over.
    pub(super) async fn look_for_unread(&mut self) -> Result<(), PublishError> {
        let past: Vec<Arc<Reservation>> = self.shared.table(|table| {
            table.unpublished().filter(|one| !one.progress.celery.is_due()).cloned().collect()
        });
        if past.is_empty() {
            return Ok(());
        }
        let Publisher { calls, link, broker, .. } = self;
        let used = link.take();
        let call = async {
            let link = match used {
                Some(link) => link,
                None => Link::open(broker).await?,
            };
            let mut found = Vec::new();
            for reservation in &past {
                let start = (&reservation.document.celery, &reservation.progress.celery);
                found.push(match start {
                    (Some(start), Standing::Published { at, .. }) => {
                        link.is_unread(&Message::new(reservation, start, *at)).await?
                    }
                    _ => false,
                });
            }
            Ok::<_, BrokerError>((link, found))
        };
        let found = match calls.call(call).await {
            Ok((link, found)) => {
                self.link = Some(link);
                found
            }
            // The delay counts, and no more: the broker was away for too long.
            Err(_) if past.iter().all(|one| ends(one) + LOOK_BACK <= self.now()) => vec![false; past.len()],
            Err(error) => return Err(error.into()),
        };
        for (reservation, is_unread) in past.iter().zip(found) {
            if is_unread {
                self.miss(reservation, "it was published late, and no worker had taken it by its end")
                    .await?;
            } else {
                let known = StartKnown::Taken { number: reservation.number };
                self.writer.submit(known).await.map_err(PeerError::of_write)?;
            }
        }
        Ok(())
    }
}

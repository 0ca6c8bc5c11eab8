//! The messages of late starts: one that no worker has taken by its end was of no use to anybody.

use estimand_reservation_service::{Start, StartNews};

use super::{BrokerError, LOOK_BACK, Link, Message, PublishError, Publisher};

impl Publisher {
    /// Finds out whether workers had taken the messages of late starts whose time is over.
    pub(super) async fn look_for_unread(&mut self) -> Result<(), PublishError> {
        let past: Vec<Start> = self.starts.late();
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
            for start in &past {
                found.push(match start.published_at {
                    Some(at) => link.is_unread(&Message::new(start, at)).await?,
                    None => false,
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
            Err(_) if past.iter().all(|start| start.end + LOOK_BACK <= self.now()) => vec![false; past.len()],
            Err(error) => return Err(error.into()),
        };
        for (start, is_unread) in past.iter().zip(found) {
            if is_unread {
                self.miss(start, "it was published late, and no worker had taken it by its end").await?;
            } else {
                self.starts.tell(start, StartNews::Taken).await?;
            }
        }
        Ok(())
    }
}

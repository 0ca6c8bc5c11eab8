//! A worker that writes as one owner.
//!
//! It claims the owner once, when it first reaches the store. If it loses that claim, another process has taken over: it
//! never claims again.

use crate::{Claim, Connection, Error, StoreUrl, Worker};

/// A worker with its claim.
pub struct OwnedWorker {
    worker: Worker,
    owner: &'static str,
    claim: Option<Claim>,
}

impl OwnedWorker {
    /// Starts a thread that is named for the owner. Nothing is opened yet.
    pub fn start(url: StoreUrl, owner: &'static str) -> Self {
        OwnedWorker { worker: Worker::start(url, owner), owner, claim: None }
    }

    /// Reads, after all that was written under this claim has taken effect or failed for good; the first time after making
    /// the tables and claiming the owner. Also returns the revision with which the claim began.
    pub async fn load<T: Send + 'static>(
        &mut self,
        read: impl FnOnce(&mut Connection) -> Result<T, Error> + Send + 'static,
    ) -> Result<(T, i64), Error> {
        let (claim, owner) = (self.claim.clone(), self.owner);
        let (claim, found) = self
            .worker
            .run(move |connection| {
                let claim = match claim {
                    Some(claim) => {
                        connection.settle(&claim)?;
                        claim
                    }
                    None => {
                        connection.migrate()?;
                        connection.claim(owner, 0)?
                    }
                };
                Ok((claim, read(connection)?))
            })
            .await?;
        let revision = claim.revision;
        self.claim = Some(claim);
        Ok((found, revision))
    }

    /// Writes under the claim.
    pub async fn write(
        &self,
        doing: &'static str,
        write: impl FnOnce(&mut Connection, &Claim) -> Result<(), Error> + Send + 'static,
    ) -> Result<(), Error> {
        let Some(claim) = self.claim.clone() else {
            return Err(Error::Busy { doing, cause: "nothing was loaded yet".to_owned() });
        };
        self.worker.run(move |connection| write(connection, &claim)).await
    }
}

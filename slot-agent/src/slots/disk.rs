//! The limit of a slot's disk: its folder is measured while a run goes on, and after it. A run that takes more is ended,
//! and a folder that is over its limit then is emptied, so that the next run finds room.

use std::path::PathBuf;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use tokio::task::spawn_blocking;
use tokio::time::sleep;

use crate::slot_folder::{self, Excess};

/// Between two looks at a folder,
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// or this many times what a look takes, if that is more.
const LOOKS_SHARE: u32 = 10;
/// How long a folder may take to be emptied.
const EMPTY_WITHIN: Duration = Duration::from_secs(60);

/// The disk of one run.
pub struct RunDisk {
    folder: PathBuf,
    limit: Option<u64>,
    /// Why the run was ended.
    excess: OnceLock<String>,
}

impl RunDisk {
    pub fn new(folder: PathBuf, limit: Option<u64>) -> Self {
        RunDisk { folder, limit, excess: OnceLock::new() }
    }

    /// Returns when the run has taken more than it may; else never.
    pub async fn exceeded(&self) {
        let Some(limit) = self.limit else { return std::future::pending().await };
        loop {
            let begun = Instant::now();
            if let Err(excess) = self.look(limit).await {
                let _ = self.excess.set(excess.to_string());
                return;
            }
            sleep(LOOK_EVERY.max(begun.elapsed() * LOOKS_SHARE)).await;
        }
    }

    /// After the run: why it failed if it took too much. The folder is within its limit then.
    pub async fn settle(self) -> Option<String> {
        let now = self.look(self.limit?).await;
        let reason = |excess: &Excess| self.excess.get().cloned().unwrap_or_else(|| excess.to_string());
        match now {
            Ok(()) => self.excess.into_inner(),
            Err(excess) if excess.is_certain() => match self.empty().await {
                Ok(()) => Some(reason(&excess)),
                Err(error) => Some(format!("{}; its folder cannot be emptied: {error}", reason(&excess))),
            },
            Err(unknown) => Some(reason(&unknown)),
        }
    }

    async fn look(&self, limit: u64) -> Result<(), Excess> {
        let folder = self.folder.clone();
        let looked = spawn_blocking(move || slot_folder::check(&folder, limit)).await;
        looked.unwrap_or_else(|error| Err(Excess::Unknown(error.into())))
    }

    async fn empty(&self) -> std::io::Result<()> {
        let folder = self.folder.clone();
        let until = Instant::now() + EMPTY_WITHIN;
        spawn_blocking(move || slot_folder::empty(&folder, until)).await?
    }
}

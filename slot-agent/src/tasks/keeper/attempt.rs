//! An attempt in the hands of its keeper.

use std::fs::File;
use std::io;
use std::path::Path;
use std::time::Duration;

use estimand_api::task::TaskEnding;
use estimand_api::task_usage::TaskUsage;
use tokio::time::sleep;

use super::super::folder::AttemptFolder;
use super::super::lease::LeaseWatch;
use super::super::log::LogWriter;
use super::super::order::KeeperOrder;
use super::super::record::{End, Record};
use super::news::News;

/// The agent looks at the lock now and then, for a moment.
const LOCK_ATTEMPTS: u32 = 100;
const LOCK_PAUSE: Duration = Duration::from_millis(10);

pub struct Attempt {
    pub folder: AttemptFolder,
    pub order: KeeperOrder,
    pub log: LogWriter,
    pub lease: Option<LeaseWatch>,
    pub news: News,
    /// None before it has begun.
    pub record: Option<Record>,
    /// The end of its program, once it has ended for another reason.
    pub program: Option<TaskEnding>,
    /// Once it has ended, if it was measured.
    pub used: Option<TaskUsage>,
    lock: File,
}

impl Attempt {
    /// None if another keeper has it, or had it to its end.
    pub async fn take(order: KeeperOrder, news: &Path) -> io::Result<Option<Self>> {
        let folder = order.folder.clone();
        let mut lock = match folder.lock() {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            lock => lock?,
        };
        for _ in 1..LOCK_ATTEMPTS {
            if lock.is_some() {
                break;
            }
            sleep(LOCK_PAUSE).await;
            lock = folder.lock()?;
        }
        let Some(lock) = lock else { return Ok(None) };
        // The agent may have removed it before the lock was had.
        if folder.end()?.is_some() || !folder.has("accepted.json") {
            return Ok(None);
        }
        let log = LogWriter::new(folder.path().to_owned(), order.log_bytes);
        let news = News::new(news, &folder);
        Ok(Some(Attempt {
            folder,
            order,
            log,
            lease: None,
            news,
            record: None,
            program: None,
            used: None,
            lock,
        }))
    }

    /// It runs.
    pub fn write_running(&mut self, at: i64) -> io::Result<()> {
        self.record.as_mut().map_or(Ok(()), |record| record.add_running(at))
    }

    pub fn write_end(&mut self, end: &End) -> io::Result<()> {
        self.log.finish()?;
        match &mut self.record {
            Some(record) => record.add_end(end),
            None => self.folder.write_end(end),
        }
    }

    /// Its end is written: it is the agent's now.
    pub fn leave(self) {
        drop(self.lock);
        self.news.of_end();
    }
}

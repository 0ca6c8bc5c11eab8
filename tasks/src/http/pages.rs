//! A feed of the task service, read in pages: each goes on exactly where the one before ended, and may be waited for.

use std::sync::Arc;
use std::time::Duration;

use actix_web::http::header::HeaderName;
use estimand_api::headers::REVISION_HEADER;
use estimand_api::problem::Problem;
use estimand_api::task_record::MAX_TASK_WAIT_MS;
use estimand_web::Query;
use estimand_web::parameters::whole;
use tokio::time::{Instant, timeout_at};

use crate::TaskService;
use crate::feed::{Feed, Revised};

pub static REVISION: HeaderName = HeaderName::from_static(REVISION_HEADER);

/// The most entries on a page, and how many there are if nothing is said.
const MAX_PAGE: u64 = 1_000;
const PAGE: u64 = 200;
/// Entries that are read at once.
const CHUNK: usize = 1_000;
/// Entries that are looked at for a page that few belong on.
const MAX_LOOKED_AT: usize = 20_000;

/// The part of a feed that is asked for.
pub struct PageQuery {
    after: Option<u64>,
    limit: u64,
    wait: Duration,
}

/// A page, the oldest entries first.
#[derive(Debug)]
pub struct Page<T> {
    pub entries: Vec<T>,
    /// The revision after which the next page begins.
    pub next: u64,
    /// The newest revision there is.
    pub revision: u64,
}

impl PageQuery {
    /// Reads `after`, `limit` and `waitMs`.
    pub fn parse<const N: usize>(query: &Query<'_, N>) -> Result<Self, Problem> {
        let after = query.get("after").map(|given| whole("after", Some(given), 0, u64::MAX)).transpose()?;
        let limit = whole("limit", query.get("limit"), PAGE, u64::MAX)?.clamp(1, MAX_PAGE);
        let wait = whole("waitMs", query.get("waitMs"), 0, u64::MAX)?.min(MAX_TASK_WAIT_MS);
        Ok(PageQuery { after, limit, wait: Duration::from_millis(wait) })
    }
}

impl TaskService {
    /// A page of a feed for a reader of one task or of all. `read` gives up to so many entries after a revision and how far they reach,
    /// `chosen` those that belong on the page, as they are shown.
    pub(super) async fn page<E: Revised, T>(
        &self,
        feed: &Feed<E>,
        asked: &PageQuery,
        task_id: Option<&str>,
        read: impl AsyncFn(u64, usize) -> Result<(Vec<Arc<E>>, u64), Problem>,
        chosen: impl Fn(&E) -> Option<T>,
    ) -> Result<Page<T>, Problem> {
        self.shared().table.loaded(|_| ())?;
        let mut page = Page { entries: Vec::new(), next: asked.after.unwrap_or(feed.base()), revision: 0 };
        let end = Instant::now() + asked.wait;
        let mut looked_at = 0;
        loop {
            let mut bell = self.shared().listen(task_id, feed);
            page.revision = feed.newest();
            let (entries, next) = read(page.next, CHUNK).await?;
            looked_at += entries.len();
            page.next = next;
            for entry in &entries {
                page.entries.extend(chosen(entry));
                if page.entries.len() as u64 >= asked.limit {
                    page.next = entry.revision();
                    return Ok(page);
                }
            }
            if page.next < page.revision && looked_at < MAX_LOOKED_AT {
                continue;
            }
            let is_enough = !page.entries.is_empty() || looked_at >= MAX_LOOKED_AT || self.is_stopping();
            if is_enough || timeout_at(end, self.rung(&mut bell.receiver)).await.is_err() {
                // Later entries rang for others.
                if let (false, Some(newest)) = (is_enough, feed.newest_if_quiet(&bell)) {
                    page.next = newest;
                    page.revision = newest;
                }
                return Ok(page);
            }
        }
    }
}

//! The tokens that connections have shown, each with its client of the HTTP interface and the memory that its answers may
//! take.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use estimand_api::access::Token;
use estimand_api::problem::Problem;
use estimand_client::{Client, Error};
use estimand_reservation_service::MAX_DOCUMENT_BYTES;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::request::{Request, problem_of};

/// The most tokens that connections have shown at the same time.
const MAX_CALLERS: usize = 256;
/// The answers of a token that its connections have not read yet, in KiB.
const ANSWERS_KIB: usize = 32 * 1024;
/// The room of a request that is being answered, in KiB: most answers are shorter.
const ANSWER_KIB: u32 = (MAX_DOCUMENT_BYTES / 1024 + 1) as u32;
/// This part of what all callers share is kept for those who have less of it.
const KEPT_PART: usize = 16;

/// Makes a client of the HTTP interface that shows a token.
pub type Connect = Arc<dyn Fn(Option<Token>) -> Result<Client, Error> + Send + Sync>;

/// All connections with the same token, or those that have shown none.
pub(super) struct Caller {
    pub client: Client,
    answers: Arc<Semaphore>,
    /// Connections that have shown the token.
    pub connected: Arc<AtomicUsize>,
    /// Long lines that are being read.
    pub long_lines: Arc<AtomicUsize>,
}

/// A connection or long line of a caller, counted until it is dropped.
#[derive(Debug)]
pub(super) struct Counted(Arc<AtomicUsize>);

impl Counted {
    /// Counts one more of a caller's. The last sixteenth of all is kept for callers that have less than that, so that nobody
    /// takes everything; none if this caller has more, and no more are free.
    pub fn one(own: &Arc<AtomicUsize>, free: usize, all: usize) -> Option<Counted> {
        let part = (all / KEPT_PART).max(1);
        let had = own.fetch_add(1, Ordering::Relaxed);
        // Given back if it is refused.
        let counted = Counted(Arc::clone(own));
        (had < part || free > part).then_some(counted)
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

pub(super) struct Callers {
    connect: Connect,
    /// By token.
    known: Mutex<HashMap<String, Arc<Caller>>>,
}

impl Callers {
    pub fn new(connect: Connect) -> Self {
        Callers { connect, known: Mutex::default() }
    }

    /// The caller of connections that have shown no token.
    pub fn stranger(&self) -> Result<Arc<Caller>, Problem> {
        self.find("").map_or_else(|| self.keep("", self.connect(None)?), Ok)
    }

    /// The caller of a token that the service knows.
    pub async fn of_token(&self, token: Token) -> Result<Arc<Caller>, Problem> {
        let text = token.expose().to_owned();
        if let Some(caller) = self.find(&text) {
            Request::check().perform(&caller.client).await?;
            return Ok(caller);
        }
        let client = self.connect(Some(token))?;
        Request::check().perform(&client).await?;
        self.keep(&text, client)
    }

    fn connect(&self, token: Option<Token>) -> Result<Client, Problem> {
        (self.connect)(token).map_err(problem_of)
    }

    fn find(&self, token: &str) -> Option<Arc<Caller>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner).get(token).cloned()
    }

    fn keep(&self, token: &str, client: Client) -> Result<Arc<Caller>, Problem> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= MAX_CALLERS {
            known.retain(|_, caller| Arc::strong_count(caller) > 1);
        }
        if known.len() >= MAX_CALLERS && !known.contains_key(token) {
            return Err(Problem::unavailable(format!("connections of {MAX_CALLERS} tokens are open"), 5));
        }
        let new = || {
            let answers = Arc::new(Semaphore::new(ANSWERS_KIB));
            Arc::new(Caller { client, answers, connected: Arc::default(), long_lines: Arc::default() })
        };
        Ok(Arc::clone(known.entry(token.to_owned()).or_insert_with(new)))
    }
}

impl Caller {
    /// Room for an answer, if there is some.
    pub fn try_room(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.answers).try_acquire_many_owned(ANSWER_KIB).ok()
    }

    /// Room for an answer, once there is some.
    pub async fn room(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.answers).acquire_many_owned(ANSWER_KIB).await.ok()
    }

    /// The room that an answer takes, in place of the one that was kept for it. Absent if there is not so much.
    pub fn fit(&self, mut room: OwnedSemaphorePermit, bytes: usize) -> Option<OwnedSemaphorePermit> {
        let kibibytes = bytes / 1024 + 1;
        if let Some(more) = kibibytes.checked_sub(room.num_permits()).filter(|more| *more > 0) {
            let more = u32::try_from(more).ok()?;
            room.merge(Arc::clone(&self.answers).try_acquire_many_owned(more).ok()?);
        } else {
            drop(room.split(room.num_permits() - kibibytes));
        }
        Some(room)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_takes_the_last_part() {
        let (alice, bob) = (Arc::default(), Arc::default());
        let mut free = 160;
        let mut held = Vec::new();
        while let Some(one) = Counted::one(&alice, free, 160) {
            held.push(one);
            free -= 1;
        }
        assert_eq!((held.len(), free), (150, 10));
        for _ in 0..10 {
            held.extend(Counted::one(&bob, free, 160));
            free -= 1;
        }
        assert_eq!((held.len(), free), (160, 0));
        drop(held);
        assert_eq!((alice.load(Ordering::Relaxed), bob.load(Ordering::Relaxed)), (0, 0));
    }
}

//! The tokens that connections have shown, each with its client of the HTTP interface and the memory that its answers may
//! take.

use std::collections::HashMap;
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

/// Makes a client of the HTTP interface that shows a token.
pub type Connect = Arc<dyn Fn(Option<Token>) -> Result<Client, Error> + Send + Sync>;

/// All connections with the same token, or those that have shown none.
pub(super) struct Caller {
    pub client: Client,
    answers: Arc<Semaphore>,
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
        let new = || Arc::new(Caller { client, answers: Arc::new(Semaphore::new(ANSWERS_KIB)) });
        Ok(Arc::clone(known.entry(token.to_owned()).or_insert_with(new)))
    }
}

impl Caller {
    /// Room for an answer, once there is some.
    pub async fn room(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.answers).acquire_many_owned(ANSWER_KIB).await.ok()
    }

    /// The room that an answer takes, in place of the one that was kept for it. None if there is not so much.
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

//! The requests that wait for the desk.

use std::sync::Arc;

use estimand_api::problem::Problem;
use estimand_reservations::Money;
use estimand_web::Scope;
use serde_json::{Map, Value};
use tokio::sync::{mpsc, oneshot};

use crate::document::Document;
use crate::requests::Opened;
use crate::reservation::Reservation;

/// How many wait at most.
const MAX_WAITING: usize = 1_024;

/// A request for one reservation, or for a list of which all are made or none.
pub struct ReserveRequest {
    /// At least one. Documents of a list have no value of their own.
    pub documents: Vec<Arc<Document>>,
    /// The worth of the whole list; none: it is no list.
    pub list: Option<Money>,
    pub key: Option<String>,
    pub account: String,
    /// The user whose shares it needs.
    pub scope: Scope,
    pub by: String,
}

impl ReserveRequest {
    /// Each request with its part of the worth; of a list all have the same, since no price has divided it.
    pub fn worths(&self) -> Vec<Arc<Document>> {
        let Some(value) = self.list else { return self.documents.clone() };
        let part = value.part(1, self.documents.len() as u64);
        self.documents.iter().map(|document| Arc::new(document.worth(part))).collect()
    }
}

/// A change of a reservation that is asked for.
pub struct ChangeRequest {
    pub id: String,
    pub change: Map<String, Value>,
    pub scope: Scope,
    pub by: String,
}

/// A request that waits, and whoever waits for its answer.
pub enum Ask {
    Reserve(ReserveRequest, Reply<Opened>),
    Change(ChangeRequest, Reply<Arc<Reservation>>),
}

pub type Reply<T> = oneshot::Sender<Result<T, Problem>>;

impl Ask {
    pub fn members(&self) -> usize {
        match self {
            Ask::Reserve(request, _) => request.documents.len(),
            Ask::Change(..) => 0,
        }
    }

    pub fn refuse(self, problem: Problem) {
        // Nobody may wait any more.
        match self {
            Ask::Reserve(_, reply) => drop(reply.send(Err(problem))),
            Ask::Change(_, reply) => drop(reply.send(Err(problem))),
        }
    }
}

/// Hands requests to the desk. Clones are the same.
#[derive(Clone)]
pub struct DeskDoor(mpsc::Sender<Ask>);

/// The requests that wait for the desk.
pub struct Queue(pub mpsc::Receiver<Ask>);

pub fn queue() -> (DeskDoor, Queue) {
    let (sender, receiver) = mpsc::channel(MAX_WAITING);
    (DeskDoor(sender), Queue(receiver))
}

impl DeskDoor {
    /// Makes reservations, or finds those that the same request made before.
    pub async fn reserve(&self, request: ReserveRequest) -> Result<Opened, Problem> {
        let (reply, answer) = oneshot::channel();
        self.ask(Ask::Reserve(request, reply), answer).await
    }

    /// Changes a reservation.
    pub async fn change(&self, request: ChangeRequest) -> Result<Arc<Reservation>, Problem> {
        let (reply, answer) = oneshot::channel();
        self.ask(Ask::Change(request, reply), answer).await
    }

    async fn ask<T>(&self, ask: Ask, answer: oneshot::Receiver<Result<T, Problem>>) -> Result<T, Problem> {
        self.0
            .try_send(ask)
            .map_err(|_| Problem::unavailable("too many reservations are asked for at once", 1))?;
        let unknown = "the reservation service ended meanwhile: look, and ask again if there is none";
        answer.await.unwrap_or_else(|_| Err(Problem::outcome_unknown(unknown, 1)))
    }
}

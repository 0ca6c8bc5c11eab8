//! Tells the data service which names keep a history.
//!
//! A round sends the whole present list, not the changes, so a request for a round that is lost costs nothing. The list
//! is sent again now and then in any case, in case the data service has lost it. Only this task sends it, so no older
//! list arrives last. A change and the managers wait a little for it, so that the first values of a registration are kept.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use estimand_client::Client;
use estimand_runtime::{Loop, Next, Rounds, Tasks, Ticket, Work};
use tokio::time::{Instant, timeout};

use crate::Shared;
use crate::core::Retention;

/// How long a change waits, and how long one attempt may take.
const TELL_WITHIN: Duration = Duration::from_secs(1);
/// How often the data service is told although nothing has changed.
const REPAIR_EVERY: Duration = Duration::from_secs(30);
const FIRST_PAUSE: Duration = Duration::from_millis(200);

#[derive(Default)]
pub struct Histories {
    data_service: OnceLock<Client>,
    rounds: Rounds,
}

impl Histories {
    /// The data service to tell. The first one given stays.
    pub fn set_data_service(&self, client: Client) {
        if self.data_service.set(client).is_err() {
            tracing::warn!("the registry knows its data service already; the second address is not used");
        }
        self.ask();
    }

    pub fn data_service(&self) -> Option<&Client> {
        self.data_service.get()
    }

    /// Asks for a round.
    pub fn ask(&self) -> Ticket {
        self.rounds.ask()
    }

    /// Waits until a round that was asked for has been tried, or takes too long; the task goes on with it in any case.
    pub async fn tried(&self, ticket: Ticket) {
        if self.data_service.get().is_some() {
            let _ = timeout(TELL_WITHIN, self.rounds.tried(ticket)).await;
        }
    }

    /// Waits for all rounds that were asked for until now, in the same way.
    pub async fn all_tried(&self) {
        self.tried(self.rounds.last()).await;
    }

    /// Starts the task.
    pub fn start(shared: &Arc<Shared>, tasks: &Tasks) {
        let telling = Loop {
            name: "registry-histories",
            activity: "telling the data service which histories to keep",
            every: REPAIR_EVERY,
            pauses: (FIRST_PAUSE, REPAIR_EVERY),
        };
        let update = |shared| RetentionUpdate { shared, acknowledged: None };
        telling.spawn(tasks, shared, |shared| &shared.histories.rounds, update);
    }
}

struct RetentionUpdate {
    shared: Arc<Shared>,
    /// The list that the data service took last, and the time.
    acknowledged: Option<(Retention, Instant)>,
}

impl Work for RetentionUpdate {
    type Error = String;

    async fn round(&mut self) -> Result<Next, String> {
        let registrations = self.shared.registrations.load_full();
        let (Some(client), Some(registrations)) = (self.shared.histories.data_service(), registrations)
        else {
            return Ok(Next::Period);
        };
        let retention = registrations.retention();
        let known =
            self.acknowledged.take().filter(|(known, at)| *known == retention && at.elapsed() < REPAIR_EVERY);
        if known.is_none() {
            tell(client, &retention).await?;
        }
        let at = known.map_or_else(Instant::now, |(_, at)| at);
        self.acknowledged = Some((retention, at));
        Ok(Next::At(at + REPAIR_EVERY))
    }
}

async fn tell(client: &Client, retention: &Retention) -> Result<(), String> {
    match timeout(TELL_WITHIN, client.set_retention(retention)).await {
        Ok(Ok(())) => Ok(()),
        Ok(Err(error)) => Err(error.to_string()),
        Err(_) => Err(format!("no answer within {TELL_WITHIN:?}")),
    }
}

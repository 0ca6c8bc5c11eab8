//! Events as messages of RabbitMQ.

use std::sync::Arc;

use estimand_api::task_event::TaskEvent;
use estimand_broker::Properties;
use estimand_broker::amqp::{AmqpError, AmqpUrl, Connection, PERSISTENT};
use futures_util::future::try_join_all;

/// The exchange, of the kind `topic`; a routing key is `task.` and the state in lower case.
const EXCHANGE: &str = "estimand.tasks";
const CONTENT_TYPE: &str = "application/json";

/// A connection to a broker that has the exchange.
pub async fn open(url: &AmqpUrl) -> Result<Connection, AmqpError> {
    let connection = Connection::open(url).await?;
    connection.topic(EXCHANGE).await?;
    tracing::info!(broker = %url, "what happens to tasks is published");
    Ok(connection)
}

/// Sends events in order, and waits until the broker has confirmed all of them.
pub async fn publish(connection: &Connection, events: &[Arc<TaskEvent>]) -> Result<(), AmqpError> {
    let mut confirmations = Vec::with_capacity(events.len());
    for event in events {
        let body = serde_json::to_vec(&**event).unwrap_or_default();
        let key = format!("task.{}", event.to.to_lowercase());
        let sent = connection.send(EXCHANGE, &key, &body, properties(event)).await?;
        confirmations.push(sent.confirmed());
    }
    try_join_all(confirmations).await.map(drop)
}

/// The task's number and the revision tell a message that comes again from a new one.
fn properties(event: &TaskEvent) -> Properties {
    let seconds = u64::try_from(event.at.timestamp()).unwrap_or(0);
    Properties::default()
        .with_content_type(CONTENT_TYPE.into())
        .with_delivery_mode(PERSISTENT)
        .with_message_id(format!("{}.{}", event.number, event.revision).into())
        .with_timestamp(seconds)
        .with_app_id("estimand".into())
}

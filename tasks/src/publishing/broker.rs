//! A connection to RabbitMQ, over which events are published with confirmations.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use estimand_api::task_event::TaskEvent;
use futures_util::future::try_join_all;
use lapin::options::{BasicPublishOptions, ConfirmSelectOptions, ExchangeDeclareOptions};
use lapin::types::FieldTable;
use lapin::uri::AMQPUri;
use lapin::{BasicProperties, Channel, Confirmation, ConnectionProperties, ExchangeKind};

/// The exchange, of the kind `topic`; a routing key is `task.` and the state in lower case.
const EXCHANGE: &str = "estimand.tasks";
const CONTENT_TYPE: &str = "application/json";
/// The broker keeps such a message through a start anew, where a durable queue has it.
const PERSISTENT: u8 = 2;

/// The address of a broker. Shown without its password.
#[derive(Clone, PartialEq, Eq)]
pub struct BrokerUrl {
    uri: AMQPUri,
    shown: String,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "the address of RabbitMQ is not valid: {0}; expected amqp://USER:PASSWORD@HOST[:PORT][/VHOST], or amqps://…"
)]
pub struct BrokerUrlError(String);

impl FromStr for BrokerUrl {
    type Err = BrokerUrlError;

    fn from_str(text: &str) -> Result<Self, BrokerUrlError> {
        let uri: AMQPUri = text.parse().map_err(BrokerUrlError)?;
        let shown =
            format!("{}:{}/{}", uri.authority.host, uri.authority.port, uri.vhost.trim_start_matches('/'));
        Ok(BrokerUrl { uri, shown })
    }
}

impl fmt::Display for BrokerUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.shown)
    }
}

impl fmt::Debug for BrokerUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "BrokerUrl({})", self.shown)
    }
}

/// Why the broker does not have the events.
#[derive(Debug, thiserror::Error)]
pub enum BrokerError {
    #[error("RabbitMQ at {url} cannot be connected to: {source}")]
    Connect { url: String, source: lapin::Error },
    #[error("RabbitMQ did not take an event: {0}")]
    Publish(#[from] lapin::Error),
    #[error("RabbitMQ refused revision {0}")]
    Refused(u64),
}

pub struct Connection {
    /// Ends with this.
    _connection: lapin::Connection,
    channel: Channel,
}

impl Connection {
    pub async fn open(url: &BrokerUrl) -> Result<Self, BrokerError> {
        let opened = async {
            let connection =
                lapin::Connection::connect_uri(url.uri.clone(), ConnectionProperties::default()).await?;
            let channel = connection.create_channel().await?;
            let options = ExchangeDeclareOptions { durable: true, ..ExchangeDeclareOptions::default() };
            channel
                .exchange_declare(EXCHANGE.into(), ExchangeKind::Topic, options, FieldTable::default())
                .await?;
            channel.confirm_select(ConfirmSelectOptions::default()).await?;
            Ok(Connection { _connection: connection, channel })
        };
        let connection =
            opened.await.map_err(|source| BrokerError::Connect { url: url.to_string(), source })?;
        tracing::info!(broker = %url, "what happens to tasks is published");
        Ok(connection)
    }

    /// Sends events in order, and waits until the broker has confirmed all of them.
    pub async fn publish(&self, events: &[Arc<TaskEvent>]) -> Result<(), BrokerError> {
        let mut confirmations = Vec::with_capacity(events.len());
        for event in events {
            let body = serde_json::to_vec(&**event).unwrap_or_default();
            let key = format!("task.{}", event.to.to_lowercase());
            let options = BasicPublishOptions::default();
            let sent = self
                .channel
                .basic_publish(EXCHANGE.into(), key.into(), options, &body, properties(event))
                .await?;
            confirmations.push(async move {
                match sent.await? {
                    Confirmation::Nack(_) => Err(BrokerError::Refused(event.revision)),
                    Confirmation::Ack(_) | Confirmation::NotRequested => Ok(()),
                }
            });
        }
        try_join_all(confirmations).await.map(drop)
    }
}

/// The task's number and the revision tell a message that comes again from a new one.
fn properties(event: &TaskEvent) -> BasicProperties {
    let seconds = u64::try_from(event.at.timestamp()).unwrap_or(0);
    BasicProperties::default()
        .with_content_type(CONTENT_TYPE.into())
        .with_delivery_mode(PERSISTENT)
        .with_message_id(format!("{}.{}", event.number, event.revision).into())
        .with_timestamp(seconds)
        .with_app_id("estimand".into())
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_shown_without_its_password() {
        let url: BrokerUrl = "amqp://me:hidden@broker.example:5673/plane".parse().unwrap();
        assert_eq!(
            format!("{url} {url:?}"),
            "broker.example:5673/plane BrokerUrl(broker.example:5673/plane)"
        );
        let error = "http://me:hidden@broker".parse::<BrokerUrl>().unwrap_err().to_string();
        assert!(error.contains("expected amqp://") && !error.contains("hidden"), "{error}");
    }
}

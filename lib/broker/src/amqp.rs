//! A connection to RabbitMQ, over which messages are published with confirmations.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use lapin::options::{
    BasicGetOptions, BasicPublishOptions, BasicRejectOptions, ConfirmSelectOptions, ExchangeDeclareOptions,
    QueueDeclareOptions, QueueDeleteOptions,
};
use lapin::protocol::{AMQPErrorKind, AMQPSoftError};
use lapin::types::{AMQPValue, FieldTable};
use lapin::uri::AMQPUri;
use lapin::{
    BasicProperties, Channel, Confirmation, ConnectionProperties, ErrorKind, ExchangeKind, PublisherConfirm,
};
use serde_json::{Map, Value};

/// The broker keeps such a message through a start anew, where a durable queue has it.
pub const PERSISTENT: u8 = 2;
/// The exchange that routes to the queue that is named by the routing key.
const QUEUES: &str = "";

/// The address of a broker. Shown without its password.
#[derive(Clone)]
pub struct AmqpUrl {
    uri: Arc<AMQPUri>,
    shown: String,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "the address of RabbitMQ is not valid: {0}; expected amqp://USER:PASSWORD@HOST[:PORT][/VHOST], or amqps://…"
)]
pub struct AmqpUrlError(String);

impl FromStr for AmqpUrl {
    type Err = AmqpUrlError;

    fn from_str(text: &str) -> Result<Self, AmqpUrlError> {
        let uri: AMQPUri = text.parse().map_err(AmqpUrlError)?;
        let shown =
            format!("{}:{}/{}", uri.authority.host, uri.authority.port, uri.vhost.trim_start_matches('/'));
        Ok(AmqpUrl { uri: Arc::new(uri), shown })
    }
}

impl fmt::Display for AmqpUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.shown)
    }
}

impl fmt::Debug for AmqpUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "AmqpUrl({})", self.shown)
    }
}

impl PartialEq for AmqpUrl {
    fn eq(&self, other: &Self) -> bool {
        self.uri == other.uri
    }
}

impl Eq for AmqpUrl {}

/// Why the broker does not have a message.
#[derive(Debug, thiserror::Error)]
pub enum AmqpError {
    #[error("RabbitMQ at {url} cannot be connected to: {source}")]
    Connect { url: String, source: lapin::Error },
    #[error("RabbitMQ did not do it: {0}")]
    Broken(#[from] lapin::Error),
    #[error("RabbitMQ refused the message")]
    Refused,
    #[error("there is no queue `{0}`")]
    Unroutable(String),
}

pub struct Connection {
    connection: lapin::Connection,
    channel: Channel,
}

/// A message that is under way.
pub struct Sent(PublisherConfirm);

impl Sent {
    /// Waits until the broker has the message.
    pub async fn confirmed(self) -> Result<(), AmqpError> {
        match self.0.await? {
            Confirmation::Ack(None) | Confirmation::NotRequested => Ok(()),
            Confirmation::Ack(Some(back)) => Err(AmqpError::Unroutable(back.routing_key.to_string())),
            Confirmation::Nack(_) => Err(AmqpError::Refused),
        }
    }
}

impl Connection {
    pub async fn open(url: &AmqpUrl) -> Result<Self, AmqpError> {
        let opened = async {
            let uri = AMQPUri::clone(&url.uri);
            let connection = lapin::Connection::connect_uri(uri, ConnectionProperties::default()).await?;
            let channel = connection.create_channel().await?;
            channel.confirm_select(ConfirmSelectOptions::default()).await?;
            Ok(Connection { connection, channel })
        };
        opened.await.map_err(|source| AmqpError::Connect { url: url.to_string(), source })
    }

    /// Makes a durable exchange of the kind `topic`, if there is none.
    pub async fn topic(&self, exchange: &str) -> Result<(), AmqpError> {
        let options = ExchangeDeclareOptions { durable: true, ..ExchangeDeclareOptions::default() };
        let made = self.channel.exchange_declare(
            exchange.into(),
            ExchangeKind::Topic,
            options,
            FieldTable::default(),
        );
        Ok(made.await?)
    }

    /// Makes a durable queue, if there is none. One that is there is left as it is, however it was made.
    pub async fn queue(&self, queue: &str) -> Result<(), AmqpError> {
        // A channel is closed by the answer that there is none.
        let channel = self.connection.create_channel().await?;
        let look = QueueDeclareOptions { passive: true, ..QueueDeclareOptions::default() };
        match channel.queue_declare(queue.into(), look, FieldTable::default()).await {
            Ok(_) => Ok(channel.close(200, "done".into()).await?),
            Err(error) if is_missing(&error) => {
                let options = QueueDeclareOptions { durable: true, ..QueueDeclareOptions::default() };
                self.channel.queue_declare(queue.into(), options, FieldTable::default()).await?;
                Ok(())
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Makes a durable queue of one's own, if there is none, which the broker removes when nobody has asked for it for so many
    /// milliseconds; says whether a message is in it.
    pub async fn own_queue(&self, queue: &str, expires: u32) -> Result<bool, AmqpError> {
        let options = QueueDeclareOptions { durable: true, ..QueueDeclareOptions::default() };
        let mut arguments = FieldTable::default();
        arguments.insert("x-expires".into(), AMQPValue::LongLongInt(i64::from(expires)));
        let queue = self.channel.queue_declare(queue.into(), options, arguments).await?;
        Ok(queue.message_count() > 0)
    }

    pub async fn delete_queue(&self, queue: &str) -> Result<(), AmqpError> {
        self.channel.queue_delete(queue.into(), QueueDeleteOptions::default()).await?;
        Ok(())
    }

    /// The properties of the first message of a queue, which stays where it is as long as this connection has it.
    pub async fn look_into(&self, queue: &str) -> Result<Option<BasicProperties>, AmqpError> {
        let got = self.channel.basic_get(queue.into(), BasicGetOptions::default()).await?;
        let Some(got) = got else { return Ok(None) };
        let properties = got.delivery.properties.clone();
        got.delivery.acker.reject(BasicRejectOptions { requeue: true }).await?;
        Ok(Some(properties))
    }

    /// Sends a message; it is there when it is confirmed.
    pub async fn send(
        &self,
        exchange: &str,
        key: &str,
        body: &[u8],
        properties: BasicProperties,
    ) -> Result<Sent, AmqpError> {
        let options = BasicPublishOptions::default();
        let sent = self.channel.basic_publish(exchange.into(), key.into(), options, body, properties);
        Ok(Sent(sent.await?))
    }

    /// Sends a message to a queue by its name. One that is not there is an error.
    pub async fn send_to_queue(
        &self,
        queue: &str,
        body: &[u8],
        properties: BasicProperties,
    ) -> Result<Sent, AmqpError> {
        let options = BasicPublishOptions { mandatory: true, ..BasicPublishOptions::default() };
        let sent = self.channel.basic_publish(QUEUES.into(), queue.into(), options, body, properties);
        Ok(Sent(sent.await?))
    }

    /// Sends a message that goes nowhere: a broker that holds publishers back does not confirm it.
    pub async fn probe(&self) -> Result<(), AmqpError> {
        let (options, key) = (BasicPublishOptions::default(), "estimand.probe.no-such-queue");
        let sent =
            self.channel.basic_publish(QUEUES.into(), key.into(), options, b"", BasicProperties::default());
        Sent(sent.await?).confirmed().await
    }
}

fn is_missing(error: &lapin::Error) -> bool {
    matches!(error.kind(), ErrorKind::ProtocolError(error)
        if *error.kind() == AMQPErrorKind::Soft(AMQPSoftError::NOTFOUND))
}

/// Headers of a message.
pub fn headers(map: &Map<String, Value>) -> FieldTable {
    let mut table = FieldTable::default();
    for (name, value) in map {
        table.insert(name.as_str().into(), header(value));
    }
    table
}

fn header(value: &Value) -> AMQPValue {
    match value {
        Value::Null => AMQPValue::Void,
        Value::Bool(value) => AMQPValue::Boolean(*value),
        Value::Number(number) => match number.as_i64() {
            Some(number) => AMQPValue::LongLongInt(number),
            None => AMQPValue::Double(number.as_f64().unwrap_or_default()),
        },
        Value::String(text) => AMQPValue::LongString(text.as_str().into()),
        Value::Array(values) => {
            AMQPValue::FieldArray(values.iter().map(header).collect::<Vec<AMQPValue>>().into())
        }
        Value::Object(map) => AMQPValue::FieldTable(headers(map)),
    }
}

/// The whole number in a header, if there is one.
pub fn whole(properties: &BasicProperties, name: &str) -> Option<i64> {
    match properties.headers().as_ref()?.inner().get(name)? {
        AMQPValue::LongLongInt(number) => Some(*number),
        AMQPValue::LongInt(number) => Some(i64::from(*number)),
        _ => None,
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_address_is_shown_without_its_password() {
        let url: AmqpUrl = "amqp://me:hidden@broker.example:5673/plane".parse().unwrap();
        assert_eq!(format!("{url} {url:?}"), "broker.example:5673/plane AmqpUrl(broker.example:5673/plane)");
        let error = "http://me:hidden@broker".parse::<AmqpUrl>().unwrap_err().to_string();
        assert!(error.contains("expected amqp://") && !error.contains("hidden"), "{error}");
    }

    #[test]
    fn headers_keep_their_types() {
        let map = json!({ "n": null, "i": -3, "f": 1.5, "t": "é", "a": [1, null], "o": { "b": true } });
        let table = headers(map.as_object().unwrap());
        let of = |name: &str| table.inner().get(name).unwrap().clone();
        assert_eq!(
            (of("n"), of("i"), of("f")),
            (AMQPValue::Void, AMQPValue::LongLongInt(-3), AMQPValue::Double(1.5))
        );
        assert_eq!(of("t"), AMQPValue::LongString("é".into()));
        assert!(matches!(of("a"), AMQPValue::FieldArray(array) if array.as_slice().len() == 2));
        let properties = BasicProperties::default().with_headers(table);
        assert_eq!((whole(&properties, "i"), whole(&properties, "t")), (Some(-3), None));
    }
}

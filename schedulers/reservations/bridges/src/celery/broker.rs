//! Where starts are published: RabbitMQ or Redis, each with a mark for a message that it has.

use std::collections::HashSet;
use std::fmt;
use std::str::FromStr;

use estimand_broker::amqp::{self, AmqpError, AmqpUrl, AmqpUrlError};
use estimand_broker::redis::{self, RedisError, RedisUrl, RedisUrlError};

use super::message::{Message, PUBLISHED_AT};

/// How long a mark stays after the end of its reservation, in seconds.
const MARKED_FOR: u64 = 86_400;

/// The address of a broker that Celery's workers read. Shown without its password.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CeleryBroker {
    RabbitMq(AmqpUrl),
    Redis(Box<RedisUrl>),
}

#[derive(Debug, thiserror::Error)]
pub enum CeleryBrokerError {
    #[error("the broker of Celery: expected amqp://…, amqps://…, redis://… or rediss://…")]
    Scheme,
    #[error(transparent)]
    Amqp(#[from] AmqpUrlError),
    #[error(transparent)]
    Redis(#[from] RedisUrlError),
}

impl CeleryBroker {
    /// It tells whether a message is still in its queue. RabbitMQ gives messages in their order only.
    pub fn tells_unread(&self) -> bool {
        matches!(self, CeleryBroker::Redis(_))
    }
}

impl FromStr for CeleryBroker {
    type Err = CeleryBrokerError;

    fn from_str(text: &str) -> Result<Self, CeleryBrokerError> {
        match text.split_once("://").map(|(scheme, _)| scheme) {
            Some("amqp" | "amqps") => Ok(CeleryBroker::RabbitMq(text.parse()?)),
            Some("redis" | "rediss") => Ok(CeleryBroker::Redis(Box::new(text.parse()?))),
            _ => Err(CeleryBrokerError::Scheme),
        }
    }
}

impl fmt::Display for CeleryBroker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CeleryBroker::RabbitMq(url) => write!(f, "RabbitMQ at {url}"),
            CeleryBroker::Redis(url) => write!(f, "Redis at {url}"),
        }
    }
}

#[derive(Debug, thiserror::Error)]
pub enum BrokerError {
    #[error(transparent)]
    Amqp(#[from] AmqpError),
    #[error(transparent)]
    Redis(#[from] RedisError),
}

/// A connection to the broker. After a failure it is not used again.
pub enum Link {
    RabbitMq {
        connection: Box<amqp::Connection>,
        /// Queues that were found or made.
        queues: HashSet<String>,
    },
    Redis(redis::Connection),
}

impl Link {
    pub async fn open(broker: &CeleryBroker) -> Result<Link, BrokerError> {
        Ok(match broker {
            CeleryBroker::RabbitMq(url) => {
                let connection = Box::new(amqp::Connection::open(url).await?);
                Link::RabbitMq { connection, queues: HashSet::new() }
            }
            CeleryBroker::Redis(url) => Link::Redis(redis::Connection::open(url).await?),
        })
    }

    /// Looks for the mark of a message; if there is none, everything is made ready for it. Returns when it was published, in
    /// microseconds since 1970, if it was. `seconds`: how long its reservation lasts; the same each time, as the broker refuses
    /// a queue that is to be another one than before.
    pub async fn prepare(&mut self, id: &str, queue: &str, seconds: u64) -> Result<Option<i64>, BrokerError> {
        let mark = mark(id);
        match self {
            Link::RabbitMq { connection, queues } => {
                let milliseconds = seconds.saturating_add(MARKED_FOR).saturating_mul(1_000);
                let milliseconds = u32::try_from(milliseconds).unwrap_or(u32::MAX);
                if connection.own_queue(&mark, milliseconds).await?
                    && let Some(properties) = connection.look_into(&mark).await?
                {
                    return Ok(Some(amqp::whole(&properties, PUBLISHED_AT).unwrap_or_default()));
                }
                // A broker that holds publishers back would take the message when nobody counts on it any more.
                connection.probe().await?;
                if !queues.contains(queue) {
                    connection.queue(queue).await?;
                    queues.insert(queue.to_owned());
                }
                Ok(None)
            }
            Link::Redis(connection) => {
                let known = connection.mark(&mark).await?;
                Ok(known.map(|known| known.parse().unwrap_or_default()))
            }
        }
    }

    /// Publishes a message that everything is ready for, and waits until the broker has it. Returns when it was published.
    /// `seconds`: as before.
    pub async fn publish(&self, message: &Message, at: i64, seconds: u64) -> Result<i64, BrokerError> {
        let mark = mark(&message.id);
        match self {
            Link::RabbitMq { connection, .. } => {
                let sent = connection.send_to_queue(&message.queue, &message.body, message.properties(&mark));
                sent.await?.confirmed().await?;
                Ok(at)
            }
            Link::Redis(connection) => {
                let (seconds, says) = (seconds.saturating_add(MARKED_FOR), at.to_string());
                let known =
                    connection.push_once(&mark, &says, seconds, &message.queue, &message.envelope()).await?;
                Ok(known.and_then(|known| known.parse().ok()).unwrap_or(at))
            }
        }
    }

    /// A message is still in its queue: no worker has taken it.
    pub async fn is_unread(&self, message: &Message) -> Result<bool, BrokerError> {
        match self {
            Link::RabbitMq { .. } => Ok(false),
            Link::Redis(connection) => Ok(connection.has(&message.queue, &message.envelope()).await?),
        }
    }

    /// The start is stored here, so its mark is not needed any more. A mark in Redis goes by itself.
    pub async fn forget(&self, id: &str) -> Result<(), BrokerError> {
        if let Link::RabbitMq { connection, .. } = self {
            connection.delete_queue(&mark(id)).await?;
        }
        Ok(())
    }
}

/// The name of a mark: of a queue in RabbitMQ, of a key in Redis.
fn mark(id: &str) -> String {
    format!("estimand.start.{id}")
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_broker_is_known_by_its_scheme_and_shown_without_its_password() {
        for (url, shown) in [
            ("amqp://me:hidden@mq:5673/v", "RabbitMQ at mq:5673/v"),
            ("redis://:hidden@cache:6380/2", "Redis at cache:6380/2"),
        ] {
            let broker: CeleryBroker = url.parse().unwrap();
            assert_eq!(broker.to_string(), shown);
            assert!(!format!("{broker:?}").contains("hidden"));
        }
        let error = "http://me:hidden@mq".parse::<CeleryBroker>().unwrap_err().to_string();
        assert!(error.contains("amqp://") && error.contains("redis://") && !error.contains("hidden"));
    }
}

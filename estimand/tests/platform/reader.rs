//! A reader of everything that is published to RabbitMQ.

use std::collections::BTreeMap;

use estimand_testkit::rabbitmq::RabbitMq;
use estimand_testkit::wait::{self, PATIENCE};
use lapin::options::{
    BasicAckOptions, BasicGetOptions, ExchangeDeclareOptions, QueueBindOptions, QueueDeclareOptions,
};
use lapin::types::FieldTable;
use lapin::{Channel, Connection, ConnectionProperties, ExchangeKind};
use serde_json::Value;
use tokio::runtime::Runtime;

const EXCHANGE: &str = "estimand.tasks";
const QUEUE: &str = "everything";

/// A reader of everything that is published, whose durable queue takes messages while it is away.
pub struct Reader {
    runtime: Runtime,
    channel: Channel,
    _connection: Connection,
}

impl Reader {
    pub fn open(mq: &RabbitMq) -> Self {
        let runtime = Runtime::new().unwrap();
        let (connection, channel) = runtime.block_on(async {
            let connection = Connection::connect(&mq.url(), ConnectionProperties::default()).await.unwrap();
            let channel = connection.create_channel().await.unwrap();
            let durable = ExchangeDeclareOptions { durable: true, ..ExchangeDeclareOptions::default() };
            let none = FieldTable::default;
            channel.exchange_declare(EXCHANGE.into(), ExchangeKind::Topic, durable, none()).await.unwrap();
            let durable = QueueDeclareOptions { durable: true, ..QueueDeclareOptions::default() };
            channel.queue_declare(QUEUE.into(), durable, none()).await.unwrap();
            let bind = QueueBindOptions::default();
            channel.queue_bind(QUEUE.into(), EXCHANGE.into(), "task.#".into(), bind, none()).await.unwrap();
            (connection, channel)
        });
        Reader { runtime, channel, _connection: connection }
    }

    /// The next message: its id, its routing key and its body.
    fn next(&self) -> Option<(String, String, Value)> {
        self.runtime.block_on(async {
            let got = self.channel.basic_get(QUEUE.into(), BasicGetOptions::default()).await.unwrap()?;
            got.acker.ack(BasicAckOptions::default()).await.unwrap();
            let id = got.properties.message_id().as_ref().unwrap().to_string();
            assert_eq!(*got.properties.delivery_mode(), Some(2));
            Some((id, got.routing_key.to_string(), serde_json::from_slice(&got.data).unwrap()))
        })
    }

    /// Reads on until an event of a task is there.
    pub fn read_until(&self, known: &mut BTreeMap<u64, Value>, id: &str, to: &str) {
        wait::until(PATIENCE, &format!("{id} {to} to be published"), || {
            while let Some((message, key, event)) = self.next() {
                let revision = event["revision"].as_u64().unwrap();
                assert_eq!(message, format!("{}.{revision}", event["number"]));
                assert_eq!(key, format!("task.{}", event["to"].as_str().unwrap().to_lowercase()));
                // One that comes again is the same.
                let before = known.insert(revision, event.clone());
                assert!(before.is_none_or(|before| before == event));
            }
            known.values().any(|event| event["id"] == id && event["to"] == to).then_some(())
        });
    }
}

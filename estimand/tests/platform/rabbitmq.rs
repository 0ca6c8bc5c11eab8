//! Each event of the feed reaches RabbitMQ at least once, whoever of both is killed; what comes twice has the same id.

use std::collections::BTreeMap;

use estimand_testkit::process;
use estimand_testkit::rabbitmq::RabbitMq;
use estimand_testkit::wait::{self, PATIENCE};
use lapin::options::{
    BasicAckOptions, BasicGetOptions, ExchangeDeclareOptions, QueueBindOptions, QueueDeclareOptions,
};
use lapin::types::FieldTable;
use lapin::{Channel, Connection, ConnectionProperties, ExchangeKind};
use serde_json::{Value, json};
use tokio::runtime::Runtime;

const EXCHANGE: &str = "estimand.tasks";
const QUEUE: &str = "everything";

/// A reader of everything that is published, whose durable queue takes messages while it is away.
struct Reader {
    runtime: Runtime,
    channel: Channel,
    _connection: Connection,
}

impl Reader {
    fn open(mq: &RabbitMq) -> Self {
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
    fn read_until(&self, known: &mut BTreeMap<u64, Value>, id: &str, to: &str) {
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

#[test]
fn everything_is_published_whoever_is_killed() {
    let mq = RabbitMq::start();
    let reader = Reader::open(&mq);
    let folder = tempfile::tempdir().unwrap();
    let args = ["up", "--no-agent", "--defaults", "none"];
    let mut services =
        process::estimand().args(args).env("ESTIMAND_PUBLISH", mq.url()).port(process::free_port()).start();
    let agent = ["agent", "--server", services.base_url(), "--node", "n1", "--allow-all"];
    let _agent = process::estimand().args(agent).data_dir(folder.path()).without_http().start();
    let http = services.http();
    let submit = |document: &Value| drop(http.send_json("POST", "/api/tasks", document).expect_status(201));
    let cancel = |id: &str| {
        drop(http.request("POST", &format!("/api/tasks/{id}/cancel"), &[], b"").expect_status(200));
    };
    let waits = |id: &str| json!({ "id": id, "command": "/bin/true", "resources": { "gpu": 1 } });

    let mut known = BTreeMap::new();
    submit(&json!({ "id": "runs", "command": ["/bin/sh", "-c", "exit 7"], "labels": { "study": "x" } }));
    reader.read_until(&mut known, "runs", "FAILED");
    let result = known.values().next_back().unwrap();
    assert_eq!((&result["ending"], &result["labels"]), (&json!({ "exit": 7 }), &json!({ "study": "x" })));

    // The broker is away: nobody waits for it, and nothing is lost.
    mq.kill9();
    submit(&waits("meanwhile"));
    cancel("meanwhile");
    let figures = || http.get("/metrics").expect_status(200).text().to_owned();
    wait::until(PATIENCE, "the breaker to open", || {
        figures().contains("estimand_calls_breaker{service=\"rabbitmq\",state=\"open\"} 1").then_some(())
    });
    // Neither is anything if the service is killed then.
    services.kill9();
    services.restart_on_same_port();
    submit(&waits("after"));
    mq.start_again();
    let reader = Reader::open(&mq);
    cancel("after");
    reader.read_until(&mut known, "after", "CANCELLED");

    // A service that is killed while it publishes goes on where it was.
    for round in 0..3 {
        let id = format!("round{round}");
        submit(&waits(&id));
        services.kill9();
        services.restart_on_same_port();
        cancel(&id);
    }
    reader.read_until(&mut known, "round2", "CANCELLED");
    let page = http.get("/api/tasks/events?after=0&limit=1000").expect_status(200).json();
    let all: Vec<Value> = page["events"].as_array().unwrap().clone();
    assert_eq!(known.into_values().collect::<Vec<Value>>(), all, "every event, as the feed has it");
    wait::until(PATIENCE, "nothing to be left", || {
        figures().contains("estimand_task_events_unpublished 0\n").then_some(())
    });
}

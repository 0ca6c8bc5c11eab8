//! The message of a start: protocol 2 of Celery, and the envelope in which kombu puts it into a Redis. Pure.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use estimand_api::instant::to_rfc3339;
use estimand_api::task_stop::end_grace;
use estimand_reservation_service::Start;
use serde_json::{Map, Value, json};

const CONTENT_TYPE: &str = "application/json";
const CONTENT_ENCODING: &str = "utf-8";
const PERSISTENT: u8 = 2;
/// Arguments as they are shown to people are cut off here.
const SHOWN_CHARS: usize = 512;
/// The header that says when it was published, in microseconds since 1970.
pub const PUBLISHED_AT: &str = "estimand_published_at";

/// A start that is about to be published.
#[derive(Debug, Clone, PartialEq)]
pub struct Message {
    pub id: String,
    pub queue: String,
    pub headers: Map<String, Value>,
    pub body: Vec<u8>,
}

impl Message {
    /// The message as it is published at an instant, in microseconds since 1970, before its time is over.
    pub fn new(start: &Start, at: i64) -> Message {
        let Start { id, begin, end, .. } = start;
        let celery = &start.celery;
        let body = json!([
            celery.args,
            celery.kwargs,
            { "callbacks": null, "errbacks": null, "chain": null, "chord": null },
        ]);
        let headers = json!({
            "lang": "py",
            "task": celery.task,
            "id": id,
            "shadow": null,
            // A message with an instant to come would be given to another worker when it is not confirmed for long.
            "eta": null,
            // A worker that has no time for it before its end leaves it.
            "expires": instant(*end),
            "group": null,
            "group_index": null,
            "retries": 0,
            "timelimit": limits(end.saturating_sub(at)),
            "root_id": id,
            "parent_id": null,
            "argsrepr": shown(&json!(celery.args)),
            "kwargsrepr": shown(&json!(celery.kwargs)),
            "origin": "estimand",
            "ignore_result": false,
            "estimand": {
                "reservation": start.reservation,
                "promise": start.promise,
                "start": instant(*begin),
                "end": instant(*end),
                "nodes": start.nodes,
            },
            PUBLISHED_AT: at,
        });
        let headers = if let Value::Object(headers) = headers { headers } else { Map::new() };
        let body = body.to_string().into_bytes();
        Message { id: id.clone(), queue: celery.queue.clone(), headers, body }
    }

    /// Its properties for RabbitMQ, with a second queue that gets it.
    pub fn properties(&self, mark: &str) -> estimand_broker::Properties {
        let mut headers = self.headers.clone();
        // Read by the broker, and not seen by who gets the message.
        headers.insert("BCC".to_owned(), json!([mark]));
        estimand_broker::Properties::default()
            .with_content_type(CONTENT_TYPE.into())
            .with_content_encoding(CONTENT_ENCODING.into())
            .with_delivery_mode(PERSISTENT)
            .with_correlation_id(self.id.as_str().into())
            .with_message_id(self.id.as_str().into())
            .with_reply_to(self.id.as_str().into())
            .with_headers(estimand_broker::amqp::headers(&headers))
    }

    /// As it stands in a list of Redis.
    pub fn envelope(&self) -> Vec<u8> {
        let envelope = json!({
            "body": STANDARD.encode(&self.body),
            "content-encoding": CONTENT_ENCODING,
            "content-type": CONTENT_TYPE,
            "headers": self.headers,
            "properties": {
                "correlation_id": self.id,
                "reply_to": self.id,
                "delivery_mode": PERSISTENT,
                "delivery_info": { "exchange": "", "routing_key": self.queue },
                "priority": 0,
                "body_encoding": "base64",
                "delivery_tag": self.id,
            },
        });
        envelope.to_string().into_bytes()
    }
}

/// The hard limit and the soft one, in seconds, of so many microseconds that are left. Celery's documents say them the other
/// way round; its code has them so.
fn limits(left: i64) -> [f64; 2] {
    let left = Duration::from_micros(u64::try_from(left).unwrap_or(0).max(1_000));
    let seconds = |limit: Duration| limit.as_millis().max(1) as f64 / 1_000.0;
    [seconds(left), seconds(left - end_grace(left))]
}

/// With an offset in place of a `Z`, which not every version reads.
fn instant(micros: i64) -> String {
    let text = to_rfc3339(micros);
    text.strip_suffix('Z').map_or_else(|| text.clone(), |text| format!("{text}+00:00"))
}

fn shown(value: &Value) -> String {
    let text = value.to_string();
    match text.char_indices().nth(SHOWN_CHARS) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::sync::Arc;

    use estimand_reservation_service::CeleryStart;

    use super::*;

    const START: i64 = 1_800_000_000_000_000;

    fn message(at: i64) -> Message {
        let kwargs = json!({ "epochs": 2.5 });
        let celery = CeleryStart {
            task: "app.train".to_owned(),
            args: vec![json!(1), json!("é")],
            kwargs: kwargs.as_object().unwrap().clone(),
            queue: "gpu".to_owned(),
        };
        let start = Start {
            id: "5f3b".to_owned(),
            number: 7,
            reservation: "r7".to_owned(),
            promise: "r7.a".to_owned(),
            begin: START,
            end: START + 60_000_000,
            nodes: Vec::new(),
            resources: vec!["cpu".to_owned()],
            celery: Arc::new(celery),
            waits_for: None,
            published_at: None,
        };
        Message::new(&start, at)
    }

    #[test]
    fn a_message_is_what_celery_reads() {
        let at = START + 250_000;
        let message = message(at);
        let header = |name: &str| message.headers[name].clone();
        assert_eq!((header("task"), header("eta")), (json!("app.train"), Value::Null));
        assert_eq!((header("id"), header("root_id")), (json!(message.id), json!(message.id)));
        assert_eq!(header("timelimit"), json!([59.75, 53.775]), "hard, then soft");
        assert_eq!(header("estimand")["promise"], "r7.a");
        assert_eq!(header("expires"), "2027-01-15T08:01:00.000000+00:00");
        assert_eq!(header(PUBLISHED_AT), at);
        let body: Value = serde_json::from_slice(&message.body).unwrap();
        assert_eq!((&body[0], &body[1]), (&json!([1, "é"]), &json!({ "epochs": 2.5 })));
        assert_eq!(body[2].as_object().unwrap().len(), 4);
        let envelope: Value = serde_json::from_slice(&message.envelope()).unwrap();
        let inner = STANDARD.decode(envelope["body"].as_str().unwrap()).unwrap();
        assert_eq!(inner, message.body);
        assert_eq!(envelope["properties"]["delivery_info"]["routing_key"], "gpu");
        assert_eq!(message.headers, envelope["headers"].as_object().unwrap().clone());
    }

    #[test]
    fn limits_follow_from_the_time_that_is_left() {
        assert_eq!(limits(7_200_000_000), [7_200.0, 7_190.0]);
        assert_eq!(limits(1_000_000), [1.0, 0.9]);
        assert_eq!(limits(-5), [0.001, 0.001]);
    }
}

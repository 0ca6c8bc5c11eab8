//! The end of a task that is told to end: how long it has, and whether it is to save its work first.

use std::ops::RangeInclusive;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::duration::Span;
use crate::fields::Fields;
use crate::json::{kind_of, parse_object};
use crate::problem::Problem;
use crate::schema::optional;

/// Between SIGUSR1, by which a task hears that it is to save its work, and SIGTERM, where nobody says a grace.
pub const CHECKPOINT_GRACE: Duration = Duration::from_secs(10);
/// Between SIGTERM and SIGKILL, where nobody says a grace.
pub const STOP_GRACE: Duration = Duration::from_secs(10);
/// The longest grace of a task that makes room for a promise: the ledger's notice is this and the time for telling.
pub const ROOM_GRACE: Duration = CHECKPOINT_GRACE.saturating_add(STOP_GRACE);
/// The longest grace that a request may give.
pub const MAX_GRACE: Duration = Duration::from_secs(86_400);
/// The graces that a document may give for a checkpoint.
pub const CHECKPOINT_GRACES: RangeInclusive<Duration> = Duration::from_secs(1)..=MAX_GRACE;
/// The form of such a grace, for messages.
pub const CHECKPOINT_GRACE_EXPECTED: &str = "a duration from 1s to 1d, such as \"90s\"";

const GRACE_EXPECTED: &str = "seconds, or a duration up to 1d such as \"30s\"; 0 to kill it at once";
const CHECKPOINT_EXPECTED: &str = "true or false";

/// The largest body of a request to stop a task.
pub const MAX_STOP_BYTES: usize = 4 * 1024;

/// Between SIGTERM and SIGKILL, or a soft limit and a hard one, at the end of a window: a tenth of it, at most [`STOP_GRACE`].
/// The hard one is the window's end.
pub fn end_grace(window: Duration) -> Duration {
    (window / 10).min(STOP_GRACE)
}

/// The order to end an attempt. An agent of the version before knows no grace, and has its own: 10 s, or 20 s with a checkpoint.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct StopOrder {
    /// The milliseconds until it is killed, from when its node hears of it; 0: at once. Absent: 10 s, with a checkpoint 20 s.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub grace_ms: Option<u64>,
    /// It is asked to save its work first, by SIGUSR1.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub checkpoint: bool,
}

impl StopOrder {
    /// An end with a checkpoint, and with the grace that its document gives.
    pub fn with_checkpoint(grace: Option<Duration>) -> StopOrder {
        StopOrder { grace_ms: grace.map(millis), checkpoint: true }
    }

    pub fn is_plain(&self) -> bool {
        *self == StopOrder::default()
    }

    /// The time from the order until SIGTERM.
    pub fn terminates_after(&self) -> Duration {
        match (self.checkpoint, self.grace_ms) {
            (false, _) => Duration::ZERO,
            (true, None) => CHECKPOINT_GRACE,
            (true, Some(_)) => self.kills_after().saturating_sub(end_grace(self.kills_after())),
        }
    }

    /// The time from the order until SIGKILL.
    pub fn kills_after(&self) -> Duration {
        match (self.checkpoint, self.grace_ms) {
            (_, Some(millis)) => Duration::from_millis(millis),
            (true, None) => ROOM_GRACE,
            (false, None) => STOP_GRACE,
        }
    }

    /// The same with no longer a grace than this.
    #[must_use]
    pub fn within(self, longest: Duration) -> StopOrder {
        if self.kills_after() > longest {
            StopOrder { grace_ms: Some(millis(longest)), ..self }
        } else {
            self
        }
    }

    /// The one of two orders after which a task is gone sooner: a later order makes no end come later.
    #[must_use]
    pub fn sooner(self, other: StopOrder) -> StopOrder {
        if other.kills_after() < self.kills_after() { other } else { self }
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// The body of a request to cancel a task, or to send it back to the queue; without a body all is as it is by default.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct StopRequest {
    pub grace: Option<Span>,
    pub checkpoint: Option<bool>,
}

crate::described!(
    StopRequest,
    [Span],
    json!({
        "type": "object",
        "additionalProperties": false,
        "properties": {
            "grace": optional::<Span>("How long it has from when its node hears of it until it is killed, at most a day; 0: it is killed at once. By default 10 s; with a checkpoint what its document says as `checkpointGrace`, else 20 s. Agents of the version before know only 10 s and 20 s"),
            "checkpoint": { "type": ["boolean", "null"], "description": "It gets SIGUSR1 first, so that it can save its work; SIGTERM when a tenth of the grace is left, at most 10 s" },
        },
        "examples": [{ "grace": "30s", "checkpoint": true }],
    })
);

impl StopRequest {
    /// Reads a body; an empty one says nothing.
    pub fn parse(body: &[u8]) -> Result<StopRequest, Problem> {
        if body.is_empty() {
            return Ok(StopRequest::default());
        }
        let mut fields = Fields::new(parse_object(body)?);
        let request = StopRequest {
            grace: fields.optional("grace", GRACE_EXPECTED, grace),
            checkpoint: fields.optional("checkpoint", CHECKPOINT_EXPECTED, |value| {
                value.as_bool().ok_or_else(|| format!("is {}, not true or false", kind_of(value)))
            }),
        };
        if request.checkpoint == Some(true) && request.grace.is_some_and(Span::is_zero) {
            fields
                .error("grace", "is 0, which kills it at once, and `checkpoint` wants its work saved first")
                .expected = Some("a grace in which it can save its work, such as \"30s\"".to_owned());
        }
        fields.end_body()?;
        Ok(request)
    }

    /// The body that is sent; none if it says nothing, which is what a service of the version before takes.
    pub fn to_body(self) -> Option<Value> {
        let fields = [
            ("grace", self.grace.map(|grace| json!(grace))),
            ("checkpoint", self.checkpoint.map(Value::Bool)),
        ];
        let given: serde_json::Map<String, Value> =
            fields.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))).collect();
        (!given.is_empty()).then_some(Value::Object(given))
    }

    /// The order for a task whose document gives such a grace to a checkpoint. A grace of 0 leaves no time for one.
    pub fn order(self, checkpoint_by_default: bool, checkpoint_grace: Option<Span>) -> StopOrder {
        let is_at_once = self.grace.is_some_and(Span::is_zero);
        let checkpoint = self.checkpoint.unwrap_or(checkpoint_by_default && !is_at_once);
        let grace = self.grace.or(checkpoint_grace.filter(|_| checkpoint));
        StopOrder { grace_ms: grace.map(|grace| millis(grace.as_std())), checkpoint }
    }
}

fn grace(value: &Value) -> Result<Span, String> {
    let span: Span = match value {
        Value::Number(_) | Value::String(_) => {
            serde_json::from_value(value.clone()).map_err(|error| error.to_string())?
        }
        other => return Err(format!("is {}, not a duration", kind_of(other))),
    };
    if span.as_std() > MAX_GRACE { Err("is longer than a day".to_owned()) } else { Ok(span) }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::schema::testing;

    const SECOND: Duration = Duration::from_secs(1);

    fn order(grace_ms: impl Into<Option<u64>>, checkpoint: bool) -> StopOrder {
        StopOrder { grace_ms: grace_ms.into(), checkpoint }
    }

    #[test]
    fn a_task_is_asked_to_end_inside_its_window() {
        for (window, grace) in [(1_000, 100), (8_000, 800), (100_000, 10_000), (7_200_000, 10_000), (0, 0)] {
            let window = Duration::from_millis(window);
            assert_eq!(end_grace(window), Duration::from_millis(grace), "{window:?}");
        }
    }

    #[test]
    fn an_order_says_when_each_signal_comes() {
        let check = |order: StopOrder, terminate: f64, kill: f64| {
            let seconds = [order.terminates_after(), order.kills_after()].map(|span| span.as_secs_f64());
            assert_eq!(seconds, [terminate, kill], "{order:?}");
        };
        check(order(None, false), 0.0, 10.0);
        check(order(None, true), 10.0, 20.0);
        check(order(0, false), 0.0, 0.0);
        check(order(30_000, false), 0.0, 30.0);
        check(order(30_000, true), 27.0, 30.0);
        check(order(600_000, true), 590.0, 600.0);
    }

    #[test]
    fn a_later_order_makes_no_end_come_later() {
        let long = order(60_000, true);
        assert_eq!(long.sooner(order(None, false)), order(None, false));
        assert_eq!(order(None, false).sooner(long), order(None, false));
        assert_eq!(long.within(20 * SECOND), order(20_000, true));
        assert_eq!(order(None, true).within(20 * SECOND), order(None, true));
        assert_eq!(order(None, true).within(5 * SECOND), order(5_000, true));
    }

    #[test]
    fn an_order_of_the_version_before_says_nothing() {
        let read: StopOrder = serde_json::from_str("{}").unwrap();
        assert!(read.is_plain());
        assert_eq!(serde_json::to_string(&read).unwrap(), "{}");
    }

    fn parse(body: &Value) -> Result<StopRequest, Problem> {
        StopRequest::parse(body.to_string().as_bytes())
    }

    #[test]
    fn a_request_says_what_is_wrong_with_it() {
        assert_eq!(StopRequest::parse(b"").unwrap(), StopRequest::default());
        let request = parse(&json!({ "grace": "1m", "checkpoint": true })).unwrap();
        assert_eq!(request.order(false, None), order(60_000, true));
        assert_eq!(parse(&json!({ "grace": 2.5 })).unwrap().order(false, None), order(2_500, false));
        for (wrong, part) in [
            (json!({ "grace": "2d" }), "longer than a day"),
            (json!({ "grace": -1 }), "a duration up to 1d"),
            (json!({ "grace": true }), "not a duration"),
            (json!({ "checkpoint": "yes" }), "not true or false"),
            (json!({ "grace": 0, "checkpoint": true }), "kills it at once"),
            (json!({ "garce": 1 }), "`grace`?"),
        ] {
            let said = serde_json::to_string(&parse(&wrong).unwrap_err()).unwrap();
            assert!(said.contains(part), "{wrong}: {said}");
        }
        let unknown = parse(&json!({ "?": 1 })).unwrap_err();
        let schema = testing::json(<StopRequest as utoipa::PartialSchema>::schema());
        assert_eq!(testing::known(&unknown), testing::fields(&schema));
    }

    #[test]
    fn what_a_request_leaves_out_is_its_tasks_own() {
        let own = Some(Span::from_micros(90_000_000).unwrap());
        let at_once = parse(&json!({ "grace": 0 })).unwrap();
        let plain = StopRequest::default();
        assert_eq!(plain.order(false, own), order(None, false));
        assert_eq!(plain.order(true, own), order(90_000, true));
        assert_eq!(plain.order(true, None), order(None, true));
        assert_eq!(at_once.order(true, own), order(0, false));
        assert_eq!(parse(&json!({ "checkpoint": true })).unwrap().order(false, own), order(90_000, true));
        for request in [at_once, parse(&json!({ "grace": "30s", "checkpoint": false })).unwrap()] {
            assert_eq!(parse(&request.to_body().unwrap()).unwrap(), request);
        }
        assert_eq!(plain.to_body(), None);
    }
}

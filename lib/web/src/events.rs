//! Server-sent events: how a stream of them begins, is written, stays alive and is resumed.
//!
//! The id of an event is a revision, so that a client which lost its connection says what it has seen.

use std::convert::Infallible;
use std::io::Write as _;
use std::time::Duration;

use actix_web::http::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderName, HeaderValue};
use actix_web::{HttpRequest, HttpResponse};
use bytes::Bytes;
use estimand_api::problem::{FieldError, Problem};
use estimand_runtime::Stop;
use futures_util::Stream;
use tokio::time::timeout;

/// A comment is sent after so long without an event, so that both ends notice a dead connection.
pub const KEEP_ALIVE: Duration = Duration::from_secs(15);
/// That comment.
pub const STILL_HERE: Bytes = Bytes::from_static(b": still here\n\n");

/// So long a watch is held until there is something to begin with: an `EventSource` that is refused never comes again.
const HELD_WITHIN: Duration = Duration::from_secs(30);
/// Tells a proxy to hand on each event as it comes; nginx would gather the stream until it has some KiB of it.
static BUFFERING: HeaderName = HeaderName::from_static("x-accel-buffering");

/// The revision after which a client goes on; none if it begins.
pub fn last_event_id(req: &HttpRequest) -> Result<Option<u64>, Problem> {
    let Some(id) = req.headers().get("Last-Event-ID") else { return Ok(None) };
    let text = id.to_str().unwrap_or("?");
    // A browser that has seen no id yet sends none or an empty one.
    if text.is_empty() {
        return Ok(None);
    }
    text.parse().map(Some).map_err(|_| {
        let error = FieldError::new("Last-Event-ID", "is not the id of an event").given(text);
        Problem::invalid_field(error.expected("a revision, as the events carry it"))
    })
}

/// Holds a watch while its service loads what it begins with, within bounds. If nothing is there then, it is refused as
/// other requests are.
pub async fn held(stop: &Stop, loading: impl Future<Output = ()>) {
    tokio::select! {
        biased;
        _ = timeout(HELD_WITHIN, loading) => {}
        () = stop.requested() => {}
    }
}

/// The content type of a stream of events.
pub(crate) const EVENT_STREAM: &str = "text/event-stream";

/// The response whose body is a stream of events. No cache keeps it, and no proxy gathers it.
pub fn event_stream(events: impl Stream<Item = Bytes> + 'static) -> HttpResponse {
    use futures_util::StreamExt as _;
    HttpResponse::Ok()
        .insert_header((CONTENT_TYPE, HeaderValue::from_static(EVENT_STREAM)))
        .insert_header((CACHE_CONTROL, HeaderValue::from_static("no-store")))
        .insert_header((BUFFERING.clone(), HeaderValue::from_static("no")))
        .streaming(Box::pin(events.map(Ok::<Bytes, Infallible>)))
}

/// Appends an event, whose data are on one line.
pub fn push_event(out: &mut Vec<u8>, name: &str, data: &[u8], id: u64) {
    // Writing to memory cannot fail.
    let _ = write!(out, "event: {name}\ndata: ");
    out.extend_from_slice(data);
    out.push(b'\n');
    push_event_id(out, id);
}

/// Ends an event with its id.
pub fn push_event_id(out: &mut Vec<u8>, id: u64) {
    let _ = write!(out, "id: {id}\n\n");
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::future::{pending, ready};

    use actix_web::test::TestRequest;
    use estimand_runtime::stop;
    use tokio::time::Instant;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_watch_is_held_until_there_is_something_or_the_service_stops_but_not_for_ever() {
        let (trigger, stop) = stop::pair();
        let began = Instant::now();
        held(&stop, ready(())).await;
        assert_eq!(began.elapsed(), Duration::ZERO);
        held(&stop, pending()).await;
        assert_eq!(began.elapsed(), HELD_WITHIN);
        trigger.request();
        held(&stop, pending()).await;
        assert_eq!(began.elapsed(), HELD_WITHIN);
    }

    #[test]
    fn a_stream_of_events_is_neither_kept_nor_gathered_on_its_way() {
        let response = event_stream(futures_util::stream::empty());
        for (name, value) in [("cache-control", "no-store"), ("x-accel-buffering", "no")] {
            assert_eq!(response.headers().get(name).unwrap(), value);
        }
    }

    #[test]
    fn an_event_is_a_block_of_lines() {
        let mut out = Vec::new();
        push_event(&mut out, "change", b"{}", 7);
        assert_eq!(out, b"event: change\ndata: {}\nid: 7\n\n");
    }

    #[test]
    fn a_client_says_what_it_has_seen() {
        let seen = |id: &'static str| {
            last_event_id(&TestRequest::default().insert_header(("Last-Event-ID", id)).to_http_request())
        };
        assert_eq!(seen("12").unwrap(), Some(12));
        assert_eq!(seen("").unwrap(), None);
        assert_eq!(seen("soon").unwrap_err().errors[0].field, "Last-Event-ID");
    }
}

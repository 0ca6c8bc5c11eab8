//! Reads the body of a request: under a limit, within a deadline, and without copying a body that arrives in
//! one piece.
//!
//! The announced length is checked before anything is read. A body that its sender compressed by gzip is inflated, under
//! the same limit, wherever one is taken. A body that is too large, cut short, broken, too slow, encoded in another way, or
//! for which there is no room beside all others, is rejected with a problem; nothing of it reaches the handler.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use actix_web::dev::Payload;
use actix_web::error::PayloadError;
use actix_web::http::header::{CONTENT_LENGTH, TRANSFER_ENCODING};
use actix_web::web::{self, ThinData};
use actix_web::{FromRequest, HttpRequest};
use bytes::{Bytes, BytesMut};
use estimand_api::problem::{FieldError, Problem, kind};
use futures_util::StreamExt;
use futures_util::future::LocalBoxFuture;

use crate::body_budget::{BodyBudget, BodyReservation};
use crate::body_encoding::{inflate, is_compressed};
use crate::failure::Failure;
use crate::shares::User;

/// How long the whole body may take to arrive.
pub const BODY_DEADLINE: Duration = Duration::from_secs(10);

/// The largest body that is parsed by the worker which received it.
const PARSED_AT_ONCE: usize = 128 * 1024;

/// The body of a request, at most `LIMIT` bytes, as an argument of a handler.
///
/// A handler that reads bodies at a high rate calls [`read_body`] itself and saves an allocation.
#[derive(Debug)]
pub struct Body<const LIMIT: usize>(
    pub Bytes,
    /// Given back with the body.
    Option<BodyReservation>,
);

impl<const LIMIT: usize> Body<LIMIT> {
    /// Parses the body; a large one beside the workers, which answer other requests meanwhile. It takes its part of the
    /// budget until it is parsed, also if the caller has hung up by then.
    pub async fn parse<T: Send + 'static>(
        self,
        parse: impl FnOnce(&[u8]) -> Result<T, Problem> + Send + 'static,
    ) -> Result<T, Problem> {
        match self.0.len() {
            0..=PARSED_AT_ONCE => parse(&self.0),
            _ => web::block(move || parse(&self.0)).await.map_err(|_| Problem::internal())?,
        }
    }

    /// The same of a body that takes more memory once it is parsed; `size` says how much before that. This takes its part of
    /// the budget, too.
    pub async fn parse_within<T: Send + 'static>(
        mut self,
        req: &HttpRequest,
        size: impl FnOnce(&[u8]) -> Result<usize, Problem> + Send + 'static,
        parse: impl FnOnce(&[u8]) -> Result<T, Problem> + Send + 'static,
    ) -> Result<T, Problem> {
        let mut reservation = self.1.take().or_else(|| reservation(req));
        self.parse(move |body| {
            let bytes = body.len() + size(body)?;
            reservation.as_mut().map_or(Ok(()), |reservation| reservation.grow_to(bytes))?;
            parse(body)
        })
        .await
    }
}

impl<const LIMIT: usize> Body<LIMIT> {
    /// The body as it was before its sender compressed it; the limit is that of what comes out. It is inflated beside the
    /// workers, because a small body may grow a thousandfold.
    async fn inflated(self, req: &HttpRequest) -> Result<Self, Problem> {
        if !is_compressed(req, "`gzip`, or none")? {
            return Ok(self);
        }
        let mut reservation = reservation(req);
        web::block(move || {
            let inflated = inflate(&self.0, LIMIT, reservation.as_mut())?;
            Ok(Body(inflated, reservation))
        })
        .await
        .map_err(|_| Problem::internal())?
    }
}

/// Refuses a body where none is taken: its sender believes that it counts.
pub(crate) fn refuse_any(req: &HttpRequest) -> Result<(), Problem> {
    if is_chunked(req) || announced(req).is_some_and(|length| length > 0) {
        let error = FieldError::new("body", "is there, and this request takes none");
        return Err(Problem::invalid_field(error.expected("a request without a body")));
    }
    Ok(())
}

fn reservation(req: &HttpRequest) -> Option<BodyReservation> {
    req.app_data::<ThinData<BodyBudget>>().map(|budget| budget.reserve(User::of(req)))
}

impl<const LIMIT: usize> FromRequest for Body<LIMIT> {
    type Error = Failure;
    type Future = LocalBoxFuture<'static, Result<Self, Failure>>;

    fn from_request(req: &HttpRequest, payload: &mut Payload) -> Self::Future {
        let (req, payload) = (req.clone(), payload.take());
        Box::pin(async move { Ok(read_body(&req, payload).await?) })
    }
}

/// Reads the body, and inflates it if it is compressed. Takes [`actix_web::web::Payload::into_inner`].
pub async fn read_body<const LIMIT: usize>(
    req: &HttpRequest,
    payload: Payload,
) -> Result<Body<LIMIT>, Problem> {
    let announced = announced(req);
    if announced.is_some_and(|length| length > LIMIT as u64) {
        return Err(too_large(LIMIT));
    }
    let mut reading = pin!(collect(req, payload));
    // Most bodies have arrived together with the head: the timer is started for the others only.
    let body = match poll_fn(|cx| Poll::Ready(reading.as_mut().poll(cx))).await {
        Poll::Ready(body) => body?,
        Poll::Pending => {
            tokio::time::timeout(BODY_DEADLINE, reading).await.unwrap_or_else(|_| Err(too_slow()))?
        }
    };
    body.inflated(req).await
}

pub(crate) fn is_chunked(req: &HttpRequest) -> bool {
    req.headers().contains_key(TRANSFER_ENCODING)
}

/// The length that the client announces. The HTTP library has rejected lengths that are no number.
pub(crate) fn announced(req: &HttpRequest) -> Option<u64> {
    req.headers().get(CONTENT_LENGTH)?.to_str().ok()?.trim().parse().ok()
}

async fn collect<const LIMIT: usize>(
    req: &HttpRequest,
    mut payload: Payload,
) -> Result<Body<LIMIT>, Problem> {
    let Some(first) = next(&mut payload).await? else {
        return Ok(Body(Bytes::new(), None));
    };
    if first.len() > LIMIT {
        return Err(too_large(LIMIT));
    }
    let Some(second) = next(&mut payload).await? else {
        return Ok(Body(first, None));
    };
    let mut reservation = reservation(req);
    // The buffer grows as bytes arrive: the announced length may never arrive, and would take room meanwhile.
    let (mut kept, mut length) = (Ok(BytesMut::new()), 0);
    let (mut piece, mut following) = (Some(first), Some(second));
    while let Some(bytes) = piece {
        length += bytes.len();
        if length > LIMIT {
            return Err(too_large(LIMIT));
        }
        kept = kept.and_then(|mut body| {
            body.extend_from_slice(&bytes);
            reservation.as_mut().map_or(Ok(()), |reservation| reservation.grow_to(body.capacity()))?;
            Ok(body)
        });
        if kept.is_err() {
            // The rest is read all the same, and not kept: a connection that is closed before its end may take the
            // answer with it.
            reservation = None;
        }
        piece = match following.take() {
            Some(second) => Some(second),
            None => next(&mut payload).await?,
        };
    }
    Ok(Body(kept?.freeze(), reservation))
}

async fn next(payload: &mut Payload) -> Result<Option<Bytes>, Problem> {
    payload.next().await.transpose().map_err(|error| broken(&error))
}

pub(crate) fn too_large(limit: usize) -> Problem {
    Problem::too_large(format!("the body is larger than {limit} bytes, the limit here"))
}

fn too_slow() -> Problem {
    let seconds = BODY_DEADLINE.as_secs();
    Problem::new(
        408,
        kind::TIMEOUT,
        "The request took too long to arrive",
        format!("the body did not arrive within {seconds} seconds; nothing was done"),
    )
}

fn broken(error: &PayloadError) -> Problem {
    let message = match error {
        PayloadError::Incomplete(_) => "cut short: the connection ended before the announced length",
        PayloadError::EncodingCorrupted => "its content encoding is broken",
        _ => "could not be read to its end",
    };
    Problem::invalid_field(FieldError::new("body", message))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::cell::Cell;
    use std::rc::Rc;

    use super::*;
    use actix_web::test::TestRequest;
    use futures_util::{Stream, stream};

    fn streamed(stream: impl Stream<Item = Result<Bytes, PayloadError>> + 'static) -> Payload {
        Payload::Stream { payload: Box::pin(stream) }
    }

    fn pieces(pieces: Vec<Result<Bytes, PayloadError>>) -> Payload {
        streamed(stream::iter(pieces))
    }

    async fn read<const LIMIT: usize>(payload: Payload) -> Result<Bytes, Problem> {
        read_body::<LIMIT>(&TestRequest::post().to_http_request(), payload).await.map(|body| body.0)
    }

    #[tokio::test]
    async fn one_piece_is_not_copied() {
        let sent = Bytes::from(vec![7; 1000]);
        let body = read::<1000>(pieces(vec![Ok(sent.clone())])).await.unwrap();
        assert_eq!(body.as_ptr(), sent.as_ptr());
    }

    #[actix_web::test]
    async fn a_large_body_is_parsed_beside_the_worker() {
        let here = std::thread::current().id();
        let thread_of = |body: Bytes| async {
            let req = TestRequest::post().to_http_request();
            let body = read_body::<1_000_000>(&req, pieces(vec![Ok(body)])).await.unwrap();
            body.parse(|_| Ok(std::thread::current().id())).await.unwrap()
        };
        assert_eq!(thread_of(Bytes::from(vec![7; PARSED_AT_ONCE])).await, here);
        assert_ne!(thread_of(Bytes::from(vec![7; PARSED_AT_ONCE + 1])).await, here);
    }

    #[tokio::test]
    async fn several_pieces_are_joined_up_to_the_limit() {
        let three = || pieces(vec![Ok("ab".into()), Ok("cd".into()), Ok("ef".into())]);
        assert_eq!(read::<6>(three()).await.unwrap(), "abcdef");
        let problem = read::<5>(three()).await.unwrap_err();
        assert_eq!(problem.status, 413);
        assert!(problem.detail.contains("5 bytes"), "{}", problem.detail);
    }

    #[tokio::test]
    async fn the_announced_length_is_refused_before_reading() {
        let req = TestRequest::post().insert_header((CONTENT_LENGTH, "11")).to_http_request();
        let payload = streamed(stream::poll_fn(|_| panic!("the body was read")));
        assert_eq!(read_body::<10>(&req, payload).await.unwrap_err().status, 413);
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_that_never_comes_is_given_up() {
        let payload = streamed(stream::pending());
        let started = tokio::time::Instant::now();
        assert_eq!(read::<10>(payload).await.unwrap_err().status, 408);
        assert_eq!(started.elapsed(), BODY_DEADLINE);
    }

    #[tokio::test]
    async fn a_body_beyond_the_budget_is_read_to_its_end_and_refused() {
        let budget = BodyBudget::default();
        let mut all = budget.reserve(None);
        all.grow_to(usize::MAX / 2).unwrap_err();
        let req = TestRequest::post().app_data(ThinData(budget)).to_http_request();
        let count = Rc::new(Cell::new(0));
        let counted = Rc::clone(&count);
        let sent = stream::iter(["ab", "cd", "ef"]).map(move |piece| {
            counted.set(counted.get() + 1);
            Ok(piece.into())
        });
        assert_eq!(read_body::<10>(&req, streamed(sent)).await.unwrap_err().status, 503);
        assert_eq!(count.get(), 3);
    }

    #[tokio::test]
    async fn a_body_that_grows_by_parsing_takes_its_part_of_the_budget() {
        let budget = BodyBudget::default();
        let req = TestRequest::post().app_data(ThinData(budget.clone())).to_http_request();
        let body = || read_body::<10>(&req, pieces(vec![Ok("ab".into())]));
        let while_parsing = budget.clone();
        let parsed = body().await.unwrap().parse_within(
            &req,
            |_| Ok(1 << 20),
            move |_| Ok(while_parsing.reserve(None).grow_to(32 << 20).is_err()),
        );
        assert!(parsed.await.unwrap());
        budget.reserve(None).grow_to(32 << 20).unwrap();
        let too_much = body().await.unwrap().parse_within(&req, |_| Ok(1 << 30), |_| Ok(()));
        assert_eq!(too_much.await.unwrap_err().status, 503);
    }

    #[tokio::test]
    async fn a_body_cut_short_is_refused() {
        let payload = pieces(vec![Ok("ab".into()), Err(PayloadError::Incomplete(None))]);
        let problem = read::<10>(payload).await.unwrap_err();
        assert_eq!((problem.status, problem.errors[0].field.as_str()), (400, "body"));
    }
}

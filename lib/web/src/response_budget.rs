//! Large responses: sent in slices, and counted while they are on their way.
//!
//! The HTTP library copies what it is given into the buffer of the connection, all at once. In slices it takes the next
//! one when the connection has room again: so bytes that many readers share are in memory once, however slowly they
//! read. The bytes of all large responses together get a fixed budget; those that several share count once. A response
//! that does not fit is refused. A reader that takes nothing gives its part back when its connection is closed.

use std::collections::VecDeque;
use std::collections::hash_map::{Entry, HashMap};
use std::convert::Infallible;
use std::fmt;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use actix_web::body::{BodySize, BoxBody, MessageBody};
use actix_web::web::ThinData;
use actix_web::{HttpRequest, HttpResponse};
use bytes::Bytes;
use estimand_api::problem::Problem;

use crate::failure::Failure;

/// A smaller response is sent as it is.
const LARGE_BYTES: usize = 32 * 1024;
/// Of a smaller piece nobody asks who else is sent it.
const FOLLOWED_BYTES: usize = 1024;
const SLICE_BYTES: usize = 32 * 1024;
/// All large responses together. One alone may be larger, or it could never be read.
const BUDGET_BYTES: usize = 128 * 1024 * 1024;

/// The bytes of all large responses that are on their way; clones are the same.
#[derive(Clone, Default)]
pub struct ResponseBudget(Arc<Mutex<Sending>>);

#[derive(Default)]
struct Sending {
    bytes: usize,
    /// By the address at which they lie: how many responses share them. They stay there for as long as one does.
    shared: HashMap<usize, usize>,
}

/// The bytes of one response; given back when it is dropped.
#[derive(Debug)]
pub struct ResponseReservation {
    budget: ResponseBudget,
    /// Held, so that nothing else comes to lie at their addresses meanwhile.
    large: Vec<Bytes>,
    small: usize,
}

impl fmt::Debug for ResponseBudget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ResponseBudget").field("bytes", &self.sending().bytes).finish_non_exhaustive()
    }
}

impl ResponseBudget {
    fn sending(&self) -> MutexGuard<'_, Sending> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts the pieces of a response until the reservation is dropped.
    pub fn reserve(&self, pieces: &[Bytes]) -> Result<ResponseReservation, Problem> {
        let is_small = pieces.iter().map(Bytes::len).sum::<usize>() <= LARGE_BYTES;
        let counted = if is_small { &[] } else { pieces };
        let (large, small): (Vec<Bytes>, Vec<Bytes>) =
            counted.iter().cloned().partition(|piece| piece.len() > FOLLOWED_BYTES);
        let small: usize = small.iter().map(Bytes::len).sum();
        let mut sending = self.sending();
        let new = large.iter().filter(|piece| !sending.shared.contains_key(&address(piece)));
        let more = small + new.map(Bytes::len).sum::<usize>();
        if more > 0 && sending.bytes > 0 && sending.bytes + more > BUDGET_BYTES {
            let detail =
                "more large responses are on their way than there is room for; ask for less, or again later";
            return Err(Problem::unavailable(detail, 1));
        }
        sending.bytes += small;
        for piece in &large {
            let readers = sending.shared.entry(address(piece)).or_default();
            *readers += 1;
            sending.bytes += if *readers == 1 { piece.len() } else { 0 };
        }
        drop(sending);
        Ok(ResponseReservation { budget: self.clone(), large, small })
    }

    /// The body that consists of these pieces.
    pub fn body(&self, mut pieces: Vec<Bytes>) -> Result<BoxBody, Problem> {
        let size: usize = pieces.iter().map(Bytes::len).sum();
        if let (0..=LARGE_BYTES, [_]) = (size, &*pieces) {
            return Ok(pieces.remove(0).boxed());
        }
        if size <= LARGE_BYTES {
            return Ok(Bytes::from(pieces.concat()).boxed());
        }
        let reservation = self.reserve(&pieces)?;
        Ok(SlicedBody { size, slices: Slices(pieces.into()), _reservation: reservation }.boxed())
    }
}

impl Drop for ResponseReservation {
    fn drop(&mut self) {
        let mut sending = self.budget.sending();
        sending.bytes -= self.small;
        for piece in &self.large {
            let Entry::Occupied(mut readers) = sending.shared.entry(address(piece)) else { continue };
            *readers.get_mut() -= 1;
            if *readers.get() == 0 {
                readers.remove();
                sending.bytes -= piece.len();
            }
        }
    }
}

fn address(piece: &Bytes) -> usize {
    piece.as_ptr().addr()
}

/// Counts the body of a response that was made as a whole, and sends it in slices if it is large.
pub(crate) fn bounded(req: &HttpRequest, response: HttpResponse) -> HttpResponse {
    let large = matches!(response.body().size(), BodySize::Sized(size) if size > LARGE_BYTES as u64);
    let Some(budget) = req.app_data::<ThinData<ResponseBudget>>().filter(|_| large) else { return response };
    let (head, body) = response.into_parts();
    // A body that is no single piece has seen to it itself.
    match body.try_into_bytes() {
        Err(body) => head.set_body(body),
        Ok(bytes) => match budget.body(vec![bytes]) {
            Ok(body) => head.set_body(body),
            Err(problem) => HttpResponse::from_error(Failure::from(problem)),
        },
    }
}

/// Bytes in slices, in order.
#[derive(Debug, Default)]
pub struct Slices(VecDeque<Bytes>);

impl Slices {
    pub fn new(pieces: Vec<Bytes>) -> Self {
        Slices(pieces.into())
    }
}

impl Iterator for Slices {
    type Item = Bytes;

    fn next(&mut self) -> Option<Bytes> {
        while self.0.front()?.is_empty() {
            self.0.pop_front();
        }
        let first = self.0.front_mut()?;
        Some(first.split_to(first.len().min(SLICE_BYTES)))
    }
}

struct SlicedBody {
    size: usize,
    _reservation: ResponseReservation,
    slices: Slices,
}

impl MessageBody for SlicedBody {
    type Error = Infallible;

    fn size(&self) -> BodySize {
        BodySize::Sized(self.size as u64)
    }

    fn poll_next(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Bytes, Infallible>>> {
        Poll::Ready(self.slices.next().map(Ok))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use std::future::poll_fn;

    fn large(bytes: usize) -> Vec<Bytes> {
        vec![Bytes::from(vec![7; bytes])]
    }

    #[tokio::test]
    async fn a_large_response_comes_in_slices_and_whole_and_is_not_copied() {
        let pieces: Vec<Bytes> =
            [1, 1_000_000, 0, 2].map(|length| (0..length).map(|number| number as u8).collect()).into();
        let mut body = Box::pin(ResponseBudget::default().body(pieces.clone()).unwrap());
        assert_eq!(body.size(), BodySize::Sized(1_000_003));
        let (mut got, mut shared) = (Vec::new(), 0);
        let range = pieces[1].as_ptr_range();
        while let Some(slice) = poll_fn(|cx| body.as_mut().poll_next(cx)).await {
            let slice = slice.unwrap();
            assert!(slice.len() <= SLICE_BYTES);
            shared += if range.contains(&slice.as_ptr()) { slice.len() } else { 0 };
            got.extend_from_slice(&slice);
        }
        assert!(got == pieces.concat());
        assert_eq!(shared, 1_000_000);
    }

    #[test]
    fn responses_that_are_on_their_way_are_bounded() {
        let budget = ResponseBudget::default();
        let refused = |bytes| budget.body(large(bytes)).err().map(|problem| problem.status);
        let whole = budget.body(large(2 * BUDGET_BYTES)).unwrap();
        assert_eq!((refused(LARGE_BYTES + 1), refused(LARGE_BYTES)), (Some(503), None));
        drop(whole);
        let half = budget.body(large(BUDGET_BYTES / 2)).unwrap();
        let other = budget.body(large(BUDGET_BYTES / 2)).unwrap();
        assert_eq!(refused(LARGE_BYTES + 1), Some(503));
        drop((half, other));
        assert_eq!(budget.sending().bytes, 0);
    }

    #[test]
    fn bytes_that_responses_share_count_once() {
        let budget = ResponseBudget::default();
        let shared = large(BUDGET_BYTES - 10);
        let readers: Vec<_> = (0..100).map(|_| budget.body(shared.clone()).unwrap()).collect();
        assert_eq!(budget.sending().bytes, BUDGET_BYTES - 10);
        assert_eq!(budget.body(large(LARGE_BYTES + 1)).err().unwrap().status, 503);
        drop(readers);
        let sending = budget.sending();
        assert_eq!((sending.bytes, sending.shared.len()), (0, 0));
    }
}

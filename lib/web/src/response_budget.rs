//! Large responses: sent in slices, and counted while they are on their way.
//!
//! The HTTP library copies what it is given into the buffer of the connection, all at once. In slices it takes the next
//! one when the connection has room again: so bytes that many readers share are in memory once, however slowly they
//! read. The bytes of all large responses together get a fixed budget, of which each user has a share; those that several
//! share count once. A response that does not fit is refused. A reader that takes nothing gives its part back when its
//! connection is closed.

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
use estimand_api::share::ShareKind;

use crate::failure::Failure;
use crate::shares::User;

/// A smaller response is sent as it is.
const LARGE_BYTES: usize = 32 * 1024;
/// Of a smaller piece nobody asks who else is sent it.
const FOLLOWED_BYTES: usize = 1024;
const SLICE_BYTES: usize = 32 * 1024;
/// All large responses together. One alone may be larger, or it could never be read.
pub(crate) const BUDGET_BYTES: usize = 128 * 1024 * 1024;

/// The bytes of all large responses that are on their way; clones are the same.
#[derive(Clone, Default)]
pub struct ResponseBudget(Arc<Mutex<Sending>>);

#[derive(Default)]
struct Sending {
    all: SentPieces,
    /// By name of user.
    of_users: HashMap<String, SentPieces>,
}

/// Pieces of large responses.
#[derive(Default)]
struct SentPieces {
    bytes: usize,
    /// By the address at which they lie: how many responses share them. They stay there for as long as one does.
    shared: HashMap<usize, usize>,
}

impl SentPieces {
    /// The bytes that a response adds.
    fn new_bytes(&self, large: &[Bytes], small: usize) -> usize {
        let new = large.iter().filter(|piece| !self.shared.contains_key(&address(piece)));
        small + new.map(Bytes::len).sum::<usize>()
    }

    fn add(&mut self, large: &[Bytes], small: usize) {
        self.bytes += small;
        for piece in large {
            let readers = self.shared.entry(address(piece)).or_default();
            *readers += 1;
            self.bytes += if *readers == 1 { piece.len() } else { 0 };
        }
    }

    /// Returns the bytes that are free again.
    fn remove(&mut self, large: &[Bytes], small: usize) -> usize {
        let before = self.bytes;
        self.bytes -= small;
        for piece in large {
            let Entry::Occupied(mut readers) = self.shared.entry(address(piece)) else { continue };
            *readers.get_mut() -= 1;
            if *readers.get() == 0 {
                readers.remove();
                self.bytes -= piece.len();
            }
        }
        before - self.bytes
    }
}

/// The bytes of one response; given back when it is dropped.
#[derive(Debug)]
pub struct ResponseReservation {
    budget: ResponseBudget,
    user: Option<User>,
    /// Held, so that nothing else comes to lie at their addresses meanwhile.
    large: Vec<Bytes>,
    small: usize,
}

impl fmt::Debug for ResponseBudget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ResponseBudget").field("bytes", &self.sending().all.bytes).finish_non_exhaustive()
    }
}

impl ResponseBudget {
    fn sending(&self) -> MutexGuard<'_, Sending> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts the pieces of a response, which is a user's if it was asked for with the token of one, until the reservation is
    /// dropped.
    pub fn reserve(&self, user: Option<&User>, pieces: &[Bytes]) -> Result<ResponseReservation, Problem> {
        let is_small = pieces.iter().map(Bytes::len).sum::<usize>() <= LARGE_BYTES;
        let counted = if is_small { &[] } else { pieces };
        let user = user.filter(|_| !is_small);
        let (large, small): (Vec<Bytes>, Vec<Bytes>) =
            counted.iter().cloned().partition(|piece| piece.len() > FOLLOWED_BYTES);
        let small: usize = small.iter().map(Bytes::len).sum();
        let mut sending = self.sending();
        let more = sending.all.new_bytes(&large, small);
        if more > 0 && sending.all.bytes > 0 && sending.all.bytes + more > BUDGET_BYTES {
            let detail =
                "more large responses are on their way than there is room for; ask for less, or again later";
            return Err(Problem::unavailable(detail, 1));
        }
        if let Some(user) = user {
            let own = sending.of_users.get(user.name());
            let more = own.map_or(more, |own| own.new_bytes(&large, small));
            user.take_bytes(ShareKind::Responses, 0, more, BUDGET_BYTES)?;
            sending.of_users.entry(user.name().to_owned()).or_default().add(&large, small);
        }
        sending.all.add(&large, small);
        drop(sending);
        Ok(ResponseReservation { budget: self.clone(), user: user.cloned(), large, small })
    }

    /// The body that consists of these pieces.
    pub fn body(&self, user: Option<&User>, mut pieces: Vec<Bytes>) -> Result<BoxBody, Problem> {
        let size: usize = pieces.iter().map(Bytes::len).sum();
        if let (0..=LARGE_BYTES, [_]) = (size, &*pieces) {
            return Ok(pieces.remove(0).boxed());
        }
        if size <= LARGE_BYTES {
            return Ok(Bytes::from(pieces.concat()).boxed());
        }
        let reservation = self.reserve(user, &pieces)?;
        Ok(SlicedBody { size, slices: Slices(pieces.into()), _reservation: reservation }.boxed())
    }
}

impl Drop for ResponseReservation {
    fn drop(&mut self) {
        let mut sending = self.budget.sending();
        sending.all.remove(&self.large, self.small);
        let Some(user) = &self.user else { return };
        let Some(own) = sending.of_users.get_mut(user.name()) else { return };
        user.give_back(ShareKind::Responses, own.remove(&self.large, self.small));
        if own.shared.is_empty() && own.bytes == 0 {
            sending.of_users.remove(user.name());
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
        Ok(bytes) => match budget.body(User::of(req).as_ref(), vec![bytes]) {
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
        let mut body = Box::pin(ResponseBudget::default().body(None, pieces.clone()).unwrap());
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
        let refused = |bytes| budget.body(None, large(bytes)).err().map(|problem| problem.status);
        let whole = budget.body(None, large(2 * BUDGET_BYTES)).unwrap();
        assert_eq!((refused(LARGE_BYTES + 1), refused(LARGE_BYTES)), (Some(503), None));
        drop(whole);
        let half = budget.body(None, large(BUDGET_BYTES / 2)).unwrap();
        let other = budget.body(None, large(BUDGET_BYTES / 2)).unwrap();
        assert_eq!(refused(LARGE_BYTES + 1), Some(503));
        drop((half, other));
        assert_eq!(budget.sending().all.bytes, 0);
    }

    #[test]
    fn bytes_that_responses_share_count_once() {
        let budget = ResponseBudget::default();
        let shared = large(BUDGET_BYTES - 10);
        let readers: Vec<_> = (0..100).map(|_| budget.body(None, shared.clone()).unwrap()).collect();
        assert_eq!(budget.sending().all.bytes, BUDGET_BYTES - 10);
        assert_eq!(budget.body(None, large(LARGE_BYTES + 1)).err().unwrap().status, 503);
        drop(readers);
        let sending = budget.sending();
        assert_eq!((sending.all.bytes, sending.all.shared.len()), (0, 0));
    }

    #[test]
    fn a_user_who_reads_nothing_leaves_room_for_others() {
        let (budget, alice, bob) = (ResponseBudget::default(), User::from("alice"), User::from("bob"));
        let half = BUDGET_BYTES / 2;
        // A response that is alone may be as large as any, and readers of the same take no more.
        let shared = large(half);
        let held: Vec<_> = (0..9).map(|_| budget.body(Some(&alice), shared.clone()).unwrap()).collect();
        assert_eq!(alice.held(ShareKind::Responses), half as u64);
        let refused = budget.body(Some(&alice), large(LARGE_BYTES + 1)).err().unwrap();
        assert!(
            refused.status == 503 && refused.detail.contains("users set alice --responses"),
            "{refused:?}"
        );
        assert!(budget.body(Some(&alice), large(LARGE_BYTES)).is_ok(), "a small one is not counted");
        let other = budget.body(Some(&bob), large(half)).unwrap();
        drop((held, other));
        assert_eq!((alice.held(ShareKind::Responses), bob.held(ShareKind::Responses)), (0, 0));
        assert!(budget.sending().of_users.is_empty());
    }
}

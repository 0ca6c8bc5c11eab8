//! A long-running request (an endless stream, a read that waits, a large body that comes or goes) ends when the caller's
//! token is revoked or expires.
//!
//! A response that lasts takes a part of its user's share, too ([`live_shares`]), and so does each change.
//!
//! The gate decides when a request comes. A response that is there at once costs nothing here; one that is waited for, each
//! stream and each large body listen to admission as long as they last. A change is cut off only while its body comes:
//! later its outcome would be unknown.

use std::cell::RefCell;
use std::io;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::{Context, Poll};

use actix_web::body::{BodySize, BoxBody, MessageBody};
use actix_web::dev::Payload;
use actix_web::error::PayloadError;
use actix_web::http::Method;
use actix_web::http::header::CONTENT_TYPE;
use actix_web::{HttpRequest, HttpResponse};
use bytes::Bytes;
use estimand_api::problem::Problem;
use futures_util::future::{Either, select};
use futures_util::{FutureExt, Stream};

use crate::admission::{Admission, Revocation};
use crate::body;
use crate::events::EVENT_STREAM;
use crate::failure::Failure;
use crate::live_shares;
use crate::log_text::logged;
use crate::role::Role;
use crate::shares::Permit;

/// A body of that size is sent or has come at once, or nearly so.
const AT_ONCE: u64 = 64 * 1024;

/// The response to an admitted request, for as long as it would be admitted.
pub(crate) async fn until_revoked(
    answering: impl Future<Output = HttpResponse>,
    admission: &dyn Admission,
    role: Role,
    req: &HttpRequest,
) -> HttpResponse {
    if *req.method() != Method::GET {
        return match live_shares::change(req) {
            Ok(_share) => answering.await,
            Err(problem) => HttpResponse::from_error(Failure::from(problem)),
        };
    }
    let mut answering = pin!(answering);
    match futures_util::poll!(answering.as_mut()) {
        Poll::Ready(response) => response,
        Poll::Pending => {
            let _share = match live_shares::poll(req) {
                Ok(share) => share,
                Err(problem) => return HttpResponse::from_error(Failure::from(problem)),
            };
            match select(answering, admission.revocation(role, req)).await {
                Either::Left((response, _)) => response,
                Either::Right((problem, _)) => HttpResponse::from_error(Failure::from(problem)),
            }
        }
    }
}

/// Breaks off the body of a response when its request would be refused: it must not look whole. A stream of events
/// has no end that could be missed, and ends in good order.
pub(crate) fn cut_off(
    admission: &dyn Admission,
    role: Role,
    req: &HttpRequest,
    response: HttpResponse,
) -> HttpResponse {
    let is_long = match response.body().size() {
        BodySize::Stream => true,
        BodySize::Sized(size) => size > AT_ONCE,
        BodySize::None => false,
    };
    if !is_long || *req.method() != Method::GET {
        return response;
    }
    let share = match response.body().size() {
        BodySize::Stream => live_shares::watch(req, &response),
        _ => Ok(None),
    };
    let share = match share {
        Ok(share) => share,
        Err(problem) => return HttpResponse::from_error(Failure::from(problem)),
    };
    let is_of_events = response.headers().get(CONTENT_TYPE).is_some_and(|kind| kind == EVENT_STREAM);
    response.map_body(|_, body| {
        let revocation = admission.revocation(role, req);
        let path = req.path().to_owned();
        BoxBody::new(RevocableBody { body, is_of_events, revocation, path, _share: share })
    })
}

struct RevocableBody {
    body: BoxBody,
    is_of_events: bool,
    revocation: Revocation,
    path: String,
    _share: Option<Permit>,
}

impl MessageBody for RevocableBody {
    type Error = Box<dyn std::error::Error>;

    fn size(&self) -> BodySize {
        self.body.size()
    }

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, Self::Error>>> {
        if let Poll::Ready(problem) = self.revocation.poll_unpin(cx) {
            let (path, reason) = (logged(&self.path), &problem.detail);
            tracing::info!(%path, reason, "an answer breaks off, because it would be refused now");
            let end = (!self.is_of_events).then(|| Err(problem.detail.into()));
            return Poll::Ready(end);
        }
        Pin::new(&mut self.body).poll_next(cx)
    }
}

/// The reason why the body of a request broke off, if it did so here.
#[derive(Debug, Default)]
pub(crate) struct CutBody(Rc<RefCell<Option<Problem>>>);

impl CutBody {
    /// The body of a request, which breaks off when the request would be refused. One that is here at once is left alone.
    pub(crate) fn watch(
        &self,
        payload: Payload,
        admission: &dyn Admission,
        role: Role,
        req: &HttpRequest,
    ) -> Payload {
        let is_long = body::is_chunked(req) || body::announced(req).is_some_and(|length| length > AT_ONCE);
        if !is_long || *req.method() == Method::GET {
            return payload;
        }
        let revocation = admission.revocation(role, req);
        let cut = Rc::clone(&self.0);
        Payload::Stream { payload: Box::pin(RevocablePayload { payload, revocation, cut }) }
    }

    /// The response, or the reason if it failed for want of the rest of its body.
    pub(crate) fn explain(self, response: HttpResponse) -> HttpResponse {
        let failed = response.status().is_client_error() || response.status().is_server_error();
        match self.0.take().filter(|_| failed) {
            Some(problem) => HttpResponse::from_error(Failure::from(problem)),
            None => response,
        }
    }
}

struct RevocablePayload {
    payload: Payload,
    revocation: Revocation,
    cut: Rc<RefCell<Option<Problem>>>,
}

impl Stream for RevocablePayload {
    type Item = Result<Bytes, PayloadError>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if self.cut.borrow().is_none()
            && let Poll::Ready(problem) = self.revocation.poll_unpin(cx)
        {
            *self.cut.borrow_mut() = Some(problem);
        }
        if self.cut.borrow().is_some() {
            let refused = io::Error::from(io::ErrorKind::PermissionDenied);
            return Poll::Ready(Some(Err(PayloadError::Io(refused))));
        }
        Pin::new(&mut self.payload).poll_next(cx)
    }
}

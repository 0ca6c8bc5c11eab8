//! A long-running response (an endless stream, a read that waits) ends when the caller's token is revoked or expires.
//!
//! The gate decides when a request comes. A response that is there at once costs nothing here; one that is waited for,
//! and each stream, listens to admission as long as it lasts. Only GETs are cut off: the outcome of a change that is
//! under way would be unknown.

use std::pin::{Pin, pin};
use std::task::{Context, Poll};

use actix_web::body::{BodySize, BoxBody, MessageBody};
use actix_web::http::Method;
use actix_web::{HttpRequest, HttpResponse};
use bytes::Bytes;
use futures_util::FutureExt;
use futures_util::future::{Either, select};

use crate::admission::{Admission, Revocation};
use crate::failure::Failure;
use crate::log_text::logged;
use crate::role::Role;

/// The response to an admitted request, for as long as it would be admitted.
pub(crate) async fn until_revoked(
    answering: impl Future<Output = HttpResponse>,
    admission: &dyn Admission,
    role: Role,
    req: &HttpRequest,
) -> HttpResponse {
    if *req.method() != Method::GET {
        return answering.await;
    }
    let mut answering = pin!(answering);
    let response = match futures_util::poll!(answering.as_mut()) {
        Poll::Ready(response) => response,
        Poll::Pending => match select(answering, admission.revocation(role, req)).await {
            Either::Left((response, _)) => response,
            Either::Right((problem, _)) => return HttpResponse::from_error(Failure::from(problem)),
        },
    };
    match response.body().size() {
        BodySize::Stream => response.map_body(|_, body| {
            let (revocation, path) = (admission.revocation(role, req), req.path().to_owned());
            BoxBody::new(RevocableBody { body, revocation, path })
        }),
        _ => response,
    }
}

/// A stream that ends early, but in good order.
struct RevocableBody {
    body: BoxBody,
    revocation: Revocation,
    path: String,
}

impl MessageBody for RevocableBody {
    type Error = <BoxBody as MessageBody>::Error;

    fn size(&self) -> BodySize {
        BodySize::Stream
    }

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, Self::Error>>> {
        if let Poll::Ready(problem) = self.revocation.poll_unpin(cx) {
            let (path, reason) = (logged(&self.path), &problem.detail);
            tracing::info!(%path, reason, "a stream ends, because it would be refused now");
            return Poll::Ready(None);
        }
        Pin::new(&mut self.body).poll_next(cx)
    }
}

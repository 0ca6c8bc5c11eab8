//! A response that is still being sent keeps its connection from counting as idle.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use actix_web::body::{BodySize, BoxBody, MessageBody};
use actix_web::{HttpRequest, HttpResponse};
use bytes::Bytes;

use crate::connections::{BusyConnection, Connection};

/// A body of that size leaves with the last step of its handler, or nearly so.
const LEAVES_AT_ONCE: u64 = 32 * 1024;

struct BusyBody {
    body: BoxBody,
    _busy: BusyConnection,
}

/// The request's connection is busy until what this returns is dropped. None in a test without connections.
pub(crate) fn begin(req: &HttpRequest) -> Option<BusyConnection> {
    Some(req.conn_data::<Arc<Connection>>()?.begin())
}

/// Leaves the connection busy until all of the response is sent.
pub(crate) fn keep(busy: Option<BusyConnection>, response: HttpResponse) -> HttpResponse {
    let Some(busy) = busy else { return response };
    match response.body().size() {
        BodySize::None | BodySize::Sized(..=LEAVES_AT_ONCE) => response,
        BodySize::Sized(_) | BodySize::Stream => {
            response.map_body(|_, body| BoxBody::new(BusyBody { body, _busy: busy }))
        }
    }
}

impl MessageBody for BusyBody {
    type Error = <BoxBody as MessageBody>::Error;

    fn size(&self) -> BodySize {
        self.body.size()
    }

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, Self::Error>>> {
        Pin::new(&mut self.body).poll_next(cx)
    }
}

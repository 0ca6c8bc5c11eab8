//! A request that becomes a WebSocket: the bytes that come and go over its connection from then on.

use std::io;

use actix_web::http::header::UPGRADE;
use actix_web::web::Payload;
use actix_web::{HttpRequest, HttpResponse};
use estimand_api::problem::{FieldError, Problem};
use futures_util::TryStreamExt as _;
use tokio::io::{AsyncRead, AsyncWrite, duplex};
use tokio_util::io::{ReaderStream, StreamReader};

/// How many bytes may be on their way out.
const ROOM: usize = 32 * 1024;

/// The bytes that come, and the way for those that go.
pub type Wire = (Box<dyn AsyncRead + Unpin>, Box<dyn AsyncWrite + Unpin>);

/// True if the caller wants a connection of another kind from here on.
pub fn is_upgrade(req: &HttpRequest) -> bool {
    req.headers().contains_key(UPGRADE)
}

/// The response by which a request becomes a WebSocket, and its wire.
pub fn websocket(req: &HttpRequest, payload: Payload) -> Result<(HttpResponse, Wire), Problem> {
    let mut response = actix_http::ws::handshake(req.head()).map_err(|error| {
        let error = FieldError::new("Upgrade", error.to_string());
        Problem::invalid_field(error.expected("the headers of a WebSocket, version 13"))
    })?;
    let (wire, body) = wire(payload);
    let response = response.message_body(body).map_err(|_| Problem::internal())?;
    Ok((response.map_into_boxed_body().into(), wire))
}

/// The wire of a request whose response has this body.
pub fn wire(
    payload: Payload,
) -> (Wire, impl actix_web::body::MessageBody<Error: Into<Box<dyn std::error::Error>>> + 'static) {
    let (out, body) = duplex(ROOM);
    let payload = StreamReader::new(Box::pin(payload.map_err(io::Error::other)));
    let body = actix_web::body::BodyStream::new(ReaderStream::new(body));
    ((Box::new(payload), Box::new(out)), body)
}

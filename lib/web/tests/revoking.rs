//! Requests that last longer than the right to make them.

#![allow(clippy::unwrap_used)]

mod support;

use std::sync::Arc;

use actix_web::body::SizedStream;
use actix_web::web::Payload;
use actix_web::{HttpRequest, HttpResponse, Responder};
use bytes::Bytes;
use estimand_api::problem::{FieldError, Problem};
use estimand_web::{Admission, Failure, Principal, Revocation, Role, Routes};
use futures_util::{StreamExt as _, stream};
use support::{Reply, Running, read_to_end};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::sync::watch;

#[utoipa::path(get, path = "/endless", responses((status = 200, description = "Never ends")))]
async fn endless() -> impl Responder {
    let first = stream::iter([Ok::<_, Failure>(Bytes::from_static(b"first;"))]);
    HttpResponse::Ok().streaming(first.chain(stream::pending()))
}

#[utoipa::path(get, path = "/large", responses((status = 200, description = "More than comes")))]
async fn large() -> impl Responder {
    let first = stream::iter([Ok::<_, Failure>(Bytes::from_static(b"first;"))]);
    HttpResponse::Ok().body(SizedStream::new(1_000_000, first.chain(stream::pending())))
}

#[utoipa::path(put, path = "/large", request_body = Vec<u8>, responses((status = 200, description = "How much came")))]
async fn take(mut body: Payload) -> Result<String, Failure> {
    let mut came = 0;
    while let Some(part) = body.next().await {
        came += part.map_err(|_| Problem::invalid_field(FieldError::new("body", "broke off")))?.len();
    }
    Ok(came.to_string())
}

/// Lets everybody in until it is told otherwise, and all that lasts only until then.
struct Gatekeeper(watch::Receiver<bool>);

impl Admission for Gatekeeper {
    fn check(&self, _: Role, _: &HttpRequest) -> Result<Principal, Problem> {
        Ok(Principal::named("somebody"))
    }

    fn revocation(&self, _: Role, _: &HttpRequest) -> Revocation {
        let mut revoked = self.0.clone();
        Box::pin(async move {
            let _ = revoked.wait_for(|revoked| *revoked).await;
            Problem::new(401, "unauthenticated", "Who are you?", "the token was revoked".to_owned())
        })
    }
}

/// The answer to a request that is sent as far as this before the caller's token is revoked, and then no further.
async fn answered(sent: &str) -> String {
    let (revoke, revoked) = watch::channel(false);
    let routes = |_| {
        Routes::new("test").add(Role::Read, endless, __path_endless).add(Role::Read, large, __path_large).add(
            Role::Write,
            take,
            __path_take,
        )
    };
    let service = Running::serving(routes, Arc::new(Gatekeeper(revoked)));
    let mut connection = service.connect().await;
    connection.write_all(sent.as_bytes()).await.unwrap();
    let mut begun = Vec::new();
    while sent.starts_with("GET") && !String::from_utf8_lossy(&begun).contains("first;") {
        assert_ne!(connection.read_buf(&mut begun).await.unwrap(), 0, "it ended: {begun:?}");
    }
    revoke.send(true).unwrap();
    // An answer to a body that has not come whole leaves the connection open for the rest of it.
    let is_there = |answer: &str| answer.contains("revoked") || answer.ends_with("\r\n\r\n2");
    while sent.starts_with("PUT") && !is_there(&String::from_utf8_lossy(&begun)) {
        assert_ne!(connection.read_buf(&mut begun).await.unwrap(), 0, "it ended: {begun:?}");
    }
    let rest = if sent.starts_with("GET") { read_to_end(&mut connection).await } else { String::new() };
    drop(connection);
    service.stop().await.unwrap();
    String::from_utf8(begun).unwrap() + &rest
}

#[tokio::test]
async fn an_answer_that_is_cut_off_does_not_look_whole() {
    let endless = answered("GET /endless HTTP/1.1\r\nHost: test\r\n\r\n").await;
    assert!(endless.ends_with("\r\n\r\n6\r\nfirst;\r\n"), "{endless}");
    let large = answered("GET /large HTTP/1.1\r\nHost: test\r\n\r\n").await;
    assert!(large.ends_with("\r\n\r\nfirst;"), "{large}");
}

#[tokio::test]
async fn a_change_whose_body_is_still_coming_is_refused() {
    let head = "PUT /large HTTP/1.1\r\nHost: test\r\nConnection: close\r\n";
    for begun in ["Content-Length: 1000000\r\n\r\nxxx", "Transfer-Encoding: chunked\r\n\r\n3\r\nxxx\r\n"] {
        let reply = Reply::parse(&answered(&format!("{head}{begun}")).await);
        assert_eq!(reply.status, 401, "{reply:?}");
    }
    // A body that has come has its outcome.
    let reply = Reply::parse(&answered(&format!("{head}Content-Length: 2\r\n\r\nxy")).await);
    assert_eq!((reply.status, reply.body.as_str()), (200, "2"), "{reply:?}");
}

//! Responses in gzip, for callers that ask for it.
//!
//! A response of more than a few KiB, and each stream, is compressed piece by piece while it is sent: a piece is flushed
//! when it is there, so an event of a stream waits for no other one. Large pieces are compressed beside the workers. An
//! encoder takes memory for as long as its response is sent, so there are not many at a time; further responses are sent
//! as they are. A tag stays that of the content, and is a weak one, because the bytes are others.

use std::future::poll_fn;
use std::io::{self, Write as _};
use std::pin::Pin;
use std::sync::Arc;

use actix_web::body::{BodySize, BodyStream, BoxBody, MessageBody};
use actix_web::http::header::{
    ACCEPT_ENCODING, ACCEPT_RANGES, CONTENT_ENCODING, CONTENT_TYPE, ETAG, HeaderMap, HeaderValue, VARY,
};
use actix_web::http::{Method, StatusCode};
use actix_web::web::{self, ThinData};
use actix_web::{HttpRequest, HttpResponse};
use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use futures_util::stream::unfold;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::failure::Foreign;

/// A smaller response is sent as it is.
const SMALL_BYTES: u64 = 4 * 1024;
/// The largest piece that is compressed by the worker which sends it.
const COMPRESSED_AT_ONCE: usize = 4 * 1024;
/// An encoder takes some 300 KiB.
const MAX_ENCODERS: usize = 128;

type BodyError = Box<dyn std::error::Error>;

/// The encoders of a site; clones are the same.
#[derive(Debug, Clone)]
pub(crate) struct Encoders(Arc<Semaphore>);

impl Default for Encoders {
    fn default() -> Self {
        Encoders(Arc::new(Semaphore::new(MAX_ENCODERS)))
    }
}

/// Compresses a response if that is worth it and its caller asks for it.
pub(crate) fn compressed(req: &HttpRequest, mut response: HttpResponse) -> HttpResponse {
    if matches!(response.body().size(), BodySize::None | BodySize::Sized(..=SMALL_BYTES))
        || !matches!(*req.method(), Method::GET | Method::HEAD)
        || !is_compressible(&response)
    {
        return response;
    }
    response.headers_mut().append(VARY, HeaderValue::from_static("Accept-Encoding"));
    if *req.method() == Method::HEAD || !takes_gzip(req.headers()) {
        return response;
    }
    let encoders = req.app_data::<ThinData<Encoders>>();
    let Some(permit) = encoders.and_then(|encoders| encoders.0.0.clone().try_acquire_owned().ok()) else {
        return response;
    };
    let headers = response.headers_mut();
    headers.insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    if let Some(weak) = headers.get(ETAG).and_then(weakened) {
        headers.insert(ETAG, weak);
    }
    response.map_body(|_, body| {
        let encoder = GzEncoder::new(Vec::new(), Compression::fast());
        CompressedStream { body, encoder, _permit: permit }.body()
    })
}

/// True for a whole response that is text and that nobody has encoded yet.
fn is_compressible(response: &HttpResponse) -> bool {
    let headers = response.headers();
    let media_type = headers.get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    let is_text = media_type.starts_with("text/")
        || ["json", "javascript", "xml"].iter().any(|kind| media_type.contains(kind));
    is_text
        && response.status() == StatusCode::OK
        && !headers.contains_key(CONTENT_ENCODING)
        && !headers.contains_key(ACCEPT_RANGES)
        && response.extensions().get::<Foreign>().is_none()
}

/// True if the caller names gzip, or everything, and does not give it the weight 0.
fn takes_gzip(headers: &HeaderMap) -> bool {
    let given = headers.get_all(ACCEPT_ENCODING).filter_map(|given| given.to_str().ok());
    let mut any = false;
    for coding in given.flat_map(|codings| codings.split(',')) {
        let (name, weight) = coding.split_once(';').unwrap_or((coding, ""));
        let weight = weight.trim().trim_start_matches(['q', 'Q']).trim_start_matches('=').trim();
        let is_taken = weight.is_empty() || weight.parse::<f32>().is_ok_and(|weight| weight > 0.0);
        match name.trim().to_ascii_lowercase().as_str() {
            "gzip" | "x-gzip" => return is_taken,
            "*" => any = is_taken,
            _ => {}
        }
    }
    any
}

fn weakened(tag: &HeaderValue) -> Option<HeaderValue> {
    let tag = tag.to_str().ok()?;
    HeaderValue::try_from(format!("W/{}", tag.strip_prefix("W/").unwrap_or(tag))).ok()
}

/// A response on its way through an encoder.
struct CompressedStream {
    body: BoxBody,
    encoder: GzEncoder<Vec<u8>>,
    _permit: OwnedSemaphorePermit,
}

impl CompressedStream {
    fn body(self) -> BoxBody {
        let pieces = unfold(Some(self), |stream| async move { stream?.next().await });
        BoxBody::new(BodyStream::new(Box::pin(pieces)))
    }

    /// The next compressed bytes, and what is left.
    async fn next(mut self) -> Option<(Result<Bytes, BodyError>, Option<Self>)> {
        loop {
            let piece = poll_fn(|cx| Pin::new(&mut self.body).poll_next(cx)).await;
            let packed = match piece {
                None => return Some((self.encoder.finish().map(Bytes::from).map_err(Into::into), None)),
                Some(Err(error)) => return Some((Err(error), None)),
                Some(Ok(piece)) if piece.len() <= COMPRESSED_AT_ONCE => add(self.encoder, &piece),
                Some(Ok(piece)) => {
                    let encoder = self.encoder;
                    match web::block(move || add(encoder, &piece)).await {
                        Ok(packed) => packed,
                        Err(error) => return Some((Err(error.into()), None)),
                    }
                }
            };
            self.encoder = match packed {
                Ok(encoder) => encoder,
                Err(error) => return Some((Err(error.into()), None)),
            };
            let bytes = std::mem::take(self.encoder.get_mut());
            if !bytes.is_empty() {
                return Some((Ok(bytes.into()), Some(self)));
            }
        }
    }
}

/// Compresses a piece to its end, so that whoever reads gets all of it.
fn add(mut encoder: GzEncoder<Vec<u8>>, piece: &[u8]) -> io::Result<GzEncoder<Vec<u8>>> {
    encoder.write_all(piece)?;
    encoder.flush()?;
    Ok(encoder)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::io::Read as _;

    use actix_web::test::TestRequest;
    use flate2::read::GzDecoder;
    use futures_util::{StreamExt as _, poll, stream};

    use super::*;

    fn asking(encodings: &'static str) -> HttpRequest {
        TestRequest::get()
            .insert_header((ACCEPT_ENCODING, encodings))
            .app_data(ThinData(Encoders::default()))
            .to_http_request()
    }

    fn text(length: usize) -> HttpResponse {
        HttpResponse::Ok().content_type("text/plain").body("x".repeat(length))
    }

    fn is_packed(response: &HttpResponse) -> bool {
        response.headers().get(CONTENT_ENCODING).is_some_and(|encoding| encoding == "gzip")
    }

    #[test]
    fn a_caller_asks_for_gzip() {
        let takes = |given| takes_gzip(asking(given).headers());
        for given in ["gzip", "deflate, GZIP;q=0.5", "*", "br;q=1, *;q=0.1", "x-gzip"] {
            assert!(takes(given), "{given}");
        }
        for given in ["", "br", "identity", "gzip;q=0", "gzip; q=0.0, *", "*;q=0", "gzipped"] {
            assert!(!takes(given), "{given}");
        }
    }

    #[actix_web::test]
    async fn a_large_response_comes_back_whole() {
        for length in [5_000, 1_000_000] {
            let response = compressed(&asking("gzip"), text(length));
            assert!(is_packed(&response));
            let packed = actix_web::body::to_bytes(response.into_body()).await.unwrap();
            let mut plain = String::new();
            GzDecoder::new(&packed[..]).read_to_string(&mut plain).unwrap();
            assert!(packed.len() < length / 10 && plain == "x".repeat(length), "{length}");
        }
    }

    #[test]
    fn what_is_small_or_no_text_or_encoded_already_or_not_asked_for_stays_as_it_is() {
        let small = compressed(&asking("gzip"), text(4096));
        assert!(!is_packed(&small) && !small.headers().contains_key(VARY));
        let plain = compressed(&asking("br"), text(5_000));
        assert!(!is_packed(&plain) && plain.headers().get(VARY).unwrap() == "Accept-Encoding");
        let binary = HttpResponse::Ok().content_type("application/octet-stream").body(vec![0; 5_000]);
        assert!(!is_packed(&compressed(&asking("gzip"), binary)));
        let mut foreign = text(5_000);
        foreign.extensions_mut().insert(Foreign);
        assert!(!is_packed(&compressed(&asking("gzip"), foreign)));
        let mut encoded = text(5_000);
        encoded.headers_mut().insert(CONTENT_ENCODING, HeaderValue::from_static("br"));
        assert!(!is_packed(&compressed(&asking("gzip"), encoded)));
    }

    #[test]
    fn a_tag_of_compressed_bytes_is_a_weak_one() {
        let mut response = text(5_000);
        response.headers_mut().insert(ETAG, HeaderValue::from_static("\"1\""));
        let response = compressed(&asking("gzip"), response);
        assert_eq!(response.headers().get(ETAG).unwrap(), "W/\"1\"");
    }

    #[actix_web::test]
    async fn an_event_waits_for_no_other_one() {
        let first = stream::iter([Ok::<_, io::Error>(Bytes::from_static(b"data: 1\n\n"))]);
        let response =
            HttpResponse::Ok().content_type("text/event-stream").streaming(first.chain(stream::pending()));
        let mut body = Box::pin(compressed(&asking("gzip"), response).into_body());
        let packed = poll_fn(|cx| body.as_mut().poll_next(cx)).await.unwrap().unwrap();
        let mut plain = [0; 9];
        GzDecoder::new(&packed[..]).read_exact(&mut plain).unwrap();
        assert_eq!(&plain, b"data: 1\n\n");
        let mut second = poll_fn(|cx| body.as_mut().poll_next(cx));
        assert!(poll!(&mut second).is_pending());
    }

    #[test]
    fn further_responses_are_sent_as_they_are() {
        let request = asking("gzip");
        let mut all: Vec<_> = (0..MAX_ENCODERS).map(|_| compressed(&request, text(5_000))).collect();
        assert!(all.iter().all(is_packed));
        assert!(!is_packed(&compressed(&request, text(5_000))));
        all.pop();
        assert!(is_packed(&compressed(&request, text(5_000))));
    }
}

//! Reads that are repeated: an answer that its caller has already is 304 and has no body, and a HEAD is the GET without
//! its body.
//!
//! The tag of an answer (`ETag`) is the digest of its bytes and their media type and of nothing else: equal tags are
//! equal answers, also after a restart, after a backup was brought back and from another process. An answer is given a
//! tag only where its caller asks for that, with `If-None-Match` or by HEAD, because most never use it. A response that
//! is sent while it is made has none, nor has one that must not be kept, and one that came with a tag keeps its own.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use actix_web::body::{BodySize, BoxBody, MessageBody};
use actix_web::http::header::{
    CACHE_CONTROL, CONTENT_TYPE, ETAG, HeaderMap, HeaderName, HeaderValue, IF_NONE_MATCH,
};
use actix_web::http::{Method, StatusCode};
use actix_web::{HttpRequest, HttpResponse};
use bytes::Bytes;
use ring::digest::{self, SHA256};

use crate::failure::Foreign;

/// In one place, because every read looks for it.
static CONDITION: HeaderName = IF_NONE_MATCH;
const DIGEST_BYTES: usize = 16;
/// Stands in the place of a media type before digests that are joined; none is spelt so.
const JOINED: &[u8] = b"joined";

/// The digest of the content of an answer.
pub type ContentDigest = [u8; DIGEST_BYTES];

/// The digest of its answer that a handler knows sooner than from its bytes.
#[derive(Debug, Clone, Copy)]
struct KnownDigest(ContentDigest);

/// True if the caller asks for the tag of the answer.
pub fn asks_for_tag(req: &HttpRequest) -> bool {
    match *req.method() {
        Method::GET => req.headers().contains_key(&CONDITION),
        Method::HEAD => true,
        _ => false,
    }
}

/// True if the caller has the answer with this digest.
pub fn has_already(req: &HttpRequest, digest: &ContentDigest) -> bool {
    has_tag(req.headers(), &tag(digest))
}

/// The digest of bytes of a media type.
pub fn content_digest(media_type: &[u8], content: &[u8]) -> ContentDigest {
    digest_of([media_type, &[0], content])
}

/// The digest of an answer that consists of others, one after the other.
pub fn joined_digest(parts: &[ContentDigest]) -> ContentDigest {
    digest_of([JOINED, &[0], parts.as_flattened()])
}

/// Notes the digest of an answer, so that it need not be made of all its bytes.
pub fn set_digest(response: &mut HttpResponse, digest: ContentDigest) {
    response.extensions_mut().insert(KnownDigest(digest));
}

/// Gives an answer its tag if the caller asks for that; one that the caller has already becomes 304.
pub(crate) fn tagged(req: &HttpRequest, response: HttpResponse) -> HttpResponse {
    match asks_for_tag(req) && can_have_tag(&response) {
        true => with_tag(req, response),
        false => response,
    }
}

fn with_tag(req: &HttpRequest, response: HttpResponse) -> HttpResponse {
    let known = response.extensions().get::<KnownDigest>().map(|known| known.0);
    let media_type = response.headers().get(CONTENT_TYPE).cloned();
    let (head, body) = response.into_parts();
    let (digest, body) = match (known, body.size()) {
        (Some(digest), _) => (digest, body),
        (None, BodySize::Stream) => return head.set_body(body),
        (None, _) => match body.try_into_bytes() {
            Err(body) => return head.set_body(body),
            Ok(bytes) => {
                let media_type = media_type.as_ref().map_or(&[][..], HeaderValue::as_bytes);
                (content_digest(media_type, &bytes), bytes.boxed())
            }
        },
    };
    let tag = tag(&digest);
    let mut response = match has_tag(req.headers(), &tag) {
        false => head.set_body(body),
        true => {
            let mut response = head.set_body(BoxBody::new(()));
            *response.status_mut() = StatusCode::NOT_MODIFIED;
            response.headers_mut().remove(CONTENT_TYPE);
            response
        }
    };
    let headers = response.headers_mut();
    headers.insert(ETAG, tag);
    if !headers.contains_key(CACHE_CONTROL) {
        // It may be kept, and is to be asked for all the same.
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    }
    response
}

/// Drops the body of the answer to a HEAD; its length is still said.
pub(crate) fn without_body(req: &HttpRequest, response: HttpResponse) -> HttpResponse {
    match *req.method() {
        Method::HEAD => response.map_body(|_, body| BoxBody::new(AbsentBody(body.size()))),
        _ => response,
    }
}

fn can_have_tag(response: &HttpResponse) -> bool {
    let headers = response.headers();
    let no_store = |value: &HeaderValue| value.to_str().is_ok_and(|text| text.contains("no-store"));
    response.status() == StatusCode::OK
        && !headers.contains_key(ETAG)
        && !headers.get_all(CACHE_CONTROL).any(no_store)
        && response.extensions().get::<Foreign>().is_none()
}

fn digest_of(pieces: [&[u8]; 3]) -> ContentDigest {
    let mut context = digest::Context::new(&SHA256);
    pieces.iter().for_each(|piece| context.update(piece));
    let mut short = ContentDigest::default();
    short.copy_from_slice(&context.finish().as_ref()[..DIGEST_BYTES]);
    short
}

fn tag(digest: &ContentDigest) -> HeaderValue {
    let name = format!("\"{:032x}\"", u128::from_be_bytes(*digest));
    // Digits in quotes are visible ASCII, so this cannot fail.
    HeaderValue::try_from(name).unwrap_or(HeaderValue::from_static("\"\""))
}

/// True if `If-None-Match` names the tag, or any. A weak tag matches, too: a proxy that has compressed the answer makes
/// it one.
pub fn has_tag(headers: &HeaderMap, tag: &HeaderValue) -> bool {
    let given = headers.get_all(IF_NONE_MATCH).filter_map(|given| given.to_str().ok());
    given
        .flat_map(|tags| tags.split(','))
        .map(str::trim)
        .any(|given| given == "*" || given.strip_prefix("W/").unwrap_or(given).as_bytes() == tag.as_bytes())
}

/// A body that is not sent, of which only the size is known.
struct AbsentBody(BodySize);

impl MessageBody for AbsentBody {
    type Error = Infallible;

    fn size(&self) -> BodySize {
        self.0
    }

    fn poll_next(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Bytes, Infallible>>> {
        Poll::Ready(None)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use actix_web::test::TestRequest;

    use super::*;

    fn matches(given: &[&str], tag: &'static str) -> bool {
        let request = given
            .iter()
            .fold(TestRequest::get(), |request, given| request.append_header((IF_NONE_MATCH, *given)));
        has_tag(request.to_http_request().headers(), &HeaderValue::from_static(tag))
    }

    #[test]
    fn a_tag_is_found_among_those_that_are_given() {
        for given in [&["\"a\""][..], &["W/\"a\""], &["\"b\" ,\"a\""], &["\"b\"", "\"a\""], &["*"]] {
            assert!(matches(given, "\"a\""), "{given:?}");
        }
        for given in [&[][..], &["\"\""], &["a"], &["\"A\""], &["\"ab\""], &["w/\"a\""], &["\"b\",W/\"c\""]] {
            assert!(!matches(given, "\"a\""), "{given:?}");
        }
    }

    #[test]
    fn digests_tell_apart_whatever_differs() {
        let (one, other) = (content_digest(b"text/plain", b"x"), content_digest(b"text/plain", b"y"));
        let digests = [
            one,
            other,
            content_digest(b"text/html", b"x"),
            joined_digest(&[]),
            joined_digest(&[one]),
            joined_digest(&[one, other]),
            joined_digest(&[other, one]),
        ];
        for (number, digest) in digests.iter().enumerate() {
            assert!(!digests[..number].contains(digest), "{number}");
        }
        assert_eq!(one, content_digest(b"text/plain", b"x"));
    }

    #[test]
    fn only_a_whole_success_without_a_tag_of_its_own_is_tagged() {
        let asked = TestRequest::get().insert_header((IF_NONE_MATCH, "\"\"")).to_http_request();
        let tag = |response| tagged(&asked, response).headers().get(ETAG).cloned();
        assert!(tag(HttpResponse::Ok().body("x")).is_some());
        assert_eq!(tag(HttpResponse::Created().body("x")), None);
        assert_eq!(tag(HttpResponse::NotFound().body("x")), None);
        assert_eq!(tag(HttpResponse::Ok().insert_header((CACHE_CONTROL, "no-store")).body("x")), None);
        assert_eq!(tag(HttpResponse::Ok().insert_header((ETAG, "\"3\"")).body("x")).unwrap(), "\"3\"");
        let stream = futures_util::stream::pending::<Result<Bytes, Infallible>>();
        assert_eq!(tag(HttpResponse::Ok().streaming(stream)), None);
        let mut foreign = HttpResponse::Ok().body("x");
        foreign.extensions_mut().insert(Foreign);
        assert_eq!(tag(foreign), None);
        for other in [TestRequest::get(), TestRequest::put().insert_header((IF_NONE_MATCH, "*"))] {
            let response = tagged(&other.to_http_request(), HttpResponse::Ok().body("x"));
            assert!(response.status() == 200 && !response.headers().contains_key(ETAG));
        }
    }
}

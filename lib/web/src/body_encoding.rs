//! Bodies that their senders compressed: taken in gzip, under the limit that they have without, and in no other encoding.

use std::io::Read as _;

use actix_web::HttpRequest;
use actix_web::http::header::{CONTENT_ENCODING, HeaderName};
use bytes::Bytes;
use estimand_api::problem::{FieldError, Problem, kind, shorten};
use flate2::read::MultiGzDecoder;

use crate::body::too_large;
use crate::body_budget::BodyReservation;

const INFLATED_AT_ONCE: usize = 64 * 1024;

/// In one place, because every body is asked for it.
static ENCODING: HeaderName = CONTENT_ENCODING;

/// Refuses a body that its sender compressed, where it is stored as it comes.
pub fn refuse_compressed(req: &HttpRequest) -> Result<(), Problem> {
    const EXPECTED: &str = "none: these bytes are stored as they come";
    if is_compressed(req, EXPECTED)? {
        return Err(not_taken("gzip", EXPECTED));
    }
    Ok(())
}

/// True for a body that is compressed by gzip; one in another encoding is refused.
pub(crate) fn is_compressed(req: &HttpRequest, expected: &str) -> Result<bool, Problem> {
    let Some(encoding) = req.headers().get(&ENCODING) else { return Ok(false) };
    let encoding = encoding.to_str().unwrap_or("?").trim();
    match encoding.to_ascii_lowercase().as_str() {
        "" | "identity" => Ok(false),
        "gzip" | "x-gzip" => Ok(true),
        _ => Err(not_taken(encoding, expected)),
    }
}

fn not_taken(encoding: &str, expected: &str) -> Problem {
    Problem::new(
        415,
        kind::UNSUPPORTED_MEDIA_TYPE,
        "The body is encoded in a way that is not taken here",
        format!("the header Content-Encoding says `{}`; expected {expected}", shorten(encoding)),
    )
}

/// The bytes that a sender compressed, at most so many.
pub(crate) fn inflate(
    body: &[u8],
    limit: usize,
    mut reservation: Option<&mut BodyReservation>,
) -> Result<Bytes, Problem> {
    let mut decoder = MultiGzDecoder::new(body);
    let mut out = Vec::new();
    let mut piece = vec![0; INFLATED_AT_ONCE];
    loop {
        let read = decoder.read(&mut piece).map_err(|_| {
            let message = "its content encoding is broken: it is no whole gzip";
            Problem::invalid_field(FieldError::new("body", message))
        })?;
        if read == 0 {
            return Ok(out.into());
        }
        if out.len() + read > limit {
            return Err(too_large(limit));
        }
        out.extend_from_slice(&piece[..read]);
        if let Some(reservation) = &mut reservation {
            reservation.grow_to(out.capacity())?;
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::io::Write as _;

    use actix_web::dev::Payload;
    use actix_web::test::TestRequest;
    use futures_util::stream;

    use super::*;
    use crate::body::read_body;

    fn payload(bytes: Vec<u8>) -> Payload {
        Payload::Stream { payload: Box::pin(stream::iter([Ok(Bytes::from(bytes))])) }
    }

    #[actix_web::test]
    async fn a_compressed_body_is_inflated_under_the_same_limit() {
        let packed = |plain: &[u8]| {
            let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
            encoder.write_all(plain).unwrap();
            encoder.finish().unwrap()
        };
        let of = |encoding: &'static str| {
            TestRequest::post().insert_header((CONTENT_ENCODING, encoding)).to_http_request()
        };
        let body = read_body::<100>(&of("GZIP"), payload(packed(&[b'a'; 100]))).await.unwrap();
        assert_eq!(body.0, vec![b'a'; 100]);
        let status = async |encoding, body| {
            read_body::<100>(&of(encoding), payload(body)).await.err().map(|refused| refused.status)
        };
        assert_eq!(status("gzip", packed(&[b'a'; 101])).await, Some(413));
        assert_eq!(status("gzip", b"no gzip".to_vec()).await, Some(400));
        assert_eq!(status("zstd", b"x".to_vec()).await, Some(415));
        assert_eq!(status("identity", b"x".to_vec()).await, None);
        assert_eq!(refuse_compressed(&of("gzip")).unwrap_err().status, 415);
        refuse_compressed(&of("identity")).unwrap();
    }
}

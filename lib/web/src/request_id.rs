//! The name of one request, by which a client's report and a line of the log find each other.
//!
//! A client may bring one in `X-Request-Id`. A brought name is used only if it is harmless in a header and in
//! a log line; any other is treated as if none had been brought. A request without one gets a name the first
//! time it is needed: by an error, a log line that is written, a handler. An ordinary read never needs one.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use actix_web::http::header::{HeaderName, HeaderValue};
use actix_web::{HttpMessage, HttpRequest};

/// The header in which a request's name comes and goes.
pub static HEADER: HeaderName = HeaderName::from_static("x-request-id");

const MAX_LENGTH: usize = 64;

/// A name that was made here, kept so that everybody sees the same one.
struct Made(String);

/// The name that the client brought, if it is sane.
pub(crate) fn brought(req: &HttpRequest) -> Option<&HeaderValue> {
    req.headers().get(&HEADER).filter(|value| is_sane(value.as_bytes()))
}

/// The request's name, made now if it has none.
pub fn of(req: &HttpRequest) -> String {
    if let Some(name) = brought(req).and_then(|value| value.to_str().ok()) {
        return name.to_owned();
    }
    if let Some(Made(name)) = req.extensions().get::<Made>() {
        return name.clone();
    }
    let name = make();
    req.extensions_mut().insert(Made(name.clone()));
    name
}

fn is_sane(name: &[u8]) -> bool {
    (1..=MAX_LENGTH).contains(&name.len())
        && name.iter().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-'))
}

/// Random for the process, counted within it.
fn make() -> String {
    static PROCESS: OnceLock<u64> = OnceLock::new();
    static COUNT: AtomicU64 = AtomicU64::new(1);
    let process = PROCESS.get_or_init(|| fastrand::u64(..1 << 40));
    format!("{process:010x}-{:x}", COUNT.fetch_add(1, Ordering::Relaxed))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_harmless_names_are_taken_over() {
        for name in ["a", "A-1_b.c", &"x".repeat(64)] {
            assert!(is_sane(name.as_bytes()), "{name}");
        }
        for name in ["", "a b", "a\tb", "ä", "a;b", &"x".repeat(65)] {
            assert!(!is_sane(name.as_bytes()), "{name}");
        }
        assert!(is_sane(make().as_bytes()));
        assert_ne!(make(), make());
    }
}

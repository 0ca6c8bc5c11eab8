//! Pages of other origins that an operator allows: they may read, and change what their token allows, by `fetch`.
//!
//! A browser asks for that in headers (CORS), and is answered for these origins only; for all others nothing is said, and
//! a change that their pages ask for is refused as before. A page has no right of its own: it shows a token like any
//! program. What the browser would add by itself (a client certificate) never counts for it.

use std::str::FromStr;
use std::sync::Arc;

use actix_web::HttpResponse;
use actix_web::dev::ServiceRequest;
use actix_web::http::Method;
use actix_web::http::header::{
    ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN,
    ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_MAX_AGE, ACCESS_CONTROL_REQUEST_METHOD, HeaderMap,
    HeaderValue, ORIGIN, VARY,
};
use actix_web::http::uri::Authority;

/// The methods of all requests.
const METHODS: HeaderValue = HeaderValue::from_static("GET, HEAD, POST, PUT, PATCH, DELETE");
/// The headers that requests may have beyond those that every page may send.
const REQUEST_HEADERS: HeaderValue = HeaderValue::from_static(
    "Accept, Authorization, Content-Type, Estimand-Sent-At, Idempotency-Key, If-Match, If-None-Match, If-Range, \
     Last-Event-ID, Range, X-Request-Id",
);
/// The headers of answers that a page is shown beyond those that it always is.
const RESPONSE_HEADERS: HeaderValue = HeaderValue::from_static(
    "Allow, Content-Range, ETag, Estimand-Hint, Estimand-Revision, Location, Retry-After, X-Request-Id",
);
/// For how many seconds a browser need not ask again.
const MAX_AGE: HeaderValue = HeaderValue::from_static("600");

/// The origin of pages, as browsers write it: `https://host`, or `https://host:port` if the port is not the usual one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Origin(HeaderValue);

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("expected an origin such as https://pages.example or http://localhost:3000, without a path")]
pub struct OriginError;

impl FromStr for Origin {
    type Err = OriginError;

    fn from_str(text: &str) -> Result<Self, OriginError> {
        let text = text.to_ascii_lowercase();
        let (scheme, site) = text.split_once("://").ok_or(OriginError)?;
        let usual_port = match scheme {
            "http" => 80,
            "https" => 443,
            _ => return Err(OriginError),
        };
        let parsed = Authority::from_str(site).map_err(|_| OriginError)?;
        let host = parsed.host();
        let port = match &site[host.len()..] {
            "" => None,
            _ => Some(parsed.port_u16().ok_or(OriginError)?),
        };
        // A wildcard is no host, and a site with a user in it does not begin with its host.
        if host.is_empty() || host.contains(['*', '%']) || !site.starts_with(host) {
            return Err(OriginError);
        }
        let port = port.filter(|port| *port != usual_port).map(|port| format!(":{port}")).unwrap_or_default();
        HeaderValue::try_from(format!("{scheme}://{host}{port}")).map(Origin).map_err(|_| OriginError)
    }
}

/// The origins whose pages are allowed; clones are the same.
#[derive(Debug, Clone, Default)]
pub struct AllowedOrigins(Arc<[Origin]>);

impl From<Vec<Origin>> for AllowedOrigins {
    fn from(origins: Vec<Origin>) -> Self {
        AllowedOrigins(origins.into())
    }
}

impl AllowedOrigins {
    /// The one origin of a request, if it is allowed.
    pub(crate) fn origin_of<'r>(&self, headers: &'r HeaderMap) -> Option<&'r HeaderValue> {
        if self.0.is_empty() {
            return None;
        }
        let mut given = headers.get_all(ORIGIN);
        let origin = given.next().filter(|_| given.next().is_none())?;
        self.0.iter().any(|allowed| allowed.0 == *origin).then_some(origin)
    }

    /// True if a browser asks whether an allowed page may send a request.
    pub(crate) fn is_preflight(&self, req: &ServiceRequest) -> bool {
        *req.method() == Method::OPTIONS
            && req.headers().contains_key(ACCESS_CONTROL_REQUEST_METHOD)
            && self.origin_of(req.headers()).is_some()
    }

    /// Lets an allowed page read a response. Caches are told that the response depends on the page.
    pub(crate) fn mark(&self, asked: &HeaderMap, response: &mut HttpResponse) {
        if self.0.is_empty() {
            return;
        }
        let headers = response.headers_mut();
        headers.append(VARY, HeaderValue::from_static("Origin"));
        if let Some(origin) = self.origin_of(asked) {
            headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, origin.clone());
            headers.insert(ACCESS_CONTROL_EXPOSE_HEADERS, RESPONSE_HEADERS);
        }
    }
}

/// The answer to a preflight. It says the same for all paths: a request that is not right is told so itself.
pub(crate) async fn preflight() -> HttpResponse {
    HttpResponse::NoContent()
        .insert_header((ACCESS_CONTROL_ALLOW_METHODS, METHODS))
        .insert_header((ACCESS_CONTROL_ALLOW_HEADERS, REQUEST_HEADERS))
        .insert_header((ACCESS_CONTROL_MAX_AGE, MAX_AGE))
        .finish()
}

#[cfg(test)]
mod tests {
    use actix_web::test::TestRequest;

    use super::*;

    fn origin(text: &str) -> Result<String, OriginError> {
        text.parse::<Origin>().map(|origin| String::from_utf8_lossy(origin.0.as_bytes()).into_owned())
    }

    #[test]
    fn an_origin_is_kept_as_browsers_write_it() {
        for (given, kept) in [
            ("https://pages.example", "https://pages.example"),
            ("HTTPS://Pages.Example:443", "https://pages.example"),
            ("http://pages.example:80", "http://pages.example"),
            ("http://pages.example:443", "http://pages.example:443"),
            ("http://localhost:3000", "http://localhost:3000"),
            ("http://[::1]:3000", "http://[::1]:3000"),
            ("http://[::1]", "http://[::1]"),
        ] {
            assert_eq!(origin(given).as_deref(), Ok(kept), "{given}");
        }
    }

    #[test]
    fn anything_else_is_no_origin() {
        for given in [
            "",
            "*",
            "null",
            "pages.example",
            "//pages.example",
            "ftp://pages.example",
            "https://",
            "https://*",
            "https://*.example",
            "https://pages.example/",
            "https://pages.example/path",
            "https://pages.example?x",
            "https://pages.example#x",
            "https://me@pages.example",
            "https://pages.example:",
            "https://pages.example:x",
            "https://pages.example:70000",
            "https://pages example",
            "https://:443",
            "https://a,https://b",
            "https://grüße.example",
        ] {
            assert_eq!(origin(given), Err(OriginError), "{given}");
        }
    }

    #[test]
    fn only_one_origin_that_is_the_same_to_the_letter_is_allowed() {
        let allowed: Vec<Origin> = "https://pages.example".parse().into_iter().collect();
        let allowed = AllowedOrigins::from(allowed);
        let is_allowed = |allowed: &AllowedOrigins, origins: &[&str]| {
            let request = origins
                .iter()
                .fold(TestRequest::get(), |request, origin| request.append_header((ORIGIN, *origin)));
            allowed.origin_of(request.to_http_request().headers()).is_some()
        };
        assert!(is_allowed(&allowed, &["https://pages.example"]));
        for other in [
            &[][..],
            &["null"],
            &["http://pages.example"],
            &["https://pages.example:8443"],
            &["https://pages.example.evil"],
            &["https://sub.pages.example"],
            &["https://pages.example", "https://pages.example"],
        ] {
            assert!(!is_allowed(&allowed, other), "{other:?}");
        }
        assert!(!is_allowed(&AllowedOrigins::default(), &["https://pages.example"]));
    }
}

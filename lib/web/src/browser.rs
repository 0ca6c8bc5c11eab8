//! Protection against pages of other sites in a user's browser: they must change nothing here, and no response of
//! this service must become a page.

use actix_web::http::Method;
use actix_web::http::header::{
    AUTHORIZATION, CONTENT_SECURITY_POLICY, HOST, HeaderValue, ORIGIN, UPGRADE, X_CONTENT_TYPE_OPTIONS,
};
use actix_web::http::uri::Authority;
use actix_web::{HttpRequest, HttpResponse};
use estimand_api::access::forbidden;
use estimand_api::problem::Problem;

use crate::cors::AllowedOrigins;
use crate::server::PeerIdentity;

/// A header that browsers set and pages cannot: how the page that asks is related to this service.
const SEC_FETCH_SITE: &str = "sec-fetch-site";

/// Refuses a change that a page of another site asks for, or a connection over which it could ask for one, which no browser
/// keeps from it. Programs that are no browsers say neither an origin nor a site.
pub(crate) fn check_origin(req: &HttpRequest, allowed: &AllowedOrigins) -> Result<(), Problem> {
    let changes_nothing = matches!(*req.method(), Method::GET | Method::HEAD | Method::OPTIONS);
    let upgrades = req.headers().contains_key(UPGRADE);
    if changes_nothing && !upgrades {
        return Ok(());
    }
    let host = host_of(req);
    let mut sites = req.headers().get_all(SEC_FETCH_SITE);
    let is_own = req.headers().get_all(ORIGIN).all(|origin| is_own_origin(origin, host))
        // `none` is the user alone, such as by the address bar. Another port of this host is `same-site`, and another page.
        && sites.all(|site| matches!(site.as_bytes(), b"same-origin" | b"none"));
    match is_own || (!upgrades && is_allowed(req, allowed)) {
        true => Ok(()),
        false => Err(forbidden(
            "a page of another site asks for this: the header Origin is not this service, or Sec-Fetch-Site says so",
        )),
    }
}

/// True for a page of an allowed origin. The right to change something is that of the token which it shows, never that of the
/// certificate which a browser shows for whatever page.
fn is_allowed(req: &HttpRequest, allowed: &AllowedOrigins) -> bool {
    let shows_token = || req.headers().contains_key(AUTHORIZATION);
    allowed.origin_of(req.headers()).is_some() && (shows_token() || req.conn_data::<PeerIdentity>().is_none())
}

/// The host that a request is meant for: that of its target, or else of its header; empty if that cannot be read.
pub fn host_of(req: &HttpRequest) -> Option<&str> {
    let header = || req.headers().get(HOST).map(|host| host.to_str().unwrap_or_default());
    req.uri().authority().map(Authority::as_str).or_else(header)
}

/// True for the origin of pages of this service itself, by the host that a request is meant for.
pub fn is_own_origin(origin: &HeaderValue, host: Option<&str>) -> bool {
    let site = origin.to_str().ok().and_then(|origin| origin.split_once("://"));
    site.zip(host).is_some_and(|((_, site), host)| site.eq_ignore_ascii_case(host))
}

/// Marks an answer as data: no browser runs anything of it, guesses that it is something else, or shows it in a frame.
pub(crate) fn seal(response: &mut HttpResponse) {
    let headers = response.headers_mut();
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    // A page says by itself what it needs.
    if !headers.contains_key(CONTENT_SECURITY_POLICY) {
        let policy = HeaderValue::from_static("default-src 'none'; frame-ancestors 'none'");
        headers.insert(CONTENT_SECURITY_POLICY, policy);
    }
}

#[cfg(test)]
mod tests {
    use actix_web::test::TestRequest;

    use super::*;

    fn allows(allowed: &AllowedOrigins, request: TestRequest) -> bool {
        check_origin(&request.to_http_request(), allowed).is_ok()
    }

    fn allows_by_default(request: TestRequest) -> bool {
        allows(&AllowedOrigins::default(), request)
    }

    #[test]
    fn a_page_of_an_allowed_origin_changes_something_and_opens_no_websocket() {
        let allowed: Vec<_> = "http://pages.example".parse().into_iter().collect();
        let allowed = AllowedOrigins::from(allowed);
        let ask = |method: Method, origin: &str| {
            let request = TestRequest::default().method(method).insert_header((HOST, "h:7070"));
            request.insert_header((ORIGIN, origin))
        };
        assert!(allows(&allowed, ask(Method::POST, "http://pages.example")));
        assert!(!allows(&allowed, ask(Method::POST, "http://evil.example")));
        assert!(!allows(&allowed, ask(Method::POST, "https://pages.example")));
        for method in [Method::GET, Method::POST] {
            let upgrade = ask(method, "http://pages.example").insert_header((UPGRADE, "websocket"));
            assert!(!allows(&allowed, upgrade));
        }
    }

    #[test]
    fn another_site_opens_no_websocket() {
        let ask = |origin: &str| {
            let request =
                TestRequest::get().insert_header((HOST, "h:7070")).insert_header((UPGRADE, "websocket"));
            allows_by_default(request.insert_header((ORIGIN, origin)))
        };
        assert!(ask("http://h:7070"));
        assert!(!ask("http://elsewhere") && !ask("null"));
    }

    #[test]
    fn another_site_changes_nothing() {
        let ask = |method: Method, origin: Option<&str>| {
            let request = TestRequest::default().method(method).insert_header((HOST, "h:7070"));
            let request =
                origin.into_iter().fold(request, |request, origin| request.insert_header((ORIGIN, origin)));
            allows_by_default(request)
        };
        assert!(ask(Method::POST, None));
        assert!(ask(Method::POST, Some("http://h:7070")) && ask(Method::PUT, Some("https://H:7070")));
        assert!(ask(Method::GET, Some("http://evil.example")));
        for wrong in ["http://evil.example", "null", "http://h:7071", "http://h:7070.evil.example", ""] {
            for method in [Method::POST, Method::PUT, Method::DELETE, Method::PATCH] {
                assert!(!ask(method, Some(wrong)), "{wrong}");
            }
        }
        let both = TestRequest::put().insert_header((HOST, "h")).append_header((ORIGIN, "http://h"));
        assert!(!allows_by_default(both.append_header((ORIGIN, "http://evil"))));
    }

    #[test]
    fn what_the_browser_says_of_the_page_counts_where_no_origin_is_told() {
        let ask = |method: Method, site: &str| {
            let request = TestRequest::default().method(method).insert_header((HOST, "h:7070"));
            allows_by_default(request.insert_header((SEC_FETCH_SITE, site)))
        };
        assert!(ask(Method::POST, "same-origin") && ask(Method::DELETE, "none"));
        assert!(ask(Method::GET, "cross-site"));
        for wrong in ["cross-site", "same-site", "", "Same-Origin"] {
            assert!(!ask(Method::POST, wrong) && !ask(Method::DELETE, wrong), "{wrong}");
        }
        let upgrade = TestRequest::get().insert_header((HOST, "h")).insert_header((UPGRADE, "websocket"));
        assert!(!allows_by_default(upgrade.insert_header((SEC_FETCH_SITE, "cross-site"))));
        let allowed: Vec<_> = "http://pages.example".parse().into_iter().collect();
        let of_allowed = TestRequest::post().insert_header((HOST, "h"));
        let of_allowed = of_allowed.insert_header((ORIGIN, "http://pages.example"));
        let of_allowed = of_allowed.insert_header((SEC_FETCH_SITE, "cross-site"));
        assert!(allows(&AllowedOrigins::from(allowed), of_allowed));
    }

    #[test]
    fn the_target_of_a_request_says_more_than_its_header() {
        let ask = |target: &str| {
            let request = TestRequest::with_uri(target).insert_header((HOST, "h:7070")).to_http_request();
            host_of(&request).map(str::to_owned)
        };
        assert_eq!(ask("/things").as_deref(), Some("h:7070"));
        // The form that HTTP/2 always uses, and that a client sends to a proxy.
        assert_eq!(ask("http://other:80/things").as_deref(), Some("other:80"));
        assert_eq!(host_of(&TestRequest::with_uri("/").to_http_request()), None);
    }
}

//! The path below which a proxy shows a service, as `https://host/estimand/` does.
//!
//! A proxy either takes it off before it hands a request on, or leaves it: both are answered. It is in front of each
//! `Location`, so that a client gets there by way of the proxy; one that a proxy names with a request
//! (`X-Forwarded-Prefix`) goes before that of the settings. The header leads nobody but its sender anywhere: a path that
//! could be another host is not taken.

use std::str::FromStr;
use std::sync::Arc;

use actix_web::dev::ServiceRequest;
use actix_web::http::Method;
use actix_web::http::header::{HeaderMap, HeaderName, HeaderValue, LOCATION};
use actix_web::http::uri::{PathAndQuery, Uri};
use actix_web::web::ThinData;
use actix_web::{HttpRequest, HttpResponse};

use crate::failure::Foreign;

static PREFIX: HeaderName = HeaderName::from_static("x-forwarded-prefix");
const MAX_LENGTH: usize = 256;

/// A path such as `/estimand`, without a slash at its end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BasePath(Arc<str>);

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("expected a path such as /estimand, of letters, digits and `-._~/`")]
pub struct BasePathError;

impl FromStr for BasePath {
    type Err = BasePathError;

    fn from_str(text: &str) -> Result<Self, BasePathError> {
        let path = text.strip_suffix('/').unwrap_or(text);
        let is_segment = |segment: &str| {
            let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
            !segment.is_empty() && segment != "." && segment != ".." && segment.bytes().all(plain)
        };
        let segments = path.strip_prefix('/').filter(|_| path.len() <= MAX_LENGTH).ok_or(BasePathError)?;
        if !segments.split('/').all(is_segment) {
            return Err(BasePathError);
        }
        Ok(BasePath(path.into()))
    }
}

impl BasePath {
    pub(crate) fn path(&self) -> &str {
        &self.0
    }

    /// Takes the path off a request that still has it.
    pub(crate) fn take_off(&self, request: &mut ServiceRequest) {
        let Some(rest) = request.uri().path().strip_prefix(&*self.0) else { return };
        let below = match request.uri().query() {
            _ if !rest.starts_with('/') => return,
            None => rest.to_owned(),
            Some(query) => format!("{rest}?{query}"),
        };
        // The end of a path and its query are ones themselves, so this cannot fail.
        let Ok(below) = PathAndQuery::try_from(below) else { return };
        let mut parts = request.uri().clone().into_parts();
        parts.path_and_query = Some(below);
        let Ok(uri) = Uri::from_parts(parts) else { return };
        request.match_info_mut().get_mut().update(&uri);
        request.head_mut().uri = uri;
    }

    /// The answer to a request for the path without a slash at its end, from which relative links would lead astray.
    pub(crate) fn redirection(&self, request: &ServiceRequest) -> Option<HttpResponse> {
        let is_bare = request.uri().path() == &*self.0;
        is_bare.then(|| {
            let place = (LOCATION, format!("{}/", self.0));
            HttpResponse::PermanentRedirect().insert_header(place).finish()
        })
    }

    /// The path that a proxy has named with a request.
    fn named_in(headers: &HeaderMap) -> Option<Self> {
        headers.get(&PREFIX)?.to_str().ok()?.parse().ok()
    }
}

/// The path by which a client gets to a path of this service: the same, or one below the path that its proxy shows.
pub fn public_path(req: &HttpRequest, path: String) -> String {
    let named = BasePath::named_in(req.headers());
    let base = named.as_ref().or_else(|| req.app_data::<ThinData<BasePath>>().map(|base| &base.0));
    match base {
        Some(base) => format!("{}{path}", base.0),
        None => path,
    }
}

/// Makes the place that a response names one that the client gets to.
pub(crate) fn make_public(req: &HttpRequest, response: &mut HttpResponse) {
    // An answer to a read names no place, and an answer of somebody else is given as it is.
    if *req.method() == Method::GET || response.extensions().get::<Foreign>().is_some() {
        return;
    }
    let headers = response.headers_mut();
    let place = headers.get(LOCATION).and_then(|place| place.to_str().ok());
    let public = place.filter(|place| place.starts_with('/')).map(|place| public_path(req, place.to_owned()));
    if let Some(public) = public.and_then(|public| HeaderValue::try_from(public).ok()) {
        headers.insert(LOCATION, public);
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use actix_web::test::TestRequest;

    use super::*;

    fn base(text: &str) -> BasePath {
        text.parse().unwrap()
    }

    #[test]
    fn a_path_that_could_be_another_host_is_none() {
        assert_eq!(base("/a/b-1/"), base("/a/b-1"));
        let long = format!("/{}", "x".repeat(MAX_LENGTH));
        for wrong in [
            "",
            "/",
            "a",
            "//evil.example",
            "/a//b",
            "/a/../b",
            "/a?b",
            "/a b",
            "/a\\b",
            "https://a/b",
            &long,
        ] {
            assert_eq!(wrong.parse::<BasePath>(), Err(BasePathError), "{wrong}");
        }
    }

    #[test]
    fn the_path_is_taken_off_where_it_still_is() {
        let below = |target: &str| {
            let mut request = TestRequest::with_uri(target).to_srv_request();
            base("/estimand").take_off(&mut request);
            assert_eq!(request.match_info().as_str(), request.uri().path());
            request.uri().to_string()
        };
        assert_eq!(below("/estimand/api/data?x=/estimand"), "/api/data?x=/estimand");
        assert_eq!(below("/estimand/"), "/");
        for other in ["/api/data", "/estimands/api", "/estimand", "/api/estimand/"] {
            assert_eq!(below(other), other);
        }
    }

    #[test]
    fn a_place_is_below_the_path() {
        let place = |base: Option<&BasePath>, named: Option<&str>| {
            let request = TestRequest::post();
            let request =
                base.into_iter().fold(request, |request, base| request.app_data(ThinData(base.clone())));
            let request = named
                .into_iter()
                .fold(request, |request, named| request.insert_header((PREFIX.clone(), named)));
            let mut response = HttpResponse::Created().insert_header((LOCATION, "/api/tasks/1")).finish();
            make_public(&request.to_http_request(), &mut response);
            response.headers().get(LOCATION).unwrap().to_str().unwrap().to_owned()
        };
        let given = base("/given");
        assert_eq!(place(None, None), "/api/tasks/1");
        assert_eq!(place(Some(&given), None), "/given/api/tasks/1");
        assert_eq!(place(Some(&given), Some("/named/")), "/named/api/tasks/1");
        assert_eq!(place(None, Some("//evil.example")), "/api/tasks/1");
    }
}

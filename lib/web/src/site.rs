//! The content of one address: a service's routes, those that every service has, and the answers to everything
//! else, wired to one admission, one set of figures and one readiness.
//!
//! A path is tried as documented first and with a slash at its end after all of those, so that accepting the
//! slash costs the ordinary spelling nothing. An unknown path is a 404, a known path with another method a
//! 405 that says which are allowed.

use std::fmt;
use std::rc::Rc;
use std::sync::Arc;

use actix_web::HttpRequest;
use actix_web::http::header::{ALLOW, HeaderValue};
use actix_web::web::{self, ServiceConfig};
use bytes::Bytes;
use estimand_api::problem::{Problem, kind};
use estimand_runtime::metrics::Exposition;
use estimand_runtime::{Metrics, Readiness};

use crate::admission::Admission;
use crate::body_budget::BodyBudget;
use crate::builtin::{self, Description, OPENAPI_PATH};
use crate::failure::Failure;
use crate::gate::{self, Gate};
use crate::response_budget::ResponseBudget;
use crate::route_figures::{self, RouteFigures};
use crate::routes::{Entry, Routes, Share};

/// Everything that answers under one address. Shared by all workers.
pub struct Site {
    admission: Arc<dyn Admission>,
    metrics: Metrics,
    readiness: Readiness,
    shares: Vec<Share>,
    paths: Vec<SitePath>,
    /// Requests that no route answered.
    unrouted: Arc<RouteFigures>,
}

/// One path with all of its methods.
struct SitePath {
    path: String,
    allow: HeaderValue,
    methods: Vec<(Entry, Arc<RouteFigures>)>,
}

impl fmt::Debug for Site {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.paths.iter().map(|served| &served.path)).finish()
    }
}

impl Site {
    pub fn new(
        routes: Routes,
        admission: Arc<dyn Admission>,
        metrics: Metrics,
        readiness: Readiness,
    ) -> Arc<Self> {
        let service = routes.service();
        let description = Description(Bytes::from(routes.openapi_json()));
        let routes = routes
            .merge(builtin::routes(service))
            .share(description)
            .share(metrics.clone())
            .share(readiness.clone())
            .share(BodyBudget::default())
            .share(ResponseBudget::default());
        let unrouted = Arc::new(RouteFigures::new(service, "any", "(unknown)"));
        let paths = by_path(routes.entries);
        let routed = paths.iter().flat_map(|served| &served.methods).map(|(_, figures)| figures);
        let figures: Vec<_> = routed.chain([&unrouted]).map(Arc::clone).collect();
        metrics.source(Box::new(move |text| route_figures::write(&mut Exposition::new(text), &figures)));
        Arc::new(Site { admission, metrics, readiness, shares: routes.shares, paths, unrouted })
    }

    pub fn metrics(&self) -> &Metrics {
        &self.metrics
    }

    pub fn readiness(&self) -> &Readiness {
        &self.readiness
    }

    /// Sets up one worker.
    pub fn configure(&self, config: &mut ServiceConfig) {
        for share in &self.shares {
            share(config);
        }
        let unrouted = Rc::new(Gate::unrouted(self.unrouted.for_worker()));
        let gated: Vec<_> = self.paths.iter().map(|served| (served, self.gates(served))).collect();
        for (served, gates) in &gated {
            config.service(served.resource(&served.path, gates, &unrouted));
        }
        for (served, gates) in &gated {
            if let Some(path) = with_slash(&served.path) {
                config.service(served.resource(&path, gates, &unrouted));
            }
        }
        config.default_service(gate::route(None, unrouted, unknown_path));
    }

    fn gates(&self, served: &SitePath) -> Vec<Rc<Gate>> {
        let gate = |(entry, figures): &(Entry, Arc<RouteFigures>)| {
            Rc::new(Gate::new(
                entry.role,
                entry.takes_query(),
                Arc::clone(&self.admission),
                figures.for_worker(),
            ))
        };
        served.methods.iter().map(gate).collect()
    }
}

impl SitePath {
    fn resource(&self, path: &str, gates: &[Rc<Gate>], unrouted: &Rc<Gate>) -> actix_web::Resource {
        let mut resource = web::resource(path);
        for ((entry, _), gate) in self.methods.iter().zip(gates) {
            resource = resource.route((entry.door)(entry.method.clone(), Rc::clone(gate)));
        }
        let allow = self.allow.clone();
        let refuse = move |req: HttpRequest| std::future::ready(unknown_method(&req, allow.clone()));
        resource.default_service(gate::route(None, Rc::clone(unrouted), refuse))
    }
}

/// Gathers the methods of each path, in the order in which the paths first occur.
fn by_path(entries: Vec<Entry>) -> Vec<SitePath> {
    let mut paths: Vec<SitePath> = Vec::new();
    for entry in entries {
        let figures = Arc::new(RouteFigures::new(entry.service, entry.method.as_str(), &entry.path));
        match paths.iter_mut().find(|served| served.path == entry.path) {
            Some(served) => served.methods.push((entry, figures)),
            None => paths.push(SitePath {
                path: entry.path.clone(),
                allow: HeaderValue::from_static(""),
                methods: vec![(entry, figures)],
            }),
        }
    }
    for served in &mut paths {
        let methods: Vec<&str> = served.methods.iter().map(|(entry, _)| entry.method.as_str()).collect();
        // The names of methods are visible ASCII, so this cannot fail.
        served.allow = HeaderValue::try_from(methods.join(", ")).unwrap_or(HeaderValue::from_static(""));
    }
    paths
}

/// The other spelling of a path; none if it ends in a slash or takes any rest (`{rest:.*}`).
fn with_slash(path: &str) -> Option<String> {
    let ends_open = path.ends_with('/') || path.rsplit('/').next().is_some_and(|last| last.contains(":"));
    (!ends_open).then(|| format!("{path}/"))
}

async fn unknown_path(req: HttpRequest) -> Result<&'static str, Failure> {
    let path = estimand_api::problem::shorten(req.path());
    let detail = format!("nothing answers at {path}; {OPENAPI_PATH} says what does");
    Err(Problem::new(404, kind::NOT_SERVED, "This is not served here", detail).into())
}

fn unknown_method(req: &HttpRequest, allow: HeaderValue) -> Result<&'static str, Failure> {
    let method = estimand_api::problem::shorten(req.method().as_str());
    let allowed = allow.to_str().unwrap_or_default();
    let detail = format!("{method} is not offered here; expected {allowed}");
    let problem = Problem::new(405, kind::METHOD_NOT_ALLOWED, "This method is not offered here", detail);
    Err(Failure::from(problem).with_header(ALLOW, allow))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn which_paths_have_a_second_spelling() {
        assert_eq!(with_slash("/api/data").as_deref(), Some("/api/data/"));
        assert_eq!(with_slash("/api/data/{dataName}").as_deref(), Some("/api/data/{dataName}/"));
        assert_eq!(with_slash("/"), None);
        assert_eq!(with_slash("/files/{rest:.*}"), None);
    }
}

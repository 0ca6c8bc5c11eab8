//! The content of one address: a service's routes, those that every service has, and the answers to everything
//! else, wired to one admission, one set of figures and one readiness.
//!
//! A path is taken as documented or with a slash at its end. An unknown path is a 404, a known path with another method a
//! 405 that says which are allowed. What answers a GET answers HEAD, too.
//!
//! The HTTP library knows none of the routes: it would match a path against one regular expression after the other. It
//! hands everything to one service, which asks the [`Router`].

use std::fmt;
use std::future::ready;
use std::rc::Rc;
use std::sync::Arc;

use actix_web::dev::{ServiceRequest, fn_service};
use actix_web::http::Method;
use actix_web::http::header::{ALLOW, HeaderValue};
use actix_web::web::ServiceConfig;
use actix_web::{Error, HttpRequest};
use bytes::Bytes;
use estimand_api::problem::{Problem, kind};
use estimand_runtime::metrics::Exposition;
use estimand_runtime::{Metrics, Readiness};
use futures_util::FutureExt;
use futures_util::future::Either;

use crate::admission::Admission;
use crate::base_path::BasePath;
use crate::body_budget::BodyBudget;
use crate::builtin::{self, Description, OPENAPI_PATH};
use crate::compression::Encoders;
use crate::cors::{self, AllowedOrigins};
use crate::failure::Failure;
use crate::gate::{self, Door, Gate};
use crate::response_budget::ResponseBudget;
use crate::route_figures::{self, RouteFigures};
use crate::router::Router;
use crate::routes::{Entry, Routes, Share};

/// Everything that answers under one address. Shared by all workers.
pub struct Site {
    admission: Arc<dyn Admission>,
    metrics: Metrics,
    readiness: Readiness,
    shares: Vec<Share>,
    paths: Vec<SitePath>,
    /// Knows each path by its number.
    router: Arc<Router>,
    /// Requests that no route answered.
    unrouted: Arc<RouteFigures>,
    origins: AllowedOrigins,
    base: Option<BasePath>,
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
            .share(ResponseBudget::default())
            .share(Encoders::default());
        let unrouted = Arc::new(RouteFigures::new(service, "any", "(unknown)"));
        let paths = by_path(routes.entries);
        let router = Arc::new(Router::new(paths.iter().map(|served| &*served.path)));
        let routed = paths.iter().flat_map(|served| &served.methods).map(|(_, figures)| figures);
        let figures: Vec<_> = routed.chain([&unrouted]).map(Arc::clone).collect();
        metrics.source(Box::new(move |text| route_figures::write(&mut Exposition::new(text), &figures)));
        let Routes { shares, origins, base, .. } = routes;
        Arc::new(Site { admission, metrics, readiness, shares, paths, router, unrouted, origins, base })
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
        let doors = Rc::new(self.doors());
        let router = Arc::clone(&self.router);
        let origins = self.origins.clone();
        let base = self.base.clone();
        config.default_service(fn_service(move |mut request: ServiceRequest| {
            if let Some(base) = &base {
                if let Some(redirection) = base.redirection(&request) {
                    return Either::Left(ready(Ok(request.into_response(redirection))));
                }
                base.take_off(&mut request);
            }
            let route = router.route(&mut request);
            let door = match origins.is_preflight(&request) {
                true => &doors.preflight,
                false => doors.of(route, request.method()),
            };
            Either::Right(door(request).map(Ok::<_, Error>))
        }));
    }

    fn doors(&self) -> Doors {
        let unrouted = Rc::new(Gate::unrouted(self.unrouted.for_worker(), self.origins.clone()));
        let paths = self.paths.iter().map(|served| {
            let door = |(entry, figures): &(Entry, Arc<RouteFigures>)| {
                let gate = self.gate(entry, figures);
                (entry.method.clone(), (entry.door)(Rc::new(gate)))
            };
            let allow = served.allow.clone();
            let refuse = move |req: HttpRequest| ready(unknown_method(&req, allow.clone()));
            let refusal = gate::door(Rc::clone(&unrouted), refuse);
            PathDoors { methods: served.methods.iter().map(door).collect(), refusal }
        });
        let paths = paths.collect();
        let preflight = gate::door(Rc::clone(&unrouted), cors::preflight);
        Doors { paths, preflight, unknown: gate::door(unrouted, unknown_path) }
    }

    fn gate(&self, entry: &Entry, figures: &RouteFigures) -> Gate {
        let (admission, figures) = (Arc::clone(&self.admission), figures.for_worker());
        Gate::new(entry, admission, figures, self.origins.clone())
    }
}

/// The ways to all handlers in one worker.
struct Doors {
    /// In the order of the site's paths.
    paths: Vec<PathDoors>,
    /// Answers browsers that ask for allowed pages.
    preflight: Door,
    unknown: Door,
}

/// The ways to the handlers of one path.
struct PathDoors {
    methods: Vec<(Method, Door)>,
    /// Answers all other methods.
    refusal: Door,
}

impl Doors {
    fn of(&self, route: Option<usize>, method: &Method) -> &Door {
        let Some(path) = route.map(|route| &self.paths[route]) else { return &self.unknown };
        let find = |method: &Method| path.methods.iter().find(|(offered, _)| offered == method);
        let offered = find(method).or_else(|| find(&Method::GET).filter(|_| *method == Method::HEAD));
        offered.map_or(&path.refusal, |(_, door)| door)
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
        let mut methods: Vec<&str> = served.methods.iter().map(|(entry, _)| entry.method.as_str()).collect();
        if let Some(get) = methods.iter().position(|method| *method == "GET")
            && !methods.contains(&"HEAD")
        {
            methods.insert(get + 1, "HEAD");
        }
        // The names of methods are visible ASCII, so this cannot fail.
        served.allow = HeaderValue::try_from(methods.join(", ")).unwrap_or(HeaderValue::from_static(""));
    }
    paths
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

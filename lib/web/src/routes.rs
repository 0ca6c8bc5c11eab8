//! The routes of a service: each has its role, its handler and its documentation.
//!
//! Method and path come from the documentation (`#[utoipa::path]`), so the description cannot differ from the routes.
//! Of several routes that a path leads to, the one that was added first is taken. Nothing is served from here; a
//! [`Site`](crate::Site) does that.

use std::rc::Rc;
use std::sync::Arc;

use actix_web::dev::Handler;
use actix_web::http::Method;
use actix_web::web::ServiceConfig;
use actix_web::{FromRequest, Responder};
use utoipa::openapi::RefOr;
use utoipa::openapi::path::{HttpMethod, Operation, ParameterIn};
use utoipa::openapi::schema::{Components, Schema};

use crate::base_path::BasePath;
use crate::cors::AllowedOrigins;
use crate::gate::{self, Door, Gate};
use crate::role::Role;
use crate::route_description::{RouteDescription, annotate, describe, extend};

/// Makes the door of one worker: its handler behind the gate that is given.
type DoorMaker = Arc<dyn Fn(Rc<Gate>) -> Door + Send + Sync>;

/// Gives a worker a value that handlers can ask for.
pub(crate) type Share = Box<dyn Fn(&mut ServiceConfig) + Send + Sync>;

/// The routes of a service, in the order in which they were added.
pub struct Routes {
    service: &'static str,
    pub(crate) entries: Vec<Entry>,
    pub(crate) shares: Vec<Share>,
    pub(crate) components: Components,
    pub(crate) origins: AllowedOrigins,
    pub(crate) base: Option<BasePath>,
}

/// One method of one path.
pub(crate) struct Entry {
    pub(crate) service: &'static str,
    pub(crate) role: Role,
    pub(crate) path: String,
    pub(crate) method: Method,
    pub(crate) documented_method: HttpMethod,
    pub(crate) operation: Operation,
    pub(crate) door: DoorMaker,
}

impl Entry {
    /// True if the documentation declares query parameters.
    pub(crate) fn takes_query(&self) -> bool {
        self.operation.parameters.iter().flatten().any(|parameter| match parameter {
            RefOr::T(parameter) => parameter.parameter_in == ParameterIn::Query,
            RefOr::Ref(_) => true,
        })
    }

    /// True if the documentation declares a body. Nobody looks for the one of a GET.
    pub(crate) fn takes_body(&self) -> bool {
        self.method == Method::GET || self.operation.request_body.is_some()
    }
}

impl std::fmt::Debug for Routes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let lines =
            self.entries.iter().map(|entry| format!("{} {} {}", entry.role, entry.method, entry.path));
        f.debug_list().entries(lines).finish()
    }
}

impl Routes {
    /// No routes yet. The name of the service is a label of its figures.
    pub fn new(service: &'static str) -> Self {
        Routes {
            service,
            entries: Vec::new(),
            shares: Vec::new(),
            components: Components::new(),
            origins: AllowedOrigins::default(),
            base: None,
        }
    }

    /// Adds a route.
    ///
    /// # Panics
    /// If the method and path are taken: that is a mistake in the program, found at its first start.
    pub fn add<F, Args, D>(mut self, role: Role, handler: F, _doc: D) -> Self
    where
        D: RouteDescription,
        F: Handler<Args> + Send + Sync,
        Args: FromRequest + 'static,
        F::Output: Responder + 'static,
    {
        let door: DoorMaker = Arc::new(move |gate| gate::door(gate, handler.clone()));
        let mut operation = D::operation();
        annotate(&mut operation, role, <D as utoipa::__dev::Tags<'_>>::tags());
        let methods = D::methods();
        let has_several = methods.len() > 1;
        for documented_method in methods {
            let (method, mut operation) = (method_of(&documented_method), operation.clone());
            // Each operation has a name of its own.
            if let Some(name) = operation.operation_id.as_mut().filter(|_| has_several) {
                *name = format!("{}_{name}", method.as_str().to_ascii_lowercase());
            }
            if method == Method::GET {
                operation.request_body = None;
            }
            self.push(Entry {
                service: self.service,
                role,
                path: D::path(),
                method,
                documented_method,
                operation,
                door: Arc::clone(&door),
            });
        }
        let mut schemas: Vec<(String, RefOr<Schema>)> = Vec::new();
        D::schemas(&mut schemas);
        describe(&mut self.components, schemas);
        self
    }

    /// Describes further components, beyond the schemas that the routes themselves name.
    pub fn schemas<T: utoipa::OpenApi>(mut self) -> Self {
        if let Some(components) = T::openapi().components {
            extend(&mut self.components, components);
        }
        self
    }

    /// Shares a value with the handlers: each takes it as `web::ThinData<T>`. There is one value a type; of
    /// two, the later one is found, also after a merge.
    pub fn share<T: Clone + Send + Sync + 'static>(mut self, value: T) -> Self {
        self.shares.push(Box::new(move |config| {
            config.app_data(actix_web::web::ThinData(value.clone()));
        }));
        self
    }

    /// Lets pages of other origins send requests: those of these, and of no others.
    pub fn allow_origins(self, origins: AllowedOrigins) -> Self {
        Routes { origins, ..self }
    }

    /// Answers below a path, too, as a proxy shows it, and names places there.
    pub fn below(self, base: Option<BasePath>) -> Self {
        let routes = Routes { base: base.clone(), ..self };
        match base {
            Some(base) => routes.share(base),
            None => routes,
        }
    }

    /// Takes over the routes of another service, after the own ones.
    ///
    /// # Panics
    /// If both have a method and path in common.
    pub fn merge(mut self, other: Routes) -> Self {
        for entry in other.entries {
            self.push(entry);
        }
        self.shares.extend(other.shares);
        extend(&mut self.components, other.components);
        self
    }

    pub(crate) fn service(&self) -> &'static str {
        self.service
    }

    fn push(&mut self, entry: Entry) {
        let taken = self.entries.iter().any(|other| other.method == entry.method && other.path == entry.path);
        assert!(!taken, "{} {} is routed twice", entry.method, entry.path);
        assert!(entry.path.starts_with('/'), "the path {:?} does not start with a slash", entry.path);
        self.entries.push(entry);
    }
}

fn method_of(documented: &HttpMethod) -> Method {
    match documented {
        HttpMethod::Get => Method::GET,
        HttpMethod::Post => Method::POST,
        HttpMethod::Put => Method::PUT,
        HttpMethod::Delete => Method::DELETE,
        HttpMethod::Options => Method::OPTIONS,
        HttpMethod::Head => Method::HEAD,
        HttpMethod::Patch => Method::PATCH,
        HttpMethod::Trace => Method::TRACE,
    }
}

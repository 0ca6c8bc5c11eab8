//! Every request passes its route's gate on the way to a handler and back.
//!
//! In: admission, a check that a route without query parameters or body is given none, and a place among the requests in
//! flight. Back: an answer that the caller has already becomes one without a body, errors take their final shape, the
//! request's name and what a page of an allowed origin needs go into the headers, a large answer is compressed for a
//! caller that asks for it, the outcome is counted and logged. A handler that panics is a 500, and nothing else is harmed.
//! A long-running response ends when the caller's token is revoked or expires. A request that succeeds without a name of its own pays for two readings of the clock, a
//! few uncontended atomics and one look into the headers.

use std::panic::AssertUnwindSafe;
use std::rc::Rc;
use std::sync::Arc;

use actix_web::body::{BodySize, MessageBody as _};
use actix_web::dev::{Handler, Payload, ServiceRequest, ServiceResponse};
use actix_web::http::header::HeaderValue;
use actix_web::http::{ConnectionType, Version};
use actix_web::{FromRequest, HttpMessage, HttpRequest, HttpResponse, Responder};
use estimand_api::problem::Problem;
use estimand_runtime::panic_text;
use futures_util::FutureExt;
use futures_util::future::LocalBoxFuture;

use crate::access_log;
use crate::admission::Admission;
use crate::base_path;
use crate::body;
use crate::browser;
use crate::busy_body;
use crate::compression;
use crate::conditional;
use crate::cors::AllowedOrigins;
use crate::failure::{self, Failure};
use crate::log_text::logged;
use crate::query::Query;
use crate::request_id;
use crate::response_budget;
use crate::revocation;
use crate::role::{Principal, Role};
use crate::route_figures::WorkerFigures;
use crate::routes::Entry;

/// The gate of one route in one worker.
pub(crate) struct Gate {
    role: Role,
    /// None where there is nothing to protect: unknown paths and methods.
    admission: Option<Arc<dyn Admission>>,
    /// The route declares query parameters; any other rejects a query.
    takes_query: bool,
    /// The route declares a body; any other rejects one.
    takes_body: bool,
    figures: Arc<WorkerFigures>,
    origins: AllowedOrigins,
}

impl Gate {
    /// The gate of a route.
    pub(crate) fn new(
        entry: &Entry,
        admission: Arc<dyn Admission>,
        figures: Arc<WorkerFigures>,
        origins: AllowedOrigins,
    ) -> Self {
        Gate {
            role: entry.role,
            admission: Some(admission),
            takes_query: entry.takes_query(),
            takes_body: entry.takes_body(),
            figures,
            origins,
        }
    }

    /// The gate of unknown paths and methods.
    pub(crate) fn unrouted(figures: Arc<WorkerFigures>, origins: AllowedOrigins) -> Self {
        Gate { role: Role::Open, admission: None, takes_query: true, takes_body: true, figures, origins }
    }

    async fn pass<F, Args>(&self, handler: &F, request: ServiceRequest) -> ServiceResponse
    where
        F: Handler<Args>,
        Args: FromRequest,
        F::Output: Responder,
    {
        let (req, payload) = request.into_parts();
        let in_flight = self.figures.enter();
        let busy = busy_body::begin(&req);
        let (response, principal) = match self.admit(&req) {
            Ok(principal) => {
                let answering = answer(handler, &req, payload);
                let response = match &self.admission {
                    Some(admission) => {
                        revocation::until_revoked(answering, &**admission, self.role, &req).await
                    }
                    None => answering.await,
                };
                (response, principal)
            }
            Err(problem) => (HttpResponse::from_error(Failure::from(problem)), None),
        };
        let response = response_budget::bounded(&req, conditional::tagged(&req, response));
        let mut response = conclude(&req, response);
        base_path::make_public(&req, &mut response);
        self.origins.mark(req.headers(), &mut response);
        let mut response = compression::compressed(&req, response);
        frame(&req, &mut response);
        let response = conditional::without_body(&req, response);
        let status = response.status();
        let took = in_flight.answered(status);
        access_log::write(&req, self.role, status, took, principal.as_ref());
        ServiceResponse::new(req, busy_body::keep(busy, response))
    }

    fn admit(&self, req: &HttpRequest) -> Result<Option<Principal>, Problem> {
        let Some(admission) = &self.admission else { return Ok(None) };
        browser::check_origin(req, &self.origins)?;
        let principal = admission.check(self.role, req)?;
        if !self.takes_query {
            Query::parse(req.query_string(), &[])?;
        }
        if !self.takes_body {
            body::refuse_any(req)?;
        }
        if self.role.names_principal() || principal.user().is_some() {
            req.extensions_mut().insert(principal.clone());
        }
        Ok(Some(principal))
    }
}

/// The way to one handler in one worker.
pub(crate) type Door = Rc<dyn Fn(ServiceRequest) -> LocalBoxFuture<'static, ServiceResponse>>;

/// Puts a handler behind the gate.
///
/// Gate and handler are one service rather than a middleware around another one: that spares a boxed future
/// a request, and the handler need not be cloned for each.
pub(crate) fn door<F, Args>(gate: Rc<Gate>, handler: F) -> Door
where
    F: Handler<Args>,
    Args: FromRequest + 'static,
    F::Output: Responder + 'static,
{
    let behind = Rc::new((gate, handler));
    Rc::new(move |request| {
        let behind = Rc::clone(&behind);
        async move { behind.0.pass(&behind.1, request).await }.boxed_local()
    })
}

/// Runs the handler. There is a response in any case.
async fn answer<F, Args>(handler: &F, req: &HttpRequest, mut payload: Payload) -> HttpResponse
where
    F: Handler<Args>,
    Args: FromRequest,
    F::Output: Responder,
{
    let answering = async {
        match Args::from_request(req, &mut payload).await {
            Ok(args) => handler.call(args).await.respond_to(req).map_into_boxed_body(),
            Err(error) => HttpResponse::from_error(error),
        }
    };
    match AssertUnwindSafe(answering).catch_unwind().await {
        Ok(response) => response,
        Err(panic) => {
            let request_id = request_id::of(req);
            let method = logged(req.method().as_str());
            let (path, panic) = (logged(req.path()), panic_text(&*panic));
            tracing::error!(%method, %path, request_id, panic, "a handler panicked");
            HttpResponse::from_error(Failure::from(Problem::internal()))
        }
    }
}

/// A client that speaks HTTP/1.0, as nginx does unless it is told otherwise, knows no chunks: the end of the connection is
/// that of a stream.
fn frame(req: &HttpRequest, response: &mut HttpResponse) {
    if req.version() < Version::HTTP_11 && response.body().size() == BodySize::Stream {
        let head = response.head_mut();
        head.no_chunking(true);
        head.set_connection_type(ConnectionType::Close);
    }
}

fn conclude(req: &HttpRequest, mut response: HttpResponse) -> HttpResponse {
    browser::seal(&mut response);
    let failed = response.status().is_client_error() || response.status().is_server_error();
    let brought = request_id::brought(req);
    if !failed && brought.is_none() {
        return response;
    }
    let (mut response, name) = if failed {
        let name = request_id::of(req);
        (failure::shape(response, &name), HeaderValue::try_from(name).ok())
    } else {
        (response, brought.cloned())
    };
    if let Some(name) = name {
        response.headers_mut().insert(request_id::HEADER.clone(), name);
    }
    response
}

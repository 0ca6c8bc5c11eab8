//! The shares of users in what any service of this process may have open: watches, requests that wait, connections, bytes on
//! their way. They are counted here, by what a response is and not by who answers, so that no service can forget them.

use std::sync::{Arc, Mutex, PoisonError};

use actix_web::http::{ConnectionType, StatusCode};
use actix_web::{HttpRequest, HttpResponse};
use estimand_api::problem::{Problem, kind};
use estimand_api::share::ShareKind;

use crate::body_budget;
use crate::connections::{self, Connection};
use crate::failure::{Failure, Foreign};
use crate::response_budget;
use crate::role::Principal;
use crate::share_report::ShareReport;
use crate::shares::Permit;

/// The bounds of which each user has a part; a service may bound its own more tightly for all.
const MAX_WATCHES: u64 = 2_000;
const MAX_POLLS: u64 = 2_000;
/// Changes wait for each other, for processors and for the disk: a user with a thousand under way would be before everybody else.
const MAX_CHANGES: u64 = 512;

/// The place of a connection among those of the user who showed a token on it last.
pub(crate) type ConnectionShare = Mutex<Option<(Arc<str>, Permit)>>;

pub(crate) fn report_bounds(report: &mut ShareReport) {
    report.bound(ShareKind::Watches, MAX_WATCHES);
    report.bound(ShareKind::Polls, MAX_POLLS);
    report.bound(ShareKind::Connections, max_connections());
    report.bound(ShareKind::Changes, MAX_CHANGES);
    report.bound(ShareKind::Bodies, body_budget::BUDGET_BYTES as u64);
    report.bound(ShareKind::Responses, response_budget::BUDGET_BYTES as u64);
}

/// A request whose response is not there at once.
pub(crate) fn poll(req: &HttpRequest) -> Result<Permit, Problem> {
    Permit::take(req, ShareKind::Polls, MAX_POLLS)
}

/// A request that may change something, from its head until its response.
pub(crate) fn change(req: &HttpRequest) -> Result<Permit, Problem> {
    Permit::take(req, ShareKind::Changes, MAX_CHANGES)
}

/// A response without end. One that becomes a WebSocket, or is a task's, is counted by the service that knows what it is.
pub(crate) fn watch(req: &HttpRequest, response: &HttpResponse) -> Result<Option<Permit>, Problem> {
    let is_other = response.status() == StatusCode::SWITCHING_PROTOCOLS
        || response.extensions().get::<Foreign>().is_some();
    if is_other { Ok(None) } else { Permit::take(req, ShareKind::Watches, MAX_WATCHES).map(Some) }
}

/// Counts the connection of a request for its user, from the first one that shows a token until it is closed.
pub(crate) fn connect(req: &HttpRequest, caller: &Principal) -> Result<(), Problem> {
    let Some((user, connection)) = caller.as_user().zip(req.conn_data::<Arc<Connection>>()) else {
        return Ok(());
    };
    let mut share = connection.share().lock().unwrap_or_else(PoisonError::into_inner);
    if share.as_ref().is_none_or(|(name, _)| **name != *user.name()) {
        // First that of another user: it is theirs no more.
        *share = None;
        let permit = user.take(ShareKind::Connections, max_connections())?;
        *share = Some((user.name().into(), permit));
    }
    Ok(())
}

fn max_connections() -> u64 {
    connections::most() as u64
}

/// The refusal of a request. A connection that is one too many is closed with it.
pub(crate) fn refused(problem: Problem) -> HttpResponse {
    let is_one_too_many = problem.kind == kind::SHARE_FULL;
    let mut response = HttpResponse::from_error(Failure::from(problem));
    if is_one_too_many {
        response.head_mut().set_connection_type(ConnectionType::Close);
    }
    response
}

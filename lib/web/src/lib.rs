//! The common parts of Estimand's HTTP services: one set-up of the server, one gate in front of each handler and
//! one shape of failure.
//!
//! A service builds [`Routes`] (each with a [`Role`] and its documentation), turns them into a [`Site`] and
//! gives that to a [`Server`]. The gate in front of each handler checks the role, counts, measures and logs;
//! handlers only translate between HTTP and their application.
//!
//! This crate knows `estimand-api` and `estimand-runtime` and nothing else of Estimand: no value, no registration, no
//! table.

// A `Problem` is large, and it is made only when a request is refused: boxing it in every signature would
// make the code worse for the sake of the cold path.
#![allow(clippy::result_large_err)]

mod accept;
mod access_log;
mod admission;
mod base_path;
pub mod body;
mod body_budget;
mod body_encoding;
mod browser;
mod builtin;
mod busy_body;
mod compression;
mod conditional;
mod connections;
mod cors;
mod events;
pub mod failure;
mod gate;
mod live_shares;
mod log_text;
mod openapi;
pub mod parameters;
mod path;
pub mod query;
pub mod request_id;
mod response_budget;
mod revocation;
pub mod role;
mod route_description;
mod route_figures;
mod router;
pub mod routes;
mod scope;
mod served_part;
pub mod server;
mod share_report;
mod shares;
pub mod site;
mod websocket;

pub use accept::{NDJSON, is_ndjson, wants_lines, wants_text};
pub use admission::{Admission, OpenAdmission, Revocation};
pub use base_path::{BasePath, public_path};
pub use body::{Body, read_body};
pub use body_encoding::refuse_compressed;
pub use browser::{host_of, is_own_origin};
pub use builtin::{exposition, not_ready};
pub use conditional::{
    ContentDigest, asks_for_tag, content_digest, has_already, has_tag, joined_digest, set_digest,
};
pub use cors::{AllowedOrigins, Origin, OriginError};
pub use events::{KEEP_ALIVE, STILL_HERE, event_stream, held, last_event_id, push_event, push_event_id};
pub use failure::{Failure, Foreign};
pub use path::{path_name, path_node, segment};
pub use query::Query;
pub use response_budget::{ResponseBudget, ResponseReservation, Slices};
pub use role::{LabelGrant, Principal, Role};
pub use routes::Routes;
pub use scope::Scope;
pub use served_part::{ServedPart, serve_parts};
pub use server::{PeerIdentity, Server, ServerOptions, Tls, TlsOptions};
pub use share_report::ShareReport;
pub use shares::{Permit, User, Users};
pub use site::Site;
pub use websocket::{Wire, is_upgrade, websocket, wire};

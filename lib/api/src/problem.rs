//! Problem details (RFC 9457): the one shape of errors in all parts of Estimand.
//!
//! A problem describes the error in a sentence, and names for each wrong input its field, the given value
//! and the expected one. It is a value like any other: handlers return it, the client gives it back to
//! the caller, the command line prints it. It never carries a stack trace, a query or a file's content.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The media type of a problem.
pub const MEDIA_TYPE: &str = "application/problem+json";

/// The kinds of problems: short, stable names that programs tell apart. A newer service may send others.
pub mod kind {
    /// 400: the request is wrong as it stands; `errors` says where.
    pub const INVALID_INPUT: &str = "invalid-input";
    /// 401: the request needs a token.
    pub const UNAUTHORIZED: &str = "unauthorized";
    /// 403: the token does not allow it.
    pub const FORBIDDEN: &str = "forbidden";
    /// 404: there is no such thing.
    pub const NOT_FOUND: &str = "not-found";
    /// 404: the service does not serve this path; another one may.
    pub const NOT_SERVED: &str = "not-served";
    /// 404: there is a value, but none in the state or of the age that was asked for.
    pub const NOT_AS_ASKED: &str = "not-as-asked";
    /// 404: there is a value, but it has no such field.
    pub const NO_SUCH_FIELD: &str = "no-such-field";
    /// 405: the path does not offer this method.
    pub const METHOD_NOT_ALLOWED: &str = "method-not-allowed";
    /// 408: the request took too long to arrive.
    pub const TIMEOUT: &str = "timeout";
    /// 409: the request contradicts the present state.
    pub const CONFLICT: &str = "conflict";
    /// 409: the node's agent must send a heartbeat first.
    pub const UNKNOWN_NODE: &str = "unknown-node";
    /// 409: the agent was started again since; this start of it must end.
    pub const SUPERSEDED: &str = "superseded";
    /// 409: another agent holds the node's name.
    pub const NODE_TAKEN: &str = "node-taken";
    /// 409: a reservation costs more than it is said to be worth.
    pub const PRICE_ABOVE_VALUE: &str = "price-above-value";
    /// 409: there is no start at which so much is free for so long.
    pub const INFEASIBLE: &str = "infeasible";
    /// 409: the account has too few credits.
    pub const TOO_FEW_CREDITS: &str = "too-few-credits";
    /// 409: a bound name would serve nothing any more.
    pub const SERVES_NOTHING: &str = "serves-nothing";
    /// 409, or 503 for what passes: the user's own share is used up.
    pub const SHARE_FULL: &str = "share-full";
    /// 410: what is asked for was there, and is not kept any more.
    pub const GONE: &str = "gone";
    /// 412: it is not at the version that `If-Match` asks for.
    pub const PRECONDITION_FAILED: &str = "precondition-failed";
    /// 413: the request is larger than the limit.
    pub const TOO_LARGE: &str = "too-large";
    /// 415: the body is of a media type that is not taken here.
    pub const UNSUPPORTED_MEDIA_TYPE: &str = "unsupported-media-type";
    /// 500: a fault of the service.
    pub const INTERNAL: &str = "internal";
    /// 500: the stored data cannot be read.
    pub const UNREADABLE: &str = "unreadable";
    /// 503: not now; nothing was done.
    pub const UNAVAILABLE: &str = "unavailable";
    /// 503: the request may or may not have taken effect.
    pub const OUTCOME_UNKNOWN: &str = "outcome-unknown";
    /// 503: this manager does not lead; the one that leads must be asked.
    pub const STANDING_BY: &str = "standing-by";
    /// 507: the disk has no room.
    pub const NO_ROOM: &str = "no-room";
    /// 504: the agent did not say in time how a run by hand went.
    pub const NO_ANSWER: &str = "no-answer";
}

/// How much of a wrong input is repeated in an answer.
const MAX_GIVEN_CHARS: usize = 120;

/// A failed request, for people and programs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Problem {
    /// A short, stable name of the kind of problem, e.g. `invalid-input`.
    #[serde(rename = "type")]
    pub kind: String,
    /// The same in words.
    pub title: String,
    /// The HTTP status.
    pub status: u16,
    /// The cause of this one.
    pub detail: String,
    /// Every input that was wrong.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub errors: Vec<FieldError>,
    /// Names this request in the log of the service.
    #[serde(default, rename = "requestId", skip_serializing_if = "Option::is_none")]
    pub request_id: Option<String>,
    /// After how many seconds it makes sense to ask again; also the header `Retry-After`.
    #[serde(default, rename = "retryAfter", skip_serializing_if = "Option::is_none")]
    pub retry_after: Option<u32>,
    /// Where there would be room, if there is none for a promise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub room: Option<Box<Room>>,
}

/// Why there is no room for a promise, and where there would be.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Room {
    /// The revision of the ledger.
    pub revision: u64,
    /// The place of the promise in `allOrNone`, if it is about one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub promise: Option<u64>,
    /// How many units there is room for in its window.
    #[serde(default)]
    pub units: u64,
    /// How many there would be room for if nothing were promised.
    #[serde(default)]
    pub most_units: u64,
    /// The first tick from `from` on at which all of it would fit for as long.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_fit: Option<u64>,
}

/// One wrong input.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct FieldError {
    /// Where it stands: a field's name, `limits.memory`, `[3].nodeName`, or `body`.
    pub field: String,
    /// The error in it.
    pub message: String,
    /// The input, shortened.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub given: Option<String>,
    /// Right input, in words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expected: Option<String>,
}

impl FieldError {
    pub fn new(field: impl Into<String>, message: impl Into<String>) -> Self {
        FieldError { field: field.into(), message: message.into(), given: None, expected: None }
    }

    pub fn given(mut self, given: impl fmt::Display) -> Self {
        self.given = Some(shorten(&given.to_string()));
        self
    }

    pub fn expected(mut self, expected: impl Into<String>) -> Self {
        self.expected = Some(expected.into());
        self
    }
}

impl Problem {
    pub fn new(status: u16, kind: &str, title: &str, detail: impl Into<String>) -> Self {
        Problem {
            kind: kind.to_owned(),
            title: title.to_owned(),
            status,
            detail: detail.into(),
            errors: Vec::new(),
            request_id: None,
            retry_after: None,
            room: None,
        }
    }

    /// 400: the request is wrong as it stands; `errors` says where.
    pub fn invalid(errors: Vec<FieldError>) -> Self {
        let detail = match errors.as_slice() {
            [] => "the request is not valid".to_owned(),
            [one] => one.to_string(),
            [first, rest @ ..] => format!("{first} (and {} more)", rest.len()),
        };
        Problem { errors, ..Self::new(400, kind::INVALID_INPUT, "The request is not valid", detail) }
    }

    /// 400 for a single field.
    pub fn invalid_field(error: FieldError) -> Self {
        Self::invalid(vec![error])
    }

    /// 404: there is no such thing.
    pub fn not_found(detail: impl Into<String>) -> Self {
        Self::new(404, kind::NOT_FOUND, "There is no such thing", detail)
    }

    /// 409: the request contradicts the present state.
    pub fn conflict(detail: impl Into<String>) -> Self {
        Self::new(409, kind::CONFLICT, "This contradicts what is there", detail)
    }

    /// 410: it was there, and is not kept any more.
    pub fn gone(detail: impl Into<String>) -> Self {
        Self::new(410, kind::GONE, "This is not kept any more", detail)
    }

    /// 413: larger than the limit.
    pub fn too_large(detail: impl Into<String>) -> Self {
        Self::new(413, kind::TOO_LARGE, "The request is too large", detail)
    }

    /// 503: not now; nothing was done.
    pub fn unavailable(detail: impl Into<String>, retry_after: u32) -> Self {
        let problem = Self::new(503, kind::UNAVAILABLE, "The service cannot do this now", detail);
        Problem { retry_after: Some(retry_after), ..problem }
    }

    /// 503: it may or may not have been done. Not to be sent again unseen, unless twice is the same as once.
    pub fn outcome_unknown(detail: impl Into<String>, retry_after: u32) -> Self {
        let problem = Self::new(503, kind::OUTCOME_UNKNOWN, "It is unknown whether this was done", detail);
        Problem { retry_after: Some(retry_after), ..problem }
    }

    /// 500: a fault of ours. The cause belongs into the log, not into the answer.
    pub fn internal() -> Self {
        Self::new(500, kind::INTERNAL, "The service failed", "the service failed; its log says why")
    }

    /// Renders the problem as its JSON document.
    pub fn to_json(&self) -> String {
        serde_json::to_string(self).unwrap_or_else(|_| r#"{"type":"internal","status":500}"#.to_owned())
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.detail)
    }
}

impl std::error::Error for Problem {}

impl fmt::Display for FieldError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.field, self.message)?;
        if let Some(given) = &self.given {
            write!(f, ", given {given}")?;
        }
        if let Some(expected) = &self.expected {
            write!(f, "; expected {expected}")?;
        }
        Ok(())
    }
}

/// Cuts an input down to the length that an answer may repeat, on one line.
pub fn shorten(text: &str) -> String {
    let shown = |c: char| match c {
        '\n' => '⏎',
        '\t' => ' ',
        _ if c.is_control() => '\u{fffd}',
        _ => c,
    };
    let mut short: String = text.chars().take(MAX_GIVEN_CHARS).map(shown).collect();
    if text.chars().nth(MAX_GIVEN_CHARS).is_some() {
        short.push('…');
    }
    short
}

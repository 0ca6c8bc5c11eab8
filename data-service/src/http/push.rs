//! Points that a client of InfluxDB sends: what Telegraf's `outputs.influxdb_v2` and the libraries of InfluxDB write, and
//! what a shell can.
//!
//! As in InfluxDB the lines that are right are stored, also if others are not, and the answer is 400 then: a client drops
//! what was refused, and would drop all of it.

use actix_web::web::ThinData;
use actix_web::{HttpRequest, HttpResponse};
use estimand_api::duration::Span;
use estimand_api::names::{DataName, NodeName};
use estimand_api::problem::{FieldError, Problem};
use estimand_api::write::{MAX_BATCH_BYTES, MAX_BATCH_ITEMS, Write};
use estimand_dialects::influx::{self, Push};
use estimand_dialects::{RejectedRecords, recognized};
use estimand_web::{Body, Failure, Principal, Query};

use crate::DataService;
use crate::http::refusals::Protocol;
use crate::http::{pushed, valid_for};

/// The tag that says which node a point is of, as Telegraf sets it.
const NODE_TAG: &str = "host";
const UNITS: [(&str, i64); 4] = [("ns", 1), ("us", 1_000), ("ms", 1_000_000), ("s", 1_000_000_000)];
const UNITS_OF_VERSION_1: [(&str, i64); 8] = [
    ("n", 1),
    ("ns", 1),
    ("u", 1_000),
    ("us", 1_000),
    ("ms", 1_000_000),
    ("s", 1_000_000_000),
    ("m", 60_000_000_000),
    ("h", 3_600_000_000_000),
];

/// Writes points in InfluxDB's line protocol: those of the measurement `M` of a host become the value `BUCKET_M` of that node.
#[utoipa::path(
    post,
    path = "/api/v2/write",
    operation_id = "push_lines",
    tag = "data",
    params(
        ("bucket" = String, Query, description = "The data names begin with it and `_`"),
        ("precision" = Option<String>, Query, description = "The unit of the times: `ns` (the default), `us`, `ms` or `s`"),
        ("org" = Option<String>, Query, description = "Taken, because clients of InfluxDB send it; there is nothing to be chosen by it"),
        ("orgID" = Option<String>, Query, description = "The same"),
        ("Estimand-Valid-For" = Option<Span>, Header, description = "For how long the values hold; otherwise they never turn stale"),
        ("Content-Encoding" = Option<String>, Header, description = "`gzip`, if the body is compressed"),
    ),
    request_body(content = String, content_type = "text/plain", description = "Lines such as `cpu,host=a,cpu=cpu0 usage=1.5 1700000000000000000`; at most 8 MiB"),
    responses(
        (status = 204, description = "All of it is stored"),
        (status = 400, description = "A parameter is not valid, and nothing is stored; or lines are not, and the others are stored: the detail says which", body = Problem),
        (status = 403, description = "A node writes values of another one", body = Problem),
        (status = 409, description = "A name is bound to another one; nothing is stored", body = Problem),
        (status = 413, description = "Too many fields or values, or too large; nothing is stored", body = Problem),
        (status = 415, description = "The body is compressed in another way than by gzip", body = Problem),
        (status = 503, description = "Not now; see `Retry-After`", body = Problem),
    )
)]
pub async fn push(
    req: HttpRequest,
    caller: Principal,
    body: Body<MAX_BATCH_BYTES>,
    service: ThinData<DataService>,
) -> Result<HttpResponse, Failure> {
    let query = PushQuery::of_version_2(&req)?;
    take(&req, &caller, body, &service, query).await
}

/// Writes points as clients of InfluxDB 1 do: a database is what a bucket is in version 2.
///
/// Databases are not made, and there is nothing to be chosen by retention policies. A token goes into the header
/// `Authorization`; `u` and `p` are not taken, since a URL is read by others.
#[utoipa::path(
    post,
    path = "/write",
    operation_id = "push_lines_to_version_1",
    tag = "data",
    params(
        ("db" = String, Query, description = "The data names begin with it and `_`"),
        ("precision" = Option<String>, Query, description = "The unit of the times: `n` or `ns` (the default), `u` or `us`, `ms`, `s`, `m` or `h`"),
        ("rp" = Option<String>, Query, description = "Taken, because clients of InfluxDB send it; there is nothing to be chosen by it"),
        ("consistency" = Option<String>, Query, description = "The same"),
        ("Estimand-Valid-For" = Option<Span>, Header, description = "For how long the values hold; otherwise they never turn stale"),
        ("Content-Encoding" = Option<String>, Header, description = "`gzip`, if the body is compressed"),
    ),
    request_body(content = String, content_type = "text/plain", description = "As for `/api/v2/write`"),
    responses(
        (status = 204, description = "All of it is stored"),
        (status = 400, description = "A parameter is not valid, and nothing is stored; or lines are not, and the others are stored: the detail says which", body = Problem),
        (status = 403, description = "A node writes values of another one", body = Problem),
        (status = 409, description = "A name is bound to another one; nothing is stored", body = Problem),
        (status = 413, description = "Too many fields or values, or too large; nothing is stored", body = Problem),
        (status = 415, description = "The body is compressed in another way than by gzip", body = Problem),
        (status = 503, description = "Not now; see `Retry-After`", body = Problem),
    )
)]
pub async fn push_to_version_1(
    req: HttpRequest,
    caller: Principal,
    body: Body<MAX_BATCH_BYTES>,
    service: ThinData<DataService>,
) -> Result<HttpResponse, Failure> {
    let query = PushQuery::of_version_1(&req)?;
    take(&req, &caller, body, &service, query).await
}

/// Stores the lines of a push, and tells of those that are wrong.
async fn take(
    req: &HttpRequest,
    caller: &Principal,
    body: Body<MAX_BATCH_BYTES>,
    service: &DataService,
    query: PushQuery,
) -> Result<HttpResponse, Failure> {
    let PushQuery { bucket, unit, valid_for } = query;
    let body_bytes = body.0.len();
    let storing = async {
        let (writes, rejected, protocol) = body
            .parse(move |text| {
                let (writes, rejected) = read(text, &bucket, unit, valid_for)?;
                let protocol = recognized(text).filter(|_| rejected.count > 0);
                Ok((writes, rejected, protocol))
            })
            .await?;
        pushed::store(req, caller, service, writes, body_bytes).await?;
        Ok((rejected, protocol))
    };
    let refusals = service.refusals();
    let (rejected, protocol): (RejectedRecords, _) =
        storing.await.inspect_err(|problem| refusals.note(Protocol::Influx, caller, problem))?;
    let Some(sentence) = rejected.sentence() else { return Ok(HttpResponse::NoContent().finish()) };
    refusals.note_left_out(Protocol::Influx, caller, rejected.count as u64, &sentence);
    let detail = match protocol {
        None => format!("{sentence}; what else was sent is stored"),
        Some(protocol) => format!("{sentence}; {protocol}; what else was sent is stored"),
    };
    Err(Problem::invalid_field(FieldError::new("body", detail)).into())
}

/// The parameters of a push.
struct PushQuery {
    bucket: String,
    /// In nanoseconds.
    unit: i64,
    valid_for: Option<i64>,
}

impl PushQuery {
    fn of_version_2(req: &HttpRequest) -> Result<Self, Problem> {
        let query = Query::parse(req.query_string(), &["bucket", "precision", "org", "orgID"])?;
        Self::read(req, ("bucket", query.get("bucket")), (query.get("precision"), &UNITS))
    }

    fn of_version_1(req: &HttpRequest) -> Result<Self, Problem> {
        let query = Query::parse(req.query_string(), &["db", "precision", "rp", "consistency"])?;
        Self::read(req, ("db", query.get("db")), (query.get("precision"), &UNITS_OF_VERSION_1))
    }

    fn read(
        req: &HttpRequest,
        (parameter, bucket): (&str, Option<&str>),
        (precision, units): (Option<&str>, &[(&str, i64)]),
    ) -> Result<Self, Problem> {
        let bucket = bucket.unwrap_or_default().to_owned();
        DataName::parse(&bucket).map_err(|error| Problem::invalid_field(error.at(parameter)))?;
        let unit = match precision {
            None => 1,
            Some(given) => {
                units.iter().find(|(name, _)| *name == given).map(|(_, unit)| *unit).ok_or_else(|| {
                    let names: Vec<_> = units.iter().map(|(name, _)| format!("`{name}`")).collect();
                    let error = FieldError::new("precision", "is no unit of time here").given(given);
                    Problem::invalid_field(error.expected(format!("one of {}", names.join(", "))))
                })?
            }
        };
        Ok(PushQuery { bucket, unit, valid_for: valid_for::of(req)? })
    }
}

/// The writes that the lines mean, and what was left out.
fn read(
    body: &[u8],
    bucket: &str,
    unit: i64,
    valid_for: Option<i64>,
) -> Result<(Vec<Write>, RejectedRecords), Problem> {
    let text = std::str::from_utf8(body).map_err(|error| {
        let message = format!("is not UTF-8 from byte {} on", error.valid_up_to());
        Problem::invalid_field(FieldError::new("body", message))
    })?;
    let Push { values, mut rejected } = influx::push(text, NODE_TAG, unit).map_err(Problem::too_large)?;
    if values.len() > MAX_BATCH_ITEMS {
        let (count, most) = (values.len(), MAX_BATCH_ITEMS);
        return Err(Problem::too_large(format!("the lines are {count} values; expected at most {most}")));
    }
    let mut writes = Vec::with_capacity(values.len());
    for value in values {
        let name = DataName::parse(&format!("{bucket}_{}", value.measurement));
        let named = name.and_then(|name| Ok((name, NodeName::parse(&value.node)?)));
        match named {
            Ok(place) => writes.push(pushed::write_of(place, value.value, value.at, valid_for)),
            Err(error) => rejected.push(|| format!("`{}` of `{}`: {error}", value.measurement, value.node)),
        }
    }
    Ok((writes, rejected))
}

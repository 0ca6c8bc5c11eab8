//! Metrics as OpenTelemetry exports them: what the SDKs and the Collector send to an endpoint of OTLP/HTTP.
//!
//! Answers are those of OTLP, in the encoding of the request: what is wrong is left out and counted (a *partial success*),
//! and a refusal is a `Status`. A client drops what was refused, and sends again what was answered with 503.

use actix_web::http::ConnectionType;
use actix_web::http::header::{CONTENT_TYPE, RETRY_AFTER};
use actix_web::web::{Payload, ThinData};
use actix_web::{HttpRequest, HttpResponse};
use estimand_api::duration::Span;
use estimand_api::headers::{NAME_PREFIX_HEADER, SERIES_ATTRIBUTES_HEADER};
use estimand_api::names::{DataName, NodeName};
use estimand_api::problem::{FieldError, Problem, kind, shorten};
use estimand_api::write::{MAX_BATCH_BYTES, MAX_BATCH_ITEMS};
use estimand_otlp::values::{PushedValue, Rejected, Settings, Values, values};
use estimand_otlp::{Encoding, MAX_DECODED_BYTES, partial_success, status};
use estimand_web::{Failure, Foreign, Principal, read_body};

use crate::DataService;
use crate::http::refusals::Protocol;
use crate::http::{pushed, valid_for};

/// The most attributes that tell series apart.
const MAX_SERIES_ATTRIBUTES: usize = 16;

/// Takes metrics by OTLP/HTTP: all points of a metric on a node become one value of that node.
#[utoipa::path(
    post,
    path = "/v1/metrics",
    operation_id = "push_metrics",
    tag = "data",
    params(
        ("Estimand-Name-Prefix" = Option<String>, Header, description = "Data names begin with it, and it may be empty; otherwise with the resource's `service.name` and `_`, or with `otel_` if there is none"),
        ("Estimand-Series-Attributes" = Option<String>, Header, description = "Resource attributes that tell series apart, such as `k8s.pod.name,process.pid`; otherwise those of the points do alone"),
        ("Estimand-Valid-For" = Option<Span>, Header, description = "For how long the values hold; otherwise they never turn stale"),
        ("Content-Encoding" = Option<String>, Header, description = "`gzip`, if the body is compressed"),
    ),
    request_body(
        content((Vec<u8> = "application/x-protobuf"), (Object = "application/json")),
        description = "An `ExportMetricsServiceRequest` of OTLP; at most 8 MiB",
    ),
    responses(
        (status = 200, description = "Stored; `partialSuccess` counts the points that were left out, and says why", content((Vec<u8> = "application/x-protobuf"), (Object = "application/json"))),
        (status = 400, description = "The body cannot be decoded, no point is right, or a header is not valid; nothing is stored. A `Status`, as the other refusals of a body are"),
        (status = 403, description = "A node writes values of another one; nothing is stored"),
        (status = 409, description = "A name is bound to another one; nothing is stored"),
        (status = 413, description = "Too many points or values, or too large; nothing is stored"),
        (status = 415, description = "The body is of another type, or compressed in another way than by gzip", body = Problem),
        (status = 503, description = "Not now; see `Retry-After`"),
    )
)]
pub async fn export(
    req: HttpRequest,
    caller: Principal,
    body: Payload,
    service: ThinData<DataService>,
) -> Result<HttpResponse, Failure> {
    let refusals = service.refusals();
    let encoding = encoding(&req).inspect_err(|problem| refusals.note(Protocol::Otlp, &caller, problem))?;
    match take(&req, &caller, body, &service, encoding).await {
        Ok(rejected) => {
            let left_out = rejected.sentence().map(|sentence| (rejected.points, sentence));
            if let Some((points, sentence)) = &left_out {
                refusals.note_left_out(Protocol::Otlp, &caller, *points, sentence);
            }
            let body = partial_success(encoding, left_out);
            Ok(HttpResponse::Ok().content_type(encoding.media_type()).body(body))
        }
        Err(problem) => {
            refusals.note(Protocol::Otlp, &caller, &problem);
            Ok(refusal(encoding, &problem))
        }
    }
}

fn encoding(req: &HttpRequest) -> Result<Encoding, Problem> {
    let given = req.headers().get(CONTENT_TYPE).map_or("none", |given| given.to_str().unwrap_or("?"));
    Encoding::of_media_type(given).ok_or_else(|| {
        let detail = format!(
            "the header Content-Type says `{}`; expected `application/x-protobuf` or `application/json`",
            shorten(given)
        );
        let title = "The body is of a type that is not taken here";
        Problem::new(415, kind::UNSUPPORTED_MEDIA_TYPE, title, detail)
    })
}

async fn take(
    req: &HttpRequest,
    caller: &Principal,
    body: Payload,
    service: &DataService,
    encoding: Encoding,
) -> Result<Rejected, Problem> {
    let (settings, valid_for) = (settings(req, caller)?, valid_for::of(req)?);
    let body = read_body::<MAX_BATCH_BYTES>(req, body.into_inner()).await?;
    let body_bytes = body.0.len();
    let size = move |body: &[u8]| match encoding.size(body) {
        bytes @ 0..=MAX_DECODED_BYTES => Ok(bytes),
        bytes => Err(Problem::too_large(format!(
            "the messages in the body take {bytes} bytes when they are decoded; expected at most {MAX_DECODED_BYTES}"
        ))),
    };
    let parsed = body.parse_within(req, size, move |body| read(body, encoding, &settings)).await?;
    let Values { values, rejected } = parsed;
    let write = |value: PushedValue| {
        pushed::write_of((value.data_name, value.node_name), value.text, value.at, valid_for)
    };
    let writes = values.into_iter().map(write).collect();
    pushed::store(req, caller, service, writes, body_bytes).await?;
    Ok(rejected)
}

/// The settings that the headers say. A resource that names no node is the one that a node's token belongs to.
fn settings(req: &HttpRequest, caller: &Principal) -> Result<Settings, Problem> {
    let header = |name: &str| req.headers().get(name).map(|given| given.to_str().unwrap_or("?"));
    let prefix = header(NAME_PREFIX_HEADER).map(str::trim);
    if let Some(prefix) = prefix.filter(|prefix| !prefix.is_empty() && !DataName::is_valid(prefix)) {
        let error = FieldError::new("Estimand-Name-Prefix", "is no beginning of a data name").given(prefix);
        return Err(Problem::invalid_field(
            error.expected("letters, digits and `_.:-`, a letter or `_` first"),
        ));
    }
    let named = header(SERIES_ATTRIBUTES_HEADER).unwrap_or_default().split(',').map(str::trim);
    let series_attributes: Vec<String> = named.filter(|name| !name.is_empty()).map(str::to_owned).collect();
    if series_attributes.len() > MAX_SERIES_ATTRIBUTES {
        let message = format!("names {} attributes", series_attributes.len());
        let error = FieldError::new("Estimand-Series-Attributes", message);
        return Err(Problem::invalid_field(error.expected(format!("at most {MAX_SERIES_ATTRIBUTES}"))));
    }
    let node = caller.node().and_then(|node| NodeName::parse(node).ok());
    Ok(Settings { prefix: prefix.map(str::to_owned), node, series_attributes })
}

/// The values in a body, of which at least one is right if there is any.
fn read(body: &[u8], encoding: Encoding, settings: &Settings) -> Result<Values, Problem> {
    let request = encoding
        .decode(body)
        .map_err(|error| Problem::invalid_field(FieldError::new("body", error.to_string())))?;
    let found = values(request, settings).map_err(Problem::too_large)?;
    if found.values.len() > MAX_BATCH_ITEMS {
        let (count, most) = (found.values.len(), MAX_BATCH_ITEMS);
        return Err(Problem::too_large(format!("the points are {count} values; expected at most {most}")));
    }
    match found.rejected.sentence() {
        Some(sentence) if found.values.is_empty() => {
            Err(Problem::invalid_field(FieldError::new("body", format!("{sentence}; nothing is stored"))))
        }
        _ => Ok(found),
    }
}

/// A problem as OTLP says it: the status, when to come again, and a `Status`.
fn refusal(encoding: Encoding, problem: &Problem) -> HttpResponse {
    let code = problem.status.try_into().unwrap_or(actix_web::http::StatusCode::INTERNAL_SERVER_ERROR);
    let mut answer = HttpResponse::build(code);
    if let Some(seconds) = problem.retry_after {
        answer.insert_header((RETRY_AFTER, seconds));
    }
    let mut response = answer.content_type(encoding.media_type()).body(status(encoding, problem));
    // It has its shape, and is not to be made a problem document.
    response.extensions_mut().insert(Foreign);
    // Bytes that the client is still sending would be taken for its next request.
    if matches!(problem.status, 408 | 413) {
        response.head_mut().set_connection_type(ConnectionType::Close);
    }
    response
}

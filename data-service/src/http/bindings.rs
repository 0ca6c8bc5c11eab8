//! Bindings: the name that a bound name serves, since when, and the one that it served before.
//!
//! A binding that opens a gap is made all the same, because the operator may know better; the answer then
//! says how many nodes have no value there. One that would take every value away from readers needs `force`
//! (decision 126).

use actix_web::http::header::{HeaderName, HeaderValue};
use actix_web::web::ThinData;
use actix_web::{HttpRequest, HttpResponse, Responder};
use chrono::{DateTime, Utc};
use estimand_api::fields::{self, Fields};
use estimand_api::headers::HINT_HEADER;
use estimand_api::json::parse_object;
use estimand_api::names::DataName;
use estimand_api::pointer::Pointer;
use estimand_api::problem::Problem;
use estimand_api::schema::{of, optional};
use estimand_api::value::{Binding, BindingTarget, Swap, SwapAction};
use estimand_store::{SwapRow, actor};
use estimand_web::{Body, Failure, Principal, Query, User, path_name};

use crate::DataService;
use crate::core::binding_change::Rebound;
use crate::core::operations::{self, Operation};
use crate::core::snapshot::Bound;
use crate::http::gap::{gap, refuse_to_empty};
use crate::http::history::{DEFAULT_LIMIT, limit};
use crate::http::write::{SMALL, json};

static HINT: HeaderName = HeaderName::from_static(HINT_HEADER);

/// A binding as the interface shows it.
fn binding(name: &DataName, bound: &Bound) -> Binding {
    Binding {
        data_name: name.clone(),
        to: bound.served.to.clone(),
        field: bound.served.field.clone(),
        since: instant(bound.since),
        revision: bound.revision,
        before: bound.before.clone(),
    }
}

fn instant(micros: i64) -> DateTime<Utc> {
    DateTime::from_timestamp_micros(micros).unwrap_or_default()
}

/// All bindings.
#[utoipa::path(
    get,
    path = "/api/bindings",
    tag = "bindings",
    responses((status = 200, description = "All bindings", body = [Binding]), (status = 503, description = "Not loaded yet", body = Problem))
)]
pub async fn list(service: ThinData<DataService>) -> Result<HttpResponse, Failure> {
    let snapshot = service.snapshot()?;
    let all: Vec<Binding> = snapshot.bindings().iter().map(|(name, bound)| binding(name, bound)).collect();
    Ok(json(&all))
}

/// One binding.
#[utoipa::path(
    get,
    path = "/api/bindings/{dataName}",
    tag = "bindings",
    params(("dataName" = DataName, Path)),
    responses(
        (status = 200, description = "The binding", body = Binding),
        (status = 400, description = "The name is not valid", body = Problem),
        (status = 404, description = "There is none", body = Problem),
        (status = 503, description = "Not loaded yet", body = Problem),
    )
)]
pub async fn get(req: HttpRequest, service: ThinData<DataService>) -> Result<impl Responder, Failure> {
    let name = path_name(&req)?;
    let snapshot = service.snapshot()?;
    match snapshot.bindings().get(&name) {
        Some(bound) => Ok(json(&binding(&name, bound))),
        None => Err(Problem::not_found(format!("`{name}` is not bound")).into()),
    }
}

/// The changes of a binding, each with its author and time; newest first.
#[utoipa::path(
    get,
    path = "/api/bindings/{dataName}/history",
    tag = "bindings",
    params(
        ("dataName" = DataName, Path),
        ("limit" = Option<u64>, Query, minimum = 1, maximum = 100_000, description = "At most so many, the newest: 1 to 100000, by default 1000"),
    ),
    responses(
        (status = 200, description = "The changes; those of a name that is bound no more are kept", body = [Swap]),
        (status = 400, description = "This is no data name, or the query is not valid", body = Problem),
        (status = 404, description = "It never was bound", body = Problem),
        (status = 503, description = "The database does not answer", body = Problem),
    )
)]
pub async fn history(req: HttpRequest, service: ThinData<DataService>) -> Result<HttpResponse, Failure> {
    let query = Query::parse(req.query_string(), &["limit"])?;
    let name = path_name(&req)?;
    let limit = query.get("limit").map(limit).transpose()?.unwrap_or(DEFAULT_LIMIT) as i64;
    let snapshot = service.snapshot()?;
    let rows = service.swaps(User::of(&req), &name, limit).await?;
    // A binding that an older program made has no history.
    if rows.is_empty() && !snapshot.bindings().contains_key(&name) {
        return Err(Problem::not_found(format!("`{name}` never was bound")).into());
    }
    let swaps: Vec<Swap> = rows.into_iter().filter_map(swap).collect();
    Ok(json(&swaps))
}

/// The change that a row records; none if the row says nothing that could have been written.
fn swap(row: SwapRow) -> Option<Swap> {
    let field = row.field.map(|text| Pointer::parse(&text)).transpose().ok()?;
    Some(Swap {
        served: BindingTarget { to: DataName::parse(&row.target).ok()?, field },
        at: instant(row.at),
        revision: row.revision.unsigned_abs(),
        by: row.actor,
        action: SwapAction::ALL.into_iter().find(|action| action.as_str() == row.action)?,
    })
}

/// A request to bind a name.
struct Bind {
    served: BindingTarget,
    from: Option<DataName>,
}

estimand_api::described!(
    Bind,
    [DataName, Pointer],
    serde_json::json!({
        "type": "object",
        "required": ["to"],
        "additionalProperties": false,
        "properties": {
            "to": of::<DataName>("The name whose values are served"),
            "field": optional::<Pointer>("The part of each that is served; absent: the whole value"),
            "from": optional::<DataName>("The name whose values are served until then"),
        },
        "examples": [{ "to": "cpu_usage", "field": "/value" }],
    })
);

impl Bind {
    fn read(body: &[u8]) -> Result<Self, Problem> {
        let mut fields = Fields::new(parse_object(body)?);
        let to = fields.required("to", DataName::EXPECTED, fields::data_name);
        let field =
            fields.optional("field", Pointer::EXPECTED, |value| fields::string(value).map(str::to_owned));
        let from = fields.optional("from", DataName::EXPECTED, fields::data_name);
        let field = field.map(|text| Pointer::parse(&text)).transpose();
        let field = field.unwrap_or_else(|wrong| {
            fields.extend(vec![wrong.at("field")]);
            None
        });
        fields.end_body()?;
        let to = to.ok_or_else(Problem::internal)?;
        Ok(Bind { served: BindingTarget { to, field }, from })
    }
}

/// A request to roll a binding back; with `from`, only if the name serves that one until then.
struct RollBack {
    from: Option<DataName>,
}

estimand_api::described!(
    RollBack,
    [DataName],
    serde_json::json!({
        "type": "object",
        "additionalProperties": false,
        "properties": { "from": optional::<DataName>("The name whose values are served until then") },
    })
);

impl RollBack {
    fn read(body: &[u8]) -> Result<Self, Problem> {
        let mut fields = Fields::new(parse_object(if body.is_empty() { b"{}" } else { body })?);
        let from = fields.optional("from", DataName::EXPECTED, fields::data_name);
        fields.end_body()?;
        Ok(RollBack { from })
    }
}

/// Makes a name serve the values of another one, from one moment to the next.
///
/// With `field` it serves that part of each value; what has no such part has no value under the name. With `from`
/// only if the name serves the values of that one until then. What is so already is answered as it is. A name that serves
/// values now is bound to a name without any only with `?force=true`; the first binding of a name needs none.
#[utoipa::path(
    put,
    path = "/api/bindings/{dataName}",
    tag = "bindings",
    params(
        ("dataName" = DataName, Path),
        ("force" = Option<bool>, Query, description = "Also if the name serves values now and would serve none"),
    ),
    request_body(content = Bind, description = "What is served"),
    responses(
        (status = 200, description = "Bound. `Estimand-Hint` says how many nodes have no value there, if some had one before or none has", body = Binding),
        (status = 400, description = "A name or the field is not valid", body = Problem),
        (status = 409, description = "It has values of its own, the other is bound itself, it does not serve the values of `from`, or it would serve nothing any more", body = Problem),
        (status = 503, description = "Not now; see `Retry-After`", body = Problem),
    )
)]
pub async fn bind(
    req: HttpRequest,
    caller: Principal,
    body: Body<SMALL>,
    service: ThinData<DataService>,
) -> Result<HttpResponse, Failure> {
    let force = Query::parse(req.query_string(), &["force"])?.flag("force")?;
    let name = path_name(&req)?;
    let Bind { served, from } = Bind::read(&body.0)?;
    if !force {
        refuse_to_empty(&*service.snapshot()?, &name, Some(&served), from.as_ref())?;
    }
    let operation = operations::Bind { name: name.clone(), served, from, by: actor(&caller) };
    rebind(&service, &name, operation, body.0.len()).await
}

/// Makes a name serve what it served before.
///
/// That is the last thing that it served and that is not what it serves now, so that twice is back again. A name
/// that is bound no more is bound again to what it served at last. As for PUT, `?force=true` is needed if it would serve
/// nothing any more.
#[utoipa::path(
    post,
    path = "/api/bindings/{dataName}/rollback",
    tag = "bindings",
    params(
        ("dataName" = DataName, Path),
        ("force" = Option<bool>, Query, description = "Also if the name serves values now and would serve none"),
    ),
    request_body(content = Option<RollBack>, description = "Nothing, or only from what"),
    responses(
        (status = 200, description = "Bound. `Estimand-Hint` says how many nodes have no value there, if some had one before or none has", body = Binding),
        (status = 400, description = "A name is not valid", body = Problem),
        (status = 404, description = "It never was bound", body = Problem),
        (status = 409, description = "It never served anything else, it does not serve the values of `from`, or what it served before is bound itself or has no values now", body = Problem),
        (status = 503, description = "Not now; see `Retry-After`", body = Problem),
    )
)]
pub async fn roll_back(
    req: HttpRequest,
    caller: Principal,
    body: Body<SMALL>,
    service: ThinData<DataService>,
) -> Result<HttpResponse, Failure> {
    let force = Query::parse(req.query_string(), &["force"])?.flag("force")?;
    let name = path_name(&req)?;
    let RollBack { from } = RollBack::read(&body.0)?;
    if !force {
        let snapshot = service.snapshot()?;
        let before = snapshot.bindings().get(&name).and_then(|bound| bound.before.as_ref());
        refuse_to_empty(&snapshot, &name, before, from.as_ref())?;
    }
    let operation = operations::RollBack { name: name.clone(), from, by: actor(&caller) };
    rebind(&service, &name, operation, body.0.len()).await
}

/// Removes a binding.
#[utoipa::path(
    delete,
    path = "/api/bindings/{dataName}",
    tag = "bindings",
    params(("dataName" = DataName, Path)),
    responses(
        (status = 204, description = "Removed; its history stays"),
        (status = 400, description = "The name is not valid", body = Problem),
        (status = 404, description = "There is none", body = Problem),
        (status = 503, description = "Not now; see `Retry-After`", body = Problem),
    )
)]
pub async fn unbind(
    req: HttpRequest,
    caller: Principal,
    service: ThinData<DataService>,
) -> Result<HttpResponse, Failure> {
    let name = path_name(&req)?;
    service.submit(operations::Unbind { name, by: actor(&caller) }, 256).await?;
    Ok(HttpResponse::NoContent().finish())
}

async fn rebind(
    service: &DataService,
    name: &DataName,
    operation: impl Operation<Reply = Rebound>,
    bytes: usize,
) -> Result<HttpResponse, Failure> {
    let Rebound { bound, before } = service.submit(operation, bytes).await?;
    let mut response = json(&binding(name, &bound));
    // Compared here and not by the writer, which nothing should hold up.
    let snapshot = service.snapshot()?;
    if let Some(hint) = gap(&snapshot, name, &bound.served, before.as_ref())
        && let Ok(hint) = HeaderValue::try_from(hint)
    {
        response.headers_mut().insert(HINT.clone(), hint);
    }
    Ok(response)
}

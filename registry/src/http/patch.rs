//! Changes of one registration that keep what they don't name: a merge patch, and another name.

use actix_web::http::header::{CONTENT_TYPE, HeaderName, HeaderValue};
use actix_web::web::ThinData;
use actix_web::{HttpRequest, HttpResponse};
use estimand_api::fields::{self, Fields};
use estimand_api::json::parse_object;
use estimand_api::names::DataName;
use estimand_api::problem::{Problem, kind};
use estimand_api::registration::{
    MAX_REGISTRATION_BYTES, MERGE_PATCH_MEDIA_TYPE, Registration, RegistrationPatch, RegistrationRecord,
};
use estimand_api::schema::of;
use estimand_web::{Body, Failure, Principal, Query, path_name};

use super::change::{add_hint, answer};
use super::precondition;
use crate::Registry;
use crate::core::edit::{Ask, Protection};
use crate::core::{Rejection, StoredRegistration};

/// The media types of a patch that are refused, because they mean something else.
const JSON_PATCH: &str = "application/json-patch+json";
static ACCEPT_PATCH: HeaderName = HeaderName::from_static("accept-patch");
/// How often a patch without a precondition is merged again because somebody else was faster.
const MAX_ATTEMPTS: usize = 5;
/// The largest body of a renaming.
const SMALL: usize = 4 * 1024;

/// Changes some fields of a registration and keeps the others, secrets included.
///
/// The body is a JSON merge patch (RFC 7396). With `version`, or with `If-Match` and the `ETag` of a GET, only if
/// nobody else has changed the registration since. What is so already is answered with 200 and the version that it has.
#[utoipa::path(
    patch,
    path = "/api/registry/{dataName}",
    tag = "registry",
    params(("dataName" = DataName, Path)),
    request_body(
        content = RegistrationPatch,
        content_type = "application/merge-patch+json",
        description = "What becomes different; also taken as `application/json`",
    ),
    responses(
        (status = 200, description = "Changed. `Estimand-Hint` may have advice about the command", body = Registration),
        (status = 400, description = "What would come of it is not a valid registration", body = Problem),
        (status = 404, description = "It is not registered", body = Problem),
        (status = 409, description = "`version` is not the current one, or the inputs form a cycle", body = Problem),
        (status = 412, description = "It is not at the version that `If-Match` asks for", body = Problem),
        (status = 413, description = "The body is too large", body = Problem),
        (status = 415, description = "The body is not a merge patch", body = Problem),
        (status = 503, description = "Not now; the detail says whether it may have taken effect", body = Problem),
    )
)]
pub async fn patch(
    req: HttpRequest,
    caller: Principal,
    body: Body<MAX_REGISTRATION_BYTES>,
    registry: ThinData<Registry>,
) -> Result<HttpResponse, Failure> {
    if let Some(problem) = other_media_type(&req) {
        let mut response = HttpResponse::from_error(Failure::from(problem));
        response.headers_mut().insert(ACCEPT_PATCH.clone(), HeaderValue::from_static(MERGE_PATCH_MEDIA_TYPE));
        return Ok(response);
    }
    let name = path_name(&req)?;
    let patch = RegistrationPatch::parse(&body.0)?;
    let if_match = precondition::if_match(&req)?;
    let asked = patch.version.or(if_match);
    let mut attempts = 0;
    loop {
        attempts += 1;
        precondition::check(&*registry.registrations()?, &name, if_match)?;
        let current = current(&registry, &name)?;
        let registration = patch.apply(&current)?;
        registry.check(&registration).await?;
        let ask = Ask::Replace { registration, version: Some(asked.unwrap_or(current.version)) };
        match registry.register(ask, &caller).await {
            Ok(registered) => return answer(HttpResponse::Ok(), &registered),
            Err(problem) if problem.status == 409 && asked.is_none() && attempts < MAX_ATTEMPTS => {
                // If somebody else was faster, the patch is merged into what is there now.
                let now = registry.registrations()?.get(name.as_str()).map(StoredRegistration::version);
                if now == Some(current.version) {
                    return Err(problem.into());
                }
            }
            Err(problem) => return Err(problem.into()),
        }
    }
}

fn current(registry: &Registry, name: &DataName) -> Result<RegistrationRecord, Problem> {
    match registry.registrations()?.get(name.as_str()) {
        Some(StoredRegistration::Readable(entry)) => Ok(entry.registered.clone()),
        Some(StoredRegistration::Unreadable(_)) => Err(Rejection::Unreadable(name.clone()).into()),
        None => Err(Rejection::Unknown(name.clone()).into()),
    }
}

/// As everywhere here a body is taken whatever it calls itself, unless that is another kind of patch.
fn other_media_type(req: &HttpRequest) -> Option<Problem> {
    let given =
        req.headers().get(CONTENT_TYPE)?.to_str().ok()?.split(';').next()?.trim().to_ascii_lowercase();
    (given == JSON_PATCH).then(|| {
        let detail = format!("`{given}` is not taken here; expected {MERGE_PATCH_MEDIA_TYPE}");
        Problem::new(415, kind::UNSUPPORTED_MEDIA_TYPE, "The body is of another kind", detail)
    })
}

/// A request to give a registration another name.
struct Rename {
    to: DataName,
}

estimand_api::described!(
    Rename,
    [DataName],
    serde_json::json!({
        "type": "object",
        "required": ["to"],
        "additionalProperties": false,
        "properties": { "to": of::<DataName>("The new name") },
        "examples": [{ "to": "cpu_usage" }],
    })
);

impl Rename {
    fn read(body: &[u8]) -> Result<Self, Problem> {
        let mut fields = Fields::new(parse_object(body)?);
        let to = fields.required("to", DataName::EXPECTED, fields::data_name);
        fields.end_body()?;
        Ok(Rename { to: to.ok_or_else(Problem::internal)? })
    }
}

/// Gives a registration another name, in one step.
///
/// Everything of it goes along, secrets included; its versions begin anew. Values and their history stay under the old
/// name, where nothing renews them. A name that other registrations read, or that bindings serve, is renamed only with
/// `?force=true`, since a reader's program or expression has the name in it. The answer comes when nothing of the old
/// name runs any more, as for DELETE.
#[utoipa::path(
    post,
    path = "/api/registry/{dataName}/rename",
    tag = "registry",
    params(
        ("dataName" = DataName, Path),
        ("force" = Option<bool>, Query, description = "Also if others read it or bindings serve it"),
    ),
    request_body(content = Rename, description = "The new name"),
    responses(
        (status = 200, description = "Renamed. `Estimand-Hint` says where the end of the old name was not confirmed", body = Registration),
        (status = 400, description = "A name is not valid", body = Problem),
        (status = 404, description = "It is not registered", body = Problem),
        (status = 409, description = "The new name is taken or bound, or the old one is needed; the detail says by whom", body = Problem),
        (status = 503, description = "Not now; the detail says whether it may have taken effect", body = Problem),
    )
)]
pub async fn rename(
    req: HttpRequest,
    caller: Principal,
    body: Body<SMALL>,
    registry: ThinData<Registry>,
) -> Result<HttpResponse, Failure> {
    let query = Query::parse(req.query_string(), &["force"])?;
    let from = path_name(&req)?;
    let force = query.flag("force")?;
    let Rename { to } = Rename::read(&body.0)?;
    registry.check_unbound(&[&to]).await?;
    let protection: Protection = registry.protection(force).await;
    let ask = Ask::Rename { from: from.clone(), to };
    let outcomes = registry.change(vec![ask], protection, &caller).await?;
    let registered = outcomes.into_iter().find_map(|outcome| outcome.after).ok_or_else(Problem::internal)?;
    let mut response = HttpResponse::Ok();
    add_hint(&mut response, registry.ended(&[&from]).await);
    answer(response, &registered)
}

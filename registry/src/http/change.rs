//! Changes: each is checked as far as the request alone tells, then handed to the writer, and answered when it is
//! durable.

use actix_web::http::header::{CONTENT_TYPE, HeaderName, HeaderValue, LOCATION};
use actix_web::web::ThinData;
use actix_web::{HttpRequest, HttpResponse, HttpResponseBuilder};
use estimand_api::headers::HINT_HEADER;
use estimand_api::json::parse_object;
use estimand_api::names::DataName;
use estimand_api::problem::{FieldError, Problem};
use estimand_api::registration::{
    MAX_REGISTRATION_BYTES, Mode, Registration, RegistrationInput, SubmittedRegistration,
};
use estimand_web::{Body, Failure, Principal, Query, path_name};

use super::precondition;
use super::read::{JSON, etag};
use crate::Registry;
use crate::core::RenderedRegistration;
use crate::core::edit::Ask;

/// Advice that goes with a success, for people; the command line shows it.
static HINT: HeaderName = HeaderName::from_static(HINT_HEADER);

/// Fields that only the registry sets.
const OWN_FIELDS: [&str; 3] = ["version", "createdAt", "updatedAt"];

/// Registers.
#[utoipa::path(
    post,
    path = "/api/registry",
    tag = "registry",
    request_body(content = RegistrationInput, description = "The registration"),
    responses(
        (status = 201, description = "Registered; the header `Location` says where. `Estimand-Hint` may have advice about the command", body = Registration),
        (status = 400, description = "The registration is not valid, or no agent would run it: an expression that cannot be read, a built-in that there is not, an input that nothing provides", body = Problem),
        (status = 409, description = "The name is taken, the inputs form a cycle, or there are too many registrations", body = Problem),
        (status = 413, description = "The body is too large", body = Problem),
        (status = 503, description = "Not now; the detail says whether it may have taken effect", body = Problem),
    )
)]
pub async fn post(
    caller: Principal,
    body: Body<MAX_REGISTRATION_BYTES>,
    registry: ThinData<Registry>,
) -> Result<HttpResponse, Failure> {
    let registration = parse_new(&body.0)?;
    let location = format!("/api/registry/{}", registration.data_name);
    registry.check(&registration).await?;
    registry.check_unbound(&[&registration.data_name]).await?;
    let registered = registry.register(Ask::Create(registration), &caller).await?;
    let mut response = HttpResponse::Created();
    response.insert_header((LOCATION, location));
    answer(response, &registered)
}

/// Replaces the registration of the same name.
///
/// With `version`, as a GET gave it, or its `ETag` as `If-Match`, only if nobody else has replaced it since. What is registered already is
/// answered with 200 and the version that it has.
#[utoipa::path(
    put,
    path = "/api/registry",
    tag = "registry",
    request_body(content = Registration, description = "As for POST; what a GET returned may be sent back: `null` in `env` keeps the value of a secret"),
    responses(
        (status = 200, description = "Replaced. `Estimand-Hint` may have advice about the command", body = Registration),
        (status = 400, description = "The registration is not valid", body = Problem),
        (status = 404, description = "The name is not registered", body = Problem),
        (status = 409, description = "`version` is not the current one, or the inputs form a cycle", body = Problem),
        (status = 412, description = "It is not at the version that `If-Match` asks for", body = Problem),
        (status = 413, description = "The body is too large", body = Problem),
        (status = 503, description = "Not now; the detail says whether it may have taken effect", body = Problem),
    )
)]
pub async fn put(
    req: HttpRequest,
    caller: Principal,
    body: Body<MAX_REGISTRATION_BYTES>,
    registry: ThinData<Registry>,
) -> Result<HttpResponse, Failure> {
    let SubmittedRegistration { registration, version } = Registration::parse(&body.0)?;
    let asked = precondition::if_match(&req)?;
    precondition::check(&*registry.registrations()?, &registration.data_name, asked)?;
    registry.check(&registration).await?;
    let ask = Ask::Replace { registration, version: version.or(asked) };
    let registered = registry.register(ask, &caller).await?;
    answer(HttpResponse::Ok(), &registered)
}

/// Stops producing a name's values, and forgets its registration.
///
/// A name that other registrations read, or that bindings serve, is removed only with `?force=true`. If the registry
/// knows managers, the answer comes when the one that leads says that the slots are gone with all
/// their processes, or after 12 seconds. The registration is forgotten in any case; `Estimand-Hint` says what is
/// not certain to have ended.
#[utoipa::path(
    delete,
    path = "/api/registry/{dataName}",
    tag = "registry",
    params(
        ("dataName" = DataName, Path),
        ("force" = Option<bool>, Query, description = "Also if others read it or bindings serve it"),
    ),
    responses(
        (status = 204, description = "Forgotten; its history stays. Nothing of it runs any more, unless `Estimand-Hint` names nodes from where its end was not confirmed, or says that no manager answered"),
        (status = 400, description = "This is no data name", body = Problem),
        (status = 404, description = "It is not registered", body = Problem),
        (status = 409, description = "Other registrations read it, or bindings serve it; the detail names them", body = Problem),
        (status = 503, description = "Not now; the detail says whether it may have taken effect", body = Problem),
    )
)]
pub async fn delete(
    req: HttpRequest,
    caller: Principal,
    registry: ThinData<Registry>,
) -> Result<HttpResponse, Failure> {
    let query = Query::parse(req.query_string(), &["force"])?;
    let name = path_name(&req)?;
    let force = query.flag("force")?;
    let protection = registry.protection(force).await;
    registry.change(vec![Ask::Remove(name.clone())], protection, &caller).await?;
    let mut response = HttpResponse::NoContent();
    add_hint(&mut response, registry.ended(&[&name]).await);
    Ok(response.finish())
}

/// Reads a registration that is not there yet, and says all that is wrong with it.
fn parse_new(body: &[u8]) -> Result<Registration, Problem> {
    let map = parse_object(body)?;
    let given =
        OWN_FIELDS.into_iter().filter_map(|name| Some((name, map.get(name).filter(|v| !v.is_null())?)));
    let mut errors: Vec<FieldError> = given
        .map(|(name, value)| {
            let error = FieldError::new(name, "is set by the registry");
            error.given(value).expected("a body without it; PUT replaces a registration")
        })
        .collect();
    match Registration::from_map(map) {
        Ok(submitted) if errors.is_empty() => Ok(submitted.registration),
        Ok(_) => Err(Problem::invalid(errors)),
        Err(problem) => {
            let known = |error: &FieldError| OWN_FIELDS.contains(&error.field.as_str());
            errors.extend(problem.errors.into_iter().filter(|error| !known(error)));
            Err(Problem::invalid(errors))
        }
    }
}

/// Adds advice for people to a response.
pub fn add_hint(response: &mut HttpResponseBuilder, hint: Option<String>) {
    if let Some(hint) = hint {
        response.insert_header((HINT.clone(), ascii(&hint)));
    }
}

pub fn answer(
    mut response: HttpResponseBuilder,
    registered: &RenderedRegistration,
) -> Result<HttpResponse, Failure> {
    if let Some(hint) = hint(&registered.registered.registration) {
        response.insert_header((HINT.clone(), hint));
    }
    let response = response.insert_header((CONTENT_TYPE, JSON)).insert_header(etag(registered));
    Ok(response.body(registered.json.clone()))
}

fn hint(registration: &Registration) -> Option<HeaderValue> {
    match registration.mode {
        Mode::Exec | Mode::Stream => HeaderValue::try_from(ascii(&registration.cmd.shell_hint()?)).ok(),
        Mode::Builtin | Mode::Expr => None,
    }
}

/// Text that fits into a header. Other characters become the escapes of JSON, so that the command in a hint
/// can still be copied.
fn ascii(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            ' '..='~' => out.push(c),
            other => {
                let units = other.encode_utf16(&mut [0; 2]).to_vec();
                out.extend(units.into_iter().map(|unit| format!("\\u{unit:04x}")));
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hint_is_ascii_whatever_the_command() {
        assert_eq!(ascii("cat é 🦀\n~"), "cat \\u00e9 \\ud83e\\udd80\\u000a~");
    }
}

//! Tokens: made, listed and revoked, each for operators only.

use actix_web::http::header::{CACHE_CONTROL, HeaderValue};
use actix_web::web::ThinData;
use actix_web::{HttpRequest, HttpResponse};
use estimand_api::access::{Grant, IssuedToken, NewToken, TokenView};
use estimand_api::json::parse_object;
use estimand_api::problem::Problem;
use estimand_web::{Body, Failure, Principal, segment};

use crate::{Access, tokens};

const MAX_BODY_BYTES: usize = 16 * 1024;

/// Makes a token.
#[utoipa::path(
    post,
    path = "/api/tokens",
    tag = "access",
    request_body(content = NewToken, description = "What it is to be good for"),
    responses(
        (status = 201, description = "The token. It is shown this once", body = IssuedToken),
        (status = 400, description = "The request is not valid", body = Problem),
        (status = 409, description = "A live token has that name", body = Problem),
        (status = 503, description = "Not now; see `Retry-After`", body = Problem),
    )
)]
pub async fn create(
    caller: Principal,
    body: Body<MAX_BODY_BYTES>,
    access: ThinData<Access>,
) -> Result<HttpResponse, Failure> {
    let new = NewToken::from_map(parse_object(&body.0)?)?;
    // This comes first: without an authority that can be read, nobody could join with the token.
    let pin = (new.role == Grant::Join).then(|| access.signer()?.pin()).transpose()?;
    let (token, row) = access.create(&new, &caller.to_string()).await?;
    tracing::info!(name = row.name, role = row.role, by = %caller, "a token was made");
    let view = view(&access, &row)?;
    let mut response = HttpResponse::Created();
    response.insert_header((CACHE_CONTROL, HeaderValue::from_static("no-store")));
    Ok(response.json(IssuedToken { token: token.expose().to_owned(), pin, view }))
}

/// All tokens that ever were, the oldest first. What they say is known to nobody.
#[utoipa::path(
    get,
    path = "/api/tokens",
    tag = "access",
    responses(
        (status = 200, description = "All tokens", body = [TokenView]),
        (status = 503, description = "Not now; see `Retry-After`", body = Problem),
    )
)]
pub async fn list(access: ThinData<Access>) -> Result<HttpResponse, Failure> {
    let (tokens, now) = (access.0.0.tokens.load_full(), access.0.0.clock.now_micros());
    let Some(rows) = tokens.stored() else {
        return Err(Problem::unavailable("the tokens are not loaded yet", 1).into());
    };
    let views: Vec<TokenView> = rows.iter().filter_map(|row| tokens::view(row, now)).collect();
    Ok(HttpResponse::Ok().json(views))
}

/// Revokes the live token of that name or id, or all certificates of a key.
#[utoipa::path(
    delete,
    path = "/api/tokens/{name}",
    tag = "access",
    params(("name" = String, Path, description = "Its name or its id; or `sha256:` and the SHA-256 of the public key of a certificate, also of one that is not listed")),
    responses(
        (status = 200, description = "It lets nobody in any more: here at once, at other services after two seconds", body = TokenView),
        (status = 404, description = "There is no such live token", body = Problem),
        (status = 409, description = "It is the one that was shown with this request", body = Problem),
        (status = 503, description = "Not now; see `Retry-After`", body = Problem),
    )
)]
pub async fn revoke(
    req: HttpRequest,
    caller: Principal,
    access: ThinData<Access>,
) -> Result<HttpResponse, Failure> {
    let token = segment(&req, "name");
    let row = access.revoke(token, &caller.to_string(), &caller.name()).await?;
    tracing::info!(name = row.name, by = %caller, "a token was revoked");
    Ok(HttpResponse::Ok().json(view(&access, &row)?))
}

fn view(access: &Access, row: &estimand_store::TokenRow) -> Result<TokenView, Problem> {
    tokens::view(row, access.0.clock.now_micros()).ok_or_else(Problem::internal)
}

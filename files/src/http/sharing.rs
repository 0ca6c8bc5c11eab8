//! The folders that users give others to read.

use actix_web::HttpRequest;
use actix_web::HttpResponse;
use actix_web::web::ThinData;
use estimand_api::access::forbidden;
use estimand_api::file::FilePath;
use estimand_api::file_share::{FolderShares, ReadPath, ReadPathError, ShareRequest, SharedFolder};
use estimand_api::names::UserName;
use estimand_api::problem::{FieldError, Problem};
use estimand_web::{Body, Failure, Principal, Query};

use super::{parameters, problems};
use crate::FileService;
use crate::root;
use crate::shared_folders::ShareError;

const MAX_REQUEST_BYTES: usize = 64 * 1024;

/// The folders that the caller shares, and those of others that the caller may read.
///
/// For an operator all that are shared.
#[utoipa::path(
    get,
    path = "/api/files/shares",
    tag = "files",
    responses((status = 200, description = "The folders", body = FolderShares)),
)]
pub async fn list(
    req: HttpRequest,
    caller: Principal,
    service: ThinData<FileService>,
) -> Result<HttpResponse, Failure> {
    Query::parse(req.query_string(), &[])?;
    Ok(HttpResponse::Ok().json(service.shared_folders().of(caller.user())))
}

/// Gives other users a folder to read, with all that is in it now and later.
///
/// They read it as `/users/NAME/FOLDER`, and cannot write there. It is shared with these users from now on, and with no others.
#[utoipa::path(
    put,
    path = "/api/files/shares",
    tag = "files",
    request_body(content = ShareRequest, description = "The folder, and the users who may read it"),
    responses(
        (status = 200, description = "It is shared, which is stored", body = SharedFolder),
        (status = 400, description = "The body is not valid", body = Problem),
        (status = 404, description = "There is no such folder", body = Problem),
        (status = 409, description = "The user shares as many folders as there may be", body = Problem),
        (status = 413, description = "The body is too large", body = Problem),
    )
)]
pub async fn share(
    caller: Principal,
    body: Body<MAX_REQUEST_BYTES>,
    service: ThinData<FileService>,
) -> Result<HttpResponse, Failure> {
    let ShareRequest { folder, readers } = body.parse(ShareRequest::parse).await?;
    let shared = owned(&caller, &folder)?;
    let owner = shared.owner;
    let path = shared.path;
    let kept = readers.clone();
    let of = owner.clone();
    let within = path.path().clone();
    let place = path.place();
    let done = service.blocking(move |inner| {
        inner.root.folder(Some(place.as_str()))?;
        inner.shared_folders.share(&of, &within, kept)
    });
    done.await?.map_err(|error| of_share(error, &folder))?;
    let folder = path.path().clone();
    Ok(HttpResponse::Ok().json(SharedFolder { folder, path, owner, readers }))
}

/// Shares a folder with nobody any more.
///
/// A file that is being fetched is fetched to its end.
#[utoipa::path(
    delete,
    path = "/api/files/shares",
    tag = "files",
    params(("folder" = FilePath, Query, description = "The folder")),
    responses(
        (status = 204, description = "It is not shared"),
        (status = 400, description = "The query is not valid", body = Problem),
        (status = 404, description = "It was not shared", body = Problem),
    )
)]
pub async fn unshare(
    req: HttpRequest,
    caller: Principal,
    service: ThinData<FileService>,
) -> Result<HttpResponse, Failure> {
    let query = Query::parse(req.query_string(), &["folder"])?;
    let given = query.get("folder").ok_or_else(|| {
        Problem::invalid_field(FieldError::new("folder", "is missing").expected("the folder that is shared"))
    })?;
    let folder = parameters::path_of("folder", given)?;
    let Owned { owner, path } = owned(&caller, &folder)?;
    let done = service.blocking(move |inner| inner.shared_folders.unshare(&owner, path.path()));
    if done.await?.map_err(|error| of_share(error, &folder))? {
        Ok(HttpResponse::NoContent().finish())
    } else {
        Err(Problem::not_found(format!("the folder `{folder}` is not shared")).into())
    }
}

/// A folder of a user's.
struct Owned {
    owner: UserName,
    path: ReadPath,
}

/// The folder that a caller names: in their own, or for an operator in that of the service.
fn owned(caller: &Principal, folder: &FilePath) -> Result<Owned, Problem> {
    let error = |message: &str| FieldError::new("folder", message).given(folder);
    let named = match caller.user() {
        Some(user) => format!("/users/{user}/{folder}"),
        None => format!("/{folder}"),
    };
    let path: ReadPath = named.parse().map_err(|_: ReadPathError| {
        Problem::invalid_field(error("is no folder of a user").expected("`users/NAME/FOLDER`"))
    })?;
    let owner = path.owner().cloned().ok_or_else(|| forbidden("the folder belongs to no user"))?;
    Ok(Owned { owner, path })
}

fn of_share(error: ShareError, folder: &FilePath) -> Problem {
    match error {
        ShareError::TooMany => Problem::conflict(format!(
            "{error}: share one that contains them, or share another one no longer"
        )),
        ShareError::Io(error) if root::leads_nowhere(&error) => {
            Problem::not_found(format!("there is no folder `{folder}`"))
        }
        ShareError::Io(error) => problems::of_io(&error, folder.as_str()),
    }
}

//! Files and folders: found, described, removed.

use std::fmt::Display;
use std::fs::File;
use std::io;

use actix_web::web::ThinData;
use actix_web::{HttpRequest, HttpResponse};
use chrono::DateTime;
use estimand_api::file::{FileEntry, FilePage, FilePath};
use estimand_api::file_share::ReadPath;
use estimand_api::problem::Problem;
use estimand_api::registration::Sha256;
use estimand_web::parameters::whole;
use estimand_web::{Failure, Principal, Query};

use super::{parameters, problems};
use crate::FileService;
use crate::home::Home;
use crate::listing::Listing;
use crate::root;
use crate::usage::Counts;

/// The most files on a page, and how many there are if nothing is said.
const MAX_PAGE: u64 = 1_000;
const PAGE: u64 = 100;

/// Files and folders in the order of their names, in pages.
#[utoipa::path(
    get,
    path = "/api/files",
    tag = "files",
    params(
        ("folder" = Option<ReadPath>, Query, description = "Only what is in this folder"),
        ("recursive" = Option<bool>, Query, description = "Also what is in its folders; true if `contains` is given"),
        ("contains" = Option<String>, Query, description = "Only those with this text in their path, in small or capital letters"),
        ("after" = Option<ReadPath>, Query, description = "Only those after this one: the `next` of the page before"),
        ("limit" = Option<usize>, Query, description = "At most so many; 100 if absent, and never more than 1,000"),
    ),
    responses(
        (status = 200, description = "A page of files and folders", body = FilePage),
        (status = 400, description = "The query is not valid", body = Problem),
        (status = 404, description = "There is no such folder", body = Problem),
    )
)]
pub async fn list(
    req: HttpRequest,
    caller: Principal,
    service: ThinData<FileService>,
) -> Result<HttpResponse, Failure> {
    let query = Query::parse(req.query_string(), &["folder", "recursive", "contains", "after", "limit"])?;
    let contains = query.get("contains").filter(|text| !text.is_empty()).map(str::to_owned);
    let recursive = parameters::parsed("recursive", query.get("recursive"), "true or false")?;
    let limit = whole("limit", query.get("limit"), PAGE, u64::MAX)?;
    let listing = Listing {
        folder: query.get("folder").map(|given| parameters::read_path_of("folder", given)).transpose()?,
        recursive: recursive.unwrap_or(contains.is_some()),
        contains,
        after: query.get("after").map(|given| parameters::read_path_of("after", given)).transpose()?,
        limit: usize::try_from(limit.clamp(1, MAX_PAGE)).unwrap_or(1),
    };
    let home = Home::of(&caller);
    let top = home.folder(listing.folder.as_ref(), service.shared_folders())?;
    let (page, listing) =
        service.blocking(move |inner| (listing.page(&inner.root, top.as_ref()), listing)).await?;
    let page = page.or_else(|error| match listing.folder {
        None if home.is_made_later() && root::leads_nowhere(&error) => Ok(FilePage::default()),
        folder => Err((folder, error)),
    });
    let page = page.map_err(|(folder, error)| match folder {
        Some(folder) if root::leads_nowhere(&error) => {
            Problem::not_found(format!("there is no folder `{folder}`"))
        }
        Some(folder) => problems::of_file(&error, &folder),
        None => problems::of_io(&error, "."),
    })?;
    Ok(HttpResponse::Ok().json(page))
}

/// A file, with the digest of its content.
#[utoipa::path(
    get,
    path = "/api/files/entry",
    tag = "files",
    params(("path" = ReadPath, Query, description = "The file")),
    responses(
        (status = 200, description = "The file", body = FileEntry),
        (status = 400, description = "The query is not valid", body = Problem),
        (status = 404, description = "There is no such file", body = Problem),
        (status = 409, description = "It is a folder", body = Problem),
    )
)]
pub async fn get(
    req: HttpRequest,
    caller: Principal,
    service: ThinData<FileService>,
) -> Result<HttpResponse, Failure> {
    described(&req, &Home::of(&caller), &service).await
}

/// The file that is asked for, with its digest.
pub async fn described(
    req: &HttpRequest,
    home: &Home,
    service: &FileService,
) -> Result<HttpResponse, Failure> {
    let query = Query::parse(req.query_string(), &["path"])?;
    let path = parameters::read_path(query.get("path"))?;
    let place = home.place_to_read(&path, service.shared_folders())?;
    // Reading a large file takes long, and goes on if the caller goes away.
    let digesting = service.digesting().take(&home.owner()).await?;
    let of = path.clone();
    let described = service.blocking(move |inner| {
        let _digesting = digesting;
        let file = inner.root.file(&place)?;
        let sha256 = inner.digests.of(&file)?;
        entry(&of, &file, Some(sha256))
    });
    let file = described.await?.map_err(|error| problems::of_file(&error, &path))?;
    Ok(HttpResponse::Ok().json(file))
}

/// Removes a file, or a folder that is empty.
#[utoipa::path(
    delete,
    path = "/api/files",
    tag = "files",
    params(("path" = FilePath, Query, description = "The file or folder")),
    responses(
        (status = 204, description = "It is gone"),
        (status = 400, description = "The query is not valid", body = Problem),
        (status = 404, description = "There is no such file", body = Problem),
        (status = 409, description = "It is a folder that is not empty", body = Problem),
    )
)]
pub async fn delete(
    req: HttpRequest,
    caller: Principal,
    service: ThinData<FileService>,
) -> Result<HttpResponse, Failure> {
    let query = Query::parse(req.query_string(), &["path"])?;
    let path = parameters::path(query.get("path"))?;
    let of = Home::of(&caller).place(&path)?;
    let removed = service.blocking(move |inner| {
        if let Some(size) = inner.root.remove(&of)? {
            inner.usage.change_at(of.as_str(), -Counts::file(size));
        }
        io::Result::Ok(())
    });
    let removed = removed.await?;
    removed.map_err(|error| problems::of_file(&error, &path))?;
    Ok(HttpResponse::NoContent().finish())
}

pub fn entry(path: &impl Display, file: &File, sha256: Option<Sha256>) -> io::Result<FileEntry> {
    let stat = rustix::fs::fstat(file)?;
    Ok(FileEntry {
        path: path.to_string(),
        is_folder: false,
        size: u64::try_from(stat.st_size).unwrap_or(0),
        modified_at: DateTime::from_timestamp_micros(root::modified(&stat)).unwrap_or_default(),
        sha256,
    })
}

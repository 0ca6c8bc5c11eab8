//! The dashboard: pages for people, as plain modules that are embedded in the binary.
//!
//! They are public, and know nothing but the interface: all that they show comes over it, with the token of whoever
//! looks. This crate serves the files and says what the page may do, which is to ask where it came from.
//!
//! In a debug build `ESTIMAND_DASHBOARD=dashboard/assets` has the files read from that folder at each request.

mod assets;

use std::borrow::Cow;
use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;

use actix_web::http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, ETAG, HeaderName, HeaderValue, REFERRER_POLICY,
};
use actix_web::web::ThinData;
use actix_web::{HttpRequest, HttpResponse};
use bytes::Bytes;
use estimand_api::problem::{Problem, shorten};
use estimand_web::{Failure, Role, Routes, ServedPart, has_tag, segment};
use ring::digest::{SHA256, digest};

use crate::assets::{ALL, Asset, PAGE};

/// The page runs our files, asks the service that it came from, and nothing else; no text becomes a script.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; \
                      base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; \
                      trusted-types 'none'";
/// So many bytes of a digest tell two contents apart.
const TAG_BYTES: usize = 12;

static OPENER_POLICY: HeaderName = HeaderName::from_static("cross-origin-opener-policy");
static RESOURCE_POLICY: HeaderName = HeaderName::from_static("cross-origin-resource-policy");

/// The pages, ready to be served.
#[derive(Debug, Clone)]
pub struct Dashboard(Arc<Content>);

#[derive(Debug)]
struct Content {
    /// By name, each with its entity tag.
    assets: HashMap<&'static str, (Asset, HeaderValue)>,
    /// Where they are read from instead, while somebody works at them.
    folder: Option<PathBuf>,
}

impl Default for Dashboard {
    fn default() -> Self {
        Self::new()
    }
}

impl Dashboard {
    pub fn new() -> Self {
        let assets = ALL.iter().map(|asset| (asset.name, (*asset, tag(asset.content)))).collect();
        let folder = std::env::var_os("ESTIMAND_DASHBOARD").filter(|_| cfg!(debug_assertions));
        Dashboard(Arc::new(Content { assets, folder: folder.map(PathBuf::from) }))
    }

    fn answer(&self, req: &HttpRequest, name: &str) -> Result<HttpResponse, Failure> {
        let Some((asset, tag)) = self.0.assets.get(name) else {
            return Err(Problem::not_found(format!("the dashboard has no file {}", shorten(name))).into());
        };
        let mut response = match self.content(asset)? {
            Cow::Borrowed(_) if has_tag(req.headers(), tag) => HttpResponse::NotModified().finish(),
            Cow::Borrowed(content) => HttpResponse::Ok().body(Bytes::from_static(content)),
            Cow::Owned(content) => HttpResponse::Ok().body(content),
        };
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(asset.media_type()));
        headers.insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY));
        headers.insert(REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
        headers.insert(OPENER_POLICY.clone(), HeaderValue::from_static("same-origin"));
        headers.insert(RESOURCE_POLICY.clone(), HeaderValue::from_static("same-origin"));
        // Another binary has other files under the same names.
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
        if self.0.folder.is_none() {
            headers.insert(ETAG, tag.clone());
        }
        Ok(response)
    }

    fn content(&self, asset: &Asset) -> Result<Cow<'static, [u8]>, Problem> {
        let Some(folder) = &self.0.folder else { return Ok(Cow::Borrowed(asset.content)) };
        std::fs::read(folder.join(asset.name)).map(Cow::Owned).map_err(|error| {
            tracing::error!(%error, folder = %folder.display(), name = asset.name, "a file of the dashboard cannot be read");
            Problem::internal()
        })
    }
}

impl ServedPart for Dashboard {
    fn routes(&self) -> Routes {
        Routes::new("dashboard")
            .add(Role::Open, page, __path_page)
            .add(Role::Open, file, __path_file)
            .add(Role::Open, file_in_folder, __path_file_in_folder)
            .share(self.clone())
    }
}

/// The page for people.
#[utoipa::path(get, path = "/", tag = "dashboard", responses(
    (status = 200, description = "The page", body = String, content_type = "text/html"),
    (status = 304, description = "It is what `If-None-Match` says"),
))]
async fn page(req: HttpRequest, dashboard: ThinData<Dashboard>) -> Result<HttpResponse, Failure> {
    dashboard.answer(&req, PAGE)
}

/// A file of the page.
#[utoipa::path(get, path = "/assets/{file}", tag = "dashboard", params(("file" = String, Path)), responses(
    (status = 200, description = "The file", body = String, content_type = "text/javascript"),
    (status = 304, description = "It is what `If-None-Match` says"),
    (status = 404, description = "There is no such file", body = Problem),
))]
async fn file(req: HttpRequest, dashboard: ThinData<Dashboard>) -> Result<HttpResponse, Failure> {
    dashboard.answer(&req, segment(&req, "file"))
}

/// A file of the page that is in a folder.
#[utoipa::path(get, path = "/assets/{folder}/{file}", tag = "dashboard",
    params(("folder" = String, Path), ("file" = String, Path)), responses(
    (status = 200, description = "The file", body = String, content_type = "text/javascript"),
    (status = 304, description = "It is what `If-None-Match` says"),
    (status = 404, description = "There is no such file", body = Problem),
))]
async fn file_in_folder(req: HttpRequest, dashboard: ThinData<Dashboard>) -> Result<HttpResponse, Failure> {
    let name = format!("{}/{}", segment(&req, "folder"), segment(&req, "file"));
    dashboard.answer(&req, &name)
}

fn tag(content: &[u8]) -> HeaderValue {
    let name = hex::encode(&digest(&SHA256, content).as_ref()[..TAG_BYTES]);
    // Digits in quotes are visible ASCII, so this cannot fail.
    HeaderValue::try_from(format!("\"{name}\"")).unwrap_or(HeaderValue::from_static("\"\""))
}

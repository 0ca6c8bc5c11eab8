//! Published images: listed, published and removed.

use actix_web::http::header::LOCATION;
use actix_web::web::ThinData;
use actix_web::{HttpRequest, HttpResponse};
use estimand_api::image::{ImageToPublish, PublishedImage};
use estimand_api::problem::Problem;
use estimand_api::selector::Selector;
use estimand_web::parameters;
use estimand_web::{Body, Failure, Principal, Query, segment};

use crate::TaskService;
use crate::change::Rejection;
use crate::requests::{Publish, Unpublish};

/// The published images, in the order of their names.
#[utoipa::path(
    get,
    path = "/api/images",
    tag = "images",
    params(("labels" = Option<Selector>, Query, description = "Only those with these labels")),
    responses(
        (status = 200, description = "All of them, `[]` if there are none", body = [PublishedImage]),
        (status = 400, description = "The query is not valid", body = Problem),
        (status = 503, description = "Not loaded yet", body = Problem),
    )
)]
pub async fn list(req: HttpRequest, service: ThinData<TaskService>) -> Result<HttpResponse, Failure> {
    let query = Query::with_lists(req.query_string(), &["labels"], &["labels"])?;
    let labels: Option<Selector> =
        query.get("labels").map(|given| parameters::parsed("labels", given)).transpose()?;
    let belongs = |image: &PublishedImage| labels.as_ref().is_none_or(|labels| labels.matches(&image.labels));
    let images = service.shared().table.loaded(|table| table.images.clone())?;
    let some: Vec<&PublishedImage> = images.all().map(AsRef::as_ref).filter(|image| belongs(image)).collect();
    Ok(HttpResponse::Ok().json(some))
}

/// A published image.
#[utoipa::path(
    get,
    path = "/api/images/{name}",
    tag = "images",
    params(("name" = String, Path)),
    responses(
        (status = 200, description = "The image", body = PublishedImage),
        (status = 404, description = "No image of this name is published", body = Problem),
        (status = 503, description = "Not loaded yet", body = Problem),
    )
)]
pub async fn get(req: HttpRequest, service: ThinData<TaskService>) -> Result<HttpResponse, Failure> {
    let name = segment(&req, "name");
    let images = service.shared().table.loaded(|table| table.images.clone())?;
    let image = images
        .get(name)
        .ok_or_else(|| Problem::not_found(Rejection::unknown_image(name.to_owned(), &images).to_string()))?;
    Ok(HttpResponse::Ok().json(&**image))
}

/// Publishes an image under a name, or another one under the name of one that is published.
///
/// Tasks that were accepted before keep the image that they were given.
#[utoipa::path(
    post,
    path = "/api/images",
    tag = "images",
    request_body(content = ImageToPublish, description = "The name with what it stands for"),
    responses(
        (status = 200, description = "The name stands for this now, or did before", body = PublishedImage),
        (status = 201, description = "Published under a new name; the header `Location` says where it is", body = PublishedImage),
        (status = 400, description = "The body is not valid; every error is listed", body = Problem),
        (status = 409, description = "There are too many images", body = Problem),
        (status = 413, description = "The body is too large", body = Problem),
        (status = 503, description = "Not now; the detail says whether it may have taken effect", body = Problem),
    )
)]
pub async fn publish(
    caller: Principal,
    body: Body<{ ImageToPublish::MAX_BYTES }>,
    service: ThinData<TaskService>,
) -> Result<HttpResponse, Failure> {
    let image = body.parse(ImageToPublish::parse).await?;
    let (published, is_new) = service.change(Publish { image, by: caller.to_string() }).await?;
    tracing::info!(image = %published.name, digest = %published.digest, by = %caller, "published");
    let mut response = if is_new { HttpResponse::Created() } else { HttpResponse::Ok() };
    response.insert_header((LOCATION, format!("/api/images/{}", published.name)));
    Ok(response.json(&*published))
}

/// Publishes an image no longer. Tasks that were accepted before run it all the same.
#[utoipa::path(
    delete,
    path = "/api/images/{name}",
    tag = "images",
    params(("name" = String, Path)),
    responses(
        (status = 204, description = "It is not published any more"),
        (status = 404, description = "No image of this name is published", body = Problem),
        (status = 503, description = "Not now; the detail says whether it may have taken effect", body = Problem),
    )
)]
pub async fn remove(
    req: HttpRequest,
    caller: Principal,
    service: ThinData<TaskService>,
) -> Result<HttpResponse, Failure> {
    let name = segment(&req, "name").to_owned();
    tracing::info!(image = name, by = %caller, "to be removed");
    service.change(Unpublish { name }).await?;
    Ok(HttpResponse::NoContent().finish())
}

//! `images`: those that are published, from which the images of tasks are taken.

use estimand_api::image::{ImageToPublish, PublishedImage};

use super::Session;
use crate::arguments::images::{
    ImageArgs, ImagesAction, ImagesArgs, ListImagesArgs, PublishImageArgs, RemoveImagesArgs,
};
use crate::output::failure::Failure;
use crate::output::table::{Cell, Table};
use crate::output::{remark, words};

pub async fn images(session: &mut Session, args: &ImagesArgs) -> Result<(), Failure> {
    match &args.action {
        Some(ImagesAction::Publish(args)) => publish(session, &args.own).await,
        Some(ImagesAction::List(args)) => list(session, &args.own).await,
        Some(ImagesAction::Show(args)) => show(session, &args.own).await,
        Some(ImagesAction::Remove(args)) => remove(session, &args.own).await,
        None => list(session, &ListImagesArgs::default()).await,
    }
}

async fn publish(session: &mut Session, args: &PublishImageArgs) -> Result<(), Failure> {
    let image = ImageToPublish {
        name: args.name.clone(),
        reference: args.reference.clone(),
        digest: args.digest,
        description: args.description.clone(),
        labels: args.labels.iter().cloned().collect(),
    };
    let published = session.client.publish_image(&image).await?;
    if session.out.json {
        return Ok(session.out.pretty(&published)?);
    }
    let PublishedImage { name, reference, digest, .. } = published;
    Ok(session.out.line(&format!("`{name}` is {reference}, {digest}"))?)
}

async fn list(session: &mut Session, args: &ListImagesArgs) -> Result<(), Failure> {
    let images = session.client.images(args.labels.as_deref()).await?;
    if session.out.json {
        return Ok(session.out.pretty(&images)?);
    }
    if images.is_empty() {
        remark("there are no such images; `estimand images publish` publishes one");
        return Ok(());
    }
    let mut table = Table::new(["IMAGE", "REFERENCE", "DIGEST", "PUBLISHED", "BY"], 1);
    for image in &images {
        table.row([
            Cell::from(image.name.as_str()),
            Cell::from(image.reference.as_str()),
            Cell::from(short(image)),
            Cell::from(words::instant(image.published_at)),
            Cell::from(image.published_by.as_str()),
        ]);
    }
    Ok(session.out.table(&table)?)
}

/// The beginning of its digest, as engines show it.
fn short(image: &PublishedImage) -> String {
    const CHARACTERS: usize = "sha256:0123456789ab".len();
    image.digest.to_string().chars().take(CHARACTERS).collect()
}

async fn show(session: &mut Session, args: &ImageArgs) -> Result<(), Failure> {
    let image = session.client.image(&args.name).await?;
    if session.out.json {
        return Ok(session.out.pretty(&image)?);
    }
    session.out.line(image.name.as_str())?;
    let labels: Vec<String> = image.labels.iter().map(|(key, value)| format!("{key}={value}")).collect();
    let mut facts = vec![("reference", image.reference.clone()), ("digest", image.digest.to_string())];
    facts.extend(image.description.map(|text| ("description", text)));
    facts.extend((!labels.is_empty()).then(|| ("labels", labels.join(", "))));
    facts.push(("published", words::instant(image.published_at)));
    facts.push(("by", image.published_by));
    let facts: Vec<(String, Cell)> =
        facts.into_iter().map(|(label, text)| (label.to_owned(), Cell::from(text))).collect();
    Ok(session.out.facts(&facts)?)
}

async fn remove(session: &mut Session, args: &RemoveImagesArgs) -> Result<(), Failure> {
    for name in &args.names {
        session.client.remove_image(name).await?;
        if !session.out.json {
            session.out.line(&format!("`{name}` is not published any more"))?;
        }
    }
    Ok(())
}

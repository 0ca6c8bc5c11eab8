//! Translates between rows of the store and published images.

use std::collections::BTreeMap;
use std::str::FromStr;
use std::sync::Arc;

use estimand_api::image::{PublishedImage, TaskImage};
use estimand_store::{ImageGroup, ImageRow, TaskImageRow};

use super::rows::{column, instant, known, text, value};
use crate::change::Change;
use crate::core::queue::TaskNumber;
use crate::images::{ImageChange, Images};

/// The rows of changes, as they are after all of them.
pub fn group(changes: &[Change]) -> ImageGroup {
    let (mut images, mut of_tasks) = (BTreeMap::new(), BTreeMap::new());
    for change in changes {
        if let Some(ImageChange { name, after }) = &change.image {
            images.insert(name, after.as_deref());
        }
        // An array has the image of its tasks.
        let new = change.edits.iter().filter(|edit| edit.is_new && edit.after.array.is_none());
        let tasks = new.map(|edit| (edit.after.number, edit.after.image.as_deref()));
        let arrays = change.new_arrays.iter().map(|array| (array.number, array.image.as_deref()));
        of_tasks.extend(tasks.chain(arrays).filter_map(|(number, image)| Some((number, image?))));
        for number in
            change.deleted.iter().map(|task| task.number).chain(change.deleted_arrays.iter().copied())
        {
            of_tasks.remove(&number);
        }
    }
    ImageGroup {
        removed: images
            .iter()
            .filter(|(_, after)| after.is_none())
            .map(|(name, _)| (*name).clone())
            .collect(),
        images: images.into_values().flatten().map(row).collect(),
        of_tasks: of_tasks.into_iter().map(|(number, image)| task_row(number, image)).collect(),
    }
}

fn row(image: &PublishedImage) -> ImageRow {
    ImageRow {
        name: image.name.to_string(),
        reference: image.reference.clone(),
        digest: image.digest.to_string(),
        description: image.description.clone(),
        labels: text(&image.labels),
        published_at: image.published_at.timestamp_micros(),
        published_by: estimand_store::actor(&image.published_by),
    }
}

fn task_row(number: TaskNumber, image: &TaskImage) -> TaskImageRow {
    TaskImageRow {
        number: column(number.0),
        name: image.name.to_string(),
        reference: image.reference.clone(),
        digest: image.digest.to_string(),
    }
}

/// The images in rows; one that cannot be read is logged.
pub fn images(rows: &[ImageRow]) -> Images {
    let read = |row: &ImageRow| {
        published(row)
            .inspect_err(|cause| tracing::error!(name = row.name, cause, "a stored image cannot be read"))
            .ok()
    };
    rows.iter().filter_map(read).collect()
}

fn published(row: &ImageRow) -> Result<PublishedImage, String> {
    Ok(PublishedImage {
        name: parsed(&row.name)?,
        reference: row.reference.clone(),
        digest: parsed(&row.digest)?,
        description: row.description.clone(),
        labels: value(&row.labels)?,
        published_at: instant(row.published_at),
        published_by: row.published_by.clone(),
    })
}

/// The images that tasks and arrays were given, by number. One that cannot be read is an error of its task, since another
/// content would run without it.
pub type GivenImages = BTreeMap<TaskNumber, Result<Arc<TaskImage>, String>>;

pub fn of_tasks(rows: &[TaskImageRow]) -> GivenImages {
    let image = |row: &TaskImageRow| {
        let reference = row.reference.clone();
        Ok(Arc::new(TaskImage { name: parsed(&row.name)?, reference, digest: parsed(&row.digest)? }))
    };
    rows.iter().map(|row| (TaskNumber(known(row.number)), image(row))).collect()
}

/// The image that a task or array was given, if it was given one.
pub fn image(number: TaskNumber, images: &GivenImages) -> Result<Option<Arc<TaskImage>>, String> {
    images.get(&number).cloned().transpose()
}

fn parsed<T: FromStr>(text: &str) -> Result<T, String>
where
    T::Err: ToString,
{
    text.parse().map_err(|error: T::Err| error.to_string())
}

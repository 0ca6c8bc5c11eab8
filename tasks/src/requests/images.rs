//! An image is published, or is not any more.

use std::sync::Arc;

use estimand_api::image::{ImageToPublish, PublishedImage};
use estimand_service::{Decision, Request};

use crate::change::{Change, Rejection};
use crate::images::{ImageChange, MAX_IMAGES};
use crate::storage::rows::instant;
use crate::table::TaskTable;
use crate::writer::TasksState;

pub struct Publish {
    pub image: ImageToPublish,
    pub by: String,
}

impl Request<TasksState> for Publish {
    /// The image as it is published now, and whether its name is new.
    type Reply = (Arc<PublishedImage>, bool);

    fn decide(self, state: &TasksState) -> Result<Decision<TasksState, Self::Reply>, Rejection> {
        let (at, table, Publish { image, by }) = (state.now_us(), state.table(), self);
        let name = image.name.as_str().to_owned();
        let before = table.images.get(&name);
        if let Some(same) = before.filter(|before| image.is(before)) {
            return Ok(Decision::Nothing((Arc::clone(same), false)));
        }
        if !table.images.takes(&name) {
            return Err(Rejection::TooManyImages(MAX_IMAGES));
        }
        let is_new = before.is_none();
        let ImageToPublish { name: shown, reference, digest, description, labels } = image;
        let (published_at, published_by) = (instant(at), by);
        let published = PublishedImage {
            name: shown,
            reference,
            digest,
            description,
            labels,
            published_at,
            published_by,
        };
        let published = Arc::new(published);
        let change = change(table, ImageChange { name, after: Some(Arc::clone(&published)) }, at);
        Ok(Decision::change(change, move |_, _| (published, is_new)))
    }
}

pub struct Unpublish {
    pub name: String,
}

impl Request<TasksState> for Unpublish {
    type Reply = ();

    fn decide(self, state: &TasksState) -> Result<Decision<TasksState, ()>, Rejection> {
        let (at, table, Unpublish { name }) = (state.now_us(), state.table(), self);
        if table.images.get(&name).is_none() {
            return Err(Rejection::unknown_image(name, &table.images));
        }
        Ok(Decision::change(change(table, ImageChange { name, after: None }, at), |_, _| ()))
    }
}

fn change(table: &TaskTable, image: ImageChange, at: i64) -> Change {
    Change { image: Some(image), highest: table.highest, at, ..Change::default() }
}

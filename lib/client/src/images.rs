//! Published images: the task service's part of the client that is about them.

use bytes::Bytes;
use reqwest::Method;
use serde_json::Value;

use crate::{Client, Error, Repeat};
use estimand_api::image::{ImageName, ImageToPublish, PublishedImage};

impl Client {
    /// The published images with such labels, all if there is no selector, in the order of their names.
    pub async fn images(&self, labels: Option<&str>) -> Result<Vec<PublishedImage>, Error> {
        let pairs: Vec<(&str, &str)> = labels.map(|labels| ("labels", labels)).into_iter().collect();
        let answer = self.get(self.url(&["api", "images"], &pairs)).await?;
        self.read(&answer)
    }

    pub async fn image(&self, name: &ImageName) -> Result<PublishedImage, Error> {
        let answer = self.get(self.url(&["api", "images", name.as_str()], &[])).await?;
        self.read(&answer)
    }

    /// Publishes an image; the same again is the same.
    pub async fn publish_image(&self, image: &ImageToPublish) -> Result<PublishedImage, Error> {
        let body = Bytes::from(Value::Object(image.to_map()).to_string());
        let url = self.url(&["api", "images"], &[]);
        let answer = self.send(Method::POST, url, Some(body), Repeat::Safe).await?;
        self.read(&answer)
    }

    pub async fn remove_image(&self, name: &ImageName) -> Result<(), Error> {
        let url = self.url(&["api", "images", name.as_str()], &[]);
        self.send(Method::DELETE, url, None, Repeat::OnlyIfNotTaken).await.map(drop)
    }
}

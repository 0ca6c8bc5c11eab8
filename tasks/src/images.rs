//! The published images: which content each name of an image stands for.
//!
//! A task's image is looked up when the task is accepted, and the task keeps what it was given. So what is published later
//! changes no task that is there, also not when it is run again.

use std::collections::BTreeMap;
use std::sync::Arc;

use estimand_api::fields::nearest;
use estimand_api::image::{PublishedImage, TaskImage};

/// How many images may be published.
pub const MAX_IMAGES: usize = 1_000;

/// All of them, by name. Clones are cheap.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Images(Arc<BTreeMap<String, Arc<PublishedImage>>>);

/// The change of one image; none: it is not published any more.
#[derive(Debug, Clone, PartialEq)]
pub struct ImageChange {
    pub name: String,
    pub after: Option<Arc<PublishedImage>>,
}

impl Images {
    pub fn get(&self, name: &str) -> Option<&Arc<PublishedImage>> {
        self.0.get(name)
    }

    /// In the order of their names.
    pub fn all(&self) -> impl Iterator<Item = &Arc<PublishedImage>> {
        self.0.values()
    }

    /// The published image of a task; none if its image is not published.
    pub fn resolve(&self, image: &str) -> Option<TaskImage> {
        let PublishedImage { name, reference, digest, .. } = PublishedImage::clone(self.get(image)?);
        Some(TaskImage { name, reference, digest })
    }

    /// The advice to somebody who named an image that is not published.
    pub fn advice(&self, image: &str) -> String {
        // The end of a reference is what a name is most like.
        let last = image.rsplit('/').next().unwrap_or(image);
        let bare = last.split(['@', ':']).next().unwrap_or(last);
        let names = || self.0.keys().map(String::as_str);
        let near = [image, last, bare].into_iter().find_map(|given| nearest(given, names()));
        match near {
            Some(near) => format!("is it `{near}`?"),
            None if self.0.is_empty() => "no image is published".to_owned(),
            None => format!("{} are published: `estimand images list`", self.0.len()),
        }
    }

    pub fn apply(&mut self, change: &ImageChange) {
        let images = Arc::make_mut(&mut self.0);
        match &change.after {
            Some(image) => drop(images.insert(change.name.clone(), Arc::clone(image))),
            None => drop(images.remove(&change.name)),
        }
    }

    /// True if there is room for another one of this name.
    pub fn takes(&self, name: &str) -> bool {
        self.0.len() < MAX_IMAGES || self.0.contains_key(name)
    }
}

impl FromIterator<PublishedImage> for Images {
    fn from_iter<I: IntoIterator<Item = PublishedImage>>(images: I) -> Self {
        let named = images.into_iter().map(|image| (image.name.as_str().to_owned(), Arc::new(image)));
        Images(Arc::new(named.collect()))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn image(name: &str) -> PublishedImage {
        PublishedImage {
            name: name.parse().unwrap(),
            reference: format!("h:5000/{name}"),
            digest: format!("sha256:{}", "0a".repeat(32)).parse().unwrap(),
            description: None,
            labels: BTreeMap::new(),
            published_at: chrono::DateTime::default(),
            published_by: String::new(),
        }
    }

    #[test]
    fn a_name_stands_for_what_was_published_last() {
        let mut images: Images = [image("a"), image("b")].into_iter().collect();
        let before = images.clone();
        let other = PublishedImage { reference: "elsewhere".to_owned(), ..image("a") };
        images.apply(&ImageChange { name: "a".to_owned(), after: Some(Arc::new(other)) });
        images.apply(&ImageChange { name: "b".to_owned(), after: None });
        assert_eq!(images.resolve("a").unwrap().reference, "elsewhere");
        assert_eq!((images.resolve("b"), images.all().count()), (None, 1));
        assert_eq!(before.resolve("a").unwrap().reference, "h:5000/a");
    }

    #[test]
    fn an_image_that_is_not_published_is_told_the_nearest_that_is() {
        let images: Images = [image("mnist"), image("resnet:2")].into_iter().collect();
        for (given, expected) in [
            ("mnit", "is it `mnist`?"),
            ("registry.example.com/team/mnist:1", "is it `mnist`?"),
            ("resnet:3", "is it `resnet:2`?"),
            ("python", "2 are published: `estimand images list`"),
        ] {
            assert_eq!(images.resolve(given), None, "it goes on as it is");
            assert_eq!(images.advice(given), expected, "{given}");
        }
        assert_eq!(Images::default().advice("x"), "no image is published");
    }
}

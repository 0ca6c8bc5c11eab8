//! The image of a container whose content is fixed by a digest: whatever its name means on this node, no other content runs.
//!
//! The digest is that of the image in its registry, or its id where it was built. It is looked for under the name that
//! the task gives alone, since that is the name which the node's operator has allowed.

use super::allow::bare;
use super::engine::{Engine, EngineError};
use super::terms::ContainerRun;

/// An image that the engine has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImageHere {
    pub id: String,
    /// Each with its repository: `python@sha256:…`.
    pub registry_digests: Vec<String>,
}

impl ImageHere {
    fn is(&self, digest: &str) -> bool {
        let ends = |one: &String| one.split_once('@').is_some_and(|(_, own)| own == digest);
        self.id == digest || self.registry_digests.iter().any(ends)
    }
}

/// The name by which a registry gives the image of a container.
pub fn fetched_as(run: &ContainerRun) -> String {
    match run.digest {
        Some(digest) => format!("{}@{digest}", bare(&run.image)),
        None => run.image.clone(),
    }
}

/// The name by which the engine has the image of a container. [`EngineError::Missing`] says what it has instead.
pub async fn find(engine: &Engine, run: &ContainerRun) -> Result<String, EngineError> {
    let Some(digest) = run.digest.map(|digest| digest.to_string()) else { return Ok(run.image.clone()) };
    let mut other = None;
    for name in [run.image.clone(), fetched_as(run)] {
        match engine.image(&name).await {
            Ok(here) if here.is(&digest) => return Ok(here.id),
            Ok(here) => other = other.or(Some(here.id)),
            Err(EngineError::Missing(_)) => {}
            Err(error) => return Err(error),
        }
    }
    Err(EngineError::Missing(missing(&run.image, &digest, other.as_deref())))
}

fn missing(image: &str, digest: &str, other: Option<&str>) -> String {
    match other {
        Some(other) => {
            format!("the image `{image}` was published as {digest}, and on this node it is {other}")
        }
        None => format!("the image `{image}`, which was published as {digest}, is not on this node"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_image_is_known_by_its_id_and_by_its_digest_in_a_registry() {
        let here = ImageHere { id: "sha256:0a".into(), registry_digests: vec!["h:5000/a@sha256:0b".into()] };
        for (digest, expected) in
            [("sha256:0a", true), ("sha256:0b", true), ("sha256:0", false), ("0b", false)]
        {
            assert_eq!(here.is(digest), expected, "{digest}");
        }
    }
}

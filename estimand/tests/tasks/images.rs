//! Published images on a real engine: the content that was published runs, and no other one behind the same tag.

use std::fs;

use estimand_testkit::docker::{self, IMAGE};
use estimand_testkit::image_registry::ImageRegistry;
use serde_json::json;

use crate::plane::Plane;

const REFERENCE: &str = "estimand/changing:1";

/// Builds an image that says a word by itself. Its id.
fn build(reference: &str, word: &str) -> String {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("Dockerfile"), format!("FROM {IMAGE}\nCMD [\"echo\", \"{word}\"]\n"))
        .unwrap();
    docker::shared().build(folder.path(), reference)
}

#[track_caller]
fn publish(plane: &Plane, reference: &str, digest: &str) {
    let done = plane.cli(&["images", "publish", "word", reference, digest]).output().unwrap();
    let said = String::from_utf8_lossy(&done.stdout);
    assert_eq!(said, format!("`word` is {reference}, {digest}\n"), "{done:?}");
}

/// The output of a container that does what its image does by itself.
#[track_caller]
fn run(plane: &Plane, image: &str) -> String {
    let ran = plane.cli(&["run-task", "--image", image]).output().unwrap();
    assert!(ran.status.success(), "{ran:?}");
    String::from_utf8_lossy(&ran.stdout).into_owned()
}

#[test]
fn an_image_that_has_changed_behind_its_tag_is_not_run_for_the_published_one() {
    let plane = Plane::with(&["n1"], &["--docker", docker::shared().socket().to_str().unwrap()]);
    let first = build(REFERENCE, "first");
    publish(&plane, REFERENCE, &first);
    assert_eq!(run(&plane, "word"), "first\n");
    let second = build(REFERENCE, "second");
    assert_ne!(first, second);
    let id = plane.submit(&json!({ "image": "word", "retries": 3 }));
    let task = plane.over(&id);
    assert_eq!(
        (&task["ending"], &task["image"]["digest"]),
        (&json!("imageMissing"), &json!(first)),
        "{task}"
    );
    let log = plane.log(&id).join("\n");
    let why = format!(
        "`{REFERENCE}` was published as {first}, and on this node it is {second}; it cannot be fetched"
    );
    assert!(log.contains(&why), "{log}");
    assert_eq!(run(&plane, REFERENCE), "second\n", "by its tag it is what the tag means");
    publish(&plane, REFERENCE, &second);
    assert_eq!(run(&plane, "word"), "second\n");
}

#[test]
fn a_published_image_is_fetched_by_its_digest_wherever_its_tag_has_gone() {
    let plane = Plane::with(&["n1"], &["--docker", docker::shared().socket().to_str().unwrap()]);
    let registry = ImageRegistry::start();
    let reference = registry.reference("word:1");
    let publish_next = |word: &str| {
        build(&reference, word);
        docker::shared().push(&reference)
    };
    let first = publish_next("first");
    docker::shared().remove_image(&reference);
    let second = publish_next("second");
    assert_ne!(first, second);
    publish(&plane, &reference, &second);
    assert_eq!(run(&plane, "word"), "second\n", "the engine has it, by its digest in the registry");
    publish(&plane, &reference, &first);
    assert_eq!(run(&plane, "word"), "first\n");
    assert_eq!(run(&plane, &reference), "second\n", "what was fetched has not moved the tag here");
}

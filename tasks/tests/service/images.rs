//! Published images: what a name stands for when a task is accepted, it stands for as long as the task is there.

use estimand_testkit::http::Response;
use serde_json::{Value, json};

use super::support::{Running, World, node, refused, sqlite};

on_each_engine!(
    a_task_keeps_the_image_that_it_was_given,
    images_are_listed_found_and_removed,
    only_published_images_run_if_the_operator_wants_it_so,
);

fn digest(byte: &str) -> String {
    format!("sha256:{}", byte.repeat(32))
}

fn publish(running: &Running, name: &str, reference: &str, byte: &str) -> Response {
    let image = json!({ "name": name, "reference": reference, "digest": digest(byte) });
    running.post("/api/images", &image)
}

fn remove(running: &Running, name: &str) -> Response {
    running.serving.http.request("DELETE", &format!("/api/images/{name}"), &[], b"")
}

/// The work that the node was told to run, and the image that readers are shown.
fn work_and_image(world: &World, running: &Running, id: &str) -> (Value, Value) {
    let work = world.assignment("n1", id)["work"].clone();
    (json!([work["image"], work["imageDigest"]]), running.task(id)["image"].clone())
}

fn a_task_keeps_the_image_that_it_was_given() {
    let (world, (_folder, store)) = (World::start(&[node("n1", 4, &json!({ "docker": "" }))]), sqlite());
    let running = Running::start(&store, &world);
    let first = publish(&running, "mnist", "h:5000/mnist:1", "0a").expect_status(201);
    assert_eq!(first.header("location"), Some("/api/images/mnist"));
    let again = publish(&running, "mnist", "h:5000/mnist:1", "0a").expect_status(200).json();
    assert_eq!(again, first.json(), "the same again changes nothing, not even the time");

    let one = running.submit(&json!({ "id": "one", "image": "mnist" }));
    running.submit(&json!({ "id": "sweep", "image": "mnist", "count": 2 }));
    let other = running.submit(&json!({ "image": "h:5000/mnist:1" }));
    let changed = publish(&running, "mnist", "h:5000/mnist:2", "0b").expect_status(200).json();
    assert_eq!((&changed["reference"], &changed["digest"]), (&json!("h:5000/mnist:2"), &json!(digest("0b"))));
    let later = running.submit(&json!({ "image": "mnist" }));
    remove(&running, "mnist").expect_status(204);
    let nobody = running.submit(&json!({ "image": "mnist" }));

    let ids = [one.as_str(), "sweep.0", "sweep.1", &other, &later, &nobody];
    world.wait_told("n1", &ids.map(|id| (id, 1, false)));
    let given = |reference: &str, byte: &str| {
        let digest = digest(byte);
        let image = json!({ "name": "mnist", "reference": reference, "digest": digest });
        (json!([reference, digest]), image)
    };
    let check = |running: &Running| {
        for id in [one.as_str(), "sweep.0", "sweep.1"] {
            assert_eq!(work_and_image(&world, running, id), given("h:5000/mnist:1", "0a"), "{id}");
        }
        assert_eq!(work_and_image(&world, running, &later), given("h:5000/mnist:2", "0b"));
        assert_eq!(running.task("sweep")["image"]["digest"], json!(digest("0a")));
        assert_eq!(running.task(&one)["document"]["image"], "mnist", "as it was submitted");
        let plain = |image: &str| (json!([image, null]), Value::Null);
        assert_eq!(work_and_image(&world, running, &other), plain("h:5000/mnist:1"));
        assert_eq!(work_and_image(&world, running, &nobody), plain("mnist"));
    };
    check(&running);
    // So it is after a crash, and told anew.
    running.crash();
    world.elect();
    let running = Running::start(&store, &world);
    world.wait_told("n1", &ids.map(|id| (id, 1, false)));
    check(&running);
    running.stop();
}

fn images_are_listed_found_and_removed() {
    let (world, (_folder, store)) = (World::start(&[]), sqlite());
    let running = Running::start(&store, &world);
    let labelled = json!({
        "name": "b:2", "reference": "b", "digest": digest("0b"), "description": "the second", "labels": { "of": "x" },
    });
    running.post("/api/images", &labelled).expect_status(201);
    publish(&running, "a", "a", "0a").expect_status(201);
    running.crash();
    let running = Running::start(&store, &world);
    let names = |query: &str| -> Vec<Value> {
        let images = running.get(&format!("/api/images{query}")).expect_status(200).json();
        images.as_array().unwrap().iter().map(|image| image["name"].clone()).collect()
    };
    assert_eq!((names(""), names("?labels=of%3Dx")), (vec![json!("a"), json!("b:2")], vec![json!("b:2")]));
    let image = running.get("/api/images/b:2").expect_status(200).json();
    for (field, value) in labelled.as_object().unwrap() {
        assert_eq!(image[field], *value, "{field}");
    }
    assert_eq!(refused(remove(&running, "b:3"), 404), "no image `b:3` is published: is it `b:2`?");
    remove(&running, "b:2").expect_status(204);
    refused(running.get("/api/images/b:2"), 404);
    assert_eq!(names(""), [json!("a")]);
    running.stop();
}

fn only_published_images_run_if_the_operator_wants_it_so() {
    let (world, (_folder, store)) = (World::start(&[]), sqlite());
    let running = Running::start_strictly(&store, &world);
    let submit = |image: &str| running.post("/api/tasks", &json!({ "image": image }));
    let says = |image: &str| refused(submit(image), 409);
    assert!(says("python:3").ends_with("only published ones run here: no image is published"));
    publish(&running, "mnist", "h:5000/mnist:1", "0a").expect_status(201);
    assert!(says("mnit").ends_with("is it `mnist`?"), "{}", says("mnit"));
    assert!(says("h:5000/mnist:1").ends_with("is it `mnist`?"), "the reference is not the name");
    submit("mnist").expect_status(201);
    running.post("/api/tasks", &json!({ "command": "true" })).expect_status(201);
    running.stop();
}

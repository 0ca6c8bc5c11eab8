//! Published images: published, found, used by a task and removed; and what is wrong with a request.

use serde_json::{Value, json};

use crate::answers::{problem, unknown_input, wrong_field};
use crate::target::Target;

on_every_target!(an_image_comes_and_goes, wrong_images_are_refused_with_every_error);

fn digest() -> String {
    format!("sha256:{}", "0a".repeat(32))
}

fn an_image_comes_and_goes(target: &Target) {
    let (tasks, name) = (&target.tasks, target.name("image"));
    let image =
        json!({ "name": name, "reference": "h:5000/a:1", "digest": digest(), "labels": { "of": name } });
    let published = tasks.send_json("POST", "/api/images", &image).expect_status(201).json();
    assert_eq!(tasks.send_json("POST", "/api/images", &image).expect_status(200).json(), published);
    let path = format!("/api/images/{name}");
    assert_eq!(tasks.get(&path).expect_status(200).json(), published);
    let found = tasks.get(&format!("/api/images?labels=of%3D{name}")).expect_status(200).json();
    assert_eq!(found, json!([published]));
    let task = json!({ "image": name, "nodes": "nowhere" });
    let task = tasks.send_json("POST", "/api/tasks", &task).expect_status(201).json();
    let given = json!({ "name": name, "reference": "h:5000/a:1", "digest": digest() });
    assert_eq!((&task["image"], &task["document"]["image"]), (&given, &json!(name)));
    tasks.request("DELETE", &path, &[], b"").expect_status(204);
    problem(&tasks.get(&path), 404);
    problem(&tasks.request("DELETE", &path, &[], b""), 404);
    let id = task["id"].as_str().unwrap();
    let over = tasks.request("POST", &format!("/api/tasks/{id}/cancel"), &[], b"").expect_status(200).json();
    assert_eq!(over["image"], given, "it keeps what it was given");
}

fn wrong_images_are_refused_with_every_error(target: &Target) {
    let send = |image: &Value| target.tasks.send_json("POST", "/api/images", image);
    let several = send(&json!({ "name": "a b", "reference": "a@sha256:0a", "labels": 1 }));
    for field in ["name", "reference", "digest", "labels"] {
        wrong_field(&several, field);
    }
    let right = json!({ "name": "a", "reference": "a", "digest": digest(), "tag": "1" });
    unknown_input(&send(&right), "tag", "name");
    problem(&send(&json!({ "description": "x".repeat(100_000) })), 413);
    wrong_field(&target.tasks.get("/api/images?labels=%3D"), "labels");
    unknown_input(&target.tasks.get("/api/images?name=a"), "name", "labels");
}

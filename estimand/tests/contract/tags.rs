//! Conditional reads and HEAD: an answer that its reader has is not sent again, and nothing else is held back.

use estimand_testkit::http::Response;
use estimand_testkit::wait::{self, PATIENCE};
use serde_json::json;

use crate::target::Target;

on_every_target!(
    an_answer_is_sent_again_only_when_it_has_changed,
    a_deletion_is_a_change,
    a_swap_is_a_change,
    an_answer_changes_with_time_alone,
    a_text_has_another_tag_than_its_object,
    the_past_is_sent_again_when_there_is_more,
    head_says_what_get_would,
);

fn with_tag(target: &Target, path: &str, tag: &str) -> Response {
    target.data.request("GET", path, &[("If-None-Match", tag)], b"")
}

/// The tag of what is there now.
#[track_caller]
fn tag_of(target: &Target, path: &str) -> String {
    let answer = with_tag(target, path, "\"\"").expect_status(200);
    assert_eq!(answer.body, target.data.get(path).expect_status(200).body);
    answer.header("etag").unwrap().to_owned()
}

/// Fails unless the answer is another one than that with the tag.
#[track_caller]
fn changed_since(target: &Target, path: &str, tag: &str) -> String {
    let answer = with_tag(target, path, tag).expect_status(200);
    assert_eq!(answer.body, target.data.get(path).expect_status(200).body);
    let new = answer.header("etag").unwrap();
    assert_ne!(new, tag);
    new.to_owned()
}

fn an_answer_is_sent_again_only_when_it_has_changed(target: &Target) {
    let (name, other) = (target.name("tag"), target.name("tag"));
    target.write(&name, "n1", 1);
    target.write(&other, "n1", 1);
    let paths = [
        format!("/api/data/{name}/n1"),
        format!("/api/data?dataName={name}"),
        format!("/api/data?dataName={name}&dataNode=n1"),
        format!("/api/data?dataName={name},{other}"),
        format!("/api/data?dataName={name}&state=fresh&sort=value"),
    ];
    for path in paths {
        let tag = tag_of(target, &path);
        target.write(&target.name("tag"), "n1", 1);
        let again = with_tag(target, &path, &format!("\"x\", W/{tag}")).expect_status(304);
        assert_eq!((again.body.len(), again.header("etag")), (0, Some(&*tag)), "{path}");
        assert_eq!(again.header("content-type"), None, "{path}");
        assert!(again.header("estimand-revision").is_some(), "{path}");
        target.write(&name, "n1", 1);
        changed_since(target, &path, &tag);
    }
}

fn a_deletion_is_a_change(target: &Target) {
    let name = target.name("tag");
    let path = format!("/api/data?dataName={name}");
    let nothing = tag_of(target, &path);
    target.write(&name, "n1", 1);
    let one = changed_since(target, &path, &nothing);
    target.write(&name, "n2", 1);
    let both = changed_since(target, &path, &one);
    target.delete(&format!("dataName={name}&dataNode=n2"));
    assert_eq!(changed_since(target, &path, &both), one, "it is what it was");
    target.delete(&format!("dataName={name}"));
    assert_eq!(changed_since(target, &path, &one), nothing);
}

fn a_swap_is_a_change(target: &Target) {
    let (stable, one, two) = (target.name("capability"), target.name("estimator"), target.name("estimator"));
    let bind = |to: &str| {
        let path = format!("/api/bindings/{stable}");
        target.data.send_json("PUT", &path, &json!({ "to": to })).expect_status(200)
    };
    target.write(&one, "n1", 1);
    target.write(&two, "n1", 1);
    bind(&one);
    let paths = [format!("/api/data?dataName={stable}"), format!("/api/data/{stable}/n1")];
    for path in &paths {
        bind(&one);
        let first = tag_of(target, path);
        bind(&two);
        let second = changed_since(target, path, &first);
        bind(&one);
        assert_eq!(changed_since(target, path, &second), first);
        // Its own name is in the answer of the bound one.
        assert_ne!(tag_of(target, &path.replace(&stable, &one)), first);
    }
}

/// No value is written and no state changes: the value is only older than what was asked for.
fn an_answer_changes_with_time_alone(target: &Target) {
    let name = target.name("tag");
    target.write(&name, "n1", 1);
    let whole = tag_of(target, &format!("/api/data?dataName={name}"));
    let path = format!("/api/data?dataName={name}&maxAge=200ms");
    let empty = wait::until(PATIENCE, "the value to be too old", || {
        let answer = with_tag(target, &path, &whole);
        (answer.status == 200).then_some(answer)
    });
    assert_eq!(empty.text(), "[]");
    with_tag(target, &path, empty.header("etag").unwrap()).expect_status(304);
}

fn a_text_has_another_tag_than_its_object(target: &Target) {
    let name = target.name("tag");
    target.write(&name, "n1", "x");
    let path = format!("/api/data/{name}/n1");
    let object = tag_of(target, &path);
    let headers = [("Accept", "text/plain"), ("If-None-Match", &*object)];
    let text = target.data.request("GET", &path, &headers, b"").expect_status(200);
    assert_eq!(text.text(), "x");
    let headers = [("Accept", "text/plain"), ("If-None-Match", text.header("etag").unwrap())];
    target.data.request("GET", &path, &headers, b"").expect_status(304);
    with_tag(target, &path, text.header("etag").unwrap()).expect_status(200);
}

fn the_past_is_sent_again_when_there_is_more(target: &Target) {
    let name = target.name("tag");
    target.write(&name, "n1", 1);
    let history = json!({ "max": 9 });
    target.register(&json!({"dataName": name, "cmd": "true", "max-Time": 5, "history": history}));
    let path = format!("/api/data/history?dataName={name}");
    wait::until(PATIENCE, "the history to begin", || {
        (target.data.get(&path).expect_status(200).text() != "[]").then_some(())
    });
    let tag = tag_of(target, &path);
    with_tag(target, &path, &tag).expect_status(304);
    target.write(&name, "n1", 2);
    changed_since(target, &path, &tag);
}

fn head_says_what_get_would(target: &Target) {
    let name = target.name("tag");
    target.write(&name, "n1", "x".repeat(60_000));
    target.write(&name, "n2", 1);
    let paths = [
        format!("/api/data/{name}/n1"),
        format!("/api/data?dataName={name}"),
        format!("/api/data?dataName={name},{name}_no"),
        format!("/api/data/history?dataName={name}"),
        format!("/api/data/{name}/n3"),
        "/api/data?dataName=*&nmae=x".to_owned(),
    ];
    for path in paths {
        let get = target.data.get(&path);
        let head = target.data.request("HEAD", &path, &[], b"");
        assert_eq!((head.status, head.body.len()), (get.status, 0), "{path}");
        assert_eq!(head.header("content-type"), get.header("content-type"), "{path}");
        assert_eq!(head.header("etag").is_some(), get.status == 200, "{path}");
        if get.status == 200 {
            assert_eq!(head.header("content-length"), Some(&*get.body.len().to_string()), "{path}");
            let tag = head.header("etag").unwrap();
            let again = target.data.request("HEAD", &path, &[("If-None-Match", tag)], b"");
            assert_eq!((again.status, again.header("etag")), (304, Some(tag)), "{path}");
        }
    }
    target.data.request("HEAD", "/api/data/batch", &[], b"").expect_status(405);
}

use serde_json::json;

use super::*;

const NOON: i64 = 1_800_000_000_000_000;

fn parse(body: &Value) -> Result<Document, String> {
    Document::parse(body.to_string().as_bytes(), NOON)
        .map_err(|problem| problem.errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))
}

#[test]
fn a_document_is_read_and_written_with_instants() {
    let body = json!({ "resources": { "cpu": 0.5, "memory": "1GiB", "gpu": 0 }, "width": 2, "duration": "90m",
        "from": "1h", "by": "2027-01-15T12:00:00Z", "value": 2.5, "user": "ada", "task": { "command": "/bin/true" } });
    let document = parse(&body).unwrap();
    assert_eq!((document.resources["cpu"], document.resources["memory"]), (500, 1 << 30));
    assert_eq!((document.resources.len(), document.width, document.duration), (2, 2, 5_400));
    assert_eq!(document.from, Some(1_800_003_600));
    assert_eq!(document.value, Some(Money::microcredits(2_500_000)));
    let again = Document::from_map(document.to_map(), 0).unwrap();
    assert_eq!(again, document);
    assert!(
        document.is_same(
            &parse(&json!({ "resources": { "cpu": 0.5, "memory": 1 << 30 }, "width": 2,
        "duration": 5400, "value": "2.50", "user": "ada", "task": { "command": "/bin/true" } }))
            .unwrap()
        )
    );
}

#[test]
fn everything_that_is_wrong_is_said() {
    let wrong = |more: Value| {
        let mut body = json!({ "resources": { "cpu": 1 }, "duration": "1h", "value": 1 });
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        parse(&body).unwrap_err()
    };
    for (more, part) in [
        (json!({ "resources": {} }), "resources: asks for nothing"),
        (json!({ "resources": { "cpu": 0 } }), "resources: asks for nothing"),
        (json!({ "resources": { "cpu": -1 } }), "resources.cpu: is out of range"),
        (json!({ "width": 0 }), "width: is not from 1 to 10000"),
        (json!({ "width": 1_u64 << 63 }), "width: is not from 1 to 10000"),
        (json!({ "width": "2..8" }), "width: is open, so how long it takes depends on it"),
        (json!({ "width": "8..2", "work": 5, "duration": null }), "width: has the greater number first"),
        (json!({ "width": "0..2", "work": 5, "duration": null }), "width: has a number that is not from 1"),
        (json!({ "width": "1..9999", "work": 5, "duration": null }), "width: leaves more than 1024 numbers"),
        (json!({ "width": "all", "work": 5, "duration": null }), "width: is neither a number nor two"),
        (json!({ "work": 5 }), "duration: goes not with `work`"),
        (json!({ "work": 0, "duration": null }), "work: is 0"),
        (json!({ "work": 1_u64 << 63, "duration": null }), "work: "),
        (
            json!({ "resources": (0..10_000).map(|n| (format!("r{n}"), json!(1))).collect::<serde_json::Map<_, _>>() }),
            "resources: has more than 32",
        ),
        (json!({ "duration": 0 }), "duration: is 0"),
        (json!({ "duration": 1_u64 << 63 }), "longer than 100 years"),
        (json!({ "value": -1 }), "value: `-1` is negative"),
        (json!({ "value": 1e300 }), "value: `1e+300` is not an amount"),
        (json!({ "value": "NaN" }), "value: `NaN` is not an amount"),
        (json!({ "value": 0.1 + 0.2 }), "finer than a microcredit"),
        (json!({ "from": "2h", "by": "1h" }), "by: is not after `from`"),
        (json!({ "by": "soon" }), "by: is neither an instant nor a duration"),
        (json!({ "by": "1969-01-01T00:00:00Z" }), "by: is before 1970"),
        (json!({ "user": "(held)" }), "user: begins with `(`"),
        (json!({ "task": "x" }), "task: is a string, not an object; expected the document of a task"),
        (json!({ "task": { "command": "x", "count": 3 } }), "task.count: is given by the reservation"),
        (json!({ "task": {} }), "task.command: or `image` is missing"),
        (
            json!({ "task": { "image": "x", "commnd": "x", "retries": { "count": -1 } } }),
            "task.retries.count: is not a whole number of at least 0, given -1; expected 0 to 1000; \
             task.commnd: is not a known field, given \"x\"; expected `command`?",
        ),
        (
            json!({ "task": { "command": "x", "outputs": ["y"] }, "user": "Kim/.." }),
            "user: is no name of a user who has files",
        ),
        (json!({ "celery": "app.train" }), "celery: is a string, not an object"),
        (json!({ "celery": { "args": 1 } }), "celery.task: is missing"),
        (json!({ "celery": { "task": "t", "args": {} } }), "celery.args: is an object, not an array"),
        (json!({ "celery": { "task": "t", "eta": 1 } }), "celery.eta: is not a known field"),
        (json!({ "celery": { "task": "t" }, "task": { "command": "x" } }), "it has one or the other"),
        (json!({ "dryrun": true }), "expected `dryRun`?"),
    ] {
        let said = wrong(more.clone());
        assert!(said.contains(part), "{more}: {said}");
    }
    let said = parse(&json!({ "width": "many" })).unwrap_err();
    assert!(
        said.contains("resources") && said.contains("duration: is missing") && said.contains("width"),
        "{said}"
    );
}

#[test]
fn work_and_an_open_width_are_read_and_written() {
    let body = json!({ "resources": { "gpu": 1 }, "width": "2..8", "work": "16h", "value": 80 });
    let document = parse(&body).unwrap();
    assert_eq!((document.width, document.widest, document.work), (2, Some(8), Some(57_600)));
    assert_eq!((document.length(2), document.length(7)), (28_800, 8_229));
    assert_eq!(Document::from_map(document.to_map(), 0).unwrap(), document);
    assert_eq!(
        parse(&json!({ "resources": { "gpu": 1 }, "width": "3..3", "work": 9 })).unwrap().widest,
        None
    );
}

#[test]
fn a_change_replaces_fields_and_says_what_cannot_be_changed() {
    let document =
        parse(&json!({ "resources": { "cpu": 1 }, "width": 2, "duration": "1h", "from": "1h", "by": "6h",
        "value": 9, "task": { "command": "x" } }))
        .unwrap();
    let later = NOON + 2 * 3_600 * 1_000_000;
    let changed = |change: Value, now: i64| {
        let errors =
            |problem: Problem| problem.errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ");
        document.changed(change.as_object().unwrap(), now).map_err(errors)
    };
    let longer = changed(json!({ "duration": "3h" }), NOON).unwrap();
    assert_eq!(longer, Document { duration: 10_800, ..document.clone() });
    let open = changed(json!({ "work": "4h", "width": "1..4" }), NOON).unwrap();
    assert_eq!((open.duration, open.work, open.widest), (0, Some(14_400), Some(4)));
    assert_eq!(changed(json!({ "width": null }), NOON).unwrap().width, 1);
    assert_eq!(changed(json!({ "by": "9h" }), later).unwrap().from, None, "its beginning is over");
    for (change, part) in [
        (json!({}), "body: changes nothing"),
        (json!({ "dryRun": true }), "body: changes nothing"),
        (json!({ "resources": { "cpu": 2 } }), "resources: cannot be changed"),
        (json!({ "user": "bob" }), "user: cannot be changed"),
        (json!({ "colour": "red" }), "colour: cannot be changed"),
        (json!({ "by": "30m" }), "by: is not after `from`"),
        (json!({ "duration": 5, "work": 5 }), "duration: goes not with `work`"),
        (json!({ "duration": null }), "duration: "),
        (json!({ "width": 0 }), "width: is not from 1"),
    ] {
        let said = changed(change.clone(), NOON).unwrap_err();
        assert!(said.contains(part), "{change}: {said}");
    }
}

#[test]
fn a_list_says_all_that_is_wrong_with_each_of_its_requests() {
    let read = |body: &Value| {
        ReservationList::parse(body.to_string().as_bytes(), NOON)
            .map_err(|problem| problem.errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))
    };
    let one = json!({ "resources": { "cpu": 1 }, "duration": 5 });
    let list = read(&json!({ "allOrNone": [one, one], "value": 3, "user": "ada" })).unwrap();
    assert_eq!((list.documents.len(), list.documents[1].user.as_deref()), (2, Some("ada")));
    let said =
        read(&json!({ "allOrNone": [one, { "resources": { "cpu": -1 }, "width": 0, "value": 3 }, 7] }));
    let said = said.unwrap_err();
    for part in [
        "allOrNone[1].resources.cpu: ",
        "allOrNone[1].width: ",
        "allOrNone[1].duration: is missing",
        "allOrNone[1].value: is for all of the list",
        "allOrNone: has a number where a request should be",
    ] {
        assert!(said.contains(part), "{said}");
    }
    let many = vec![one; 10_000];
    assert!(read(&json!({ "allOrNone": many })).unwrap_err().contains("allOrNone: has 10000"));
    assert!(read(&json!({ "allOrNone": [] })).unwrap_err().contains("an array of 1 to 256 requests"));
    assert!(read(&json!({ "value": 3 })).unwrap_err().contains("allOrNone: is missing"));
}

#[test]
fn no_form_of_an_environment_shows_a_secret() {
    for environment in [
        json!({ "KEY": "hush", "A": "1" }),
        json!(["KEY=hush", "A=1"]),
        json!("KEY=hush\nA=1"),
        json!(" KEY =hush\nA=1"),
    ] {
        let document = parse(&json!({ "resources": { "cpu": 1 }, "duration": 5,
            "task": { "command": "x", "environment": environment, "secrets": ["KEY"] } }))
        .unwrap();
        let text = json!(document.shown()).to_string();
        assert!(!text.contains("hush") && text.contains('1'), "{text}");
        assert!(json!(document.to_map()).to_string().contains("hush"));
    }
}

#[test]
fn a_stored_task_that_is_wrong_stays_as_it_was_stored() {
    let stored = |task: &Value| {
        let body = json!({ "resources": { "cpu": 1 }, "duration": 5, "task": task });
        Document::of_store(body.as_object().unwrap().clone()).unwrap()
    };
    let wrong = json!({ "commnd": "x", "environment": { "KEY": "hush" } });
    let document = stored(&wrong);
    assert_eq!(document.to_map()["task"], wrong);
    assert_eq!(document.shown()["task"], json!({ "commnd": "x" }));
    let longer = json!({ "duration": 9 });
    let changed = document.changed(longer.as_object().unwrap(), NOON).unwrap();
    assert_eq!(changed.to_map()["task"], wrong);
    let right = stored(&json!({ "command": "x", "volume": "/a:/b" }));
    assert_eq!(right.to_map()["task"], json!({ "command": "x", "volumes": ["/a:/b"] }));
}

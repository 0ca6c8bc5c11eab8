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
        (json!({ "task": { "command": "x", "count": 3 } }), "task: has `count`"),
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

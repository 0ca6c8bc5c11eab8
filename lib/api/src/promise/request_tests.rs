use super::*;

fn parse(body: &Value) -> Result<PromiseBatch, Vec<String>> {
    PromiseBatch::parse(body.to_string().as_bytes())
        .map_err(|problem| problem.errors.iter().map(ToString::to_string).collect())
}

#[test]
fn a_batch_is_read_and_written() {
    let body = json!({ "ifRevision": 3, "allOrNone": [
        { "resources": { "cpu": 2000 }, "until": 90 },
        { "id": "p", "resources": { "cpu": 1, "gpu": 2 }, "class": "big", "width": 4, "from": 5, "until": 6, "value": 7,
          "user": "ada" },
    ] });
    let batch = parse(&body).unwrap();
    assert_eq!((batch.all_or_none[0].width, batch.all_or_none[1].width), (1, 4));
    assert_eq!(Value::Object(batch.to_map()), body);
}

#[test]
fn everything_that_is_wrong_is_said() {
    let one = |more: Value| {
        let mut asked = json!({ "resources": { "cpu": 1 }, "from": 5, "until": 6 });
        asked.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        parse(&json!({ "allOrNone": [asked] })).unwrap_err().join("; ")
    };
    assert!(one(json!({ "until": 5 })).contains("allOrNone[0].until: is not after `from`"));
    assert!(one(json!({ "width": 0 })).contains("is not from 1 to 10000"));
    assert!(one(json!({ "width": 1_u64 << 63 })).contains("is not from 1 to 10000"));
    assert!(one(json!({ "value": -1 })).contains("is not a whole number"));
    assert!(one(json!({ "value": 1e300 })).contains("value"));
    assert!(one(json!({ "until": 1_u64 << 63 })).contains("is not from 0 to"));
    assert!(one(json!({ "resources": {} })).contains("asks for nothing"));
    assert!(one(json!({ "resources": { "cpu": 0.5 } })).contains("has `cpu`, which is not a whole number"));
    assert!(one(json!({ "untill": 5 })).contains("expected `until`?"));
    assert_eq!(parse(&json!({ "allOrNone": [{}, 3] })).unwrap_err().len(), 3);
    assert!(parse(&json!({ "allOrNone": [] })).is_err() && parse(&json!({})).is_err());
}

use serde_json::json;

use super::*;

fn whole() -> Value {
    json!({
        "id": "digits", "direction": "maximize", "seed": 7, "patience": 0, "silence": "10m",
        "parameters": [
            { "name": "lr", "type": "float", "low": 1e-4, "high": 0.1, "log": true },
            { "name": "optimizer", "type": "choice", "values": ["sgd", "adam"] },
            { "name": "momentum", "type": "float", "low": 0, "high": 0.99, "when": { "optimizer": ["sgd"] } },
        ],
        "sampler": { "name": "grid", "levels": 3 },
        "pruner": { "name": "hyperband", "eta": 3, "least": 2, "most": 52 },
        "enqueued": [{ "lr": 0.01, "optimizer": "adam" }],
        "stop": { "trials": 100, "target": 0.99, "plateau": 30, "time": "2h" },
    })
}

fn read(document: &Value) -> Result<Document, Problem> {
    Document::parse(document.to_string().as_bytes())
}

#[test]
fn a_document_is_read_whole() {
    let document = read(&whole()).unwrap();
    assert_eq!(
        (document.id.as_str(), document.seed, document.direction),
        ("digits", Some(7), Direction::Maximize)
    );
    assert_eq!(document.sampler, Sampler::Grid { levels: 3 });
    assert_eq!((document.patience, document.silence), (Duration::ZERO, Some(Duration::from_secs(600))));
    assert_eq!((document.stop.trials, document.stop.time), (Some(100), Some(Duration::from_secs(7200))));
    assert_eq!(document.enqueued.len(), 1);
    assert_eq!(
        Document::from_map(document.map.clone()).unwrap(),
        document,
        "as it was given it is read again"
    );
    let mut null = whole();
    null["seed"] = Value::Null;
    let drawn = read(&null).unwrap();
    assert_eq!((drawn.seed, drawn.map.contains_key("seed")), (None, false));
}

#[test]
fn brackets_are_filled_in_turn() {
    let document = read(&whole()).unwrap();
    let Some(StudyPruner::Brackets(brackets)) = &document.pruner else { panic!("{:?}", document.pruner) };
    let round: u64 = brackets.iter().map(|(_, starters)| starters).sum();
    let pruner = document.pruner.as_ref().unwrap();
    let first = brackets[0].1;
    assert_eq!(pruner.rule(0), Some(&brackets[0].0));
    assert_eq!(pruner.rule(first), Some(&brackets[1].0));
    assert!(pruner.compares(0, first - 1) && pruner.compares(0, round) && !pruner.compares(0, first));
}

#[test]
fn each_error_has_its_field_and_what_would_be_right() {
    for (field, given, place, message) in [
        ("id", json!("a b"), "id", "is not an id"),
        ("direction", json!("up"), "direction", "is not known"),
        ("direction", Value::Null, "direction", "is missing"),
        ("parameters", json!({}), "parameters", "is an object, not an array"),
        ("parameters", json!([]), "parameters", "a space needs at least one parameter"),
        (
            "parameters",
            json!([{ "name": "lr", "type": "float", "low": 1 }]),
            "parameters[0].high",
            "is missing",
        ),
        (
            "parameters",
            json!([{ "name": "lr", "type": "float", "low": -1, "high": 1, "log": true }]),
            "parameters",
            "parameter `lr`: a logarithmic scale needs bounds above 0, and the lower bound is -1",
        ),
        ("sampler", json!("hyper"), "sampler.name", "is `hyper`, which is no sampler"),
        ("sampler", json!({ "name": "tpe", "levels": 2 }), "sampler.levels", "is not a known field"),
        ("pruner", json!("halving"), "pruner.most", "is missing"),
        (
            "pruner",
            json!({ "name": "halving", "rungs": [3, 2] }),
            "pruner.rungs",
            "rungs are steps that grow",
        ),
        (
            "pruner",
            json!({ "name": "median", "leastTrials": 0 }),
            "pruner.leastTrials",
            "is not from 1 to 10000",
        ),
        ("seed", json!(-1), "seed", "is not a whole number of at least 0"),
        ("enqueued", json!([{ "lr": 0.01 }]), "enqueued[0]", "parameter `optimizer` is missing"),
        ("enqueued", json!([3]), "enqueued", "has at place 0 no object"),
        ("stop", json!({ "trials": 0 }), "stop.trials", "is not from 1 to 100000"),
        ("stop", json!({ "target": "0.9" }), "stop.target", "is a string, not a number"),
        ("stop", json!({ "time": 0 }), "stop.time", "is 0"),
        ("silence", json!("soon"), "silence", ""),
        ("patience", json!("1m"), "patience", "is too long"),
        ("colour", json!(1), "colour", "is not a known field"),
    ] {
        let mut document = whole();
        document[field] = given;
        let problem = read(&document).unwrap_err();
        let error = problem.errors.iter().find(|error| error.field == place);
        let error = error.unwrap_or_else(|| panic!("{place}: {problem:?}"));
        assert!(error.message.contains(message), "{place}: {error}");
        let stands_in_it = error.field.starts_with("parameters");
        assert!(error.expected.is_some() || stands_in_it, "{place}: {error}");
    }
}

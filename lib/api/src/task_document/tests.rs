use serde_json::json;

use super::*;

fn parse(document: &Value) -> Result<TaskDocument, Problem> {
    TaskDocument::parse(document.to_string().as_bytes())
}

#[track_caller]
fn refused(document: &Value, errors: &[&str]) {
    let problem = parse(document).unwrap_err();
    let said: Vec<String> = problem.errors.iter().map(ToString::to_string).collect();
    assert_eq!(said, errors);
}

fn amount(document: &TaskDocument, name: &str) -> u64 {
    document.resources.get(name).copied().unwrap_or(0)
}

#[test]
fn the_paper_s_table_is_accepted_as_it_stands() {
    let document = parse(&json!({
        "id": "42", "priority": 3, "status": "ACCEPTED", "image": "tensorflow/tensorflow:1.15",
        "directory": "/job", "volume": "/data/mnist:/job/data:ro", "command": "python train.py --epochs 3",
        "environment": "EPOCHS=3\nTF_CPP_MIN_LOG_LEVEL=2",
    }));
    let document = document.unwrap();
    assert_eq!(document.command.as_ref().unwrap().argv(), ["python", "train.py", "--epochs", "3"]);
    assert_eq!(document.environment["EPOCHS"], "3");
    assert_eq!((document.volumes[0].target.as_str(), document.volumes[0].read_only), ("/job/data", true));
    assert_eq!((document.status, document.priority), (Some(TaskState::Accepted), 3));
}

#[test]
fn what_is_written_is_read_again() {
    let document = json!({
        "id": "train-1", "command": ["python", "-c", "pass"], "volumes": ["/a:/b", "/c:/d:ro"],
        "environment": { "A": "1", "KEY": "hush" }, "secrets": ["KEY"],
        "resources": { "cpu": 1.5, "memory": 268435456, "gpu": 2, "licence/matlab": 1 },
        "nodes": "zone=a,gpu", "policy": "pack", "timeout": "2h",
        "retries": { "count": 3, "backOff": 0.5, "maxBackOff": 60.0 }, "onLoss": "fail", "lease": "90m",
        "labels": { "study": "mnist" }, "user": "kim", "count": 20, "after": ["a", { "id": "b", "on": "end" }],
        "inputs": ["data/a", { "file": "data/b", "as": "b" }], "outputs": ["model.bin", "logs/*"],
    });
    let read = parse(&document).unwrap();
    assert_eq!((amount(&read, "cpu"), amount(&read, "licence/matlab")), (1500, 1));
    let written = Value::Object(read.to_map());
    assert_eq!(parse(&written).unwrap(), read, "{written}");
    assert!(!format!("{read:?}").contains("hush"));
}

#[test]
fn amounts_are_exact() {
    let cpu = |value: Value| {
        parse(&json!({ "command": "x", "resources": { "cpu": value } })).map(|d| amount(&d, "cpu"))
    };
    for (given, thousandths) in
        [(json!(0.1), 100), (json!(0.3), 300), (json!(2), 2000), (json!(0.0001), 1), (json!(0), 0)]
    {
        assert_eq!(cpu(given.clone()).unwrap(), thousandths, "{given}");
    }
    assert!(cpu(json!(-1)).is_err() && cpu(json!(1e300)).is_err());
    let memory = parse(&json!({ "command": "x", "resources": { "memory": "256MiB" } })).unwrap();
    assert_eq!(amount(&memory, "memory"), 1 << 28);
}

#[test]
fn everything_that_is_wrong_is_said_at_once() {
    refused(
        &json!({
            "id": "-x", "priority": 1.5, "directory": "work", "volume": "/a", "nodes": "a=b=c", "policy": "best",
            "resources": { "cpu": "many", "memory": "1 parsec" }, "retries": { "backOff": "1s" }, "commands": "x",
            "environment": { "1A": "hush" }, "secrets": ["B"],
        }),
        &[
            "id: is not an id, given -x; expected 1 to 64 of letters, digits and `._-`, a letter or digit first",
            "priority: is a number, not a whole number, given 1.5; expected a whole number from -1000000 to 1000000",
            "directory: is not an absolute path, given work; expected an absolute path",
            "volume: has `/a`, which is not SOURCE:TARGET or SOURCE:TARGET:ro, given /a; expected SOURCE:TARGET or SOURCE:TARGET:ro, or an array of them",
            "environment: has `1A`, which is not a variable's name: letters, digits and `_`; expected an object of name to text, or NAME=VALUE as an array or as lines",
            "resources.cpu: is a string, not a number, given \"many\"; expected a number of processors, such as 2 or 0.5",
            "resources.memory: has the unknown unit `parsec` (KiB, MiB, GiB, TiB, KB, MB, GB), given \"1 parsec\"; expected bytes, or a text such as \"256MiB\"",
            "nodes: at character 4: found `=`; expected `,` and the next requirement, or the end, given a=b=c; expected a label selector such as \"zone=a,gpu\" or \"node=n1\"",
            "policy: is not known, given best; expected queue, random, least-pressure, estimated, two-choices, pack or spread",
            "retries.count: is missing; expected 0 to 1000",
            "command: or `image` is missing: a task has a command, an image, or both",
            "secrets: names `B`, which `environment` does not have",
            "commands: is not a known field, given \"x\"; expected `command`?",
        ],
    );
}

#[test]
fn what_must_go_together_does() {
    let has = |document: Value, part: &str| {
        let said = serde_json::to_string(&parse(&document).unwrap_err()).unwrap();
        assert!(said.contains(part), "{said}");
    };
    has(json!({}), "or `image` is missing");
    has(json!({ "command": "x", "commands": "y" }), "`command`?");
    has(json!({ "command": "x", "secrets": ["B"] }), "names `B`, which `environment` does not have");
    has(json!({ "command": "x", "volume": "/a:/b", "volumes": ["/c:/d"] }), "which is there, too");
    has(json!({ "command": "x", "volumes": ["/a:/b", "/c:/b"] }), "two volumes at one place");
    has(json!({ "command": "x", "volumes": "/a/../etc:/b" }), "absolute paths without `..`");
    has(json!({ "command": "x", "environment": { "ESTIMAND_A": "b" } }), "set by the agent");
    assert!(parse(&json!({ "image": "busybox" })).is_ok());
    let of_trial = json!({ "command": "x", "environment": { "ESTIMAND_TASK_PARAMETERS": "{}" } });
    assert!(parse(&of_trial).is_ok());
    let long = "a".repeat(63);
    assert!(parse(&json!({ "command": "x", "id": long })).is_ok());
    has(json!({ "command": "x", "id": long, "count": 2 }), "too long for an array");
    has(json!({ "command": "x", "count": 0 }), "from 1 to 10000");
    for lease in ["100ms", "8d", "soon"] {
        has(json!({ "command": "x", "lease": lease }), "a duration from 1s to 7d");
    }
    for grace in ["100ms", "2d", "soon"] {
        has(json!({ "command": "x", "checkpointGrace": grace }), "a duration from 1s to 1d");
    }
    has(json!({ "command": "x", "lease": "1h", "onLoss": "wait" }), "with which a task has none");
    has(json!({ "command": "x", "id": "a", "after": "a" }), "no task comes after itself");
}

#[test]
fn files_have_places_in_the_tasks_folder() {
    let files = |inputs: Value, outputs: Value| {
        parse(&json!({ "command": "x", "inputs": inputs, "outputs": outputs }))
    };
    let document = files(json!(["a/b", { "file": "c", "as": "d" }]), json!("logs/*")).unwrap();
    let places: Vec<(&str, &str)> =
        document.inputs.iter().map(|input| (input.file.path().as_str(), input.place.as_str())).collect();
    assert_eq!(places, [("a/b", "a/b"), ("c", "d")]);
    assert_eq!(document.outputs[0].as_str(), "logs/*");
    let has = |inputs: Value, outputs: Value, part: &str| {
        let said = serde_json::to_string(&files(inputs, outputs).unwrap_err()).unwrap();
        assert!(said.contains(part), "{said}");
    };
    has(json!(["a", { "file": "b", "as": "a" }]), json!([]), "two files at one place");
    has(json!(["a", { "file": "b", "as": "a/c/d" }]), json!([]), "`a` is a file already");
    has(json!(["/etc/shadow"]), json!([]), "is not the path of a file");
    has(json!([{ "file": "a", "as": "../a" }]), json!([]), "is not the path of a file");
    has(json!(["a/"]), json!([]), "is a folder");
    has(json!([{ "as": "a" }]), json!([]), "inputs.file");
    has(json!([{ "file": "a", "at": "a" }]), json!([]), "at");
    has(json!([]), json!(["../x"]), "is not the path of a file");
    has(json!([]), json!(["/x"]), "is not the path of a file");
    has(json!([]), json!(vec!["x"; 101]), "more than 100");
    let odd = json!({ "command": "x", "inputs": ["a"], "user": "Kim/.." });
    let said = serde_json::to_string(&parse(&odd).unwrap_err()).unwrap();
    assert!(said.contains("is no name of a user"), "{said}");
}

//! The document of a study, made of options and of a file.

use std::path::Path;

use estimand_api::json::parse_object;
use serde_json::{Map, Value, json};

use crate::arguments::tune::CreateStudyArgs;
use crate::commands::read_named;
use crate::output::failure::Failure;

/// The document of the file, with the options in it.
pub fn of(args: &CreateStudyArgs) -> Result<Map<String, Value>, Failure> {
    let mut document = read_object(args.file.as_deref())?;
    let direction = match (args.minimize, args.maximize) {
        (true, _) => Some("minimize"),
        (false, true) => Some("maximize"),
        (false, false) => None,
    };
    let given = [
        ("id", args.study.as_ref().map(|id| json!(id))),
        ("direction", direction.map(|word| json!(word))),
        ("sampler", args.sampler.as_ref().map(|name| json!(name))),
        ("pruner", args.pruner.as_ref().map(|name| json!(name))),
        ("seed", args.seed.map(|seed| json!(seed))),
        ("silence", args.silence.as_ref().map(|time| json!(time))),
        ("patience", args.patience.as_ref().map(|time| json!(time))),
        ("user", args.user.as_ref().map(|user| json!(user))),
        ("task", task(args)?),
        ("parallel", args.parallel.map(|trials| json!(trials))),
        ("objective", args.objective.as_ref().map(|name| json!(name))),
    ];
    add(&mut document, given);
    add_to_list(&mut document, "parameters", parameters(args));
    add_to_list(&mut document, "enqueued", args.enqueued.clone());
    let rules = [
        ("trials", args.trials.map(|trials| json!(trials))),
        ("target", args.target.map(|target| json!(target))),
        ("plateau", args.plateau.map(|results| json!(results))),
        ("time", args.time.as_ref().map(|time| json!(time))),
    ];
    if rules.iter().any(|(_, rule)| rule.is_some())
        && let Value::Object(stop) = document.entry("stop").or_insert_with(|| json!({}))
    {
        add(stop, rules);
    }
    Ok(document)
}

/// The document of the task that runs each trial, if there is one.
fn task(args: &CreateStudyArgs) -> Result<Option<Value>, Failure> {
    if args.task.is_none() && args.cmd.is_empty() {
        return Ok(None);
    }
    let mut task = read_object(args.task.as_deref())?;
    if !args.cmd.is_empty() {
        task.insert("command".to_owned(), json!(args.cmd));
    }
    Ok(Some(Value::Object(task)))
}

/// The JSON object in a file; an empty one if there is no file.
fn read_object(file: Option<&Path>) -> Result<Map<String, Value>, Failure> {
    match file {
        Some(path) => Ok(parse_object(&read_named(&path.display().to_string())?)?),
        None => Ok(Map::new()),
    }
}

fn add<const N: usize>(document: &mut Map<String, Value>, given: [(&str, Option<Value>); N]) {
    let given = given.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?)));
    document.extend(given);
}

fn add_to_list(document: &mut Map<String, Value>, name: &str, more: Vec<Value>) {
    if !more.is_empty()
        && let Value::Array(list) = document.entry(name).or_insert_with(|| json!([]))
    {
        list.extend(more);
    }
}

fn parameters(args: &CreateStudyArgs) -> Vec<Value> {
    let all = args.floats.iter().chain(&args.integers).chain(&args.choices);
    all.map(|parameter| Value::Object(parameter.clone())).collect()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use clap::{Args as _, Command, FromArgMatches as _};

    use super::*;

    fn document_of(words: &[&str]) -> Map<String, Value> {
        let command = CreateStudyArgs::augment_args(Command::new("create"));
        let matches = command.try_get_matches_from([&["create"], words].concat()).unwrap();
        of(&CreateStudyArgs::from_arg_matches(&matches).unwrap()).unwrap()
    }

    #[test]
    fn options_make_a_document() {
        let words = [
            "digits",
            "--maximize",
            "--float",
            "lr=1e-4..0.1:log",
            "--integer",
            "width=8..256:8",
            "--choice",
            "optimizer=sgd,adam",
            "--choice",
            "depth=1,2",
            "--trials",
            "50",
            "--target",
            "-0.5",
            "--seed",
            "7",
            "--parallel",
            "4",
            "--",
            "train",
            "--lr={lr}",
        ];
        let expected = json!({
            "id": "digits", "direction": "maximize", "seed": 7,
            "parameters": [
                { "name": "lr", "type": "float", "low": 1e-4, "high": 0.1, "log": true },
                { "name": "width", "type": "integer", "low": 8, "high": 256, "step": 8 },
                { "name": "optimizer", "type": "choice", "values": ["sgd", "adam"] },
                { "name": "depth", "type": "choice", "values": [1, 2] },
            ],
            "stop": { "trials": 50, "target": -0.5 },
            "task": { "command": ["train", "--lr={lr}"] }, "parallel": 4,
        });
        assert_eq!(Value::Object(document_of(&words)), expected);
    }

    #[test]
    fn options_replace_fields_of_a_file_and_add_to_its_lists() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("study.json");
        let given = json!({
            "id": "a", "direction": "minimize", "parameters": [{ "name": "x", "type": "float", "low": 0, "high": 1 }],
            "stop": { "trials": 5, "time": "1h" },
        });
        std::fs::write(&file, given.to_string()).unwrap();
        let words = ["b", "--file", file.to_str().unwrap(), "--trials", "9", "--integer", "y=1..2"];
        let document = document_of(&words);
        assert_eq!((&document["id"], &document["direction"]), (&json!("b"), &json!("minimize")));
        assert_eq!(document["stop"], json!({ "trials": 9, "time": "1h" }));
        assert_eq!(document["parameters"].as_array().unwrap().len(), 2);
    }
}

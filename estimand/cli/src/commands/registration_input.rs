//! Registrations as a user gives them, by options or in a file, made into what the interface takes.
//!
//! Everything is checked here by the rule that the registry itself applies, so that of several registrations
//! none is sent unless all of them are right.

use std::fs::File;
use std::io;
use std::path::Path;

use estimand_api::json::{kind_of, parse_document};
use estimand_api::problem::{FieldError, Problem};
use estimand_api::registration::Registration;
use serde_json::{Map, Value, json};

use super::registration_local::UploadFile;
use super::{read_input, registration_local};
use crate::arguments::registrations::RegisterArgs;
use crate::output::failure::Failure;

/// A registration that is right, and the object that says it.
#[derive(Debug)]
pub struct Input {
    pub registration: Registration,
    /// As it is sent; from a file, with the version that it was made from, if it says one.
    pub map: Map<String, Value>,
}

/// All of the registrations, and whether they were given as one object.
pub fn read(args: &RegisterArgs, upload: Option<&UploadFile>) -> Result<(Vec<Input>, bool), Failure> {
    let Some(path) = &args.file else {
        let map = registration_local::complete(from_options(args)?, &args.local, &args.cmd, upload)?;
        return Ok((vec![checked(map)?], true));
    };
    let bytes = match path == Path::new("-") {
        true => read_input("standard input", io::stdin())?,
        false => {
            let name = path.display().to_string();
            let file = File::open(path).map_err(|source| Failure::Read { name: name.clone(), source })?;
            read_input(&name, file)?
        }
    };
    Ok(from_document(&bytes)?)
}

/// One object, or an array of them.
fn from_document(bytes: &[u8]) -> Result<(Vec<Input>, bool), Problem> {
    match parse_document(bytes)? {
        Value::Object(map) => Ok((vec![checked(map)?], true)),
        Value::Array(items) => {
            let (mut inputs, mut errors) = (Vec::new(), Vec::new());
            for (place, item) in items.into_iter().enumerate() {
                match object(item).and_then(checked) {
                    Ok(input) => inputs.push(input),
                    Err(problem) => errors.extend(
                        problem
                            .errors
                            .into_iter()
                            .map(|error| FieldError { field: format!("[{place}].{}", error.field), ..error }),
                    ),
                }
            }
            match errors.is_empty() {
                true => Ok((inputs, false)),
                false => Err(Problem::invalid(errors)),
            }
        }
        other => object(other).and_then(checked).map(|input| (vec![input], true)),
    }
}

fn object(value: Value) -> Result<Map<String, Value>, Problem> {
    match value {
        Value::Object(map) => Ok(map),
        other => {
            let error = FieldError::new("body", format!("is {}", kind_of(&other))).given(&other);
            Err(Problem::invalid_field(error.expected("a registration: a JSON object")))
        }
    }
}

fn checked(map: Map<String, Value>) -> Result<Input, Problem> {
    let registration = Registration::from_map(map.clone())?.registration;
    Ok(Input { registration, map })
}

/// The body that the options say, not yet checked.
fn from_options(args: &RegisterArgs) -> Result<Map<String, Value>, Problem> {
    let mut map = Map::new();
    if let Some(name) = &args.name {
        map.insert("dataName".to_owned(), json!(name));
    }
    map.extend(command(&args.cmd).map(|cmd| ("cmd".to_owned(), cmd)));
    map.extend(args.fields.0.to_map()?);
    if map.contains_key("inputs") {
        map.entry("kind").or_insert_with(|| json!("processor"));
    }
    Ok(map)
}

/// The command that a command line's words say, if there are any: one word is a line.
pub fn command(words: &[String]) -> Option<Value> {
    match words {
        [] => None,
        [line] => Some(json!(line)),
        words => Some(json!(words)),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use clap::Parser as _;

    use super::*;
    use crate::arguments::{ClientCommand, CommandLine};

    /// Reads options, parted by white space, and a command.
    fn input(options: &str, cmd: &[&str]) -> Result<Input, Problem> {
        let line = ["estimand", "register"].into_iter().chain(options.split_whitespace());
        let line = line.chain(["--"]).chain(cmd.iter().copied());
        let ClientCommand::Register(args) = CommandLine::try_parse_from(line).unwrap().command else {
            panic!("another command");
        };
        checked(from_options(&args.own)?)
    }

    /// The fields beside those that have their defaults.
    fn check(options: &str, cmd: &[&str], expected: &Value) {
        let registered = Value::Object(input(options, cmd).unwrap().registration.to_map());
        let mut all = json!({ "kind": "collector", "mode": "exec", "format": "auto", "replicas": "all" });
        all.as_object_mut().unwrap().extend(expected.as_object().unwrap().clone());
        assert_eq!(registered, all, "{options}");
    }

    #[test]
    fn one_word_is_a_line_and_several_are_words() {
        check(
            "disk --every 5s",
            &["df -h '/mnt/my disk'"],
            &json!({ "dataName": "disk", "max-Time": 5, "cmd": "df -h '/mnt/my disk'" }),
        );
        check(
            "count --every 250ms",
            &["sh", "-c", "ps ax | wc -l"],
            &json!({ "dataName": "count", "max-Time": 0.25, "cmd": ["sh", "-c", "ps ax | wc -l"] }),
        );
    }

    #[test]
    fn every_option_finds_its_field() {
        check(
            "cap --schedule @daily --inputs cpu,memory --format nodes --timeout 2s --nodes zone=a,gpu --replicas 3 \
             --param n=5 --param id=007 --env A=b=c --history 1h --history-max 10 \
             --limit memory=256MiB --limit cpu=0.5 --limit open-files=64 --limit disk=1GiB",
            &["cap"],
            &json!({
                "dataName": "cap", "schedule": "@daily", "kind": "processor", "inputs": ["cpu", "memory"],
                "format": "nodes", "timeout": 2, "nodes": "zone=a,gpu", "replicas": 3, "cmd": "cap",
                "params": { "n": 5, "id": "007" }, "env": { "A": "b=c" },
                "history": { "keep": "1h", "max": 10 },
                "limits": { "memory": 268_435_456, "cpu": 0.5, "openFiles": 64, "disk": 1_073_741_824 },
            }),
        );
        check(
            "sum --every 1s --mode expr --kind processor --replicas all",
            &["a + b > 0"],
            &json!({ "dataName": "sum", "max-Time": 1, "mode": "expr", "kind": "processor", "cmd": "a + b > 0" }),
        );
    }

    #[test]
    fn a_registration_that_the_registry_would_reject_is_rejected_here() {
        let check = |options: &str, fields: &[&str]| {
            let errors = input(options, &["x"]).unwrap_err().errors;
            assert_eq!(
                errors.iter().map(|error| error.field.as_str()).collect::<Vec<_>>(),
                fields,
                "{options}"
            );
        };
        check("a --every 0", &["max-Time"]);
        check("a --every 1 --limit disk=1 --replicas some", &["replicas", "limits.disk"]);
        check("a --every 1 --env A=1 --env A=2", &["env.A"]);
    }

    #[test]
    fn a_file_holds_one_or_several_and_is_rejected_as_a_whole() {
        let one = br#"{"dataName":"a","cmd":"x","max-Time":1,"version":3}"#;
        let (inputs, single) = from_document(one).unwrap();
        assert_eq!((inputs.len(), single), (1, true));
        assert_eq!(inputs[0].map["version"], 3);

        let several = br#"[{"dataName":"a","cmd":"x","max-Time":1},7,{"dataName":"b","max-Time":1}]"#;
        let problem = from_document(several).unwrap_err();
        let fields: Vec<_> = problem.errors.into_iter().map(|error| error.field).collect();
        assert_eq!(fields, ["[1].body", "[2].cmd"]);
        assert_eq!(from_document(b"[]").unwrap().0.len(), 0);
    }
}

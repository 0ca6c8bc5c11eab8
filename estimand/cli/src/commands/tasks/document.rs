//! A task's document out of options and a file.

use estimand_api::json::parse_object;
use serde_json::{Map, Value, json};

use crate::arguments::field_options::FieldOptions;
use crate::arguments::tasks::{SecretOptions, SubmitArgs};
use crate::commands::read_named;
use crate::output::failure::Failure;

pub fn of_submission(args: &SubmitArgs) -> Result<Map<String, Value>, Failure> {
    let base = match &args.file {
        None => Map::new(),
        Some(path) => {
            let bytes = read_named(&path.display().to_string())?;
            parse_object(&bytes)?
        }
    };
    let document = of_options(base, &args.fields.0, &args.secrets, &args.cmd)?;
    if args.file.is_none() && !document.contains_key("command") && !document.contains_key("image") {
        let message = "a task needs a command: it stands behind `--`, or in a --file";
        return Err(Failure::Usage(message.to_owned()));
    }
    Ok(document)
}

/// The document with what the options say.
pub fn of_options(
    mut document: Map<String, Value>,
    fields: &FieldOptions,
    secrets: &SecretOptions,
    cmd: &[String],
) -> Result<Map<String, Value>, Failure> {
    fields.add_to(&mut document)?;
    if let Some(command) = command(cmd) {
        document.insert("command".to_owned(), command);
    }
    let mut names = Vec::new();
    for (name, file) in &secrets.secret_files {
        let text = String::from_utf8(read_named(file)?)
            .map_err(|_| Failure::Usage(format!("--secret-file {name}: {file} is not UTF-8")))?;
        let text = text.strip_suffix('\n').unwrap_or(&text);
        // The service says what is wrong with an environment that is no object.
        if let Value::Object(variables) = document.entry("environment").or_insert_with(|| json!({})) {
            variables.insert(name.clone(), json!(text));
        }
        names.push(json!(name));
    }
    if !names.is_empty() {
        document.insert("secrets".to_owned(), Value::Array(names));
    }
    Ok(document)
}

/// One word is a line, which the service splits.
fn command(cmd: &[String]) -> Option<Value> {
    match cmd {
        [] => None,
        [line] => Some(json!(line)),
        words => Some(json!(words)),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use clap::{Args as _, Command, FromArgMatches as _};

    use super::*;
    use crate::arguments::field_options::TaskFields;

    fn with(file: &Value, options: &str) -> Value {
        let command = TaskFields::augment_args(Command::new("submit").no_binary_name(true));
        let matches = command.try_get_matches_from(options.split(' ')).unwrap();
        let fields = TaskFields::from_arg_matches(&matches).unwrap();
        let words = ["echo".to_owned(), "a b".to_owned()];
        let file = file.as_object().unwrap().clone();
        Value::Object(of_options(file, &fields.0, &SecretOptions::default(), &words).unwrap())
    }

    #[test]
    fn options_go_before_the_file() {
        let file = json!({ "command": "x", "user": "u", "environment": { "B": "2" }, "resources": { "cpu": 4 },
            "after": ["old"], "labels": ["wrong"] });
        let options = "--cpu 0.50 --memory 64MiB --resource licence=2 --env A=1 --input data/a --input data/b:b \
                       --output logs/* --port 8888 --after a --after-end b --after c --priority -5 --label k=v";
        assert_eq!(
            with(&file, options),
            json!({
                "command": ["echo", "a b"], "user": "u", "environment": { "A": "1", "B": "2" },
                "resources": { "cpu": 0.5, "memory": "64MiB", "licence": 2 }, "priority": -5, "labels": ["wrong"],
                "inputs": ["data/a", { "file": "data/b", "as": "b" }], "outputs": ["logs/*"], "port": 8888,
                "after": ["a", "c", { "id": "b", "on": "end" }],
            })
        );
    }
}

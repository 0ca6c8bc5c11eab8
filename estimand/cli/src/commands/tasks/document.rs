//! A task's document out of options and a file.

use estimand_api::json::parse_object;
use serde_json::{Map, Value, json};

use crate::arguments::tasks::{DocumentOptions, SubmitArgs};
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
    if args.file.is_none() && args.cmd.is_empty() && args.document.image.is_none() {
        let message = "a task needs a command: it stands behind `--`, or in a --file";
        return Err(Failure::Usage(message.to_owned()));
    }
    let mut document = of_options(base, &args.document, &args.cmd)?;
    if let Some(count) = args.count {
        document.insert("count".to_owned(), json!(count));
    }
    Ok(document)
}

/// The document with what the options say.
pub fn of_options(
    mut document: Map<String, Value>,
    options: &DocumentOptions,
    cmd: &[String],
) -> Result<Map<String, Value>, Failure> {
    let DocumentOptions { id, policy, timeout, on_loss, lease, directory, image, user, promise, .. } =
        options;
    let texts = [
        ("id", id),
        ("policy", policy),
        ("timeout", timeout),
        ("onLoss", on_loss),
        ("lease", lease),
        ("directory", directory),
        ("image", image),
        ("user", user),
        ("promise", promise),
    ];
    for (name, text) in texts {
        if let Some(text) = text {
            document.insert(name.to_owned(), json!(text));
        }
    }
    let given = [
        ("nodes", options.nodes.as_ref().map(|nodes| json!(nodes))),
        ("priority", options.priority.map(|priority| json!(priority))),
        ("retries", options.retries.map(|retries| json!(retries))),
        ("volumes", (!options.volumes.is_empty()).then(|| json!(options.volumes))),
        ("inputs", inputs(options)),
        ("outputs", (!options.outputs.is_empty()).then(|| json!(options.outputs))),
        ("port", options.port.map(|port| json!(port))),
        ("after", after(options)),
        ("command", command(cmd)),
    ];
    for (name, value) in given {
        if let Some(value) = value {
            document.insert(name.to_owned(), value);
        }
    }
    add(&mut document, "resources", resources(options));
    add(&mut document, "labels", texts_of(&options.labels));
    add(&mut document, "environment", texts_of(&options.env));
    let mut secrets = Vec::new();
    for (name, file) in &options.secret_files {
        let text = String::from_utf8(read_named(file)?)
            .map_err(|_| Failure::Usage(format!("--secret-file {name}: {file} is not UTF-8")))?;
        let text = text.strip_suffix('\n').unwrap_or(&text);
        add(&mut document, "environment", vec![(name.clone(), json!(text))]);
        secrets.push(json!(name));
    }
    if !secrets.is_empty() {
        document.insert("secrets".to_owned(), Value::Array(secrets));
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

/// A path that has a `:` itself is given in a file.
fn inputs(options: &DocumentOptions) -> Option<Value> {
    let one = |text: &String| match text.split_once(':') {
        Some((file, place)) => json!({ "file": file, "as": place }),
        None => json!(text),
    };
    (!options.inputs.is_empty()).then(|| options.inputs.iter().map(one).collect())
}

fn after(options: &DocumentOptions) -> Option<Value> {
    let success = options.after.iter().map(|id| json!(id));
    let end = options.after_end.iter().map(|id| json!({ "id": id, "on": "end" }));
    let all: Vec<Value> = success.chain(end).collect();
    (!all.is_empty()).then(|| Value::Array(all))
}

fn resources(options: &DocumentOptions) -> Vec<(String, Value)> {
    let own = [
        ("cpu", options.cpu.map(|cpu| json!(cpu))),
        ("memory", options.memory.as_ref().map(|memory| number_or_text(memory))),
        ("gpu", options.gpu.map(|gpu| json!(gpu))),
    ];
    let own = own.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?)));
    own.chain(options.resources.iter().map(|(name, value)| (name.clone(), number_or_text(value)))).collect()
}

fn number_or_text(text: &str) -> Value {
    text.parse::<u64>().map_or_else(|_| json!(text), |number| json!(number))
}

fn texts_of(pairs: &[(String, String)]) -> Vec<(String, Value)> {
    pairs.iter().map(|(key, value)| (key.clone(), json!(value))).collect()
}

/// Adds members to an object of the document, which a file may have begun.
fn add(document: &mut Map<String, Value>, name: &str, members: Vec<(String, Value)>) {
    if members.is_empty() {
        return;
    }
    let object = document.entry(name).or_insert_with(|| json!({}));
    // The service says what is wrong with one that is no object.
    if let Value::Object(object) = object {
        object.extend(members);
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn options_go_before_the_file() {
        let options = DocumentOptions {
            cpu: Some(0.5),
            memory: Some("64MiB".to_owned()),
            env: vec![("A".to_owned(), "1".to_owned())],
            resources: vec![("licence".to_owned(), "2".to_owned())],
            inputs: vec!["data/a".to_owned(), "data/b:b".to_owned()],
            outputs: vec!["logs/*".to_owned()],
            port: Some(8888),
            ..DocumentOptions::default()
        };
        let file =
            json!({ "command": "x", "user": "u", "environment": { "B": "2" }, "resources": { "cpu": 4 } });
        let words = ["echo".to_owned(), "a b".to_owned()];
        let document = of_options(file.as_object().unwrap().clone(), &options, &words).unwrap();
        assert_eq!(
            Value::Object(document),
            json!({
                "command": ["echo", "a b"], "user": "u", "environment": { "A": "1", "B": "2" },
                "resources": { "cpu": 0.5, "memory": "64MiB", "licence": 2 },
                "inputs": ["data/a", { "file": "data/b", "as": "b" }], "outputs": ["logs/*"], "port": 8888,
            })
        );
    }
}

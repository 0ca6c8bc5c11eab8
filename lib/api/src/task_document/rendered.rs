//! A task's document as the documentation and the Python client have it: rendered from the declarations of its fields.

use serde_json::Value;

use super::FIELDS;

/// Names that the paper gives to fields which have another one, and the state, which a client does not submit.
const LEFT_OUT: [&str; 2] = ["volume", "status"];

/// The class, without its first line.
fn fields() -> String {
    let fields = FIELDS.iter().filter(|field| !LEFT_OUT.contains(&field.name));
    let lines = fields.map(|field| format!("    {}: {}\n", field.name, type_of(&(field.schema)())));
    lines.collect()
}

/// The type of values that a schema describes. A field that is null is left out.
fn type_of(schema: &Value) -> String {
    if let Some(name) = schema["$ref"].as_str() {
        return of_name(name.rsplit('/').next().unwrap_or(name)).to_owned();
    }
    if schema["enum"].is_array() {
        return "str".to_owned();
    }
    let of_word = |word: &Value| match word.as_str() {
        Some("string") => "str".to_owned(),
        Some("integer") => "int".to_owned(),
        Some("array") => format!("Sequence[{}]", inner(&schema["items"])),
        Some("object") => format!("Mapping[str, {}]", inner(&schema["additionalProperties"])),
        _ => String::new(),
    };
    let types: Vec<String> = match (&schema["oneOf"], &schema["type"]) {
        (Value::Array(schemas), _) => schemas.iter().map(type_of).collect(),
        (_, Value::Array(words)) => words.iter().map(of_word).collect(),
        (_, word) => vec![of_word(word)],
    };
    let types: Vec<String> = types.into_iter().filter(|text| !text.is_empty()).collect();
    match types.as_slice() {
        [] => String::new(),
        [one] => one.clone(),
        several => format!("Union[{}]", several.join(", ")),
    }
}

fn inner(schema: &Value) -> String {
    if schema.is_object() { type_of(schema) } else { "Json".to_owned() }
}

fn of_name(name: &str) -> &'static str {
    match name {
        "Command" => "Union[str, Sequence[str]]",
        "ResourceAmount" | "Span" => "Union[float, str]",
        "Selector" => "str",
        other => panic!("no type for `{other}`"),
    }
}

#[test]
fn the_python_clients_document_has_these_fields() {
    const HEAD: &str = "class TaskDocument(TypedDict, total=False):\n    \"\"\"A task that is submitted; `docs/tasks.md` explains each field.\"\"\"\n\n";
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../clients/python/src/estimand/records.py");
    let records = std::fs::read_to_string(path).unwrap();
    let (before, rest) = records.split_once(HEAD).unwrap();
    let (_, after) = rest.split_once("\n\n\n").unwrap();
    let renewed = format!("{before}{HEAD}{}\n\n{after}", fields());
    if std::env::var_os("RENEW").is_some() {
        std::fs::write(path, &renewed).unwrap();
    } else {
        assert_eq!(records, renewed, "RENEW=1 cargo test -p estimand-api python_client renews it");
    }
}

#[test]
fn the_documents_table_is_the_one_in_the_documentation() {
    const HEAD: &str = "## The document\n\n";
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/tasks.md");
    let page = std::fs::read_to_string(path).unwrap();
    let (before, rest) = page.split_once(HEAD).unwrap();
    let (_, after) = rest.split_once("\n\n").unwrap();
    let renewed = format!("{before}{HEAD}{}\n{after}", crate::declaration::markdown(FIELDS));
    if std::env::var_os("RENEW").is_some() {
        std::fs::write(path, &renewed).unwrap();
    } else {
        assert_eq!(page, renewed, "RENEW=1 cargo test -p estimand-api documents_table renews it");
    }
}

//! The files of a configuration: found, read, and every document of them checked.
//!
//! A document is a registration, a binding (it has `to`), or an array of these. All that is wrong in all files is said at
//! once, each with its file and line. The values of secrets come from this machine and are never part of a message.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use estimand_api::fields::{self, Fields};
use estimand_api::json::{kind_of, parse_document};
use estimand_api::names::DataName;
use estimand_api::pointer::Pointer;
use estimand_api::problem::{FieldError, Problem};
use estimand_api::registration::Registration;
use estimand_api::value::BindingTarget;
use serde_json::{Map, Value, json};

use crate::commands::{read_input, registration_local::read_secret};
use crate::output::failure::Failure;
use crate::yaml::{self, Document};

/// The endings of the files in a folder that are read.
const ENDINGS: [&str; 3] = ["yaml", "yml", "json"];
const SECRET_EXPECTED: &str =
    "a text, null for the value that is kept, {\"fromFile\": \"PATH\"} or {\"fromEnv\": \"NAME\"}";

/// The wishes of all files.
#[derive(Debug, Default)]
pub struct Wishes {
    /// As they are sent, with the values of secrets.
    pub registrations: BTreeMap<DataName, (Map<String, Value>, Origin)>,
    pub bindings: BTreeMap<DataName, (BindingTarget, Origin)>,
}

/// The place of a wish.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Origin {
    pub file: String,
    pub line: Option<usize>,
}

impl std::fmt::Display for Origin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.line {
            Some(line) => write!(f, "{}:{line}", self.file),
            None => f.write_str(&self.file),
        }
    }
}

/// Reads files, folders and (`-`) standard input.
pub fn read(paths: &[PathBuf], recursive: bool) -> Result<Wishes, Failure> {
    let mut reading = FileReader::default();
    for path in paths {
        if path == Path::new("-") {
            let bytes = read_input("standard input", io::stdin())?;
            reading.file("standard input", Path::new("."), &bytes);
            continue;
        }
        let mut files = Vec::new();
        match path.is_dir() {
            true => find(path, recursive, &mut files)?,
            false => files.push(path.clone()),
        }
        for file in files {
            let name = file.display().to_string();
            let open = File::open(&file).map_err(|source| Failure::Read { name: name.clone(), source })?;
            let folder = file.parent().unwrap_or(Path::new("."));
            reading.file(&name, folder, &read_input(&name, open)?);
        }
    }
    match reading.errors.is_empty() {
        true => Ok(reading.wishes),
        false => Err(Failure::Configuration(reading.errors)),
    }
}

/// The files of a folder in order of name.
fn find(folder: &Path, recursive: bool, found: &mut Vec<PathBuf>) -> Result<(), Failure> {
    let wrong = |source| Failure::Read { name: folder.display().to_string(), source };
    let mut entries: Vec<PathBuf> = Vec::new();
    for entry in fs::read_dir(folder).map_err(wrong)? {
        entries.push(entry.map_err(wrong)?.path());
    }
    entries.sort();
    for entry in entries {
        if entry.is_dir() {
            if recursive {
                find(&entry, recursive, found)?;
            }
        } else if entry.extension().is_some_and(|ending| ENDINGS.iter().any(|known| ending == *known)) {
            found.push(entry);
        }
    }
    Ok(())
}

#[derive(Default)]
struct FileReader {
    wishes: Wishes,
    errors: Vec<String>,
}

impl FileReader {
    /// Reads one file; relative paths in it begin at `folder`.
    fn file(&mut self, name: &str, folder: &Path, bytes: &[u8]) {
        let documents = match documents(bytes, name.ends_with(".json")) {
            Ok(documents) => documents,
            Err((line, message)) => {
                let origin = Origin { file: name.to_owned(), line };
                return self.errors.push(format!("{origin}: {message}"));
            }
        };
        for document in documents {
            let at = |field: &str| Origin {
                file: name.to_owned(),
                line: (document.line > 0).then(|| document.line_of(field)),
            };
            match &document.value {
                Value::Array(items) => {
                    for (place, item) in items.iter().enumerate() {
                        self.wish(item, folder, &|field| at(&joined(&format!("[{place}]"), field)));
                    }
                }
                one => self.wish(one, folder, &at),
            }
        }
    }

    fn wish(&mut self, value: &Value, folder: &Path, at: &dyn Fn(&str) -> Origin) {
        let Value::Object(map) = value else {
            let message = format!("is {}; expected a registration or a binding", kind_of(value));
            return self.errors.push(format!("{}: {message}", at("")));
        };
        let read = match map.contains_key("to") {
            true => binding(map.clone()).map(|(name, served)| {
                let twice = self.wishes.bindings.insert(name.clone(), (served, at("")));
                (name, twice.map(|(_, origin)| origin))
            }),
            false => registration(map.clone(), folder).map(|(name, map)| {
                let twice = self.wishes.registrations.insert(name.clone(), (map, at("")));
                (name, twice.map(|(_, origin)| origin))
            }),
        };
        match read {
            Err(errors) => {
                self.errors.extend(errors.into_iter().map(|error| format!("{}: {error}", at(&error.field))));
            }
            Ok((name, Some(first))) => {
                self.errors.push(format!("{}: `{name}` stands in {first} already", at("")));
            }
            Ok((name, None)) => {
                let registered = self.wishes.registrations.get(&name).map(|(_, origin)| origin);
                let bound = self.wishes.bindings.get(&name).map(|(_, origin)| origin);
                if let (Some(registered), Some(bound)) = (registered, bound) {
                    let message = format!("`{name}` is registered ({registered}), so it cannot be bound");
                    self.errors.push(format!("{bound}: {message}"));
                }
            }
        }
    }
}

fn joined(place: &str, field: &str) -> String {
    match field {
        "" => place.to_owned(),
        field => format!("{place}.{field}"),
    }
}

/// The documents of a file. JSON is read as such, and gets its lines from the reader of YAML, of which it is a part.
fn documents(bytes: &[u8], is_json: bool) -> Result<Vec<Document>, (Option<usize>, String)> {
    let text = std::str::from_utf8(bytes).map_err(|_| (None, "is not UTF-8".to_owned()))?;
    let yaml = yaml::read(text);
    if !is_json {
        return yaml.map_err(|error| (Some(error.line), error.message));
    }
    let value = parse_document(bytes).map_err(|problem| (None, problem.detail))?;
    match yaml.ok().filter(|documents| matches!(documents.as_slice(), [one] if one.value == value)) {
        Some(documents) => Ok(documents),
        None => Ok(vec![Document::without_lines(value)]),
    }
}

fn binding(map: Map<String, Value>) -> Result<(DataName, BindingTarget), Vec<FieldError>> {
    let mut fields = Fields::new(map);
    let name = fields.required("dataName", DataName::EXPECTED, fields::data_name);
    let to = fields.required("to", DataName::EXPECTED, fields::data_name);
    let field = fields.optional("field", Pointer::EXPECTED, |value| fields::string(value).map(str::to_owned));
    let field = field.map(|text| Pointer::parse(&text)).transpose().unwrap_or_else(|wrong| {
        fields.extend(vec![wrong.at("field")]);
        None
    });
    match (fields.end(), name, to) {
        (errors, Some(name), Some(to)) if errors.is_empty() => Ok((name, BindingTarget { to, field })),
        (errors, ..) => Err(errors),
    }
}

fn registration(
    mut map: Map<String, Value>,
    folder: &Path,
) -> Result<(DataName, Map<String, Value>), Vec<FieldError>> {
    let errors = resolve_secrets(&mut map, folder);
    if !errors.is_empty() {
        return Err(errors);
    }
    // Only the registry sets them, and what it gave out may be applied again.
    for field in ["version", "createdAt", "updatedAt"] {
        map.remove(field);
    }
    let submitted = Registration::from_map(map.clone()).map_err(|problem: Problem| problem.errors)?;
    Ok((submitted.registration.data_name, map))
}

/// Puts the values of secrets in the place of references to them.
fn resolve_secrets(map: &mut Map<String, Value>, folder: &Path) -> Vec<FieldError> {
    let (mut errors, mut secrets) = (Vec::new(), Vec::new());
    if let Some(Value::Object(env)) = map.get_mut("env") {
        for (name, value) in env.iter_mut() {
            let Value::Object(reference) = &*value else { continue };
            match resolve(reference, folder) {
                Ok(text) => {
                    *value = Value::from(text);
                    secrets.push(name.clone());
                }
                Err(message) => {
                    let error = FieldError::new(format!("env.{name}"), message);
                    errors.push(error.expected(SECRET_EXPECTED));
                }
            }
        }
    }
    if !secrets.is_empty() {
        let named = map.entry("secrets").or_insert_with(|| json!([]));
        if let Value::Array(named) = named {
            named.extend(
                secrets.into_iter().map(Value::from).filter(|name| !named.contains(name)).collect::<Vec<_>>(),
            );
        }
    }
    errors
}

fn resolve(reference: &Map<String, Value>, folder: &Path) -> Result<String, String> {
    let mut members = reference.iter();
    match (members.next(), members.next()) {
        (Some((key, Value::String(path))), None) if key == "fromFile" => {
            read_secret(&folder.join(path).display().to_string()).map_err(|failure| failure.to_string())
        }
        (Some((key, Value::String(name))), None) if key == "fromEnv" => std::env::var(name)
            .map_err(|_| format!("takes its value from the variable {name}, which is not set")),
        _ => Err("is an object".to_owned()),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn reading(text: &str, folder: &Path) -> FileReader {
        let mut reading = FileReader::default();
        reading.file("f.yaml", folder, text.as_bytes());
        reading
    }

    #[test]
    fn every_error_of_every_document_is_said_with_its_line() {
        let text = "dataName: a\ncmd: x\nmax-Time: 5\n---\ndataName: b\ncmd: x\nevery: 5s\n---\n- dataName: a\n  cmd: y\n  max-Time: 1\n- 7\n---\ndataName: c\nto: a\nfields: /x\n";
        let errors = reading(text, Path::new(".")).errors;
        for (error, part) in errors.iter().zip([
            "f.yaml:5: max-Time: is missing",
            "f.yaml:7: every: is not a known field, given \"5s\"; expected ",
            "f.yaml:9: `a` stands in f.yaml:1 already",
            "f.yaml:12: is a number; expected a registration or a binding",
            "f.yaml:16: fields: is not a known field, given \"/x\"; expected `field`?",
        ]) {
            assert!(error.contains(part), "{error} does not say {part}");
        }
        assert_eq!(errors.len(), 5, "{errors:#?}");
    }

    #[test]
    fn the_values_of_secrets_come_from_this_machine() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("key"), "hush\n").unwrap();
        let text =
            "dataName: a\ncmd: x\nmax-Time: 5\nenv:\n  T: {fromFile: key}\n  K: null\n  L: C\nsecrets: [K]\n";
        let read = reading(text, folder.path());
        assert_eq!(read.errors, Vec::<String>::new());
        let (map, origin) = &read.wishes.registrations[&DataName::parse("a").unwrap()];
        assert_eq!(map["env"], json!({"T": "hush", "K": null, "L": "C"}));
        assert_eq!((map["secrets"].clone(), origin.line), (json!(["K", "T"]), Some(1)));
        let missing = reading(&text.replace("key}", "none}"), folder.path()).errors;
        assert!(missing[0].starts_with("f.yaml:5: env.T: "), "{missing:?}");
    }
}

//! The description of the interface, OpenAPI 3.1, made from the routes that are served and nothing else.
//!
//! The same routes always give the same text: paths, methods and schemas are sorted, so that a snapshot can
//! pin it. Every operation says which role it needs (`x-role`).

use std::collections::BTreeSet;

use estimand_api::problem::MEDIA_TYPE;
use estimand_api::schema::LITERAL;
use serde_json::{Map, Value, json};
use utoipa::openapi::path::{Operation, Paths};
use utoipa::openapi::{Info, OpenApi, RefOr};

use crate::base_path::BasePath;
use crate::builtin;
use crate::route_description::{ROLE_EXTENSION, extend};
use crate::routes::{Entry, Routes};

const JSON: &str = "application/json";

impl Routes {
    /// The description of these routes and of those that every service has.
    pub fn openapi(&self) -> OpenApi {
        describe(self)
    }

    /// The same as the document that `/openapi.json` serves.
    pub fn openapi_json(&self) -> String {
        render(&self.openapi(), self.base.as_ref())
    }
}

fn describe(routes: &Routes) -> OpenApi {
    let builtin = builtin::routes(routes.service());
    let mut paths = Paths::new();
    for entry in routes.entries.iter().chain(&builtin.entries) {
        let Entry { path, documented_method, operation, .. } = entry;
        let operation = with_problems(named(path, operation.clone()));
        paths.add_path_operation(path, vec![documented_method.clone()], operation);
    }
    let mut components = builtin.components;
    extend(&mut components, routes.components.clone());
    let mut document = OpenApi::new(Info::new("Estimand", env!("CARGO_PKG_VERSION")), paths);
    document.components = Some(components);
    document
}

/// Handlers of different services may have the same name, and operation ids must be unique in the document: each is the
/// handler's name, and of the path what that does not say already. Generators make names of types of them, so they are short.
fn named(path: &str, mut operation: Operation) -> Operation {
    let mut name = operation.operation_id.unwrap_or_default();
    for word in path.split('/').filter(|word| !word.is_empty() && *word != "api" && !word.starts_with('{')) {
        let word = word.replace(['.', '-'], "_");
        let said = name.replace('_', "");
        if !said.contains(word.replace('_', "").trim_end_matches('s')) {
            name = format!("{name}_{word}");
        }
    }
    operation.operation_id = Some(name);
    operation
}

/// Errors are answered with a problem, which has a media type of its own.
fn with_problems(mut operation: Operation) -> Operation {
    for (status, response) in &mut operation.responses.responses {
        if let RefOr::T(response) = response
            && status.starts_with(['4', '5'])
            && let Some(content) = response.content.shift_remove(JSON)
        {
            response.content.insert(MEDIA_TYPE.to_owned(), content);
        }
    }
    operation
}

fn render(document: &OpenApi, base: Option<&BasePath>) -> String {
    let rendered = serde_json::to_value(document).and_then(|mut document| {
        settle(&mut document);
        secure(&mut document);
        document["servers"] = json!([{ "url": base.map_or("/", BasePath::path) }]);
        declare_tags(&mut document);
        serde_json::to_string_pretty(&document)
    });
    rendered.unwrap_or_else(|error| {
        tracing::error!(%error, "the description of the interface cannot be rendered");
        "{}".to_owned()
    })
}

/// Says how callers show who they are, and for which requests they must: clients that are made from the description
/// then have a place for a token.
fn secure(document: &mut Value) {
    document["components"]["securitySchemes"] = json!({
        "token": { "type": "http", "scheme": "bearer", "description": "A token; its role says what it may do" },
        "certificate": { "type": "mutualTLS", "description": "A certificate of a node, a service or an operator" },
    });
    let (shown, nothing) = ([json!({ "token": [] }), json!({ "certificate": [] })], json!({}));
    let paths = document["paths"].as_object_mut().into_iter().flat_map(|paths| paths.values_mut());
    for operation in
        paths.flat_map(|path| path.as_object_mut().into_iter().flatten()).map(|(_, operation)| operation)
    {
        let security = match operation[ROLE_EXTENSION].as_str() {
            None => continue,
            Some("open") => json!([]),
            // On loopback nobody need show anything for these.
            Some("read" | "write") => json!([shown[0], shown[1], nothing]),
            Some(_) => json!(shown),
        };
        operation["security"] = security;
    }
}

/// Declares the tags of all operations, as programs that check descriptions ask for.
fn declare_tags(document: &mut Value) {
    let paths = document["paths"].as_object().into_iter().flat_map(|paths| paths.values());
    let operations = paths.flat_map(|path| path.as_object().into_iter().flat_map(|methods| methods.values()));
    let tags = operations.flat_map(|operation| operation["tags"].as_array().into_iter().flatten());
    let names: BTreeSet<&str> = tags.filter_map(Value::as_str).collect();
    document["tags"] = names.into_iter().map(|name| json!({ "name": name })).collect();
}

/// Puts schemas that are written as JSON where they belong.
fn settle(value: &mut Value) {
    if let Some(schema) = value.get_mut(LITERAL) {
        *value = schema.take();
    }
    unsigned(value);
    one_valued(value);
    array_of_anything(value);
    match value {
        Value::Object(map) => {
            if let (true, Some(schema)) = (map.contains_key("in"), map.get_mut("schema")) {
                never_null(schema);
            }
            binary(map);
            let bodies = map.get_mut("requestBody").and_then(|body| body["content"].as_object_mut());
            for body in bodies.into_iter().flat_map(|all| all.values_mut()) {
                never_null(&mut body["schema"]);
            }
            map.values_mut().for_each(settle);
        }
        Value::Array(items) => items.iter_mut().for_each(settle),
        _ => {}
    }
}

/// Corrects the format of unsigned numbers: `utoipa` gives them that of signed ones.
fn unsigned(schema: &mut Value) {
    let Value::Object(map) = schema else { return };
    let is_unsigned = map.get("minimum").and_then(Value::as_u64).is_some();
    let (format, most) = match map.get("format").and_then(Value::as_str) {
        Some("int32") if is_unsigned => ("uint32", u64::from(u32::MAX)),
        Some("int64") if is_unsigned => ("uint64", u64::MAX),
        _ => return,
    };
    map.insert("format".to_owned(), format.into());
    map.entry("maximum").or_insert(most.into());
}

/// Bytes are bytes: `utoipa` says that they are an array of numbers, which no client sends.
fn binary(map: &mut Map<String, Value>) {
    let Some(Value::Object(content)) = map.get_mut("content") else { return };
    for (media_type, body) in content {
        if ["application/octet-stream", "application/x-protobuf"].contains(&media_type.as_str()) {
            body["schema"] = json!({ "type": "string", "format": "binary" });
        }
    }
}

/// An array with anything in it says so, because many programs take one that says nothing for a mistake.
fn array_of_anything(schema: &mut Value) {
    let Value::Object(map) = schema else { return };
    let is_array = map.get("type").is_some_and(|kind| match kind {
        Value::Array(kinds) => kinds.iter().any(|kind| kind == "array"),
        kind => kind == "array",
    });
    if is_array {
        map.entry("items").or_insert(json!({}));
    }
}

/// A choice of one value is said as `enum`, because most generators of clients do not know `const`.
fn one_valued(schema: &mut Value) {
    let Value::Object(map) = schema else { return };
    if !map.contains_key("enum")
        && let Some(Value::String(_) | Value::Number(_) | Value::Bool(_)) = map.get("const")
        && let Some(only) = map.remove("const")
    {
        map.insert("enum".to_owned(), json!([only]));
    }
}

/// A parameter or a body that is optional may be absent, and is never null.
fn never_null(schema: &mut Value) {
    for (key, null) in [("type", json!("null")), ("oneOf", json!({ "type": "null" }))] {
        let Some(Value::Array(all)) = schema.get_mut(key) else { continue };
        all.retain(|one| *one != null);
        match (key, all.as_mut_slice()) {
            ("type", [only]) => schema[key] = only.take(),
            (_, [only]) => *schema = only.take(),
            _ => {}
        }
    }
}

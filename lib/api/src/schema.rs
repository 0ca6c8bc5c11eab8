//! The schemas of the interface's types, for its description.
//!
//! Each type says it beside its parser, and a test there holds the two together. Rules that no schema can say (that an
//! expression can be read, that a range has its ends in order) stand in the descriptions.

use serde_json::{Value, json};
use utoipa::ToSchema;
use utoipa::openapi::extensions::Extensions;
use utoipa::openapi::schema::{ObjectBuilder, SchemaType};
use utoipa::openapi::{RefOr, Schema};

/// The extension that holds a schema written as JSON, since `utoipa` knows only a part of JSON Schema. The renderer of
/// the description puts it in its place.
pub const LITERAL: &str = "x-schema";

/// Any text but U+0000, which neither a process nor every database takes.
pub(crate) const NO_NUL: &str = r"^[^\x00]*$";

/// A schema that is written as JSON.
pub fn literal(schema: Value) -> RefOr<Schema> {
    let extensions = Extensions::from_iter([(LITERAL, schema)]);
    ObjectBuilder::new().schema_type(SchemaType::AnyValue).extensions(Some(extensions)).into()
}

/// Refers to the schema of a type, with the words for this place.
pub fn of<T: ToSchema>(description: &str) -> Value {
    let mut schema = json!({ "$ref": format!("#/components/schemas/{}", T::name()) });
    if !description.is_empty() {
        schema["description"] = description.into();
    }
    schema
}

/// The same for a field that may be null, which is as if it were absent.
pub fn optional<T: ToSchema>(description: &str) -> Value {
    json!({ "oneOf": [of::<T>(""), { "type": "null" }], "description": description })
}

/// A text that matches a pattern.
pub fn text(description: &str, pattern: &str, example: &str) -> Value {
    json!({ "type": "string", "description": description, "pattern": pattern, "examples": [example] })
}

/// Gives a type its schema, and names the other types that the schema refers to.
#[macro_export]
macro_rules! described {
    ($type:ty, [$($other:ty),*], $schema:expr) => {
        impl ::utoipa::PartialSchema for $type {
            fn schema() -> ::utoipa::openapi::RefOr<::utoipa::openapi::Schema> {
                $crate::schema::literal($schema)
            }
        }

        impl ::utoipa::ToSchema for $type {
            fn schemas(
                _all: &mut Vec<(String, ::utoipa::openapi::RefOr<::utoipa::openapi::Schema>)>,
            ) {
                $(
                    _all.push((
                        <$other as ::utoipa::ToSchema>::name().into_owned(),
                        <$other as ::utoipa::PartialSchema>::schema(),
                    ));
                    <$other as ::utoipa::ToSchema>::schemas(_all);
                )*
            }
        }
    };
}

/// The parts of schemas and problems that tests compare.
#[cfg(test)]
pub(crate) mod testing {
    use std::collections::BTreeSet;

    use serde_json::Value;
    use utoipa::openapi::{RefOr, Schema};

    use super::LITERAL;
    use crate::problem::Problem;

    /// A schema as JSON.
    #[allow(clippy::unwrap_used)]
    pub fn json(schema: RefOr<Schema>) -> Value {
        let mut value = serde_json::to_value(schema).unwrap();
        value.get_mut(LITERAL).map(Value::take).unwrap_or(value)
    }

    /// The names of an object's fields in its schema.
    pub fn fields(schema: &Value) -> BTreeSet<String> {
        let properties = schema["properties"].as_object().into_iter().flatten();
        properties.map(|(name, _)| name.clone()).collect()
    }

    /// The names that a parser knows, out of its error about an unknown one: `?`.
    pub fn known(problem: &Problem) -> BTreeSet<String> {
        let unknown = problem.errors.iter().find(|error| error.field.ends_with('?'));
        let names = unknown.and_then(|error| error.expected.as_deref()?.strip_prefix("one of "));
        names.into_iter().flat_map(|names| names.split(", ")).map(str::to_owned).collect()
    }
}

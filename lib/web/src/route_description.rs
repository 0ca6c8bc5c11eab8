//! The description of one route, and the parts that all of them share.

use utoipa::openapi::RefOr;
use utoipa::openapi::extensions::Extensions;
use utoipa::openapi::path::Operation;
use utoipa::openapi::schema::{Components, Schema};

use crate::role::Role;

/// The role of an operation, in the interface's description.
pub(crate) const ROLE_EXTENSION: &str = "x-role";

/// The documentation of a route: the `__path_…` type that `#[utoipa::path]` makes beside a handler.
///
/// Tags and the schemas of bodies come along, so that neither has to be listed a second time.
pub trait RouteDescription:
    utoipa::Path + for<'t> utoipa::__dev::Tags<'t> + utoipa::__dev::SchemaReferences
{
}

impl<D> RouteDescription for D where
    D: utoipa::Path + for<'t> utoipa::__dev::Tags<'t> + utoipa::__dev::SchemaReferences
{
}

pub(crate) fn annotate(operation: &mut Operation, role: Role, tags: Vec<&str>) {
    operation.tags.get_or_insert_default().extend(tags.into_iter().map(str::to_owned));
    let role = Extensions::from_iter([(ROLE_EXTENSION, role.name())]);
    operation.extensions.get_or_insert_default().merge(role);
}

/// Adds schemas to those that are described already.
///
/// # Panics
/// If a name means one schema here and another one there: that is a mistake in the program, found at its first start.
pub(crate) fn describe(
    components: &mut Components,
    schemas: impl IntoIterator<Item = (String, RefOr<Schema>)>,
) {
    for (name, schema) in schemas {
        let known = components.schemas.get(&name);
        assert!(known.is_none_or(|known| *known == schema), "two schemas are named {name}");
        components.schemas.insert(name, schema);
    }
}

pub(crate) fn extend(components: &mut Components, more: Components) {
    describe(components, more.schemas);
    components.responses.extend(more.responses);
    components.parameters.extend(more.parameters);
    components.examples.extend(more.examples);
    components.request_bodies.extend(more.request_bodies);
    components.headers.extend(more.headers);
    components.security_schemes.extend(more.security_schemes);
}

#[cfg(test)]
mod tests {
    use utoipa::openapi::ObjectBuilder;

    use super::*;

    fn described(description: &str) -> (String, RefOr<Schema>) {
        let schema = ObjectBuilder::new().description(Some(description)).build();
        ("Batch".to_owned(), RefOr::T(Schema::Object(schema)))
    }

    #[test]
    fn a_schema_may_be_described_twice() {
        let mut components = Components::new();
        describe(&mut components, [described("values"), described("values")]);
        assert_eq!(components.schemas.len(), 1);
    }

    #[test]
    #[should_panic(expected = "two schemas are named Batch")]
    fn a_name_means_one_schema() {
        describe(&mut Components::new(), [described("values"), described("tasks")]);
    }
}

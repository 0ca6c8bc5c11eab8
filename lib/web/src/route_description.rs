//! The description of one route, and the parts that all of them share.

use utoipa::openapi::extensions::Extensions;
use utoipa::openapi::path::Operation;
use utoipa::openapi::schema::Components;

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

pub(crate) fn extend(components: &mut Components, more: Components) {
    components.schemas.extend(more.schemas);
    components.responses.extend(more.responses);
    components.parameters.extend(more.parameters);
    components.examples.extend(more.examples);
    components.request_bodies.extend(more.request_bodies);
    components.headers.extend(more.headers);
    components.security_schemes.extend(more.security_schemes);
}

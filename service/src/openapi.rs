//! The description of the interface, OpenAPI 3.1, made from what is served and nothing else.
//!
//! The same routes always give the same text: paths, methods and schemas are sorted, so that a snapshot can
//! pin it. Every operation says which role it needs (`x-role`).

use utoipa::openapi::extensions::Extensions;
use utoipa::openapi::path::{Operation, Paths};
use utoipa::openapi::schema::Components;
use utoipa::openapi::{Info, OpenApi};

use crate::builtin;
use crate::role::Role;
use crate::routes::{Entry, Routes};

const ROLE_EXTENSION: &str = "x-role";

pub(crate) fn describe(routes: &Routes) -> OpenApi {
    let builtin = builtin::routes(routes.service());
    let mut paths = Paths::new();
    for entry in routes.entries.iter().chain(&builtin.entries) {
        let Entry { path, documented_method, operation, .. } = entry;
        paths.add_path_operation(path, vec![documented_method.clone()], operation.clone());
    }
    let mut components = builtin.components;
    extend(&mut components, routes.components.clone());
    let mut document = OpenApi::new(Info::new("Estimand", env!("CARGO_PKG_VERSION")), paths);
    document.components = Some(components);
    document
}

pub(crate) fn render(document: &OpenApi) -> String {
    document.to_pretty_json().unwrap_or_else(|error| {
        tracing::error!(%error, "the description of the interface cannot be rendered");
        "{}".to_owned()
    })
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

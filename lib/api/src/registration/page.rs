//! The page of the documentation about the fields of a registration, rendered from their declarations.

use super::FIELDS;
use super::parts::{HISTORY_FIELDS, LIMIT_FIELDS};
use super::upload::UPLOAD_FIELDS;
use crate::declaration::markdown;

/// The page, in Markdown.
pub fn fields_page() -> String {
    format!(
        "\
# The fields of a registration

Rendered from the declarations in `lib/api/src/registration/fields.rs`; a test holds the two together.
`RENEW=1 cargo test -p estimand-api fields_page` writes this page anew.

Required are `dataName`, `cmd` and exactly one of `max-Time`, `gap` and `schedule`. A field that is null is absent. An
unknown field is rejected. `Option` is the option of `estimand register` that gives the field. With `--secret NAME=VALUE`
and `--secret-file NAME=FILE` it gives variables of `env` and names them in `secrets`; with `--pin` it gives the `sha256` that
the executable's file has now, and with `--upload FILE` it sends the file and gives `upload`. A `GET` adds `version`, `createdAt` and `updatedAt`; sent back, `version` guards against
overwriting a newer one.

{}
## `limits`

{}
## `history`

At least one of the two bounds; both hold. A duration alone is `keep`.

{}
## `upload`

{}",
        markdown(FIELDS),
        markdown(LIMIT_FIELDS),
        markdown(HISTORY_FIELDS),
        markdown(UPLOAD_FIELDS),
    )
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn the_fields_page_is_the_one_in_the_documentation() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/registration-fields.md");
        if std::env::var_os("RENEW").is_some() {
            std::fs::write(path, fields_page()).unwrap();
        }
        let committed = std::fs::read_to_string(path).unwrap();
        assert_eq!(committed, fields_page(), "RENEW=1 cargo test -p estimand-api fields_page renews it");
    }
}

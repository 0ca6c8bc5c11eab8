//! Files of people and of tasks: their names, and how far an upload is.

use std::fmt;
use std::str::FromStr;

use chrono::{DateTime, Utc};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::problem::{FieldError, shorten};
use crate::registration::Sha256;
use crate::schema;

/// The longest path of a file, and the longest name in one.
pub const MAX_FILE_PATH: usize = 1024;
const MAX_FILE_NAME: usize = 255;
/// How deep folders may be in each other.
const MAX_DEPTH: usize = 32;
/// Names that begin so belong to the service.
const RESERVED: &str = ".estimand";

const EXPECTED: &str = "names with `/` between them, such as `models/mnist.onnx`; no name is empty, `.`, `..`, begins with \
                        `.estimand`, has control characters or more than 255 bytes; 1,024 bytes in all";
const PATTERN: &str = r"^[^/\x00-\x1f\x7f]+(/[^/\x00-\x1f\x7f]+)*$";

/// The path of a file or folder below the file service's own folder: names with `/` between them.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct FilePath(String);

/// A path that is not one.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{}` is not the path of a file: {EXPECTED}", shorten(.0))]
pub struct FilePathError(String);

impl FilePathError {
    /// The same as an error of the field in which the path stood.
    pub fn at(&self, field: &str) -> FieldError {
        FieldError::new(field, "is not the path of a file").given(&self.0).expected(EXPECTED)
    }
}

impl FilePath {
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The names, from the outermost folder on.
    pub fn names(&self) -> impl DoubleEndedIterator<Item = &str> {
        self.0.split('/')
    }

    /// The folder that it is in, if it is in one.
    pub fn folder(&self) -> Option<&str> {
        self.0.rsplit_once('/').map(|(folder, _)| folder)
    }

    /// The last name.
    pub fn name(&self) -> &str {
        self.0.rsplit_once('/').map_or(&self.0, |(_, name)| name)
    }

    /// The path of something in this folder.
    pub fn join(&self, path: &str) -> Result<FilePath, FilePathError> {
        format!("{self}/{path}").parse()
    }

    /// True for a name that a path may have.
    pub fn is_name(name: &str) -> bool {
        !matches!(name, "" | "." | "..")
            && name.len() <= MAX_FILE_NAME
            && !name.starts_with(RESERVED)
            && !name.chars().any(|char| char == '/' || char.is_control())
    }
}

impl FromStr for FilePath {
    type Err = FilePathError;

    /// A `/` at the end says that it is a folder, and is left out.
    fn from_str(text: &str) -> Result<Self, FilePathError> {
        let path = text.strip_suffix('/').unwrap_or(text);
        let fits = path.len() <= MAX_FILE_PATH
            && path.split('/').count() <= MAX_DEPTH
            && path.split('/').all(FilePath::is_name);
        if fits { Ok(FilePath(path.to_owned())) } else { Err(FilePathError(text.to_owned())) }
    }
}

crate::described!(FilePath, [], schema::text(EXPECTED, PATTERN, "models/mnist.onnx"));

impl fmt::Display for FilePath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Serialize for FilePath {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for FilePath {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

/// A file or a folder.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct FileEntry {
    #[schema(value_type = FilePath)]
    pub path: String,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_folder: bool,
    /// In bytes; 0 for a folder.
    pub size: u64,
    #[serde(with = "crate::instant::wire")]
    #[schema(value_type = String, format = DateTime)]
    pub modified_at: DateTime<Utc>,
    /// The digest of its content; for a single file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sha256: Option<Sha256>,
}

/// A page of files and folders, in the order of their names, each folder before what is in it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct FilePage {
    pub files: Vec<FileEntry>,
    /// The value of `after` that gives the next page; absent on the last one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}

/// How far an upload is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct UploadProgress {
    /// How many bytes are on disk: the next piece begins there.
    pub received: u64,
    /// How many there will be.
    pub size: u64,
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_names_with_slashes_between_them() {
        let path: FilePath = "models/mnist/first try.onnx".parse().unwrap();
        assert_eq!(path.names().collect::<Vec<_>>(), ["models", "mnist", "first try.onnx"]);
        assert_eq!((path.folder(), path.name()), (Some("models/mnist"), "first try.onnx"));
        let alone: FilePath = "daten-ä.csv".parse().unwrap();
        assert_eq!((alone.folder(), alone.name()), (None, "daten-ä.csv"));
        assert_eq!("models/".parse::<FilePath>().unwrap().as_str(), "models");
    }

    #[test]
    fn what_leads_elsewhere_is_no_path() {
        let long = "x".repeat(MAX_FILE_NAME + 1);
        let deep = vec!["x"; MAX_DEPTH + 1].join("/");
        let wide = vec!["x".repeat(200); 6].join("/");
        for wrong in [
            "",
            "/",
            "/etc/passwd",
            "a//b",
            "a/../b",
            "..",
            ".",
            "a/.",
            "a//",
            "a\0b",
            "a\nb",
            "a\u{7f}",
            "a\u{85}b",
            ".estimand-uploads/x",
            "a/.estimand",
            &long,
            &deep,
            &wide,
        ] {
            let error = wrong.parse::<FilePath>().unwrap_err();
            assert!(error.to_string().contains("is not the path of a file"), "{wrong:?}: {error}");
        }
    }
}

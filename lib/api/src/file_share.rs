//! Folders that users give others to read, and the paths by which those read them.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Value, json};

use crate::fields::{self, Fields};
use crate::file::{FilePath, FilePathError};
use crate::json::{kind_of, parse_object};
use crate::names::UserName;
use crate::problem::{FieldError, Problem, shorten};
use crate::schema;

/// How many users may be named with a folder.
pub const MAX_READERS: usize = 256;
/// The folder of users' folders, below that of the file service.
pub const USERS_FOLDER: &str = "users";
const OF_OTHERS: &str = "/users/";

const EXPECTED: &str = "the path of a file, such as `data/train.csv`, or of one in a folder that another user shares, such as \
                        `/users/alice/data/train.csv`";
const PATTERN: &str = r"^/?[^/\x00-\x1f\x7f]+(/[^/\x00-\x1f\x7f]+)*$";

/// The path of a file or folder to read: one's own, or `/users/NAME/PATH` for another user's who shares it. No path of one's own
/// begins with `/`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReadPath {
    owner: Option<UserName>,
    path: FilePath,
}

/// A path that is not one.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{}` is not {EXPECTED}", shorten(.0))]
pub struct ReadPathError(String);

impl ReadPathError {
    /// The same as an error of the field in which the path stood.
    pub fn at(&self, field: &str) -> FieldError {
        FieldError::new(field, "is not the path of a file").given(&self.0).expected(EXPECTED)
    }
}

impl ReadPath {
    /// The user who shares it; none: it is one's own.
    pub fn owner(&self) -> Option<&UserName> {
        self.owner.as_ref()
    }

    /// The path in the folder of its owner.
    pub fn path(&self) -> &FilePath {
        &self.path
    }

    /// The path below the folder of the service, if it is another user's; else as its reader names it.
    pub fn place(&self) -> FilePath {
        let Some(owner) = &self.owner else { return self.path.clone() };
        // It was checked when it was read.
        format!("{USERS_FOLDER}/{owner}/{}", self.path).parse().unwrap_or_else(|_| self.path.clone())
    }

    /// The last name.
    pub fn name(&self) -> &str {
        self.path.name()
    }

    /// The path by which others read what is there in a user's folder.
    pub fn of_other(owner: &UserName, path: &FilePath) -> Result<ReadPath, ReadPathError> {
        format!("{OF_OTHERS}{owner}/{path}").parse()
    }
}

impl From<FilePath> for ReadPath {
    fn from(path: FilePath) -> Self {
        ReadPath { owner: None, path }
    }
}

impl FromStr for ReadPath {
    type Err = ReadPathError;

    fn from_str(text: &str) -> Result<Self, ReadPathError> {
        let wrong = || ReadPathError(text.to_owned());
        let Some(rest) = text.strip_prefix(OF_OTHERS) else {
            return text
                .parse()
                .map(|path| ReadPath { owner: None, path })
                .map_err(|_: FilePathError| wrong());
        };
        // All of it is a path, so that nothing is longer or deeper than operators can name it.
        let _: FilePath = text[1..].parse().map_err(|_: FilePathError| wrong())?;
        let (owner, path) = rest.split_once('/').ok_or_else(wrong)?;
        let owner = UserName::parse(owner).map_err(|_| wrong())?;
        let path = path.parse().map_err(|_: FilePathError| wrong())?;
        Ok(ReadPath { owner: Some(owner), path })
    }
}

impl fmt::Display for ReadPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(owner) = &self.owner {
            write!(f, "{OF_OTHERS}{owner}/")?;
        }
        self.path.fmt(f)
    }
}

impl Serialize for ReadPath {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for ReadPath {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

crate::described!(ReadPath, [], schema::text(EXPECTED, PATTERN, "/users/alice/data/train.csv"));

/// The users who may read a folder.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Readers {
    /// All users.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub all: bool,
    /// These users.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(value_type = Vec<String>)]
    pub with: Vec<UserName>,
}

impl Readers {
    pub fn has(&self, user: &str) -> bool {
        self.all || self.with.iter().any(|reader| reader.as_str() == user)
    }
}

/// A folder that is shared, for its owner.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct SharedFolder {
    /// As its owner names it.
    pub folder: FilePath,
    /// As its readers name it.
    pub path: ReadPath,
    #[schema(value_type = String)]
    pub owner: UserName,
    #[serde(flatten)]
    pub readers: Readers,
}

/// A folder that another user shares with the caller.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct OthersFolder {
    pub path: ReadPath,
    #[schema(value_type = String)]
    pub owner: UserName,
}

/// The folders that the caller shares, for an operator all that are shared, and those that the caller may read.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct FolderShares {
    pub own: Vec<SharedFolder>,
    pub others: Vec<OthersFolder>,
}

/// A folder that is to be shared, and the users who may read it from now on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShareRequest {
    pub folder: FilePath,
    pub readers: Readers,
}

crate::described!(ShareRequest, [FilePath], share_schema());

fn share_schema() -> Value {
    json!({
        "type": "object",
        "required": ["folder"],
        "additionalProperties": false,
        "properties": {
            "folder": schema::of::<FilePath>("The folder; for an operator `users/NAME/FOLDER`"),
            "with": { "type": ["array", "null"], "maxItems": MAX_READERS, "items": { "type": "string" },
                      "description": "The users who may read it" },
            "all": { "type": ["boolean", "null"], "description": "True in place of `with`: all users may" },
        },
        "examples": [{ "folder": "data/mnist", "with": ["bob"] }, { "folder": "data/mnist", "all": true }],
    })
}

impl ShareRequest {
    pub fn parse(body: &[u8]) -> Result<ShareRequest, Problem> {
        let mut fields = Fields::new(parse_object(body)?);
        let folder = fields.required("folder", "the path of a folder, such as data/mnist", |value| {
            fields::string(value)?.parse().map_err(|error: FilePathError| error.to_string())
        });
        let with = fields.optional("with", "an array of users' names", users).unwrap_or_default();
        let all = fields.optional("all", "true or false", fields::truth).unwrap_or(false);
        if with.is_empty() != all {
            let message = if all { "goes not with `all`" } else { "names nobody" };
            fields.error("with", message).expected = Some("users' names, or `all` in their place".to_owned());
        }
        fields.end_body()?;
        let folder = folder.ok_or_else(Problem::internal)?;
        Ok(ShareRequest { folder, readers: Readers { all, with } })
    }

    pub fn to_json(&self) -> Value {
        let ShareRequest { folder, readers } = self;
        match readers.all {
            true => json!({ "folder": folder, "all": true }),
            false => json!({ "folder": folder, "with": readers.with }),
        }
    }
}

fn users(value: &Value) -> Result<Vec<UserName>, String> {
    let Value::Array(names) = value else { return Err(format!("is {}, not an array", kind_of(value))) };
    if names.len() > MAX_READERS {
        return Err(format!("has more than {MAX_READERS} names"));
    }
    let mut all: Vec<UserName> = Vec::new();
    for name in names {
        let name = UserName::parse(fields::string(name)?).map_err(|error| error.to_string())?;
        if !all.contains(&name) {
            all.push(name);
        }
    }
    Ok(all)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn the_path_of_anothers_file_is_none_of_ones_own() {
        let own: ReadPath = "users/alice/data/x".parse().unwrap();
        assert_eq!(
            (own.owner(), own.path().as_str(), own.to_string().as_str()),
            (None, "users/alice/data/x", "users/alice/data/x")
        );
        let others: ReadPath = "/users/alice/data/x".parse().unwrap();
        assert_eq!((others.owner().unwrap().as_str(), others.path().as_str()), ("alice", "data/x"));
        assert_eq!(
            (others.place().as_str(), others.to_string().as_str()),
            ("users/alice/data/x", "/users/alice/data/x")
        );
        assert_eq!(ReadPath::of_other(others.owner().unwrap(), others.path()).unwrap(), others);
        assert!("/users/alice/data/x".parse::<FilePath>().is_err());
        let deep = format!("/users/alice/{}", vec!["x"; 31].join("/"));
        for wrong in [
            "/",
            "/users",
            "/users/",
            "/users/alice",
            "/users/alice/",
            "/users//x",
            "/users/../x/y",
            "/users/alice/../bob/x",
            "/users/Alice/x",
            "//users/alice/x",
            "/etc/passwd",
            "/users/alice/.estimand-x",
            &deep,
        ] {
            let error = wrong.parse::<ReadPath>().unwrap_err();
            assert!(error.to_string().contains("is not the path of a file"), "{wrong}: {error}");
        }
    }

    #[test]
    fn a_folder_is_shared_with_some_or_with_all() {
        let parse = |body: &str| ShareRequest::parse(body.as_bytes());
        let some = parse(r#"{"folder": "data/", "with": ["bob", "eve", "bob"]}"#).unwrap();
        assert_eq!(some.to_json(), json!({ "folder": "data", "with": ["bob", "eve"] }));
        assert!(some.readers.has("bob") && !some.readers.has("carol"));
        let all = parse(r#"{"folder": "data", "all": true}"#).unwrap();
        assert!(all.readers.has("carol") && all.to_json()["all"] == true);
        for (wrong, field) in [
            (r#"{"folder": "data"}"#, "with"),
            (r#"{"folder": "data", "with": []}"#, "with"),
            (r#"{"folder": "data", "with": ["Bob"]}"#, "with"),
            (r#"{"folder": "data", "with": "bob"}"#, "with"),
            (r#"{"folder": "data", "with": ["bob"], "all": true}"#, "with"),
            (r#"{"folder": "/users/alice/data", "all": true}"#, "folder"),
            (r#"{"with": ["bob"]}"#, "folder"),
        ] {
            let problem = parse(wrong).unwrap_err();
            assert_eq!(problem.errors[0].field, field, "{wrong}: {problem:?}");
        }
    }
}

//! Published images: a name that tasks use, and the one content that it stands for.
//!
//! A tag of a registry, or of a node's engine, may mean another content tomorrow. A digest cannot: it is that of the image
//! in its registry, or the image's id on the node where it was built.

use std::fmt;
use std::str::FromStr;

use chrono::{DateTime, Utc};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Map, Value, json};

use crate::declaration::{self, Field};
use crate::fields::{self, Fields};
use crate::json::parse_object;
use crate::labels::{LabelMap, MAX_LABELS, read_labels};
use crate::problem::{Problem, shorten};
use crate::registration::Sha256;
use crate::schema;

/// The longest name, the longest reference, and the longest description.
const MAX_NAME: usize = 128;
const MAX_REFERENCE: usize = 255;
const MAX_DESCRIPTION: usize = 1024;
/// The algorithm in front of a digest.
const ALGORITHM: &str = "sha256";

const NAME_EXPECTED: &str = "a name such as `mnist` or `mnist:2`: at most 128 of letters, digits and `._-`, a letter or digit first; \
     behind it `:` and a version, if it has one";
const NAME_PATTERN: &str = "^[A-Za-z0-9][A-Za-z0-9._-]*(:[A-Za-z0-9._-]+)?$";
const REFERENCE_EXPECTED: &str = "the image in its registry or on its nodes, such as \"registry.example.com/team/mnist:2\": at most 255 of \
     letters, digits and `._-/:`, a letter or digit first, without a digest";
const REFERENCE_PATTERN: &str = "^[A-Za-z0-9][A-Za-z0-9._/:-]*$";
const DIGEST_EXPECTED: &str =
    "`sha256:` and 64 hexadecimal digits: the image's digest in its registry, or its id on its node";
const DIGEST_PATTERN: &str = "^sha256:[0-9A-Fa-f]{64}$";
const DIGEST_EXAMPLE: &str = "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

/// The name of a published image.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ImageName(String);

/// A name that no image is published under.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{}` is not the name of a published image: expected {NAME_EXPECTED}", shorten(.0))]
pub struct ImageNameError(String);

impl ImageName {
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for ImageName {
    type Err = ImageNameError;

    fn from_str(text: &str) -> Result<Self, ImageNameError> {
        let is_part = |part: &str| !part.is_empty() && part.bytes().all(|b| is_plain(b) || b == b'_');
        let (name, version) = text.split_once(':').unwrap_or((text, "0"));
        // It would look like the digest of an image.
        let fits = text.len() <= MAX_NAME && is_part(name) && is_part(version) && name != ALGORITHM;
        match fits && starts_well(text) {
            true => Ok(ImageName(text.to_owned())),
            false => Err(ImageNameError(text.to_owned())),
        }
    }
}

crate::described!(ImageName, [], schema::text(NAME_EXPECTED, NAME_PATTERN, "mnist:2"));

impl fmt::Display for ImageName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The digest of an image.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ImageDigest(Sha256);

impl FromStr for ImageDigest {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let digits = text.strip_prefix(ALGORITHM).and_then(|rest| rest.strip_prefix(':'));
        let read = digits.and_then(|digits| digits.parse().ok()).map(ImageDigest);
        read.ok_or_else(|| format!("is not {DIGEST_EXPECTED}"))
    }
}

crate::described!(ImageDigest, [], schema::text(DIGEST_EXPECTED, DIGEST_PATTERN, DIGEST_EXAMPLE));

impl fmt::Display for ImageDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{ALGORITHM}:{}", self.0)
    }
}

macro_rules! as_text {
    ($type:ty) => {
        impl Serialize for $type {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl<'de> Deserialize<'de> for $type {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
            }
        }
    };
}
as_text!(ImageName);
as_text!(ImageDigest);

/// An image as it is published.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct PublishedImage {
    /// The name by which tasks call it.
    pub name: ImageName,
    /// Its name in its registry, or on the nodes that have it.
    pub reference: String,
    pub digest: ImageDigest,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    #[serde(default, skip_serializing_if = "LabelMap::is_empty")]
    pub labels: LabelMap,
    #[serde(with = "crate::instant::wire")]
    #[schema(value_type = String, format = DateTime)]
    pub published_at: DateTime<Utc>,
    pub published_by: String,
}

/// The image that a task with a published one was given when it was accepted. What is published later does not change it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct TaskImage {
    pub name: ImageName,
    pub reference: String,
    pub digest: ImageDigest,
}

impl fmt::Display for TaskImage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, {}", self.reference, self.digest)
    }
}

/// The body that publishes an image. One that exists is right.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImageToPublish {
    pub name: ImageName,
    pub reference: String,
    pub digest: ImageDigest,
    pub description: Option<String>,
    pub labels: LabelMap,
}

/// The same while it is read.
#[derive(Debug, Default)]
struct Draft {
    name: Option<ImageName>,
    reference: Option<String>,
    digest: Option<ImageDigest>,
    description: Option<String>,
    labels: LabelMap,
}

static FIELDS: &[Field<Draft>] = &[
    Field {
        name: "name",
        expected: NAME_EXPECTED,
        description: "What tasks call it",
        schema: || schema::of::<ImageName>(""),
        read: |it, draft| draft.name = it.required(|value| parsed(value, "is not such a name")),
        write: |draft| draft.name.as_ref().map(|name| json!(name)),
        ..Field::PLAIN
    },
    Field {
        name: "reference",
        expected: REFERENCE_EXPECTED,
        description: "Its name in its registry, or on the nodes that have it",
        schema: || json!({ "type": "string", "pattern": REFERENCE_PATTERN, "maxLength": MAX_REFERENCE }),
        read: |it, draft| draft.reference = it.required(reference),
        write: |draft| draft.reference.as_ref().map(|reference| json!(reference)),
        ..Field::PLAIN
    },
    Field {
        name: "digest",
        expected: DIGEST_EXPECTED,
        description: "The one content that it stands for",
        schema: || schema::of::<ImageDigest>(""),
        read: |it, draft| draft.digest = it.required(|value| parsed(value, "is not a digest")),
        write: |draft| draft.digest.map(|digest| json!(digest)),
        ..Field::PLAIN
    },
    Field {
        name: "description",
        expected: "a text of 1 to 1,024 bytes",
        description: "What it is, for people",
        schema: || json!({ "type": ["string", "null"], "minLength": 1, "maxLength": MAX_DESCRIPTION, "pattern": schema::NO_NUL }),
        read: |it, draft| draft.description = it.optional(description),
        write: |draft| draft.description.as_ref().map(|text| json!(text)),
        ..Field::PLAIN
    },
    Field {
        name: "labels",
        expected: "labels, such as {\"study\": \"mnist\"}",
        description: "Labels to find it by",
        schema: || json!({ "type": ["object", "null"], "maxProperties": MAX_LABELS, "additionalProperties": { "type": "string" } }),
        read: |it, draft| {
            draft.labels = it.part(|value| read_labels("labels", value, MAX_LABELS)).unwrap_or_default();
        },
        write: |draft| (!draft.labels.is_empty()).then(|| json!(draft.labels)),
        ..Field::PLAIN
    },
];

crate::described!(
    ImageToPublish,
    [ImageName, ImageDigest],
    json!({
        "type": "object",
        "properties": declaration::properties(FIELDS),
        "required": ["name", "reference", "digest"],
        "additionalProperties": false,
        "examples": [{ "name": "mnist:2", "reference": "registry.example.com/team/mnist:2", "digest": DIGEST_EXAMPLE }],
    })
);

impl ImageToPublish {
    /// The largest body.
    pub const MAX_BYTES: usize = 64 * 1024;

    /// Reads a body, checks all of it, and says all that is wrong.
    pub fn parse(body: &[u8]) -> Result<Self, Problem> {
        let (mut fields, mut draft) = (Fields::new(parse_object(body)?), Draft::default());
        declaration::read(FIELDS, &mut fields, &mut draft);
        fields.end_body()?;
        let Draft { name, reference, digest, description, labels } = draft;
        let (Some(name), Some(reference), Some(digest)) = (name, reference, digest) else {
            // A field that is missing was an error of the body.
            return Err(Problem::internal());
        };
        Ok(ImageToPublish { name, reference, digest, description, labels })
    }

    pub fn to_map(&self) -> Map<String, Value> {
        let ImageToPublish { name, reference, digest, description, labels } = self.clone();
        let (name, reference, digest) = (Some(name), Some(reference), Some(digest));
        declaration::write(FIELDS, &Draft { name, reference, digest, description, labels })
    }

    /// True if the image is published like this already.
    pub fn is(&self, published: &PublishedImage) -> bool {
        let PublishedImage { name, reference, digest, description, labels, .. } = published;
        (&self.name, &self.reference, self.digest) == (name, reference, *digest)
            && (&self.description, &self.labels) == (description, labels)
    }
}

fn parsed<T: FromStr>(value: &Value, wrong: &str) -> Result<T, String> {
    fields::string(value)?.parse().map_err(|_| wrong.to_owned())
}

/// The reference of an image, or a message about what it is instead.
fn reference(value: &Value) -> Result<String, String> {
    let text = fields::string(value)?;
    let fits = |b: u8| is_plain(b) || b"_/:".contains(&b);
    match text {
        text if text.contains('@') => Err("has a digest, which goes into `digest`".to_owned()),
        text if text.len() <= MAX_REFERENCE && starts_well(text) && text.bytes().all(fits) => {
            Ok(text.to_owned())
        }
        _ => Err("is not the name of an image".to_owned()),
    }
}

fn description(value: &Value) -> Result<String, String> {
    match fields::string(value)? {
        text if text.trim().is_empty() => Err("is empty".to_owned()),
        text if text.len() > MAX_DESCRIPTION => Err(format!("has more than {MAX_DESCRIPTION} bytes")),
        text if text.contains('\0') => Err("has a NUL".to_owned()),
        text => Ok(text.to_owned()),
    }
}

fn is_plain(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b".-".contains(&byte)
}

fn starts_well(text: &str) -> bool {
    text.bytes().next().is_some_and(|first| first.is_ascii_alphanumeric())
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn digest() -> String {
        format!("sha256:{}", "ab".repeat(32))
    }

    #[test]
    fn a_name_is_short_and_looks_like_no_digest() {
        for right in ["a", "mnist", "mnist:2", "A_b.c-d:1.0_rc", &"x".repeat(MAX_NAME)] {
            assert_eq!(right.parse::<ImageName>().unwrap().as_str(), right);
        }
        for wrong in [
            "",
            ":",
            "a:",
            ":1",
            "-a",
            "a/b",
            "a b",
            "a:b:c",
            "ä",
            "a@b",
            &digest(),
            &"x".repeat(MAX_NAME + 1),
        ] {
            let error = wrong.parse::<ImageName>().unwrap_err().to_string();
            assert!(error.contains("is not the name of a published image"), "{error}");
        }
    }

    #[test]
    fn a_digest_names_its_algorithm_and_is_written_in_lower_case() {
        assert_eq!(
            format!("sha256:{}", "AB".repeat(32)).parse::<ImageDigest>().unwrap().to_string(),
            digest()
        );
        for wrong in [&"ab".repeat(32), "sha256:ab", &format!("sha512:{}", "ab".repeat(32)), "sha256:"] {
            assert!(wrong.parse::<ImageDigest>().unwrap_err().contains("64 hexadecimal digits"), "{wrong}");
        }
    }

    #[test]
    fn a_body_is_read_whole_and_written_as_it_came() {
        let body = json!({
            "name": "mnist:2", "reference": "h:5000/team/mnist:2", "digest": digest(), "description": "digits",
            "labels": { "study": "x" },
        });
        let image = ImageToPublish::parse(body.to_string().as_bytes()).unwrap();
        assert_eq!(Value::Object(image.to_map()), body);
    }

    #[test]
    fn everything_that_is_wrong_is_said_at_once() {
        let body =
            json!({ "name": "a b", "reference": "x@sha256:1", "description": "", "labels": 1, "tag": "x" });
        let problem = ImageToPublish::parse(body.to_string().as_bytes()).unwrap_err();
        let said: Vec<String> = problem.errors.iter().map(|error| error.field.clone()).collect();
        assert_eq!(said, ["name", "reference", "digest", "description", "labels", "tag"]);
        assert!(problem.errors[1].message.contains("goes into `digest`"), "{problem:?}");
    }
}

//! The file that a registration brings along, instead of one that is on the nodes already.

use std::fmt;
use std::str::FromStr;

use serde::{Serialize, Serializer};
use serde_json::{Value, json};

use super::Sha256;
use crate::declaration::{self, Field};
use crate::fields::{self, Fields};
use crate::json::kind_of;
use crate::problem::FieldError;
use crate::schema::{self, of, optional};

/// The largest file that can be uploaded.
pub const MAX_UPLOAD_BYTES: usize = 1 << 20;

const SIGNATURE_EXPECTED: &str = "an Ed25519 signature of the file: 128 hexadecimal digits";

/// The file that is run, by the digest of its content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Upload {
    pub sha256: Sha256,
    /// By a key that agents may ask for.
    pub signature: Option<UploadSignature>,
}

/// An Ed25519 signature of a file's content.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct UploadSignature(pub [u8; 64]);

/// The answer to an upload.
#[derive(Debug, Clone, Serialize, utoipa::ToSchema)]
pub struct UploadReceipt {
    pub sha256: Sha256,
    pub bytes: u64,
}

/// The fields of an upload.
pub const UPLOAD_FIELDS: &[Field<Upload>] = &[
    Field {
        name: "sha256",
        expected: "the SHA-256 that `POST /api/uploads` answered: 64 hexadecimal digits",
        description: "The file, which was uploaded before",
        schema: || of::<Sha256>(""),
        read: |it, upload| {
            if let Some(digest) = it.required(fields::parsed) {
                upload.sha256 = digest;
            }
        },
        write: |upload| Some(json!(upload.sha256)),
        ..Field::PLAIN
    },
    Field {
        name: "signature",
        expected: SIGNATURE_EXPECTED,
        description: "Its signature, for agents that run only what a certain key has signed",
        schema: || optional::<UploadSignature>(""),
        read: |it, upload| upload.signature = it.optional(fields::parsed),
        write: |upload| upload.signature.map(|signature| json!(signature)),
        ..Field::PLAIN
    },
];

impl Upload {
    pub fn from_json(value: &Value) -> Result<Self, Vec<FieldError>> {
        let Value::Object(map) = value else {
            let error = FieldError::new("upload", format!("is {}, not an object", kind_of(value)));
            return Err(vec![error.given(value).expected("{\"sha256\": …}")]);
        };
        let mut fields = Fields::nested("upload", map.clone());
        let mut upload = Upload { sha256: Sha256([0; 32]), signature: None };
        declaration::read(UPLOAD_FIELDS, &mut fields, &mut upload);
        match fields.end() {
            errors if errors.is_empty() => Ok(upload),
            errors => Err(errors),
        }
    }

    pub fn to_json(&self) -> Value {
        Value::Object(declaration::write(UPLOAD_FIELDS, self))
    }
}

crate::described!(
    Upload,
    [Sha256, UploadSignature],
    json!({
        "description": "A file that was uploaded, and is run instead of one that is on the nodes",
        "type": "object",
        "required": ["sha256"],
        "additionalProperties": false,
        "properties": declaration::properties(UPLOAD_FIELDS),
    })
);

crate::described!(
    UploadSignature,
    [],
    schema::text(SIGNATURE_EXPECTED, "^[0-9A-Fa-f]{128}$", &"0f".repeat(64))
);

impl fmt::Display for UploadSignature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&hex::encode(self.0))
    }
}

impl fmt::Debug for UploadSignature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "UploadSignature({self})")
    }
}

impl FromStr for UploadSignature {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut bytes = [0; 64];
        hex::decode_to_slice(text, &mut bytes).map_err(|_| "is not 128 hexadecimal digits".to_owned())?;
        Ok(UploadSignature(bytes))
    }
}

impl Serialize for UploadSignature {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

//! The two encodings of a body.

use estimand_api::problem::shorten;
use prost::Message as _;

use crate::messages::ExportMetricsServiceRequest;
use crate::size;

/// The most memory that a decoded body takes beside the texts in it.
pub const MAX_DECODED_BYTES: usize = 24 * 1024 * 1024;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Encoding {
    Protobuf,
    Json,
}

/// A body that is no message.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("it is no ExportMetricsServiceRequest in protobuf: {0}")]
    Protobuf(#[from] prost::DecodeError),
    #[error("it is no ExportMetricsServiceRequest in JSON: {problem}, at line {line}, column {column}")]
    Json { problem: String, line: usize, column: usize },
}

impl From<serde_json::Error> for Error {
    /// The library repeats what it has read, however long that is.
    fn from(error: serde_json::Error) -> Self {
        let (line, column, text) = (error.line(), error.column(), error.to_string());
        let problem = text.strip_suffix(&format!(" at line {line} column {column}")).unwrap_or(&text);
        Error::Json { problem: shorten(problem), line, column }
    }
}

impl Encoding {
    /// The encoding that a media type names.
    pub fn of_media_type(text: &str) -> Option<Self> {
        let media_type = text.split(';').next().unwrap_or_default().trim();
        match media_type.to_ascii_lowercase().as_str() {
            "application/x-protobuf" => Some(Encoding::Protobuf),
            "application/json" => Some(Encoding::Json),
            _ => None,
        }
    }

    pub fn media_type(self) -> &'static str {
        match self {
            Encoding::Protobuf => "application/x-protobuf",
            Encoding::Json => "application/json",
        }
    }

    /// The bytes that the messages in a body take when they are decoded, at least; known before anything is decoded. An empty
    /// message has two bytes on the wire, and a hundred in memory.
    pub fn size(self, body: &[u8]) -> usize {
        match self {
            Encoding::Protobuf => size::of_protobuf(body),
            Encoding::Json => size::of_json(body),
        }
    }

    pub fn decode(self, body: &[u8]) -> Result<ExportMetricsServiceRequest, Error> {
        match self {
            Encoding::Protobuf => Ok(ExportMetricsServiceRequest::decode(body)?),
            Encoding::Json => Ok(serde_json::from_slice(body)?),
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests;

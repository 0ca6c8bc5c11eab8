//! The log of a task, as agents tell it and as readers see it.

use std::borrow::Cow;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use chrono::{DateTime, Utc};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use crate::is_zero;

/// A piece of an attempt's log, in the order in which it was written.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct TaskLog {
    pub id: String,
    pub attempt: u32,
    /// The number of the first line here; the first line of an attempt has 0. Lines that were delivered before are
    /// passed over.
    pub first: u64,
    pub lines: Vec<TaskLogLine>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct TaskLogLine {
    /// Microseconds since 1970, by the node's clock.
    pub at: i64,
    pub stream: TaskStream,
    /// Without its end of line. Bytes that are no UTF-8 are replaced.
    pub text: String,
    /// The bytes as they were written, with their end of line, where they are other than the text and an end of line.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes: Option<LogBytes>,
    /// The next line of the same stream goes on with this one, which was too long.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub partial: bool,
    /// So many lines were dropped before this one.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub dropped: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "UPPERCASE")]
pub enum TaskStream {
    Stdout,
    Stderr,
}

impl TaskStream {
    pub fn as_str(self) -> &'static str {
        match self {
            TaskStream::Stdout => "STDOUT",
            TaskStream::Stderr => "STDERR",
        }
    }
}

impl std::str::FromStr for TaskStream {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        [TaskStream::Stdout, TaskStream::Stderr]
            .into_iter()
            .find(|stream| stream.as_str().eq_ignore_ascii_case(text))
            .ok_or_else(|| format!("`{text}` is not a stream: one of STDOUT, STDERR"))
    }
}

/// The stream that a reader asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "UPPERCASE")]
pub enum LogStream {
    Stdout,
    Stderr,
    /// Both as one, byte for byte.
    Raw,
}

impl LogStream {
    /// The one stream that it is; none: both.
    pub fn single(self) -> Option<TaskStream> {
        match self {
            LogStream::Stdout => Some(TaskStream::Stdout),
            LogStream::Stderr => Some(TaskStream::Stderr),
            LogStream::Raw => None,
        }
    }
}

impl std::str::FromStr for LogStream {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        [("STDOUT", LogStream::Stdout), ("STDERR", LogStream::Stderr), ("RAW", LogStream::Raw)]
            .into_iter()
            .find_map(|(name, stream)| name.eq_ignore_ascii_case(text).then_some(stream))
            .ok_or_else(|| format!("`{text}` is not a stream: one of STDOUT, STDERR, RAW"))
    }
}

/// Bytes of a log, in base64.
#[derive(Debug, Clone, Default, PartialEq, Eq, utoipa::ToSchema)]
#[schema(value_type = String, format = Byte)]
pub struct LogBytes(pub Vec<u8>);

impl Serialize for LogBytes {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&STANDARD.encode(&self.0))
    }
}

impl<'de> Deserialize<'de> for LogBytes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Cow::<'de, str>::deserialize(deserializer)?;
        STANDARD.decode(&*text).map(LogBytes).map_err(de::Error::custom)
    }
}

/// The unfinished lines of an attempt, at most one of each stream: prompts, bars of progress. They replace those told before.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct OpenLines {
    pub id: String,
    pub attempt: u32,
    pub lines: Vec<OpenLine>,
}

/// A line that has begun and not ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct OpenLine {
    /// The instant of its first byte, in microseconds since 1970, by the node's clock.
    pub at: i64,
    pub stream: TaskStream,
    /// The part of it that a terminal shows: what follows its last carriage return. At most 1,024 bytes, the last ones.
    pub text: String,
}

/// A line of a task's log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct TaskLogEntry {
    /// Its number among all lines of the task.
    pub line: u64,
    pub attempt: u32,
    /// By the node's clock.
    #[serde(with = "crate::instant::wire")]
    #[schema(value_type = String, format = DateTime)]
    pub at: DateTime<Utc>,
    pub stream: TaskStream,
    pub text: String,
    /// The bytes as they were written, with their end of line, where they are other than the text and an end of line.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes: Option<LogBytes>,
    /// The next line of the same stream goes on with this one.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub partial: bool,
    /// So many lines were dropped here, before the text.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub dropped: u64,
}

impl TaskLogEntry {
    /// The bytes that the task wrote here.
    pub fn written(&self) -> Cow<'_, [u8]> {
        match &self.bytes {
            Some(LogBytes(bytes)) => Cow::Borrowed(bytes),
            // A row that only says how much is missing.
            None if self.dropped > 0 && self.text.is_empty() => Cow::Borrowed(b""),
            None if self.partial => Cow::Borrowed(self.text.as_bytes()),
            None => Cow::Owned([self.text.as_bytes(), b"\n"].concat()),
        }
    }
}

/// An unfinished line, as readers see it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct OpenLogEntry {
    pub attempt: u32,
    /// The instant of its first byte, by the node's clock.
    #[serde(with = "crate::instant::wire")]
    #[schema(value_type = String, format = DateTime)]
    pub at: DateTime<Utc>,
    pub stream: TaskStream,
    /// The part of it that a terminal shows: what follows its last carriage return.
    pub text: String,
}

/// A piece of a task's log.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct TaskLogPage {
    pub lines: Vec<TaskLogEntry>,
    /// The value of `from` that gives what follows.
    pub next: u64,
    /// The log is at its end, and stays as it is: the task is over.
    pub over: bool,
    /// The unfinished lines behind the last one. They have no number before they end, and are not kept.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub open: Vec<OpenLogEntry>,
    /// The value of `open` that waits until they are others; 0 if there are none. A service of before says none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub open_revision: Option<u64>,
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn bytes_come_back_as_they_were_written() {
        let entry = |text: &str, bytes: Option<&[u8]>, partial, dropped| TaskLogEntry {
            line: 0,
            attempt: 1,
            at: DateTime::UNIX_EPOCH,
            stream: TaskStream::Stdout,
            text: text.to_owned(),
            bytes: bytes.map(|bytes| LogBytes(bytes.to_vec())),
            partial,
            dropped,
        };
        for (entry, written) in [
            (entry("a", None, false, 0), b"a\n".as_slice()),
            (entry("a", None, true, 0), b"a"),
            (entry("\u{fffd}", Some(b"\xff"), false, 0), b"\xff"),
            (entry("a", None, false, 3), b"a\n"),
            (entry("", None, false, 3), b""),
            (entry("", Some(b"\n"), false, 3), b"\n"),
        ] {
            assert_eq!(*entry.written(), *written);
            let wire = serde_json::to_string(&entry).unwrap();
            assert_eq!(serde_json::from_str::<TaskLogEntry>(&wire).unwrap(), entry);
        }
    }

    /// An agent of a version before says neither bytes nor open lines.
    #[test]
    fn a_line_of_a_former_agent_is_read() {
        let line = r#"{"at":1,"stream":"STDOUT","text":"a"}"#;
        let line: TaskLogLine = serde_json::from_str(line).unwrap();
        assert_eq!((line.text.as_str(), line.bytes), ("a", None));
        let news = serde_json::from_str::<crate::task::TaskNews>(r#"{"logs":[],"reports":[]}"#).unwrap();
        assert!(news.open.is_empty());
    }
}

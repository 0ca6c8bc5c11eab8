//! The files of tasks: inputs, which lie in a task's folder before it starts, and outputs, which are kept when it has
//! ended; and the grants by which the agent of its node reads and writes them.
//!
//! The task service knows which task is on which node, and the file service has the files. So an agent asks the task
//! service, which asks the file service for grants to these files for this node, and the agent takes the files from the
//! file service itself.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::file::{FilePath, FilePathError};
use crate::file_share::ReadPath;
use crate::is_zero;
use crate::names::{NodeName, UserName};
use crate::registration::Sha256;

/// The most inputs of a task, and the most patterns of outputs.
pub const MAX_TASK_FILES: usize = 100;
/// The most files that are kept of one attempt.
pub const MAX_OUTPUTS: usize = 1_000;
/// The most outputs that are named of those that are not kept.
pub const MAX_LEFT_OUT: usize = 100;
/// The folder of the outputs of all tasks, in the files of their user.
pub const OUTPUTS_FOLDER: &str = "tasks";

/// A file that lies in the task's folder when it starts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct TaskInput {
    /// The file, as the task's user names it; another user's by its path below the folder of the file service.
    pub file: FilePath,
    /// Its place in the task's folder.
    #[serde(rename = "as")]
    pub place: FilePath,
}

/// The outputs of a task: a path in its folder, in which `*` stands for any text in a name. If that is a folder, all that
/// is in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutputPattern(FilePath);

/// How far a pattern goes along with a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PatternMatch {
    None,
    /// The files it means may be in this folder.
    Above,
    /// It means this, and if it is a folder all in it.
    Whole,
}

impl OutputPattern {
    pub fn as_str(&self) -> &str {
        self.0.as_str()
    }

    /// How it goes along with the names of a path.
    pub fn matches(&self, path: &[&str]) -> PatternMatch {
        let mut names = path.iter();
        for pattern in self.0.names() {
            match names.next() {
                Some(name) if !name_matches(pattern, name) => return PatternMatch::None,
                Some(_) => {}
                None => return PatternMatch::Above,
            }
        }
        PatternMatch::Whole
    }
}

/// In time that does not grow beyond the product of both lengths, whatever they are.
fn name_matches(pattern: &str, name: &str) -> bool {
    let (pattern, name) = (pattern.as_bytes(), name.as_bytes());
    let (mut at, mut of) = (0, 0);
    // The last `*`, and how much of the name it stands for.
    let mut star: Option<(usize, usize)> = None;
    while at < name.len() {
        match pattern.get(of) {
            Some(b'*') => {
                star = Some((of, at));
                of += 1;
            }
            Some(byte) if *byte == name[at] => {
                of += 1;
                at += 1;
            }
            _ => {
                let Some((before, taken)) = star else { return false };
                star = Some((before, taken + 1));
                (of, at) = (before + 1, taken + 1);
            }
        }
    }
    pattern[of..].iter().all(|byte| *byte == b'*')
}

impl FromStr for OutputPattern {
    type Err = FilePathError;

    fn from_str(text: &str) -> Result<Self, FilePathError> {
        text.parse().map(OutputPattern)
    }
}

impl fmt::Display for OutputPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Serialize for OutputPattern {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for OutputPattern {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        FilePath::deserialize(deserializer).map(OutputPattern)
    }
}

/// The outputs of an attempt that has ended, as far as they are kept.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct TaskOutputs {
    /// Of which attempt they are.
    #[serde(default)]
    pub attempt: u32,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<TaskOutput>,
    /// The files that were to be kept and are not, and why; at most 100.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub left_out: Vec<LeftOut>,
    /// How many more are not kept.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub more_left_out: u64,
}

impl TaskOutputs {
    pub fn leave_out(&mut self, path: impl Into<String>, reason: impl Into<String>) {
        match self.left_out.len() < MAX_LEFT_OUT {
            true => self.left_out.push(LeftOut { path: path.into(), reason: reason.into() }),
            false => self.more_left_out += 1,
        }
    }
}

/// An output that is kept.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct TaskOutput {
    /// Its place in the task's folder.
    #[schema(value_type = FilePath)]
    pub path: String,
    /// The file, as the task's user names it.
    #[schema(value_type = FilePath)]
    pub file: String,
    /// In bytes.
    pub size: u64,
    pub sha256: Sha256,
}

/// An output that is not kept.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct LeftOut {
    /// A path in the task's folder, or the pattern that means nothing there.
    pub path: String,
    pub reason: String,
}

/// The attempt for whose files an agent asks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct TaskFilesRequest {
    pub attempt: u32,
}

/// The way to the files of an attempt, for the agent of its node.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct TaskFiles {
    /// The file service; none: at the address of the task service.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server: Option<String>,
    /// For each input a grant to read it, in their order.
    pub inputs: Vec<String>,
    /// To write into the folder of the outputs, if there are to be any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outputs: Option<String>,
    /// That folder, as the task's user names it.
    pub folder: FilePath,
    /// For how long the grants are good.
    pub valid_ms: u64,
}

/// Without the grants.
impl fmt::Debug for TaskFiles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TaskFiles({:?}, {})", self.server, self.folder)
    }
}

/// The files that a node is to be granted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct FileGrantRequest {
    /// Nobody else can use the grants.
    #[schema(value_type = String)]
    pub node: NodeName,
    /// The user in whose folder all paths begin; none: in that of the service.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub user: Option<UserName>,
    /// Files to be read, also those that others share with the user.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub read: Vec<ReadPath>,
    /// A folder in which files may be put.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub write: Option<FilePath>,
}

/// Grants of the file service, each to be shown in the header `Estimand-File-Grant`.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct FileGrants {
    /// In the order in which they were asked for.
    pub read: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub write: Option<String>,
    /// For how long they are good.
    pub valid_ms: u64,
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_means_names_and_folders() {
        let check = |pattern: &str, path: &str, expected| {
            let names: Vec<&str> = path.split('/').collect();
            let pattern: OutputPattern = pattern.parse().unwrap();
            assert_eq!(pattern.matches(&names), expected, "{pattern} {path}");
        };
        use PatternMatch::{Above, None, Whole};
        check("model.bin", "model.bin", Whole);
        check("model.bin", "model.bim", None);
        check("logs/*", "logs", Above);
        check("logs/*", "logs/a", Whole);
        check("logs/*", "logs/a/b", Whole);
        check("logs/*", "log/a", None);
        check("logs", "logs/deep/er", Whole);
        check("*/part-*.csv", "a", Above);
        check("*/part-*.csv", "a/part-1.csv", Whole);
        check("*/part-*.csv", "a/part-1.csv.gz", None);
        check("a*b*c", "a-b-bc", Whole);
        check("a*b*c", "abcd", None);
        check("*", "x", Whole);
        for wrong in ["/etc/passwd", "../x", "a/../b", "", "a//b"] {
            assert!(wrong.parse::<OutputPattern>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_hostile_pattern_takes_no_long_time() {
        let pattern: OutputPattern = "*a".repeat(127).parse().unwrap();
        let name = "a".repeat(126) + "b";
        for _ in 0..1_000 {
            assert_eq!(pattern.matches(&[&name]), PatternMatch::None);
        }
    }

    #[test]
    fn what_is_left_out_is_named_up_to_a_bound() {
        let mut outputs = TaskOutputs::default();
        for n in 0..MAX_LEFT_OUT + 7 {
            outputs.leave_out(n.to_string(), "x");
        }
        assert_eq!((outputs.left_out.len(), outputs.more_left_out), (MAX_LEFT_OUT, 7));
    }
}

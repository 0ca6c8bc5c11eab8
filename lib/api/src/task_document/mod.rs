//! The document of a task, as it is submitted. A document that exists is right: each field is checked, and everything that
//! is wrong is said at once.
//!
//! The names of the paper's Table 1 (`id`, `priority`, `status`, `image`, `directory`, `volume`, `command`,
//! `environment`) are accepted as they stand there; everything else is optional.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde_json::{Map, Value, json};

use crate::command::Command;
use crate::declaration;
use crate::duration::Span;
use crate::fields::{Fields, MAX_ID_BYTES};
use crate::file::FilePath;
use crate::file_share::ReadPath;
use crate::json::parse_object;
use crate::labels::LabelMap;
use crate::names::UserName;
use crate::problem::{FieldError, Problem};
use crate::resources::ResourceAmount;
use crate::selector::Selector;
use crate::task_files::OutputPattern;
use crate::task_state::TaskState;

mod fields;
mod rules;
mod values;

pub use fields::FIELDS;
pub use rules::{After, On, OnLoss, Policy, Retries};

/// The largest document.
pub const MAX_DOCUMENT_BYTES: usize = 256 * 1024;

/// About what a text takes beside its bytes.
const TEXT_BYTES: u64 = 48;

/// A folder of the node, and where the task finds it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Volume {
    pub source: String,
    pub target: String,
    pub read_only: bool,
}

/// A file that lies in the task's folder when it starts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Input {
    /// The file, as the task's user names it.
    pub file: ReadPath,
    /// Its place in the task's folder.
    pub place: FilePath,
}

/// The work of a task, and the rules by which it is placed, run again and kept.
#[derive(Clone, PartialEq, Default)]
pub struct TaskDocument {
    pub id: Option<String>,
    pub priority: i32,
    /// As a reader got it; a submitted task has no state of its own.
    pub status: Option<TaskState>,
    /// The container's image; none for a process.
    pub image: Option<String>,
    /// None: what the image runs by itself.
    pub command: Option<Command>,
    pub directory: Option<String>,
    pub volumes: Vec<Volume>,
    pub environment: BTreeMap<String, String>,
    /// The variables whose values are shown to nobody.
    pub secrets: BTreeSet<String>,
    /// `cpu` in thousandths of a processor, `memory` in bytes; nothing of which it needs none.
    pub resources: BTreeMap<String, u64>,
    pub nodes: Selector,
    pub policy: Policy,
    pub timeout: Option<Span>,
    /// From SIGUSR1, by which it is asked to save its work, until it is killed; none: as every task has it.
    pub checkpoint_grace: Option<Span>,
    pub retries: Retries,
    pub on_loss: OnLoss,
    /// How long it goes on without its node's being heard of; none: as long as the service has it.
    pub lease: Option<Span>,
    pub labels: LabelMap,
    pub user: Option<String>,
    /// How many tasks it is, in an array; none: one task alone.
    pub count: Option<u32>,
    pub after: Vec<After>,
    /// The promise on whose capacity it runs.
    pub promise: Option<String>,
    /// Files of its user that lie in its folder when it starts.
    pub inputs: Vec<Input>,
    /// Files in its folder that are kept when it has ended.
    pub outputs: Vec<OutputPattern>,
    /// The port at which it listens, and through which its user reaches it; 0: one that its agent chooses.
    pub port: Option<u16>,
}

crate::described!(TaskDocument, [Command, ResourceAmount, Selector, Span], described());

/// The rules over several fields, and that an amount is within its bounds, only the parser checks.
fn described() -> Value {
    json!({
        "type": "object",
        "properties": declaration::properties(FIELDS),
        "additionalProperties": false,
        "anyOf": [
            { "required": ["command"], "properties": { "command": { "not": { "type": "null" } } } },
            { "required": ["image"], "properties": { "image": { "not": { "type": "null" } } } },
        ],
        "examples": [
            { "command": ["/bin/sh", "-c", "echo hello"], "resources": { "cpu": 0.5, "memory": "64MiB" } },
            { "id": "sweep", "count": 100, "command": ["/bin/sh", "-c", "echo $ESTIMAND_TASK_INDEX"] },
            { "command": "/opt/summary", "after": ["sweep"] },
            { "image": "python:3.12", "command": "python train.py", "retries": 2, "labels": { "study": "mnist" } },
            { "command": "/opt/train", "inputs": ["data/train.csv"], "outputs": ["model.bin", "logs/*"] },
            { "image": "jupyter/base-notebook", "port": 8888 },
        ],
    })
}

impl TaskDocument {
    /// Reads a body, checks all of it, and says all that is wrong.
    pub fn parse(body: &[u8]) -> Result<TaskDocument, Problem> {
        Self::from_map(parse_object(body)?)
    }

    /// Reads an object that is parsed already.
    pub fn from_map(map: Map<String, Value>) -> Result<TaskDocument, Problem> {
        let (document, errors) = TaskDocument::read("", map);
        if errors.is_empty() { Ok(document) } else { Err(Problem::invalid(errors)) }
    }

    /// The document that stands at `prefix`, which ends with a dot or is empty, and all that is wrong with it.
    pub fn read(prefix: &str, map: Map<String, Value>) -> (TaskDocument, Vec<FieldError>) {
        let mut fields = Fields::new(map);
        let mut document = TaskDocument::default();
        declaration::read(FIELDS, &mut fields, &mut document);
        if fields.value("image").is_none() && fields.value("command").is_none() {
            fields.error("command", "or `image` is missing: a task has a command, an image, or both");
        }
        if fields.value("volume").is_some() && fields.value("volumes").is_some() {
            fields.error("volume", "is the same as `volumes`, which is there, too: give one of them");
        }
        if document.promise.is_some() && !document.nodes.is_empty() {
            fields.error("nodes", "is given beside `promise`, which has its nodes already: leave one out");
        }
        if document.lease.is_some() && document.on_loss == OnLoss::Wait {
            fields
                .error("lease", "is given beside `onLoss: wait`, with which a task has none: leave one out");
        }
        for name in &document.secrets {
            if !document.environment.contains_key(name) {
                let message = format!("names `{name}`, which `environment` does not have");
                fields.error("secrets", message);
            }
        }
        if let Some(user) = document.user.as_deref().filter(|_| document.has_files())
            && !UserName::is_valid(user)
        {
            let message = format!("is no name of a user who has files: {}", UserName::EXPECTED);
            fields.error("user", message);
        }
        document.check_names(&mut fields);
        let mut errors = fields.end();
        for error in &mut errors {
            error.field.insert_str(0, prefix);
        }
        (document, errors)
    }

    pub fn has_files(&self) -> bool {
        !self.inputs.is_empty() || !self.outputs.is_empty()
    }

    /// About how many bytes of memory it takes, beside a part that is the same for all.
    pub fn weight(&self) -> u64 {
        let argv = match &self.command {
            Some(Command::Line(line)) => std::slice::from_ref(line),
            Some(Command::Argv(words)) => words,
            None => &[],
        };
        let volumes = self.volumes.iter().flat_map(|volume| [&volume.source, &volume.target]);
        let inputs = self.inputs.iter().flat_map(|input| [input.file.path().as_str(), input.place.as_str()]);
        let pairs = self.environment.iter().chain(&self.labels).flat_map(|(name, value)| [name, value]);
        let texts = argv.iter().chain(volumes).chain(pairs).chain(&self.secrets).map(String::as_str);
        let texts = texts.chain(inputs).chain(self.outputs.iter().map(OutputPattern::as_str));
        let texts = texts.chain(self.after.iter().map(|after| after.id.as_str()));
        texts.map(|text| TEXT_BYTES + text.len() as u64).sum()
    }

    /// The names of an array's tasks are ids, too, and nothing comes after itself.
    fn check_names(&self, fields: &mut Fields) {
        let Some(id) = &self.id else { return };
        if self.after.iter().any(|after| after.id == *id) {
            fields.error("after", format!("names `{id}`: no task comes after itself"));
        }
        if let Some(last) = self.count.and_then(|count| count.checked_sub(1)) {
            let longest = array_member(id, last);
            if longest.len() > MAX_ID_BYTES {
                let message = format!("is too long for an array, whose last task would be `{longest}`");
                fields.error("id", message);
            }
        }
    }

    /// The document as JSON, secrets included; what says nothing is left out.
    pub fn to_map(&self) -> Map<String, Value> {
        declaration::write(FIELDS, self)
    }

    /// The document without the values of its secrets, for readers.
    #[must_use]
    pub fn redacted(&self) -> TaskDocument {
        let mut shown = self.clone();
        for name in &self.secrets {
            shown.environment.insert(name.clone(), String::new());
        }
        shown
    }
}

/// The id of a task of an array.
pub fn array_member(id: &str, index: u32) -> String {
    format!("{id}.{index}")
}

/// Without secrets, since this ends up in logs.
impl fmt::Debug for TaskDocument {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TaskDocument({})", Value::Object(self.redacted().to_map()))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod rendered;
#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests;

//! Turns an answer into writes for the data service.

use estimand_api::instant::to_rfc3339;
use estimand_api::names::NodeName;
use estimand_api::registration::RegistrationRecord;
use estimand_api::write::{Content, Order, Write};
use serde_json::{Value, json};

use super::plan::valid_for_us;
use estimand_dialects::Answer;

/// The most of a note that each value carries.
const MAX_NOTE_CHARS: usize = 512;

/// One run, as far as its values tell of it.
pub struct Origin<'a> {
    pub registered: &'a RegistrationRecord,
    pub node: &'a NodeName,
    pub order: Order,
    /// The number of the run since the agent's start.
    pub run: u64,
    /// Microseconds since 1970.
    pub started_at: i64,
    pub ended_at: i64,
    /// Absent for a stream, whose process goes on.
    pub exit: Option<&'a str>,
    /// A remark on it, which readers of its values should see.
    pub note: Option<&'a str>,
}

/// The writes of an answer; none if it says nothing.
pub fn values(origin: &Origin<'_>, answer: Answer) -> Vec<Write> {
    let inputs = &origin.registered.registration.inputs;
    let read = if inputs.is_empty() { Value::Null } else { json!(inputs) };
    computed(origin, answer, &read)
}

/// The writes of an answer of which is known what it was computed from.
pub fn computed(origin: &Origin<'_>, answer: Answer, read: &Value) -> Vec<Write> {
    let provenance: Box<str> = provenance(origin, read).into();
    let write = |node_name: NodeName, text: Box<str>| Write {
        data_name: origin.registered.registration.data_name.clone(),
        node_name,
        content: Content::Value {
            text,
            valid_for: Some(valid_for_us(&origin.registered.registration, origin.ended_at)),
            provenance: Some(provenance.clone()),
        },
        collected_at: Some(origin.ended_at),
        order: Some(origin.order),
    };
    match answer {
        Answer::Nothing => Vec::new(),
        Answer::One(text) => vec![write(origin.node.clone(), text)],
        Answer::PerNode(answers) => answers.into_iter().map(|(node, text)| write(node, text)).collect(),
    }
}

/// The report that there is no new value for these nodes.
pub fn failed<'n>(origin: &Origin<'_>, nodes: impl IntoIterator<Item = &'n NodeName>) -> Vec<Write> {
    let write = |node: &NodeName| Write {
        data_name: origin.registered.registration.data_name.clone(),
        node_name: node.clone(),
        content: Content::Failed,
        collected_at: None,
        order: Some(origin.order),
    };
    nodes.into_iter().map(write).collect()
}

fn provenance(origin: &Origin<'_>, read: &Value) -> String {
    let registration = &origin.registered.registration;
    let mut map = json!({
        "dataName": registration.data_name,
        "version": origin.registered.version,
        "node": origin.node,
        "run": origin.run,
        "startedAt": to_rfc3339(origin.started_at),
        "durationMs": (origin.ended_at - origin.started_at).max(0) as f64 / 1e3,
    });
    if let Some(exit) = origin.exit {
        map["exit"] = json!(exit);
    }
    if let Some(note) = origin.note {
        map["note"] = json!(note.chars().take(MAX_NOTE_CHARS).collect::<String>());
    }
    if !read.is_null() {
        map["inputs"] = read.clone();
    }
    map.to_string()
}

//! The fields of a task's document, each declared once.

use serde_json::{Value, json};

use super::values::*;
use super::{OnLoss, Policy, TaskDocument, Volume};
use crate::command::Command;
use crate::declaration::{Field, Flag, Input};
use crate::duration::Span;
use crate::fields;
use crate::labels::{MAX_LABELS, read_labels};
use crate::option_text::*;
use crate::resources::{self, ResourceAmount};
use crate::schema::{of, optional};
use crate::selector::Selector;
use crate::task::LEASE_EXPECTED;
use crate::task_files::MAX_TASK_FILES;
use crate::task_stop::CHECKPOINT_GRACE_EXPECTED;

const WORK: &str = "Its work";
const WHERE: &str = "Its place";
const WHEN: &str = "Its time";

const VOLUMES: &str = "SOURCE:TARGET or SOURCE:TARGET:ro, or an array of them";

/// All fields, in the order in which they are rendered and documented.
pub const FIELDS: &[Field<TaskDocument>] = &[
    Field {
        name: "id",
        expected: "1 to 64 of letters, digits and `._-`, a letter or digit first",
        description: "Its name; by default one is made",
        schema: || json!({ "type": ["string", "null"], "pattern": "^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$" }),
        read: |it, document| document.id = it.optional(id),
        write: |document| document.id.as_ref().map(|id| json!(id)),
        flags: &[Flag::new("id", "ID", WORK, TEXT)],
        ..Field::PLAIN
    },
    Field {
        name: "priority",
        expected: "a whole number from -1000000 to 1000000",
        description: "More goes first; a minute of waiting is worth 1",
        schema: || json!({ "type": ["integer", "null"], "minimum": -MAX_PRIORITY, "maximum": MAX_PRIORITY }),
        read: |it, document| document.priority = it.optional(priority).unwrap_or(0),
        write: |document| (document.priority != 0).then(|| json!(document.priority)),
        flags: &[Flag::new("priority", "N", WHEN, NUMBER)],
        ..Field::PLAIN
    },
    Field {
        name: "status",
        expected: "a state, such as ACCEPTED",
        description: "Its state, as it was read; a submitted task begins as QUEUED whatever stands here",
        schema: || json!({ "type": ["string", "null"] }),
        read: |it, document| document.status = it.word(),
        write: |document| document.status.map(|state| json!(state)),
        ..Field::PLAIN
    },
    Field {
        name: "image",
        expected: "the name of an image, such as \"python:3.12\"",
        description: "The image of its container; without, it is a process",
        schema: || json!({ "type": ["string", "null"], "minLength": 1, "maxLength": MAX_TEXT_BYTES }),
        read: |it, document| document.image = it.optional(image),
        write: |document| document.image.as_ref().map(|image| json!(image)),
        flags: &[Flag::new("image", "IMAGE", WORK, TEXT)],
        ..Field::PLAIN
    },
    Field {
        name: "command",
        expected: "a command line, or an array of its words",
        description: "What is run; with an image, by default what that runs by itself. A line is split like a shell splits \
                      words; no shell is started",
        schema: || json!({ "oneOf": [of::<Command>(""), { "type": "null" }] }),
        read: |it, document| {
            document.command = it.optional(|value| Command::from_json(value).map_err(|e| e.to_string()));
        },
        write: |document| document.command.as_ref().map(|command| json!(command)),
        ..Field::PLAIN
    },
    Field {
        name: "directory",
        expected: "an absolute path",
        description: "The folder in which it is started; by default one of its own, which goes with it",
        schema: || json!({ "type": ["string", "null"], "pattern": "^/", "maxLength": MAX_TEXT_BYTES }),
        read: |it, document| document.directory = it.optional(directory),
        write: |document| document.directory.as_ref().map(|directory| json!(directory)),
        flags: &[Flag::new("directory", "DIR", WORK, TEXT)],
        ..Field::PLAIN
    },
    Field {
        name: "volumes",
        expected: VOLUMES,
        description: "Folders of the node that it finds at another place; `volume` is the same",
        schema: || json!({ "type": ["array", "string", "null"], "items": { "type": "string" } }),
        read: |it, document| set_volumes(it.optional(volumes), document),
        write: |document| volumes_to_json(&document.volumes),
        flags: &[Flag::new("volume", "VOLUME", WORK, Input::Repeated(|text| Ok(json!(text))))
            .note("SOURCE:TARGET or SOURCE:TARGET:ro; may be repeated")],
        ..Field::PLAIN
    },
    Field {
        name: "volume",
        expected: VOLUMES,
        description: "The paper's name of `volumes`",
        schema: || json!({ "type": ["array", "string", "null"], "items": { "type": "string" } }),
        read: |it, document| set_volumes(it.optional(volumes), document),
        write: |_| None,
        ..Field::PLAIN
    },
    Field {
        name: "environment",
        expected: "an object of name to text, or NAME=VALUE as an array or as lines",
        description: "Variables of its environment",
        schema: || json!({ "type": ["object", "array", "string", "null"] }),
        read: |it, document| document.environment = it.part(environment).unwrap_or_default(),
        write: |document| (!document.environment.is_empty()).then(|| json!(document.environment)),
        flags: &[Flag::new("env", "KEY=VALUE", WORK, Input::Pairs(pair_of_text)).note("may be repeated")],
        ..Field::PLAIN
    },
    Field {
        name: "secrets",
        expected: "an array of names of variables in `environment`",
        description: "The variables whose values are shown to nobody",
        schema: || json!({ "type": ["array", "null"], "items": { "type": "string" } }),
        read: |it, document| document.secrets = it.optional(names).unwrap_or_default(),
        write: |document| (!document.secrets.is_empty()).then(|| json!(document.secrets)),
        ..Field::PLAIN
    },
    Field {
        name: "resources",
        expected: "an object of cpu, memory, gpu or any countable label",
        description: "What it needs of its node, which nobody else gets meanwhile: `cpu` in processors, `memory` in bytes or as `\"4GiB\"`, `gpu` and any other label of nodes that is a number, but for `node`",
        schema: || json!({ "type": ["object", "null"], "additionalProperties": of::<ResourceAmount>("") }),
        read: |it, document| document.resources = it.part(some_resources).unwrap_or_default(),
        write: |document| {
            let amounts = || document.resources.iter().map(|(name, amount)| (name.as_str(), *amount));
            (!document.resources.is_empty()).then(|| resources::to_json(amounts()))
        },
        flags: &[
            Flag::new("cpu", "N", WHERE, NUMBER)
                .member("cpu")
                .meaning("The processors that it needs, such as 2 or 0.5"),
            Flag::new("memory", "SIZE", WHERE, Input::Text(|text| Ok(scalar(text))))
                .member("memory")
                .meaning("The memory that it needs, in bytes or such as 256MiB"),
            Flag::new("gpu", "N", WHERE, NUMBER).member("gpu").meaning("How many GPUs it needs"),
            Flag::new("resource", "NAME=N", WHERE, Input::Pairs(pair_of_scalar)).meaning(
                "How much it needs of anything else that nodes have as a countable label; may be repeated",
            ),
        ],
        ..Field::PLAIN
    },
    Field {
        name: "nodes",
        expected: "a label selector such as \"zone=a,gpu\" or \"node=n1\"",
        description: "The nodes on which it may run, by their labels; by default all. Each node has the label `node` with its name. For a task with secrets or inputs a label that a node only claims does not count",
        schema: || optional::<Selector>(""),
        read: |it, document| document.nodes = it.optional(fields::parsed).unwrap_or_default(),
        write: |document| (!document.nodes.is_empty()).then(|| json!(document.nodes)),
        flags: &[
            Flag::new("nodes", "SELECTOR", WHERE, Input::Text(text_of::<Selector>)).note("e.g. 'zone=a,gpu'")
        ],
        ..Field::PLAIN
    },
    Field {
        name: "policy",
        expected: "queue, random, least-pressure, estimated, two-choices, pack or spread",
        description: "How its node is chosen; by default `estimated`",
        schema: || words_or_null(policies()),
        read: |it, document| document.policy = it.word().unwrap_or_default(),
        write: |document| (document.policy != Policy::default()).then(|| json!(document.policy)),
        flags: &[Flag::new("policy", "POLICY", WHERE, Input::Word(policies))],
        ..Field::PLAIN
    },
    Field {
        name: "timeout",
        expected: "a duration such as \"2h\", or seconds",
        description: "The time after which a run of it is ended; by default never",
        schema: || optional::<Span>(""),
        read: |it, document| {
            let micros = it.optional(|value| millis(value).map(|millis| millis.saturating_mul(1000)));
            document.timeout = micros.and_then(|micros| Span::from_micros(micros).ok());
        },
        write: |document| document.timeout.map(|timeout| json!(timeout)),
        flags: &[Flag::new("timeout", "SPAN", WHEN, SPAN)],
        ..Field::PLAIN
    },
    Field {
        name: "checkpointGrace",
        expected: CHECKPOINT_GRACE_EXPECTED,
        description: "How long it has from SIGUSR1, by which it is asked to save its work, until it is killed; by default 20 s. To make room \
                      for a promise it has 20 s at most. With it, the end of its own promise begins with SIGUSR1, too",
        schema: || optional::<Span>(""),
        read: |it, document| document.checkpoint_grace = it.optional(checkpoint_grace),
        write: |document| document.checkpoint_grace.map(|grace| json!(grace)),
        flags: &[Flag::new("checkpoint-grace", "SPAN", WHEN, SPAN)],
        ..Field::PLAIN
    },
    Field {
        name: "retries",
        expected: RETRIES_EXPECTED,
        description: "How often it is run again after a failure, with twice the pause each time; by default never",
        schema: || json!({ "type": ["integer", "object", "null"] }),
        read: |it, document| document.retries = it.part(retries).unwrap_or_default(),
        write: |document| retries_to_json(&document.retries),
        flags: &[Flag::new("retries", "N", WHEN, NUMBER)],
        ..Field::PLAIN
    },
    Field {
        name: "onLoss",
        expected: "restart, fail or wait",
        description: "What becomes of it when its node is lost; by default it is restarted on another one",
        schema: || words_or_null(losses()),
        read: |it, document| document.on_loss = it.word().unwrap_or_default(),
        write: |document| (document.on_loss != OnLoss::default()).then(|| json!(document.on_loss)),
        flags: &[Flag::new("on-loss", "WORD", WHEN, Input::Word(losses))],
        ..Field::PLAIN
    },
    Field {
        name: "lease",
        expected: LEASE_EXPECTED,
        description: "How long it goes on while its node is not heard of, before it is taken for lost; by default as long as the \
                      service has it, which is 10 minutes if its operator says nothing else",
        schema: || optional::<Span>(""),
        read: |it, document| document.lease = it.optional(lease),
        write: |document| document.lease.map(|lease| json!(lease)),
        flags: &[Flag::new("lease", "SPAN", WHEN, SPAN)],
        ..Field::PLAIN
    },
    Field {
        name: "labels",
        expected: "labels, such as {\"study\": \"mnist\"}",
        description: "Labels of its own, to find it by",
        schema: || json!({ "type": ["object", "null"], "maxProperties": MAX_LABELS, "additionalProperties": { "type": "string" } }),
        read: |it, document| {
            document.labels = it.part(|value| read_labels("labels", value, MAX_LABELS)).unwrap_or_default();
        },
        write: |document| (!document.labels.is_empty()).then(|| json!(document.labels)),
        flags: &[Flag::new("label", "KEY=VALUE", WORK, Input::Pairs(pair_of_text)).note("may be repeated")],
        ..Field::PLAIN
    },
    Field {
        name: "user",
        expected: "a text of 1 to 256 bytes",
        description: "Whose task it is",
        schema: || json!({ "type": ["string", "null"], "minLength": 1, "maxLength": MAX_TEXT_BYTES }),
        read: |it, document| document.user = it.optional(text),
        write: |document| document.user.as_ref().map(|user| json!(user)),
        flags: &[Flag::new("user", "NAME", WORK, TEXT)],
        ..Field::PLAIN
    },
    Field {
        name: "count",
        expected: COUNT_EXPECTED,
        description: "Makes an array of so many tasks, `ID.0` and so on, each with its `ESTIMAND_TASK_INDEX`",
        schema: || json!({ "type": ["integer", "null"], "minimum": 1, "maximum": MAX_COUNT }),
        read: |it, document| document.count = it.optional(count),
        write: |document| document.count.map(|count| json!(count)),
        flags: &[Flag::new("count", "N", WORK, NUMBER)],
        ..Field::PLAIN
    },
    Field {
        name: "after",
        expected: AFTER_EXPECTED,
        description: "The tasks or arrays after whose success, or end, it is run",
        schema: || {
            json!({ "type": ["array", "string", "null"], "maxItems": MAX_AFTER, "items": { "oneOf": [
            { "type": "string" },
            { "type": "object", "required": ["id"], "additionalProperties": false,
              "properties": { "id": { "type": "string" }, "on": { "enum": ["success", "end", null] } } },
        ] } })
        },
        read: |it, document| document.after = it.part(after).unwrap_or_default(),
        write: |document| after_to_json(&document.after),
        flags: &[
            Flag::new("after", "ID", WHEN, Input::Repeated(|id| Ok(json!(id)))).meaning(
                "Run it after the success of this task, or of all tasks of this array; may be repeated",
            ),
            Flag::new("after-end", "ID", WHEN, Input::Repeated(|id| Ok(json!({ "id": id, "on": "end" }))))
                .meaning("Run it after the end of this task or array, however that ends; may be repeated"),
        ],
        ..Field::PLAIN
    },
    Field {
        name: "promise",
        expected: "the id of a promise",
        description: "The promise on whose capacity it runs, in whose time; what it does not ask for is what a unit of that has",
        schema: || json!({ "type": ["string", "null"], "pattern": "^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$" }),
        read: |it, document| document.promise = it.optional(id),
        write: |document| document.promise.as_ref().map(|promise| json!(promise)),
        flags: &[Flag::new("promise", "ID", WHERE, TEXT)],
        ..Field::PLAIN
    },
    Field {
        name: "inputs",
        expected: INPUTS_EXPECTED,
        description: "Files of its user that lie in its folder when it starts, under their own path or another one",
        schema: || {
            json!({ "type": ["array", "string", "null"], "maxItems": MAX_TASK_FILES, "items": { "oneOf": [
            { "type": "string" },
            { "type": "object", "required": ["file"], "additionalProperties": false,
              "properties": { "file": { "type": "string" }, "as": { "type": ["string", "null"] } } },
        ] } })
        },
        read: |it, document| document.inputs = it.part(inputs).unwrap_or_default(),
        write: |document| inputs_to_json(&document.inputs),
        flags: &[Flag::new("input", "FILE[:AS]", WORK, Input::Repeated(input_text)).note("may be repeated")],
        ..Field::PLAIN
    },
    Field {
        name: "outputs",
        expected: OUTPUTS_EXPECTED,
        description: "Files and folders in its folder that are kept when it has ended, in `tasks/ID` of its user's files; `*` \
                      stands for any text in a name",
        schema: || json!({ "type": ["array", "string", "null"], "maxItems": MAX_TASK_FILES, "items": { "type": "string" } }),
        read: |it, document| document.outputs = it.optional(outputs).unwrap_or_default(),
        write: |document| (!document.outputs.is_empty()).then(|| json!(document.outputs)),
        flags: &[Flag::new("output", "PATH", WORK, Input::Repeated(|path| Ok(json!(path))))
            .note("may be repeated")],
        ..Field::PLAIN
    },
    Field {
        name: "port",
        expected: PORT_EXPECTED,
        description: "The TCP port at which it listens, which its user reaches through this service; with 0 its agent chooses one. \
                      `ESTIMAND_TASK_PORT` in its environment has it",
        schema: || json!({ "type": ["integer", "null"], "minimum": 0, "maximum": u16::MAX }),
        read: |it, document| document.port = it.optional(port),
        write: |document| document.port.map(|port| json!(port)),
        flags: &[Flag::new("port", "PORT", WORK, NUMBER)],
        ..Field::PLAIN
    },
];

fn set_volumes(given: Option<Vec<Volume>>, document: &mut TaskDocument) {
    if let Some(volumes) = given {
        document.volumes = volumes;
    }
}

fn policies() -> Vec<String> {
    Policy::ALL.map(|policy| policy.as_str().to_owned()).to_vec()
}

fn losses() -> Vec<String> {
    OnLoss::ALL.map(|fate| fate.as_str().to_owned()).to_vec()
}

fn words_or_null(words: Vec<String>) -> Value {
    json!({ "enum": words.into_iter().map(Value::from).chain([Value::Null]).collect::<Vec<_>>() })
}

/// An input as an option has it. A path that has a `:` itself is given in a file.
fn input_text(text: &str) -> Result<Value, String> {
    Ok(match text.split_once(':') {
        Some((file, place)) => json!({ "file": file, "as": place }),
        None => json!(text),
    })
}

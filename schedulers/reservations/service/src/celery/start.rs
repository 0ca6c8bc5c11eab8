//! The part of a document about the task that Celery runs.

use std::sync::Arc;

use estimand_api::fields::{self, Fields};
use estimand_api::json::kind_of;
use estimand_api::problem::FieldError;
use serde_json::{Map, Value, json};

/// The queue that Celery's workers read unless they are told another.
const QUEUE: &str = "celery";
/// The longest name that a message of AMQP can carry.
const MAX_NAME_BYTES: usize = 255;

#[derive(Debug, Clone, PartialEq)]
pub struct CeleryStart {
    /// The name of the task in the application.
    pub task: String,
    pub args: Vec<Value>,
    pub kwargs: Map<String, Value>,
    pub queue: String,
}

pub fn schema() -> Value {
    let name = json!({ "type": "string", "minLength": 1, "maxLength": MAX_NAME_BYTES });
    json!({
        "type": ["object", "null"],
        "required": ["task"],
        "properties": {
            "task": name,
            "args": { "type": ["array", "null"], "items": {} },
            "kwargs": { "type": ["object", "null"] },
            "queue": { "type": ["string", "null"], "minLength": 1, "maxLength": MAX_NAME_BYTES },
        },
        "additionalProperties": false,
    })
}

/// Reads it, and says all that is wrong.
pub fn read(value: &Value) -> Result<Arc<CeleryStart>, Vec<FieldError>> {
    let Value::Object(map) = value else {
        return Err(vec![FieldError::new("celery", format!("is {}, not an object", kind_of(value)))]);
    };
    let mut fields = Fields::nested("celery", map.clone());
    let task = fields.required("task", "the name of a task of the application, such as app.train", name);
    let args = fields.optional("args", "an array", |value| match value {
        Value::Array(args) => Ok(args.clone()),
        other => Err(format!("is {}, not an array", kind_of(other))),
    });
    let kwargs = fields.optional("kwargs", "an object", |value| match value {
        Value::Object(kwargs) => Ok(kwargs.clone()),
        other => Err(format!("is {}, not an object", kind_of(other))),
    });
    let queue = fields.optional("queue", "the name of a queue that workers read", name);
    let start = CeleryStart {
        task: task.unwrap_or_default(),
        args: args.unwrap_or_default(),
        kwargs: kwargs.unwrap_or_default(),
        queue: queue.unwrap_or_else(|| QUEUE.to_owned()),
    };
    match fields.end() {
        errors if errors.is_empty() => Ok(Arc::new(start)),
        errors => Err(errors),
    }
}

fn name(value: &Value) -> Result<String, String> {
    match fields::string(value)? {
        text if text.trim().is_empty() => Err("is empty".to_owned()),
        text if text.len() > MAX_NAME_BYTES => Err(format!("has more than {MAX_NAME_BYTES} bytes")),
        text if text.contains('\0') => Err("has a NUL".to_owned()),
        text => Ok(text.to_owned()),
    }
}

pub fn write(start: &Arc<CeleryStart>) -> Value {
    json!({ "task": start.task, "args": start.args, "kwargs": start.kwargs, "queue": start.queue })
}

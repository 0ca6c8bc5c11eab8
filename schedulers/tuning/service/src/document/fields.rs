//! The fields of a study's document, each declared once.

use std::time::Duration;

use estimand_api::declaration::Field;
use estimand_api::duration::Span;
use estimand_api::fields::{self, Fields};
use estimand_api::json::kind_of;
use estimand_api::names::MAX_USER_NAME;
use estimand_api::problem::FieldError;
use estimand_api::schema::optional;
use estimand_api::task_document::TaskDocument;
use estimand_api::task_progress::MAX_PROGRESS_NAME_BYTES;
use estimand_tuning::Direction;
use estimand_tuning::space::{Parameters, parse as parse_space};
use serde_json::{Value, json};

use super::rules::{self, finite};
use super::{Draft, StopRules, StudyTask};

/// A question waits so long for a proposal that knows of all results, if nothing is said, and never longer than the other.
pub const PATIENCE: Duration = Duration::from_secs(1);
const LONGEST_PATIENCE: Duration = Duration::from_secs(30);

/// The most known points.
const MAX_ENQUEUED: usize = 1_000;

/// The value of tasks that is the trial's, if nothing is said.
pub const OBJECTIVE: &str = "value";

/// The most tasks of a study at once.
const MAX_PARALLEL: u64 = 1_000;

/// Numbers in JSON are exact up to there.
const MAX_SEED: u64 = 1 << 53;

/// The most trials of a study.
pub const MAX_TRIALS: u64 = 100_000;

const DIRECTIONS: &[(&str, Direction)] =
    &[("minimize", Direction::Minimize), ("maximize", Direction::Maximize)];

/// The fields, in the order in which they are documented.
pub const FIELDS: &[Field<Draft>] = &[
    Field {
        name: "id",
        expected: "1 to 64 letters, digits, `.`, `_` or `-`, a letter or digit first",
        description: "Its name. The same document with the same id is the same study",
        schema: || json!({ "type": "string", "minLength": 1, "maxLength": 64 }),
        read: |it, draft| draft.id = it.required(fields::id),
        ..Field::PLAIN
    },
    Field {
        name: "direction",
        expected: "minimize or maximize",
        description: "Whether a smaller or a greater value is better",
        schema: || json!({ "type": "string", "enum": ["minimize", "maximize"] }),
        read: |it, draft| draft.direction = it.required(|value| fields::word(value, DIRECTIONS)),
        ..Field::PLAIN
    },
    Field {
        name: "parameters",
        expected: "a list of parameters such as {\"name\": \"lr\", \"type\": \"float\", \"low\": 1e-4, \"high\": 0.1}",
        description: "The space: what a trial may be given",
        schema: || json!({ "type": "array", "minItems": 1, "items": { "type": "object", "required": ["name", "type"] } }),
        read: |it, draft| {
            if it.fields.value(it.name).is_none_or(|value| !value.is_array()) {
                it.required(|value| Err::<(), _>(format!("is {}, not an array", kind_of(value))));
                return;
            }
            draft.space = it.part(|value| {
                let text = json!({ "parameters": value }).to_string();
                parse_space(&text).map(|(space, _)| space).map_err(|problem| problem.errors)
            });
        },
        ..Field::PLAIN
    },
    Field {
        name: "sampler",
        expected: "auto, random, sobol, grid, tpe, gp or cmaes, or an object such as {\"name\": \"grid\", \"levels\": 10}",
        description: "The rule that proposes; by default `auto`, which chooses among them",
        schema: || json!({ "type": ["string", "object", "null"] }),
        read: |it, draft| {
            let place = it.place();
            draft.sampler = it.part(|value| rules::sampler(&place, value));
        },
        ..Field::PLAIN
    },
    Field {
        name: "pruner",
        expected: "median, halving, hyperband or plateau, or an object such as {\"name\": \"median\", \"leastTrials\": 5}",
        description: "The rule that ends trials early by their reports; by default none is",
        schema: || json!({ "type": ["string", "object", "null"] }),
        read: |it, draft| {
            let place = it.place();
            draft.pruner = it.part(|value| rules::pruner(&place, value));
        },
        ..Field::PLAIN
    },
    Field {
        name: "seed",
        expected: "a whole number from 0 to 9007199254740992",
        description: "From which all proposals come; drawn if it is absent",
        schema: || json!({ "type": ["integer", "null"], "minimum": 0, "maximum": MAX_SEED }),
        read: |it, draft| draft.seed = it.optional(|value| fields::whole(value, 0, MAX_SEED)),
        ..Field::PLAIN
    },
    Field {
        name: "enqueued",
        expected: "a list of objects of parameters and their values",
        description: "Known points, which are the first proposals",
        schema: || json!({ "type": ["array", "null"], "maxItems": MAX_ENQUEUED, "items": { "type": "object" } }),
        read: |it, draft| draft.enqueued = it.optional(points).unwrap_or_default(),
        ..Field::PLAIN
    },
    Field {
        name: "stop",
        expected: "an object of `trials`, `target`, `plateau` and `time`",
        description: "When it is over: after so many `trials`, with a result as good as `target`, after `plateau` results \
                      without a new best, or after some `time`",
        schema: || {
            json!({ "type": ["object", "null"], "additionalProperties": false, "properties": {
                "trials": { "type": "integer", "minimum": 1, "maximum": MAX_TRIALS },
                "target": { "type": "number" },
                "plateau": { "type": "integer", "minimum": 1, "maximum": MAX_TRIALS },
                "time": optional::<Span>("") } })
        },
        read: |it, draft| {
            let place = it.place();
            draft.stop = it.part(|value| stop(&place, value)).unwrap_or_default();
        },
        ..Field::PLAIN
    },
    Field {
        name: "silence",
        expected: "a duration such as \"10m\"",
        description: "A running trial fails if nothing is heard of it for so long; by default never",
        schema: || optional::<Span>(""),
        read: |it, draft| draft.silence = it.optional(above_zero),
        ..Field::PLAIN
    },
    Field {
        name: "patience",
        expected: "a duration from 0 to 30 s",
        description: "How long a question waits for a proposal that knows of all results; by default 1 s",
        schema: || optional::<Span>(""),
        read: |it, draft| {
            draft.patience = it.optional(|value| match span(value)? {
                long if long > LONGEST_PATIENCE => Err("is too long".to_owned()),
                fitting => Ok(fitting),
            });
        },
        ..Field::PLAIN
    },
    Field {
        name: "task",
        expected: "the document of a task, as `POST /api/tasks` takes it, without `id`, `count`, `after` and `promise`",
        description: "What runs a trial: `{name}` in its command is the value of a parameter, `ESTIMAND_TASK_PARAMETERS` has all of \
                      them as JSON. It says how far it is in lines `estimand-progress {\"step\": 1, \"values\": {\"value\": 0.5}}`. \
                      A user's trials are their own tasks, within their shares",
        schema: || optional::<TaskDocument>(""),
        read: |it, draft| {
            let place = it.place();
            draft.task = it.part(|value| StudyTask::read(&place, value));
        },
        ..Field::PLAIN
    },
    Field {
        name: "parallel",
        expected: "a whole number from 1 to 1000",
        description: "How many tasks of its trials are there at once; by default 1",
        schema: || json!({ "type": ["integer", "null"], "minimum": 1, "maximum": MAX_PARALLEL }),
        read: |it, draft| draft.parallel = it.optional(|value| fields::whole(value, 1, MAX_PARALLEL)),
        ..Field::PLAIN
    },
    Field {
        name: "objective",
        expected: "the name of a value, 1 to 64 bytes",
        description: "Which of the values that its tasks say is the trial's; the last one is the result; by default `value`",
        schema: || json!({ "type": ["string", "null"], "minLength": 1, "maxLength": MAX_PROGRESS_NAME_BYTES }),
        read: |it, draft| {
            draft.objective = it.optional(|value| match fields::string(value)? {
                name if name.is_empty() || name.len() > MAX_PROGRESS_NAME_BYTES => {
                    Err("is no such name".to_owned())
                }
                name => Ok(name.to_owned()),
            });
        },
        ..Field::PLAIN
    },
    Field {
        name: "user",
        expected: "the name of a user",
        description: "Whose study it is; by default the user who asks, and nobody's if an operator does",
        schema: || json!({ "type": ["string", "null"], "minLength": 1, "maxLength": MAX_USER_NAME }),
        read: |it, draft| {
            draft.user = it.optional(|value| fields::user_name(value).map(|name| name.to_string()));
        },
        ..Field::PLAIN
    },
];

fn span(value: &Value) -> Result<Duration, String> {
    match value {
        Value::Number(_) | Value::String(_) => {
            let span: Span = serde_json::from_value(value.clone()).map_err(|error| error.to_string())?;
            Ok(Duration::from_micros(span.as_micros()))
        }
        other => Err(format!("is {}, not a duration", kind_of(other))),
    }
}

fn above_zero(value: &Value) -> Result<Duration, String> {
    match span(value)? {
        Duration::ZERO => Err("is 0".to_owned()),
        span => Ok(span),
    }
}

fn points(value: &Value) -> Result<Vec<Parameters>, String> {
    let list = value.as_array().ok_or_else(|| format!("is {}, not an array", kind_of(value)))?;
    if list.len() > MAX_ENQUEUED {
        return Err(format!("has {} points, and at most {MAX_ENQUEUED} are kept", list.len()));
    }
    let point = |(place, value): (usize, &Value)| {
        serde_json::from_value(value.clone())
            .map_err(|_| format!("has at place {place} no object of numbers, texts, true and false"))
    };
    list.iter().enumerate().map(point).collect()
}

fn stop(place: &str, value: &Value) -> Result<StopRules, Vec<FieldError>> {
    let Value::Object(map) = value else {
        let error = FieldError::new(place, format!("is {}, not an object", kind_of(value)));
        return Err(vec![error.expected("an object of `trials`, `target`, `plateau` and `time`")]);
    };
    let mut fields = Fields::nested(place, map.clone());
    let count = format!("a whole number from 1 to {MAX_TRIALS}");
    let rules = StopRules {
        trials: fields.optional("trials", &count, |value| fields::whole(value, 1, MAX_TRIALS)),
        target: fields.optional("target", "a number", finite),
        plateau: fields.optional("plateau", &count, |value| fields::whole(value, 1, MAX_TRIALS)),
        time: fields.optional("time", "a duration such as \"2h\"", above_zero),
    };
    match fields.end() {
        errors if errors.is_empty() => Ok(rules),
        errors => Err(errors),
    }
}

//! The document of a study: one that exists is right.

mod fields;
mod rules;
mod task;

use std::time::Duration;

use estimand_api::declaration;
use estimand_api::duration::Span;
use estimand_api::fields::Fields;
use estimand_api::json::parse_object;
use estimand_api::problem::{FieldError, Problem};
use estimand_api::task_document::TaskDocument;
use estimand_tuning::samplers::Sampler;
use estimand_tuning::space::{Parameters, Space};
use estimand_tuning::{Direction, Study};
use estimand_web::Scope;
use serde_json::{Map, Value, json};

pub use rules::{StudyPruner, is_blind};
pub use task::{STUDY_LABEL, StudyTask, trial_of};

use fields::FIELDS;

/// The largest document.
pub const MAX_DOCUMENT_BYTES: usize = 256 * 1024;

/// The bytes of a study beside those of its document.
const FIXED_BYTES: u64 = 4_096;

/// Rules by which a study ends.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct StopRules {
    /// Trials that are proposed at most.
    pub trials: Option<u64>,
    /// A result that is good enough.
    pub target: Option<f64>,
    /// Results without a new best.
    pub plateau: Option<u64>,
    /// The time since it was made.
    pub time: Option<Duration>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Document {
    pub id: String,
    pub user: Option<String>,
    pub direction: Direction,
    pub space: Space,
    pub sampler: Sampler,
    pub pruner: Option<StudyPruner>,
    pub seed: Option<u64>,
    pub enqueued: Vec<Parameters>,
    pub stop: StopRules,
    /// The span in which nothing may be heard of a running trial.
    pub silence: Option<Duration>,
    /// The span that a question waits for a proposal that knows of all results.
    pub patience: Duration,
    /// The task that runs its trials; none: whoever asks runs them.
    pub task: Option<StudyTask>,
    /// The number of its tasks that are there at once.
    pub parallel: u64,
    /// The name of the value that its tasks say, which is the trial's.
    pub objective: String,
    /// The document as it was given, without fields that say nothing.
    pub map: Map<String, Value>,
    /// About as many as it takes in memory and in the store.
    pub bytes: u64,
}

/// A document that is being read.
#[derive(Default)]
struct Draft {
    id: Option<String>,
    user: Option<String>,
    direction: Option<Direction>,
    space: Option<Space>,
    sampler: Option<Sampler>,
    pruner: Option<StudyPruner>,
    seed: Option<u64>,
    enqueued: Vec<Parameters>,
    stop: StopRules,
    silence: Option<Duration>,
    patience: Option<Duration>,
    task: Option<StudyTask>,
    parallel: Option<u64>,
    objective: Option<String>,
}

/// The schema of a [`Document`].
#[derive(Debug)]
pub enum StudyDocument {}

estimand_api::described!(StudyDocument, [Span, TaskDocument], described());

fn described() -> Value {
    json!({
        "type": "object",
        "required": ["id", "direction", "parameters"],
        "properties": declaration::properties(FIELDS),
        "additionalProperties": false,
        "examples": [
            { "id": "digits", "direction": "maximize", "stop": { "trials": 50 }, "pruner": "median",
              "parameters": [
                { "name": "lr", "type": "float", "low": 1e-4, "high": 0.1, "log": true },
                { "name": "layers", "type": "integer", "low": 1, "high": 5 },
                { "name": "optimizer", "type": "choice", "values": ["sgd", "adam"] },
                { "name": "momentum", "type": "float", "low": 0, "high": 0.99, "when": { "optimizer": ["sgd"] } },
              ] },
        ],
    })
}

impl Document {
    /// Reads a body, checks all of it, and says all that is wrong.
    pub fn parse(body: &[u8]) -> Result<Document, Problem> {
        Self::from_map(parse_object(body)?)
    }

    pub fn from_map(mut map: Map<String, Value>) -> Result<Document, Problem> {
        map.retain(|_, value| !value.is_null());
        let mut fields = Fields::new(map.clone());
        let mut draft = Draft::default();
        declaration::read(FIELDS, &mut fields, &mut draft);
        if let Some(space) = &draft.space {
            fields.extend(outside(space, &draft.enqueued));
        }
        for field in ["parallel", "objective"] {
            if fields.value(field).is_some() && fields.value("task").is_none() {
                let error = fields.error(field, "is for studies with a task");
                error.expected = Some(
                    "`task`, or nothing: whoever asks runs the trials and tells their values".to_owned(),
                );
            }
        }
        if draft.silence.is_some() && fields.value("task").is_some() {
            let error = fields.error("silence", "goes not with `task`, which may wait for a node for long");
            error.expected = Some("a `timeout` in the task".to_owned());
        }
        fields.end_body()?;
        let (Some(id), Some(direction), Some(space)) = (draft.id, draft.direction, draft.space) else {
            // Each of them is required, so its absence was an error.
            return Err(Problem::internal());
        };
        let bytes = FIXED_BYTES + Value::Object(map.clone()).to_string().len() as u64;
        Ok(Document {
            id,
            user: draft.user,
            direction,
            space,
            sampler: draft.sampler.unwrap_or(Sampler::Auto),
            pruner: draft.pruner,
            seed: draft.seed,
            enqueued: draft.enqueued,
            stop: draft.stop,
            silence: draft.silence,
            patience: draft.patience.unwrap_or(fields::PATIENCE),
            task: draft.task,
            parallel: draft.parallel.unwrap_or(1),
            objective: draft.objective.unwrap_or_else(|| fields::OBJECTIVE.to_owned()),
            map,
            bytes,
        })
    }

    /// Makes it the caller's own, if that is a user, and says so if it names another one.
    pub fn claim(&mut self, scope: &Scope) -> Result<(), Problem> {
        scope.claim("user", &mut self.user)?;
        if let Some(user) = &self.user {
            self.map.insert("user".to_owned(), json!(user));
        }
        Ok(())
    }

    /// The study that proposes.
    pub fn study(&self, seed: u64) -> Study {
        Study {
            space: self.space.clone(),
            direction: self.direction,
            seed,
            sampler: self.sampler,
            enqueued: self.enqueued.clone(),
        }
    }
}

/// The enqueued points that do not lie in the space.
fn outside(space: &Space, enqueued: &[Parameters]) -> Vec<FieldError> {
    let check = |(place, point): (usize, &Parameters)| {
        let error = space.encode(point).err()?;
        Some(
            FieldError::new(format!("enqueued[{place}]"), error.to_string()).expected("a point of the space"),
        )
    };
    enqueued.iter().enumerate().filter_map(check).collect()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests;

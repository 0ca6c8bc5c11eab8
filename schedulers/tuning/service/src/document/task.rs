//! The task that runs the trials of a study.

use estimand_api::json::kind_of;
use estimand_api::labels::LabelMap;
use estimand_api::problem::FieldError;
use estimand_api::task::PARAMETERS_VARIABLE;
use estimand_api::task_document::TaskDocument;
use estimand_tuning::space::{Parameters, Scalar};
use serde_json::{Map, Value, json};

/// The labels by which a trial's task is found: the number of its study, and its own.
pub const STUDY_LABEL: &str = "estimand-study";
pub const TRIAL_LABEL: &str = "estimand-trial";

/// The fields of a task that its study gives.
const GIVEN: [&str; 4] = ["id", "count", "after", "promise"];

/// The document of a task, of which each trial has a copy with its parameters.
#[derive(Debug, Clone, PartialEq)]
pub struct StudyTask(Map<String, Value>);

impl StudyTask {
    /// Reads the task that stands at `place`.
    pub fn read(place: &str, value: &Value) -> Result<StudyTask, Vec<FieldError>> {
        let Value::Object(map) = value else {
            let error = FieldError::new(place, format!("is {}, not an object", kind_of(value)));
            return Err(vec![error.expected("the document of a task")]);
        };
        let given = GIVEN.into_iter().filter(|field| map.contains_key(*field));
        let mut errors: Vec<FieldError> = given
            .map(|field| {
                let error = FieldError::new(format!("{place}.{field}"), "is given by the study");
                error.expected("nothing")
            })
            .collect();
        let (_, more) = TaskDocument::read(&format!("{place}."), map.clone());
        errors.extend(more);
        if errors.is_empty() { Ok(StudyTask(map.clone())) } else { Err(errors) }
    }

    /// The document of a trial's task: `{name}` in its command is the value of a parameter.
    pub fn of_trial(
        &self,
        study: u64,
        trial: u64,
        parameters: &Parameters,
        user: Option<&str>,
    ) -> Map<String, Value> {
        let mut document = self.0.clone();
        if let Some(command) = document.get_mut("command") {
            fill(command, parameters);
        }
        let mut insert = |field: &str, name: &str, text: String| {
            let object = document.entry(field).or_insert_with(|| json!({}));
            if object.is_null() {
                *object = json!({});
            }
            if let Some(object) = object.as_object_mut() {
                object.insert(name.to_owned(), Value::from(text));
            }
        };
        insert("environment", PARAMETERS_VARIABLE, serde_json::to_string(parameters).unwrap_or_default());
        insert("labels", STUDY_LABEL, study.to_string());
        insert("labels", TRIAL_LABEL, trial.to_string());
        if let Some(user) = user
            && document.get("user").is_none_or(Value::is_null)
        {
            document.insert("user".to_owned(), json!(user));
        }
        document
    }
}

fn fill(command: &mut Value, parameters: &Parameters) {
    match command {
        Value::String(text) => {
            for (name, value) in parameters {
                *text = text.replace(&format!("{{{name}}}"), &plain(value));
            }
        }
        Value::Array(words) => words.iter_mut().for_each(|word| fill(word, parameters)),
        _ => {}
    }
}

/// A value as a word of a command: a text without quotes.
fn plain(value: &Scalar) -> String {
    match value {
        Scalar::Text(text) => text.clone(),
        other => other.to_string(),
    }
}

/// The study and the trial of a task, by its labels.
pub fn trial_of(document: &Map<String, Value>) -> Option<(u64, u64)> {
    let labels: LabelMap = serde_json::from_value(document.get("labels")?.clone()).ok()?;
    let number = |name: &str| labels.get(name)?.parse().ok();
    Some((number(STUDY_LABEL)?, number(TRIAL_LABEL)?))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_trial_has_a_copy_with_its_parameters() {
        let given = json!({ "command": ["train", "--lr={lr}", "{optimizer}", "{other}"], "environment": { "A": "b" } });
        let task = StudyTask::read("task", &given).unwrap();
        let parameters: Parameters =
            [("lr", Scalar::Float(0.01)), ("optimizer", Scalar::Text("sgd".to_owned()))]
                .map(|(name, value)| (name.to_owned(), value))
                .into();
        let document = task.of_trial(3, 7, &parameters, Some("ada"));
        assert_eq!(document["command"], json!(["train", "--lr=0.01", "sgd", "{other}"]));
        let environment = json!({ "A": "b", PARAMETERS_VARIABLE: "{\"lr\":0.01,\"optimizer\":\"sgd\"}" });
        assert_eq!((&document["environment"], &document["user"]), (&environment, &json!("ada")));
        assert_eq!(trial_of(&document), Some((3, 7)));
    }

    #[test]
    fn fields_that_the_study_gives_are_refused() {
        let errors =
            StudyTask::read("task", &json!({ "command": "x", "count": 3, "colour": 1 })).unwrap_err();
        let fields: Vec<&str> = errors.iter().map(|error| error.field.as_str()).collect();
        assert_eq!(fields, ["task.count", "task.colour"]);
    }
}

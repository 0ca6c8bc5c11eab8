//! The task that runs on a reservation.

use estimand_api::json::kind_of;
use estimand_api::problem::FieldError;
use estimand_api::task_document::TaskDocument;
use serde_json::{Map, Value, json};

/// The fields of a task that its reservation gives.
const GIVEN: [&str; 3] = ["resources", "promise", "count"];

/// The task that runs on a reservation.
#[derive(Clone, PartialEq, Debug)]
pub enum ReservedTask {
    Document(Box<TaskDocument>),
    /// A task that is stored and not right: versions before this one took any object. The task service refuses it when its time
    /// has come.
    Unreadable(Map<String, Value>),
}

impl ReservedTask {
    /// Reads the task that stands at `place`.
    pub fn read(place: &str, value: &Value) -> Result<ReservedTask, Vec<FieldError>> {
        let Value::Object(map) = value else {
            let error = FieldError::new(place, format!("is {}, not an object", kind_of(value)));
            return Err(vec![error.expected("the document of a task")]);
        };
        let given = GIVEN.into_iter().filter(|field| map.contains_key(*field));
        let mut errors: Vec<FieldError> = given
            .map(|field| {
                let error = FieldError::new(format!("{place}.{field}"), "is given by the reservation");
                error.expected("nothing")
            })
            .collect();
        let (document, more) = TaskDocument::read(&format!("{place}."), map.clone());
        errors.extend(more);
        if errors.is_empty() { Ok(ReservedTask::Document(Box::new(document))) } else { Err(errors) }
    }

    pub fn of_store(map: Map<String, Value>) -> ReservedTask {
        match TaskDocument::from_map(map.clone()) {
            Ok(document) => ReservedTask::Document(Box::new(document)),
            Err(_) => ReservedTask::Unreadable(map),
        }
    }

    pub fn to_map(&self) -> Map<String, Value> {
        match self {
            ReservedTask::Document(document) => document.to_map(),
            ReservedTask::Unreadable(map) => map.clone(),
        }
    }

    /// The document for readers, without the values of its secrets.
    pub fn shown(&self) -> Map<String, Value> {
        match self {
            ReservedTask::Document(document) => document.redacted().to_map(),
            ReservedTask::Unreadable(map) => {
                let mut shown = map.clone();
                shown.remove("environment");
                shown
            }
        }
    }

    /// The document that is submitted when the time has come.
    pub fn on_promise(&self, promise: &str, width: u64, account: &str) -> Map<String, Value> {
        let mut document = self.to_map();
        document.insert("promise".to_owned(), json!(promise));
        if width > 1 {
            document.insert("count".to_owned(), json!(width));
        }
        if document.get("user").is_none_or(Value::is_null) {
            document.insert("user".to_owned(), json!(account));
        }
        document
    }
}

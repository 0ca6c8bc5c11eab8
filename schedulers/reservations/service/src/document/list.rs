//! A list of reservations of which all are made or none.

use estimand_api::declaration;
use estimand_api::duration::Span;
use estimand_api::fields::{self, Fields};
use estimand_api::json::{kind_of, parse_object};
use estimand_api::problem::Problem;
use estimand_api::resources::ResourceAmount;
use estimand_api::task_document::TaskDocument;
use estimand_reservations::{MAX_LIST, Money};
use serde_json::{Map, Value, json};

use super::{Document, FIELDS, credits, user};

/// The fields that the requests of a list have together.
const COMMON: [&str; 3] = ["value", "user", "dryRun"];

/// Requests of which all are granted or none, for one value.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ReservationList {
    /// Each without a value.
    pub documents: Vec<Document>,
    pub value: Option<Money>,
    pub user: Option<String>,
    pub dry_run: bool,
}

/// The schema of a [`ReservationList`].
#[derive(Debug)]
pub enum ListDocument {}

estimand_api::described!(ListDocument, [ResourceAmount, Span, TaskDocument], described());

fn described() -> Value {
    let mut item = declaration::properties(FIELDS);
    let mut properties = item.clone();
    item.retain(|name, _| !COMMON.contains(&name.as_str()));
    properties.retain(|name, _| COMMON.contains(&name.as_str()));
    properties.insert(
        "allOrNone".to_owned(),
        json!({ "type": "array", "minItems": 1, "maxItems": MAX_LIST,
            "description": "All of these are reserved, or none; `value` is what all of them together are worth",
            "items": { "type": "object", "required": ["resources"], "additionalProperties": false, "properties": item } }),
    );
    json!({
        "type": "object",
        "required": ["allOrNone"],
        "properties": properties,
        "additionalProperties": false,
        "examples": [{ "allOrNone": [
            { "resources": { "cpu": 4 }, "duration": "2h", "by": "6h" },
            { "resources": { "gpu": 1 }, "duration": "1h", "from": "6h", "by": "8h" },
        ], "value": 50 }],
    })
}

impl ReservationList {
    /// Reads a body, checks all of it, and says all that is wrong. `now` is in microseconds since 1970.
    pub fn parse(body: &[u8], now: i64) -> Result<ReservationList, Problem> {
        Self::from_map(parse_object(body)?, now)
    }

    fn from_map(map: Map<String, Value>, now: i64) -> Result<ReservationList, Problem> {
        let mut fields = Fields::new(map);
        let expected = format!("an array of 1 to {MAX_LIST} requests");
        let items = fields.required("allOrNone", &expected, |value| match value {
            Value::Array(items) if (1..=MAX_LIST).contains(&items.len()) => Ok(items.clone()),
            Value::Array(items) => Err(format!("has {}", items.len())),
            other => Err(format!("is {}, not an array", kind_of(other))),
        });
        let mut list = ReservationList {
            documents: Vec::new(),
            value: fields.optional("value", "credits, such as 30 or \"2.5\"", credits),
            user: fields.optional("user", "a text of 1 to 255 bytes that does not begin with `(`", user),
            dry_run: fields.optional("dryRun", "true or false", fields::truth).unwrap_or(false),
        };
        for (place, item) in items.unwrap_or_default().into_iter().enumerate() {
            let place = format!("allOrNone[{place}]");
            let Value::Object(item) = item else {
                fields.error("allOrNone", format!("has {} where a request should be", kind_of(&item)));
                continue;
            };
            for name in COMMON.into_iter().filter(|name| item.contains_key(*name)) {
                let error = estimand_api::problem::FieldError::new(
                    format!("{place}.{name}"),
                    "is for all of the list",
                );
                fields.extend(vec![error.expected(format!("`{name}` beside `allOrNone`"))]);
            }
            let (document, errors) = Document::read(format!("{place}."), item, now);
            fields.extend(errors);
            list.documents.push(Document { user: list.user.clone(), ..document });
        }
        fields.end_body()?;
        Ok(list)
    }
}

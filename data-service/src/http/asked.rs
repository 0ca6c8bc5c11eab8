//! The question of a read: which values, in which order and part. It comes as the parameters of a URL or, where there is no
//! room for them, as a JSON body of the same names.

use std::collections::{BTreeMap, BTreeSet};

use estimand_api::condition::Condition;
use estimand_api::described;
use estimand_api::duration::{Span, SpanText};
use estimand_api::json::{kind_of, parse_object};
use estimand_api::names::NodeName;
use estimand_api::order::ValueOrder;
use estimand_api::pointer::Pointer;
use estimand_api::problem::{FieldError, Problem};
use estimand_api::schema;
use estimand_api::selector::{ReadSelector, Selector};
use estimand_api::value::State;
use serde_json::{Value, json};

use crate::DataService;
use crate::core::view::ShownValue;
use crate::http::names::Names;
use crate::http::node_labels::NodeChoice;

/// The parameters of a read.
pub const PARAMETERS: [&str; 10] =
    ["dataName", "dataNode", "nodeName", "nodes", "state", "maxAge", "where", "field", "sort", "limit"];
/// The parameters whose values are lists.
pub const LISTS: [&str; 6] = ["dataName", "dataNode", "nodeName", "nodes", "state", "where"];
/// The most values that a query can limit itself to.
const MAX_LIMIT: usize = 1_000_000;

/// The states of a query.
#[derive(Debug)]
pub enum States {}

described!(
    States,
    [],
    schema::text(
        "One or several, with commas, of `fresh`, `stale`, `failed` and `node-lost`",
        "^(fresh|stale|failed|node-lost)(,(fresh|stale|failed|node-lost))*$",
        "fresh,stale"
    )
);

/// The limit of a query.
#[derive(Debug)]
pub enum Limit {}

described!(Limit, [], json!({ "type": "integer", "minimum": 1, "maximum": MAX_LIMIT }));

/// The nodes that a query names.
#[derive(Debug)]
pub enum NodeNames {}

described!(
    NodeNames,
    [],
    schema::text(
        "A node, or several with commas",
        r"^[A-Za-z0-9._-]{1,253}(,[A-Za-z0-9._-]{1,253})*$",
        "node-1,node-2"
    )
);

/// The question of a read as a body.
#[derive(Debug)]
pub enum Question {}

/// A text or a list of texts.
fn list_of(item: &Value, description: &str) -> Value {
    json!({ "description": description, "oneOf": [item, { "type": "array", "items": item, "minItems": 1 }] })
}

described!(
    Question,
    [Names, NodeNames, ReadSelector, States, SpanText, Condition, Pointer, ValueOrder, Limit],
    json!({
        "description": "The parameters of a read; a list stands for a parameter that is given several times",
        "type": "object",
        "additionalProperties": false,
        "required": ["dataName"],
        "properties": {
            "dataName": list_of(&schema::of::<Names>(""), "The names"),
            "dataNode": list_of(&schema::of::<NodeNames>(""), "Only values of these nodes"),
            "nodeName": list_of(&schema::of::<NodeNames>(""), "The same, spelt otherwise"),
            "nodes": list_of(&schema::of::<ReadSelector>(""), "Only values of nodes with these labels"),
            "state": list_of(&schema::of::<States>(""), "Only values in one of these states"),
            "maxAge": schema::of::<SpanText>("Only values collected no longer ago"),
            "where": list_of(&schema::of::<Condition>(""), "Only values for which this holds"),
            "field": schema::of::<Pointer>("Only this part of each value"),
            "sort": schema::of::<ValueOrder>("The values in this order"),
            "limit": schema::of::<Limit>("At most so many values"),
        },
    })
);

/// The parameters in a body.
pub fn parameters(body: &[u8]) -> Result<BTreeMap<String, String>, Problem> {
    let mut found = BTreeMap::new();
    let mut errors = Vec::new();
    for (name, value) in parse_object(body)? {
        match parameter(&name, &value) {
            Ok(text) => drop(found.insert(name, text)),
            Err(error) => errors.push(error),
        }
    }
    if errors.is_empty() { Ok(found) } else { Err(Problem::invalid(errors)) }
}

fn parameter(name: &str, value: &Value) -> Result<String, FieldError> {
    let is_list = LISTS.contains(&name);
    let expected = match name {
        _ if !PARAMETERS.contains(&name) => {
            return Err(FieldError::new(name, "is unknown").expected(PARAMETERS.join(", ")));
        }
        "limit" => "a number",
        _ if is_list => "a text, or a list of texts",
        _ => "a text",
    };
    let text = match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) if name == "limit" => Some(number.to_string()),
        Value::Array(items) if is_list && !items.is_empty() => {
            let texts: Option<Vec<&str>> = items.iter().map(Value::as_str).collect();
            texts.map(|texts| texts.join(","))
        }
        _ => None,
    };
    text.ok_or_else(|| FieldError::new(name, format!("is {}", kind_of(value))).expected(expected))
}

/// The values that a reader takes.
#[derive(Debug, Default)]
pub struct Filter {
    states: Vec<State>,
    /// Only values known since this instant or later.
    since: Option<i64>,
    condition: Option<Condition>,
}

impl Filter {
    pub fn of(
        service: &DataService,
        states: Option<&str>,
        max_age: Option<&str>,
        condition: Option<&str>,
    ) -> Result<Self, Problem> {
        let mut filter = Filter { condition: condition_of(condition)?, ..Filter::default() };
        for state in states.into_iter().flat_map(|states| states.split(',')) {
            let state =
                state.trim().parse().map_err(|_| wrong("state", state, "fresh, stale, failed, node-lost"))?;
            filter.states.push(state);
        }
        if let Some(age) = max_age {
            let span: Span =
                age.parse().map_err(|_| wrong("maxAge", age, "a duration such as `5s` or `250ms`"))?;
            let micros = i64::try_from(span.as_micros()).unwrap_or(i64::MAX);
            filter.since = Some(service.now().saturating_sub(micros));
        }
        Ok(filter)
    }

    pub fn takes_all(&self) -> bool {
        self.states.is_empty() && self.since.is_none() && self.condition.is_none()
    }

    pub fn takes(&self, shown: &ShownValue<'_>) -> bool {
        let facts = shown.facts();
        (self.states.is_empty() || self.states.contains(&facts.marks.state()))
            && self.since.is_none_or(|since| facts.known_since() >= since)
            && self.condition.as_ref().is_none_or(|condition| condition.holds(shown.text()))
    }
}

pub fn limit_of(text: &str) -> Result<usize, Problem> {
    let limit = text.parse().ok().filter(|limit| (1..=MAX_LIMIT).contains(limit));
    limit.ok_or_else(|| wrong("limit", text, "a whole number from 1 to 1000000"))
}

/// The nodes that a query selects by their labels.
pub fn nodes_of(service: &DataService, selector: Option<&str>) -> Result<Option<NodeChoice>, Problem> {
    let selector = selector.map(selector_of).transpose()?;
    selector.map(|selector| service.labels().choose(selector)).transpose()
}

/// The selector in the parameter `nodes`.
pub fn selector_of(text: &str) -> Result<Selector, Problem> {
    Selector::parse_of_read(text).map_err(|error| {
        let error = FieldError::new("nodes", format!("is no selector: {error}"));
        Problem::invalid_field(error.given(text).expected("labels with commas, such as `zone=a,gpu,!old`"))
    })
}

/// The condition in the parameter `where`.
pub fn condition_of(text: Option<&str>) -> Result<Option<Condition>, Problem> {
    text.map(Condition::parse).transpose().map_err(|error| Problem::invalid_field(error.at("where")))
}

/// The part of values that a query asks for.
pub fn field_of(field: Option<&str>) -> Result<Option<Pointer>, Problem> {
    field.map(Pointer::parse).transpose().map_err(|e| Problem::invalid_field(e.at("field")))
}

/// The node that a query names, under either spelling.
pub fn node_of<'q>(
    node: Option<&'q str>,
    spelt_otherwise: Option<&'q str>,
) -> Result<Option<&'q str>, Problem> {
    let node = one_spelling(node, spelt_otherwise)?;
    match node {
        Some(text) => {
            NodeName::parse(text).map(|_| node).map_err(|e| Problem::invalid_field(e.at("dataNode")))
        }
        None => Ok(None),
    }
}

/// The nodes that a query names, under either spelling; none stands for all.
pub fn named_nodes<'q>(
    nodes: Option<&'q str>,
    spelt_otherwise: Option<&'q str>,
) -> Result<Option<BTreeSet<&'q str>>, Problem> {
    let Some(list) = one_spelling(nodes, spelt_otherwise)? else { return Ok(None) };
    let node = |text: &'q str| {
        NodeName::parse(text).map(|_| text).map_err(|error| Problem::invalid_field(error.at("dataNode")))
    };
    list.split(',').map(str::trim).map(node).collect::<Result<_, _>>().map(Some)
}

fn one_spelling<'q>(
    node: Option<&'q str>,
    spelt_otherwise: Option<&'q str>,
) -> Result<Option<&'q str>, Problem> {
    match (node, spelt_otherwise) {
        (Some(_), Some(other)) => Err(wrong("nodeName", other, "`dataNode` or `nodeName`, not both")),
        (node, other) => Ok(node.or(other)),
    }
}

pub fn wrong(field: &str, given: &str, expected: &str) -> Problem {
    Problem::invalid_field(FieldError::new(field, "is not valid").given(given).expected(expected))
}

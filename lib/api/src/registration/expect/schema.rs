//! The shape of values: a small part of JSON Schema, with its meaning unchanged.
//!
//! An unknown keyword is rejected, never passed over: a check that an author relies on must happen.
//! Each part of a value meets at most one rule, so with any schema a check costs the size of the value; only an
//! `enum` makes it some times that, which is why its entries are few.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Number, Value};

use super::{at, number, shown};
use crate::fields::{self, Fields};
use crate::json::kind_of;
use crate::problem::{FieldError, shorten};

/// How deep rules may nest.
const MAX_DEPTH: usize = 16;
/// The most rules in a schema.
const MAX_RULES: usize = 1_000;
/// The most entries of `enum` and of `required`.
pub(super) const MAX_ENTRIES: usize = 256;

/// A schema that was read and found right.
#[derive(Debug, Clone, PartialEq)]
pub(in super::super) struct Schema {
    /// As it was given.
    text: Value,
    rule: Rule,
}

/// The rule of one schema object.
#[derive(Debug, Clone, Default, PartialEq)]
struct Rule {
    /// Any of these; empty: any type.
    types: Vec<Type>,
    properties: BTreeMap<String, Rule>,
    required: Vec<String>,
    others: Others,
    items: Option<Box<Rule>>,
    minimum: Option<Number>,
    maximum: Option<Number>,
    /// One of these (`enum`).
    among: Option<Vec<Value>>,
    /// Just this (`const`).
    constant: Option<Value>,
    items_count: Count,
    length: Count,
}

/// The members that an object may have besides `properties`.
#[derive(Debug, Clone, Default, PartialEq)]
enum Others {
    #[default]
    Any,
    None,
    Like(Box<Rule>),
}

/// How many of something there may be.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
struct Count {
    least: Option<u64>,
    most: Option<u64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Type {
    Null,
    Boolean,
    Number,
    Integer,
    String,
    Array,
    Object,
}

pub(super) const TYPES: [(&str, Type); 7] = [
    ("null", Type::Null),
    ("boolean", Type::Boolean),
    ("number", Type::Number),
    ("integer", Type::Integer),
    ("string", Type::String),
    ("array", Type::Array),
    ("object", Type::Object),
];

impl Schema {
    pub(in super::super) fn from_json(value: &Value) -> Result<Self, Vec<FieldError>> {
        let mut reader = Reader { rules: 0, errors: Vec::new() };
        let rule = reader.rule("schema", value, 1);
        match reader.errors {
            errors if errors.is_empty() => Ok(Schema { text: value.clone(), rule }),
            errors => Err(errors),
        }
    }

    pub(in super::super) fn to_json(&self) -> Value {
        self.text.clone()
    }

    pub(super) fn check(&self, value: &Value) -> Result<(), String> {
        self.rule.check(&mut String::new(), value)
    }
}

/// Reads rules, counts them, and gathers errors.
struct Reader {
    rules: usize,
    errors: Vec<FieldError>,
}

impl Reader {
    fn rule(&mut self, place: &str, value: &Value, depth: usize) -> Rule {
        self.rules += 1;
        let wrong = match value {
            _ if depth > MAX_DEPTH => format!("nests deeper than {MAX_DEPTH} levels"),
            // Said once, and not for each one that is too much.
            _ if self.rules == MAX_RULES + 1 => format!("is one too many: a schema has at most {MAX_RULES}"),
            _ if self.rules > MAX_RULES => return Rule::default(),
            Value::Object(map) => return self.members(place, map, depth),
            other => format!("is {}, not a schema", kind_of(other)),
        };
        let expected = "an object such as {\"type\": \"number\"}";
        self.errors.push(FieldError::new(place, wrong).given(value).expected(expected));
        Rule::default()
    }

    fn members(&mut self, place: &str, map: &Map<String, Value>, depth: usize) -> Rule {
        let mut fields = Fields::nested(place, map.clone());
        let mut count = |least: &'static str, most: &'static str| {
            let mut read =
                |name| fields.optional(name, "0 or more", |value| fields::whole(value, 0, u64::MAX));
            let count = Count { least: read(least), most: read(most) };
            if count.most.is_some_and(|bound| count.least.is_some_and(|least| least > bound)) {
                fields.error(most, format!("is less than `{least}`"));
            }
            count
        };
        let (items_count, length) = (count("minItems", "maxItems"), count("minLength", "maxLength"));
        let mut rule = Rule { items_count, length, ..Rule::default() };
        rule.types = fields.optional("type", WORDS, types).unwrap_or_default();
        rule.required = fields.optional("required", "an array of names", names).unwrap_or_default();
        rule.minimum = fields.optional("minimum", "a number", number::read);
        rule.maximum = fields.optional("maximum", "a number", number::read);
        if let (Some(least), Some(most)) = (&rule.minimum, &rule.maximum)
            && number::compare(least, most).is_gt()
        {
            fields.error("maximum", "is less than `minimum`");
        }
        rule.among = fields.optional("enum", "an array of 1 to 256 values", |value| match value {
            Value::Array(values) if (1..=MAX_ENTRIES).contains(&values.len()) => Ok(values.clone()),
            Value::Array(values) => Err(format!("has {} entries", values.len())),
            other => Err(format!("is {}, not an array", kind_of(other))),
        });
        // The one keyword whose null means something.
        rule.constant = map.get("const").cloned();
        fields.optional("const", "any JSON", |_| Ok(()));
        let inner = |name: &str| format!("{place}.{name}");
        let properties = fields.optional("properties", "an object of name to schema", |value| match value {
            Value::Object(map) => Ok(map.clone()),
            other => Err(format!("is {}, not an object", kind_of(other))),
        });
        for (name, value) in properties.into_iter().flatten() {
            let read = self.rule(&inner(&format!("properties.{}", shorten(&name))), &value, depth + 1);
            rule.properties.insert(name, read);
        }
        let items = fields.optional("items", "", |value| Ok(value.clone()));
        rule.items = items.map(|value| Box::new(self.rule(&inner("items"), &value, depth + 1)));
        let others = fields.optional("additionalProperties", "", |value| Ok(value.clone()));
        rule.others = match others {
            None | Some(Value::Bool(true)) => Others::Any,
            Some(Value::Bool(false)) => Others::None,
            Some(value) => {
                Others::Like(Box::new(self.rule(&inner("additionalProperties"), &value, depth + 1)))
            }
        };
        self.errors.extend(fields.end());
        rule
    }
}

const WORDS: &str =
    "null, boolean, number, integer, string, array or object, or an array of several of these words";

fn types(value: &Value) -> Result<Vec<Type>, String> {
    match value {
        Value::Array(words) if (1..=TYPES.len()).contains(&words.len()) => {
            words.iter().map(|word| fields::word(word, &TYPES)).collect()
        }
        Value::Array(words) => Err(format!("has {} words", words.len())),
        word => fields::word(word, &TYPES).map(|one| vec![one]),
    }
}

fn names(value: &Value) -> Result<Vec<String>, String> {
    let Value::Array(names) = value else { return Err(format!("is {}, not an array", kind_of(value))) };
    if names.len() > MAX_ENTRIES {
        return Err(format!("has more than {MAX_ENTRIES} names"));
    }
    let names: Vec<String> =
        names.iter().map(|name| fields::string(name).map(str::to_owned)).collect::<Result<_, _>>()?;
    match names.iter().collect::<BTreeSet<_>>().len() == names.len() {
        true => Ok(names),
        false => Err("names one twice".to_owned()),
    }
}

impl Rule {
    /// Checks the value at a place, and then its parts.
    fn check(&self, place: &mut String, value: &Value) -> Result<(), String> {
        if !self.types.is_empty() && !self.types.iter().any(|one| one.is_of(value)) {
            let words: Vec<&str> = self.types.iter().map(|one| one.in_words()).collect();
            return Err(wrong(place, value, &format!("is {}", kind_of(value)), &words.join(" or ")));
        }
        let allowed = self.among.as_deref().unwrap_or_default().iter().chain(&self.constant);
        let is_in = |among: &[Value]| among.iter().any(|one| is_equal(one, value));
        let is_among = self.among.as_deref().is_none_or(is_in);
        if !is_among || !self.constant.as_ref().is_none_or(|one| is_equal(one, value)) {
            let allowed: Vec<String> = allowed.map(Value::to_string).collect();
            return Err(wrong(place, value, "is not allowed", &shown(&allowed.join(", "))));
        }
        match value {
            Value::Number(found) => {
                number::within(place, found, self.minimum.as_ref(), self.maximum.as_ref())
            }
            Value::String(text) => self
                .length
                .check(text.chars().count(), "characters")
                .map_err(|e| format!("{}: {e}", at(place))),
            Value::Array(values) => self.check_items(place, values),
            Value::Object(members) => self.check_members(place, members),
            Value::Null | Value::Bool(_) => Ok(()),
        }
    }

    fn check_items(&self, place: &mut String, values: &[Value]) -> Result<(), String> {
        self.items_count.check(values.len(), "items").map_err(|e| format!("{}: {e}", at(place)))?;
        let Some(rule) = &self.items else { return Ok(()) };
        values.iter().enumerate().try_for_each(|(index, value)| {
            within(place, &index.to_string(), |place| rule.check(place, value))
        })
    }

    fn check_members(&self, place: &mut String, members: &Map<String, Value>) -> Result<(), String> {
        if let Some(missing) = self.required.iter().find(|name| !members.contains_key(*name)) {
            let missing = shown(missing);
            return Err(format!("{}: `{missing}` is missing, which the registration requires", at(place)));
        }
        for (name, value) in members {
            let rule = match (self.properties.get(name), &self.others) {
                (Some(rule), _) => rule,
                (None, Others::Any) => continue,
                (None, Others::Like(rule)) => rule,
                (None, Others::None) => {
                    let known: Vec<&str> = self.properties.keys().map(String::as_str).collect();
                    let known = if known.is_empty() { "none".to_owned() } else { shown(&known.join(", ")) };
                    let name = shown(name);
                    return Err(format!(
                        "{}: `{name}` is not among the registration's members: {known}",
                        at(place)
                    ));
                }
            };
            within(place, name, |place| rule.check(place, value))?;
        }
        Ok(())
    }
}

impl Count {
    fn check(self, found: usize, what: &str) -> Result<(), String> {
        let number = found as u64;
        match (self.least, self.most) {
            (Some(least), _) if number < least => {
                Err(format!("has {found} {what}; the registration asks for at least {least}"))
            }
            (_, Some(most)) if number > most => {
                Err(format!("has {found} {what}; the registration allows at most {most}"))
            }
            _ => Ok(()),
        }
    }
}

impl Type {
    fn is_of(self, value: &Value) -> bool {
        match (self, value) {
            (Type::Integer, Value::Number(found)) => number::is_whole(found),
            (Type::Null, Value::Null)
            | (Type::Boolean, Value::Bool(_))
            | (Type::Number, Value::Number(_))
            | (Type::String, Value::String(_))
            | (Type::Array, Value::Array(_))
            | (Type::Object, Value::Object(_)) => true,
            _ => false,
        }
    }

    fn in_words(self) -> &'static str {
        match self {
            Type::Null => "null",
            Type::Boolean => "a boolean",
            Type::Number => "a number",
            Type::Integer => "a whole number",
            Type::String => "a string",
            Type::Array => "an array",
            Type::Object => "an object",
        }
    }
}

/// Goes one step further into a value, and back.
fn within<T>(place: &mut String, step: &str, check: impl FnOnce(&mut String) -> T) -> T {
    let before = place.len();
    place.push('/');
    place.push_str(&step.replace('~', "~0").replace('/', "~1"));
    let checked = check(place);
    place.truncate(before);
    checked
}

fn wrong(place: &str, value: &Value, what: &str, expected: &str) -> String {
    let value = shown(&value.to_string());
    format!("{}: {value} {what}; the registration says {expected}", at(place))
}

/// Compares two values; 1 and 1.0 are one number, and the order of members means nothing.
fn is_equal(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => number::compare(a, b).is_eq(),
        (Value::Array(a), Value::Array(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| is_equal(a, b))
        }
        (Value::Object(a), Value::Object(b)) => {
            a.len() == b.len() && a.iter().all(|(name, a)| b.get(name).is_some_and(|b| is_equal(a, b)))
        }
        _ => a == b,
    }
}

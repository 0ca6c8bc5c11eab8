//! The values that an evaluation handles. Values of the scope are borrowed, built ones are shared, so that a copy of
//! any of them costs nothing.
//!
//! Invariants: a number is finite; the keys of a map are strings, each once.

use std::{ops::Deref, rc::Rc};

use serde_json::Value as Json;

/// The value of an expression. It lives no longer than the scope it was taken from.
#[derive(Debug, Clone)]
pub enum Value<'a> {
    Null,
    Bool(bool),
    Number(f64),
    Text(Text<'a>),
    List(List<'a>),
    Map(Map<'a>),
}

#[derive(Debug, Clone)]
pub enum Text<'a> {
    Borrowed(&'a str),
    Shared(Rc<str>),
}

#[derive(Debug, Clone)]
pub enum List<'a> {
    Borrowed(&'a [Json]),
    Shared(Rc<Vec<Value<'a>>>),
}

#[derive(Debug, Clone)]
pub enum Map<'a> {
    Borrowed(&'a serde_json::Map<String, Json>),
    Shared(Rc<Fields<'a>>),
}

/// A map that was built: its entries as they were written, and their order by key.
#[derive(Debug)]
pub struct Fields<'a> {
    entries: Vec<(Text<'a>, Value<'a>)>,
    by_key: Vec<u32>,
}

/// The memory of an entry of a built list or map, for the budget.
pub(crate) const ENTRY: usize = size_of::<Value<'_>>();
pub(crate) const FIELD: usize = size_of::<(Text<'_>, Value<'_>)>() + size_of::<u32>();

impl<'a> Value<'a> {
    pub fn borrowed(json: &'a Json) -> Value<'a> {
        match json {
            Json::Null => Value::Null,
            Json::Bool(truth) => Value::Bool(*truth),
            // A number that is no `f64` is none here.
            Json::Number(number) => {
                number.as_f64().filter(|number| number.is_finite()).map_or(Value::Null, Value::Number)
            }
            Json::String(text) => Value::Text(Text::Borrowed(text)),
            Json::Array(items) => Value::List(List::Borrowed(items)),
            Json::Object(fields) => Value::Map(Map::Borrowed(fields)),
        }
    }

    pub(crate) fn text(text: String) -> Value<'a> {
        Value::Text(Text::Shared(text.into()))
    }

    pub(crate) fn list(items: Vec<Value<'a>>) -> Value<'a> {
        Value::List(List::Shared(Rc::new(items)))
    }

    /// Its type, for a message.
    pub(crate) fn described(&self) -> &'static str {
        match self {
            Value::Null => "null",
            Value::Bool(_) => "true or false",
            Value::Number(_) => "a number",
            Value::Text(_) => "a string",
            Value::List(_) => "a list",
            Value::Map(_) => "a map",
        }
    }

    pub fn as_bool(&self) -> Option<bool> {
        if let Value::Bool(truth) = self { Some(*truth) } else { None }
    }

    pub fn as_number(&self) -> Option<f64> {
        if let Value::Number(number) = self { Some(*number) } else { None }
    }

    /// The field of a map.
    pub fn get(&self, key: &str) -> Option<Value<'a>> {
        if let Value::Map(map) = self { map.get(key) } else { None }
    }
}

impl Deref for Text<'_> {
    type Target = str;

    fn deref(&self) -> &str {
        match self {
            Text::Borrowed(text) => text,
            Text::Shared(text) => text,
        }
    }
}

impl<'a> List<'a> {
    pub fn len(&self) -> usize {
        match self {
            List::Borrowed(items) => items.len(),
            List::Shared(items) => items.len(),
        }
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub fn get(&self, index: usize) -> Option<Value<'a>> {
        match self {
            List::Borrowed(items) => items.get(index).map(Value::borrowed),
            List::Shared(items) => items.get(index).cloned(),
        }
    }

    pub fn iter(&self) -> impl Iterator<Item = Value<'a>> + '_ {
        (0..self.len()).map_while(|index| self.get(index))
    }
}

impl<'a> Map<'a> {
    pub fn len(&self) -> usize {
        match self {
            Map::Borrowed(fields) => fields.len(),
            Map::Shared(fields) => fields.entries.len(),
        }
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub fn get(&self, key: &str) -> Option<Value<'a>> {
        match self {
            Map::Borrowed(fields) => fields.get(key).map(Value::borrowed),
            Map::Shared(fields) => fields.get(key),
        }
    }

    /// The entries, in the order in which they were written.
    pub fn iter(&self) -> Entries<'a> {
        match self {
            Map::Borrowed(fields) => Entries::Borrowed(fields.iter()),
            Map::Shared(fields) => Entries::Shared(Rc::clone(fields), 0),
        }
    }
}

impl<'a> Fields<'a> {
    /// The error is a key that is there twice.
    pub(crate) fn new(entries: Vec<(Text<'a>, Value<'a>)>) -> Result<Fields<'a>, Text<'a>> {
        let mut by_key: Vec<u32> = (0..entries.len() as u32).collect();
        let key = |place: u32| &*entries[place as usize].0;
        by_key.sort_by(|left, right| key(*left).cmp(key(*right)));
        match by_key.windows(2).find(|pair| key(pair[0]) == key(pair[1])) {
            Some(pair) => Err(entries[pair[1] as usize].0.clone()),
            None => Ok(Fields { entries, by_key }),
        }
    }

    fn get(&self, key: &str) -> Option<Value<'a>> {
        let found = self.by_key.binary_search_by(|place| (*self.entries[*place as usize].0).cmp(key)).ok()?;
        Some(self.entries[self.by_key[found] as usize].1.clone())
    }
}

/// Goes through a map without holding on to where it is kept.
pub enum Entries<'a> {
    Borrowed(serde_json::map::Iter<'a>),
    Shared(Rc<Fields<'a>>, usize),
}

impl<'a> Iterator for Entries<'a> {
    type Item = (Text<'a>, Value<'a>);

    fn next(&mut self) -> Option<Self::Item> {
        match self {
            Entries::Borrowed(fields) => {
                fields.next().map(|(key, value)| (Text::Borrowed(key), Value::borrowed(value)))
            }
            Entries::Shared(fields, next) => {
                let entry = fields.entries.get(*next)?.clone();
                *next += 1;
                Some(entry)
            }
        }
    }
}

//! Results as JSON. Everything is measured before it is copied, because a shared value is written out each
//! time: a short expression can name more than fits into any memory.

use serde_json::{Map as JsonMap, Number, Value as Json};

use crate::{
    error::{Error, Fault, quoted},
    value::{List, Map, Value},
};

/// The most that one value may take.
pub const MOST_VALUE: usize = 64 * 1024;
/// The most that the values of all nodes may take together.
pub const MOST_NODES: usize = 1 << 20;
/// How deep lists and maps may nest: as deep as in any value that the data service takes.
const MOST_DEPTH: usize = 64;

/// Up to here each whole number is itself.
const EXACT: f64 = (1_u64 << 53) as f64;

impl Value<'_> {
    /// The value as JSON, of at most [`MOST_VALUE`] bytes. Whole numbers are written as such, up to 2^53.
    pub fn to_json(&self) -> Result<Json, Error> {
        let mut writer = Writer { left: MOST_VALUE };
        writer.write(self, 0).ok_or_else(|| too_much("the result is larger than 64 KiB or nested too deeply"))
    }

    /// A map node → value as JSON, each of at most [`MOST_VALUE`] bytes, [`MOST_NODES`] in all.
    pub fn to_nodes(&self) -> Result<Vec<(String, Json)>, Error> {
        let Value::Map(map) = self else {
            let message = format!("expected a map of the nodes' values, not {}", self.described());
            return Err(Fault::failed(0, message).placed(""));
        };
        let (mut left, mut nodes) = (MOST_NODES, Vec::new());
        for (node, value) in map.iter() {
            let mut writer = Writer { left: MOST_VALUE.min(left) };
            let before = writer.left;
            let Some(json) = writer.write(&value, 0) else {
                let message =
                    format!("the result is too large or nested too deeply at node {}", quoted(&node));
                return Err(too_much(&message));
            };
            left -= before - writer.left;
            nodes.push((node.to_string(), json));
        }
        Ok(nodes)
    }
}

fn too_much(message: &str) -> Error {
    Fault::too_much(0, message).placed("")
}

/// Copies, and stops where nothing is left.
struct Writer {
    left: usize,
}

impl Writer {
    fn take(&mut self, bytes: usize) -> Option<()> {
        self.left = self.left.checked_sub(bytes)?;
        Some(())
    }

    /// Begins a list or a map within so many others.
    fn open(&mut self, depth: usize) -> Option<()> {
        if depth < MOST_DEPTH { self.take(2) } else { None }
    }

    fn write(&mut self, value: &Value<'_>, depth: usize) -> Option<Json> {
        match value {
            Value::Null => self.take(4).map(|()| Json::Null),
            Value::Bool(truth) => self.take(5).map(|()| Json::Bool(*truth)),
            Value::Number(number) => {
                let number = rendered(*number);
                self.take(number.to_string().len())?;
                Some(Json::Number(number))
            }
            Value::Text(text) => {
                self.take(length(text))?;
                Some(Json::String(text.to_string()))
            }
            Value::List(List::Borrowed(items)) => {
                self.measure_all(items, depth)?;
                Some(Json::Array(items.to_vec()))
            }
            Value::List(list) => self.write_list(list, depth),
            Value::Map(Map::Borrowed(fields)) => {
                self.measure_fields(fields, depth)?;
                Some(Json::Object((*fields).clone()))
            }
            Value::Map(map) => self.write_map(map, depth),
        }
    }

    fn write_list(&mut self, list: &List<'_>, depth: usize) -> Option<Json> {
        self.open(depth)?;
        let mut items = Vec::new();
        for item in list.iter() {
            self.take(1)?;
            items.push(self.write(&item, depth + 1)?);
        }
        Some(Json::Array(items))
    }

    fn write_map(&mut self, map: &Map<'_>, depth: usize) -> Option<Json> {
        self.open(depth)?;
        let mut fields = JsonMap::new();
        for (key, value) in map.iter() {
            self.take(length(&key) + 2)?;
            fields.insert(key.to_string(), self.write(&value, depth + 1)?);
        }
        Some(Json::Object(fields))
    }

    /// A borrowed value is copied as it is, its numbers with all their digits.
    fn measure(&mut self, json: &Json, depth: usize) -> Option<()> {
        match json {
            Json::Null | Json::Bool(_) => self.take(5),
            Json::Number(number) => self.take(number.to_string().len()),
            Json::String(text) => self.take(length(text)),
            Json::Array(items) => self.measure_all(items, depth),
            Json::Object(fields) => self.measure_fields(fields, depth),
        }
    }

    fn measure_all(&mut self, items: &[Json], depth: usize) -> Option<()> {
        self.open(depth)?;
        self.take(items.len())?;
        for item in items {
            self.measure(item, depth + 1)?;
        }
        Some(())
    }

    fn measure_fields(&mut self, fields: &JsonMap<String, Json>, depth: usize) -> Option<()> {
        self.open(depth)?;
        for (key, value) in fields {
            self.take(length(key) + 2)?;
            self.measure(value, depth + 1)?;
        }
        Some(())
    }
}

/// How a number is written in JSON and in strings.
pub(crate) fn rendered(number: f64) -> Number {
    if number.fract() == 0.0 && number.abs() <= EXACT {
        return Number::from(number as i64);
    }
    Number::from_f64(number).unwrap_or_else(|| Number::from(0))
}

/// A string with its quotes and escapes.
fn length(text: &str) -> usize {
    let escaped = |letter: u8| match letter {
        b'"' | b'\\' | b'\n' | b'\r' | b'\t' | 0x08 | 0x0c => 2,
        0..0x20 => 6,
        _ => 1,
    };
    2 + text.bytes().map(escaped).sum::<usize>()
}

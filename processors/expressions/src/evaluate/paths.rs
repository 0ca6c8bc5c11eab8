//! Fields and indices: in values, and in the JSON of the inputs of special forms.

use serde_json::Value as Json;

use super::{Answer, Evaluator, Outcome, steps_of};
use crate::{
    error::{Fault, quoted},
    json::rendered,
    syntax::{Node, Step},
    value::{List, Map, Text, Value},
};

/// A step that has been worked out.
pub(super) enum Key<'a> {
    Name(Text<'a>),
    Place(usize),
}

impl<'a> Evaluator<'a, '_> {
    pub(super) fn path(&mut self, base: &'a Node, steps: &'a [Step]) -> Answer<'a> {
        let mut value = self.evaluate(base)?;
        for step in steps {
            value = self.step_into(&value, step)?;
        }
        Ok(value)
    }

    /// True if the last step can be taken; those before it must.
    pub(super) fn has(&mut self, base: &'a Node, steps: &'a [Step]) -> Answer<'a> {
        let Some((last, before)) = steps.split_last() else { return Ok(Value::Bool(false)) };
        let value = self.path(base, before)?;
        let (at, name) = match last {
            Step::Field(at, name) => (*at, Text::Borrowed(name)),
            Step::Index(node) => match self.evaluate(node)? {
                Value::Text(name) => {
                    self.budget.step(node.at, steps_of(&name))?;
                    (node.at, name)
                }
                other => return Err(super::unfit(node.at, "`has`", "the name of a field", &other)),
            },
        };
        match value {
            Value::Map(map) => Ok(Value::Bool(map.get(&name).is_some())),
            other => Err(Fault::failed(at, format!("{} has no fields", other.described()))),
        }
    }

    fn step_into(&mut self, value: &Value<'a>, step: &'a Step) -> Answer<'a> {
        match step {
            Step::Field(at, name) => {
                self.budget.step(*at, 1)?;
                match value {
                    Value::Map(map) => self.field(*at, map, name),
                    other => {
                        let message = format!("{} has no fields: no {}", other.described(), quoted(name));
                        Err(Fault::failed(*at, message))
                    }
                }
            }
            Step::Index(node) => {
                let key = self.evaluate(node)?;
                self.index(node.at, value, &key)
            }
        }
    }

    fn index(&mut self, at: u32, value: &Value<'a>, key: &Value<'a>) -> Answer<'a> {
        match (value, key) {
            (Value::Map(map), Value::Text(name)) => {
                self.budget.step(at, steps_of(name))?;
                self.field(at, map, name)
            }
            (Value::List(list), Value::Number(number)) => item(at, list, *number),
            (Value::Map(_), Value::Number(number)) => Err(Fault::failed(
                at,
                format!("the keys of a map are strings: write [\"{}\"]", rendered(*number)),
            )),
            (Value::Map(_), other) => {
                Err(Fault::failed(at, format!("the key of a map is a string, not {}", other.described())))
            }
            (Value::List(_), other) => {
                Err(Fault::failed(at, format!("the index of a list is a number, not {}", other.described())))
            }
            (other, _) => Err(Fault::failed(at, format!("{} has nothing in it to index", other.described()))),
        }
    }

    fn field(&mut self, at: u32, map: &Map<'a>, name: &str) -> Answer<'a> {
        match map.get(name) {
            Some(value) => Ok(value),
            None => {
                // The message is work, and an expression may come here again and again.
                self.budget.step(at, 8)?;
                Err(Fault::failed(at, absent(map, name)))
            }
        }
    }

    /// The steps of a special form, worked out once for all the values that are looked into.
    pub(super) fn keys(&mut self, steps: &'a [Step]) -> Outcome<Vec<Key<'a>>> {
        let mut keys = Vec::with_capacity(steps.len());
        for step in steps {
            keys.push(match step {
                Step::Field(_, name) => Key::Name(Text::Borrowed(name)),
                Step::Index(node) => match self.evaluate(node)? {
                    Value::Text(name) => Key::Name(name),
                    Value::Number(number) => Key::Place(whole(node.at, number)?),
                    other => {
                        return Err(super::unfit(node.at, "an index", "a string or a number", &other));
                    }
                },
            });
        }
        Ok(keys)
    }
}

/// Steps for looking into so many values.
pub(super) fn steps_into(values: usize, keys: &[Key<'_>]) -> usize {
    let each = keys.iter().map(|key| if let Key::Name(name) = key { steps_of(name) } else { 0 });
    values.saturating_mul(1 + each.sum::<usize>())
}

/// The value at that place of the JSON.
pub(super) fn follow<'j>(json: &'j Json, keys: &[Key<'_>]) -> Option<&'j Json> {
    keys.iter().try_fold(json, |json, key| match key {
        Key::Name(name) => json.as_object()?.get(&**name),
        Key::Place(place) => json.as_array()?.get(*place),
    })
}

fn item<'a>(at: u32, list: &List<'a>, number: f64) -> Answer<'a> {
    let place = whole(at, number)?;
    list.get(place).ok_or_else(|| {
        Fault::failed(at, format!("index {number} is out of range: the list has {}", list.len()))
    })
}

fn whole(at: u32, number: f64) -> Outcome<usize> {
    if number >= 0.0 && number.fract() == 0.0 && number < f64::from(u32::MAX) {
        return Ok(number as usize);
    }
    Err(Fault::failed(at, format!("the index of a list is a whole number from 0, not {}", rendered(number))))
}

#[cold]
fn absent(map: &Map<'_>, name: &str) -> String {
    const MOST: usize = 5;
    let there: Vec<String> = map.iter().take(MOST).map(|(key, _)| quoted(&key)).collect();
    let there = match map.len() {
        0 => "it is empty".to_owned(),
        count if count > MOST => format!("there are {} and {} more", there.join(", "), count - MOST),
        1 => format!("there is {}", there[0]),
        _ => format!("there are {}", there.join(", ")),
    };
    format!("no {}: {there}", quoted(name))
}

//! Comprehensions: evaluate a body for each element of a list or each entry of a map.

use super::{Answer, Evaluator, Outcome};
use crate::{
    error::Fault,
    syntax::{Each, Macro},
    value::{ENTRY, Entries, FIELD, List, Text, Value},
};

/// The elements of a comprehension, as its first and second variable.
enum Elements<'a> {
    List(List<'a>, usize),
    Map(Entries<'a>),
}

impl<'a> Iterator for Elements<'a> {
    type Item = (Value<'a>, Value<'a>);

    fn next(&mut self) -> Option<Self::Item> {
        match self {
            Elements::List(list, next) => {
                let item = list.get(*next)?;
                *next += 1;
                Some((Value::Number((*next - 1) as f64), item))
            }
            Elements::Map(entries) => entries.next().map(|(key, value)| (Value::Text(key), value)),
        }
    }
}

impl<'a> Evaluator<'a, '_> {
    pub(super) fn each(&mut self, at: u32, each: &'a Each) -> Answer<'a> {
        let elements = match self.evaluate(&each.over)? {
            Value::List(list) => Elements::List(list, 0),
            Value::Map(map) => Elements::Map(map.iter()),
            other => {
                let message = format!("this goes through a list or a map, not {}", other.described());
                return Err(Fault::failed(at, message));
            }
        };
        let result = match each.what {
            Macro::All => self.decide(each, elements, false),
            Macro::Exists => self.decide(each, elements, true),
            Macro::ExistsOne => self.exactly_one(each, elements),
            Macro::Filter | Macro::Map | Macro::TransformList => self.collect(at, each, elements),
            Macro::TransformMap => self.collect_map(at, each, elements),
        };
        // Also after an error, which `||` around may make up for.
        self.locals.truncate(each.slot);
        result
    }

    /// Gives the variables their values.
    fn bind(
        &mut self,
        each: &Each,
        elements: &Elements<'a>,
        (key, value): (Value<'a>, Value<'a>),
    ) -> Outcome<()> {
        self.budget.step(each.body.at, 1)?;
        self.locals.truncate(each.slot);
        if each.pairs {
            self.locals.extend([key, value]);
        } else {
            // A map's elements are its keys.
            self.locals.push(if matches!(elements, Elements::Map(_)) { key } else { value });
        }
        Ok(())
    }

    /// `all` and `exists`: one element that decides is enough, even if another one went wrong.
    fn decide(&mut self, each: &'a Each, mut elements: Elements<'a>, decisive: bool) -> Answer<'a> {
        let mut wrong = None;
        while let Some(element) = elements.next() {
            self.bind(each, &elements, element)?;
            match self.truth(&each.body, "the condition") {
                Ok(truth) if truth == decisive => return Ok(Value::Bool(decisive)),
                Ok(_) => {}
                Err(fault) if fault.is_final() => return Err(fault),
                Err(fault) => wrong = wrong.or(Some(fault)),
            }
        }
        wrong.map_or(Ok(Value::Bool(!decisive)), Err)
    }

    fn exactly_one(&mut self, each: &'a Each, mut elements: Elements<'a>) -> Answer<'a> {
        let mut count = 0;
        while let Some(element) = elements.next() {
            self.bind(each, &elements, element)?;
            count += usize::from(self.truth(&each.body, "the condition")?);
        }
        Ok(Value::Bool(count == 1))
    }

    fn collect(&mut self, at: u32, each: &'a Each, mut elements: Elements<'a>) -> Answer<'a> {
        let mut items = Vec::new();
        while let Some(element) = elements.next() {
            self.bind(each, &elements, element)?;
            let item = if each.what == Macro::Filter {
                let kept = self.truth(&each.body, "the condition")?;
                kept.then(|| self.locals[each.slot].clone())
            } else {
                self.body(each)?
            };
            if let Some(item) = item {
                self.budget.build(at, ENTRY)?;
                items.push(item);
            }
        }
        Ok(Value::list(items))
    }

    fn collect_map(&mut self, at: u32, each: &'a Each, mut elements: Elements<'a>) -> Answer<'a> {
        let mut entries: Vec<(Text<'a>, Value<'a>)> = Vec::new();
        while let Some(element) = elements.next() {
            let Value::Text(key) = element.0.clone() else {
                return Err(Fault::failed(at, "`transformMap` goes through a map: a list has no keys"));
            };
            self.bind(each, &elements, element)?;
            if let Some(value) = self.body(each)? {
                self.budget.build(at, FIELD)?;
                entries.push((key, value));
            }
        }
        self.fields(at, entries)
    }

    /// The value of the body for this element, unless it is filtered out.
    fn body(&mut self, each: &'a Each) -> Outcome<Option<Value<'a>>> {
        if let Some(filter) = &each.filter
            && !self.truth(filter, "the condition")?
        {
            return Ok(None);
        }
        self.evaluate(&each.body).map(Some)
    }
}

//! A value as a name shows it: under that name, whole or in part.
//!
//! A name shows its own values whole. A bound name shows those of another one under its own name, and of each
//! only a part if the binding says so; a reader may ask for a part of that again. The part is found once, and
//! rendering then joins three pieces of the bytes that are there. A value without such a part is not shown.

use bytes::Bytes;
use estimand_api::names::DataName;
use estimand_api::pointer::Pointer;

use super::entry::{Entry, Facts, Part};

/// How a name shows values.
#[derive(Debug, Clone, Copy, Default)]
pub struct View<'s> {
    /// The name under which they are shown, if it is not their own.
    pub alias: Option<&'s DataName>,
    pub field: Option<&'s Pointer>,
}

/// A value, shown.
#[derive(Debug)]
pub struct ShownValue<'s> {
    entry: Entry,
    alias: Option<&'s DataName>,
    /// None: all of it.
    part: Option<Part>,
}

impl<'s> View<'s> {
    /// None if the value has no such part.
    pub fn show(self, entry: Entry) -> Option<ShownValue<'s>> {
        let shown = ShownValue { entry, alias: self.alias, part: None };
        shown.narrow(self.field)
    }

    /// The part that is shown of a text that is no value any more.
    pub fn part(self, text: &str) -> Option<&str> {
        self.field.map_or(Some(text), |field| field.find(text))
    }
}

impl ShownValue<'_> {
    pub fn facts(&self) -> &Facts {
        &self.entry.facts
    }

    /// The shown part of the value, as JSON text.
    pub fn text(&self) -> &str {
        self.entry.text_of(self.part.as_ref())
    }

    /// A part of the shown value, if one is asked for; none if it is not there.
    pub fn narrow(self, field: Option<&Pointer>) -> Option<Self> {
        let Some(field) = field else { return Some(self) };
        let part = self.entry.part(self.part.as_ref(), field)?;
        Some(ShownValue { part: Some(part), ..self })
    }

    /// The whole object.
    pub fn json(&self) -> Bytes {
        if self.alias.is_none() && self.part.is_none() {
            return self.entry.json();
        }
        let mut out = Vec::with_capacity(384);
        self.push_json(&mut out);
        Bytes::from(out)
    }

    /// Appends the whole object.
    pub fn push_json(&self, out: &mut Vec<u8>) {
        self.entry.push_json(out, self.alias, self.part.as_ref());
    }
}

//! The registrations as they would be after several changes, of which none is stored yet.

use std::collections::BTreeMap;
use std::sync::Arc;

use estimand_api::names::DataName;

use super::{Registrations, RenderedRegistration, StoredRegistration, inputs};

/// Some registrations and the changes of them; cheap, however many registrations there are.
pub struct Draft<'r> {
    base: &'r Registrations,
    /// The registrations of the changed names now; none: nothing any more.
    changed: BTreeMap<DataName, Option<StoredRegistration>>,
}

impl<'r> Draft<'r> {
    pub fn new(base: &'r Registrations) -> Self {
        Draft { base, changed: BTreeMap::new() }
    }

    pub fn get(&self, name: &DataName) -> Option<&StoredRegistration> {
        match self.changed.get(name) {
            Some(changed) => changed.as_ref(),
            None => self.base.get(name.as_str()),
        }
    }

    pub fn set(&mut self, name: &DataName, after: Option<&Arc<RenderedRegistration>>) {
        let after = after.map(|entry| StoredRegistration::Readable(Arc::clone(entry)));
        self.changed.insert(name.clone(), after);
    }

    /// The number of registrations.
    pub fn len(&self) -> usize {
        let known = |name: &DataName| self.base.get(name.as_str()).is_some();
        let gone = self.changed.iter().filter(|(name, after)| after.is_none() && known(name)).count();
        let new = self.changed.iter().filter(|(name, after)| after.is_some() && !known(name)).count();
        self.base.len() + new - gone
    }

    /// The names whose registrations read `name`, in order.
    pub fn readers_of(&self, name: &DataName) -> Vec<DataName> {
        let names = self
            .base
            .names()
            .chain(self.changed.keys().filter(|name| self.base.get(name.as_str()).is_none()));
        let mut readers: Vec<DataName> =
            names.filter(|reader| self.inputs_of(reader).contains(name)).cloned().collect();
        readers.sort();
        readers
    }

    /// The cycle of inputs that `name` is in, as people read it.
    pub fn cycle_of(&self, name: &DataName) -> Option<String> {
        let cycle = inputs::cycle(name, self.inputs_of(name), |name| self.inputs_of(name))?;
        Some(inputs::show(&cycle))
    }

    fn inputs_of(&self, name: &DataName) -> &[DataName] {
        let entry = self.get(name).and_then(StoredRegistration::readable);
        entry.map_or(&[], |entry| entry.registered.registration.inputs.as_slice())
    }
}

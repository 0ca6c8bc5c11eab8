//! Bindings in a group: bound, rolled back, unbound.
//!
//! A rollback binds a name to the last target that differs from its present one; so a second rollback undoes
//! the first, as `cd -` goes to and fro. A name that is bound no more is bound again to its last target. A
//! binding that would be rejected by hand is not rolled back to either. Every change leaves a
//! [`BindingChange`], which is stored with it.

use estimand_api::names::DataName;
use estimand_api::value::{BindingTarget, SwapAction};

use super::Rejection;
use super::binding_change::{BindingChange, Rebound};
use super::group::Group;
use super::log::Change;
use super::snapshot::Bound;

impl Group {
    pub fn bind(
        &mut self,
        name: &DataName,
        served: &BindingTarget,
        from: Option<&DataName>,
        by: &str,
    ) -> Result<Rebound, Rejection> {
        // A request that is sent twice is answered twice alike.
        if let Some(bound) = self.next.bindings().get(name).filter(|bound| bound.served == *served) {
            return Ok(Rebound { bound: bound.clone(), before: None });
        }
        self.check_from(name, from)?;
        self.swap(name, served, SwapAction::Bound, by)
    }

    pub fn roll_back(
        &mut self,
        name: &DataName,
        from: Option<&DataName>,
        by: &str,
    ) -> Result<Rebound, Rejection> {
        self.check_from(name, from)?;
        let served = match (self.next.bindings().get(name), self.next.released(name)) {
            (Some(Bound { before: Some(before), .. }), _) => before.clone(),
            (Some(bound), _) => {
                return Err(Rejection::NothingBefore { name: name.clone(), to: bound.served.to.clone() });
            }
            (None, Some(released)) => released.served.clone(),
            (None, None) => return Err(Rejection::NeverBound(name.clone())),
        };
        self.swap(name, &served, SwapAction::RolledBack, by)
    }

    pub fn unbind(&mut self, name: &DataName, by: &str) -> Result<(), Rejection> {
        let Some(Bound { served, before, .. }) = self.next.bindings().get(name).cloned() else {
            return Err(Rejection::NotBound(name.clone()));
        };
        let revision = self.next_revision();
        self.next.unbind(name);
        self.note(BindingChange {
            name: name.clone(),
            action: SwapAction::Unbound,
            served,
            before,
            revision,
            by: by.to_owned(),
        });
        Ok(())
    }

    /// Two operators that do not know of each other must not undo each other's work.
    fn check_from(&self, name: &DataName, from: Option<&DataName>) -> Result<(), Rejection> {
        let now = self.next.bindings().get(name).map(|bound| &bound.served.to);
        let name = name.clone();
        match (from.cloned(), now.cloned()) {
            (Some(from), Some(now)) if from != now => Err(Rejection::BoundElsewhere { name, now, from }),
            (Some(from), None) => Err(Rejection::NotBoundFrom { name, from }),
            _ => Ok(()),
        }
    }

    fn swap(
        &mut self,
        name: &DataName,
        served: &BindingTarget,
        action: SwapAction,
        by: &str,
    ) -> Result<Rebound, Rejection> {
        self.check_target(name, &served.to)?;
        let until_now = self.next.bindings().get(name);
        let last = until_now.or_else(|| self.next.released(name));
        let before = match last {
            Some(last) if last.served == *served => last.before.clone(),
            last => last.map(|last| last.served.clone()),
        };
        let until_now = until_now.map(|bound| bound.served.clone());
        let revision = self.next_revision();
        let bound = Bound { served: served.clone(), since: self.now, revision, before: before.clone() };
        self.next.bind(name.clone(), bound.clone());
        self.note(BindingChange {
            name: name.clone(),
            action,
            served: served.clone(),
            before,
            revision,
            by: by.to_owned(),
        });
        Ok(Rebound { bound, before: until_now })
    }

    /// Rejects a chain or a circle of bindings, and a binding that would hide values.
    fn check_target(&self, name: &DataName, to: &DataName) -> Result<(), Rejection> {
        let name = name.clone();
        if name == *to {
            return Err(Rejection::ToItself(name));
        }
        if let Some(bound) = self.next.bindings().get(to) {
            return Err(Rejection::ToBoundName { name, to: to.clone(), end: bound.served.to.clone() });
        }
        if let Some((other, _)) = self.next.bindings().iter().find(|(_, bound)| bound.served.to == name) {
            return Err(Rejection::IsTarget { name, other: other.clone() });
        }
        let has_values = self.next.table(name.as_str()).is_some_and(|table| !table.is_empty());
        match has_values && !self.next.bindings().contains_key(&name) {
            true => Err(Rejection::HidesValues(name)),
            false => Ok(()),
        }
    }

    fn note(&mut self, swapped: BindingChange) {
        let (name, revision) = (swapped.name.clone(), swapped.revision);
        self.bindings.insert(name.clone());
        self.changes.push(Change::Rebound { name, revision });
        self.swaps.push(swapped);
    }
}

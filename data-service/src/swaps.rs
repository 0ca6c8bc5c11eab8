//! What becomes of bindings in a group: bound, rolled back, unbound. Pure, like the rest of a group.
//!
//! A rollback binds a name to the last thing that it served and that is not what it serves now; so twice is back
//! again, as `cd -` goes to and fro. A name that is bound no more is bound again to what it served at last.
//! What cannot be bound by hand cannot be rolled back to either. Every change leaves a [`Swapped`], which is
//! stored with it.

use estimand_api::names::DataName;
use estimand_api::problem::Problem;
use estimand_api::value::{Served, SwapAction};

use crate::group::{Done, Group};
use crate::log::Change;
use crate::snapshot::Bound;

/// A change of a binding, for its history.
#[derive(Debug)]
pub struct Swapped {
    pub name: DataName,
    pub action: SwapAction,
    /// What the name serves from then on, or served until then.
    pub served: Served,
    /// What it served before that.
    pub before: Option<Served>,
    pub revision: u64,
    pub by: String,
}

impl Group {
    pub fn bind(
        &mut self,
        name: &DataName,
        served: &Served,
        from: Option<&DataName>,
        by: &str,
    ) -> Result<Done, Problem> {
        // That it is so already is what was wanted, also for whoever sends a request a second time.
        if let Some(bound) = self.next.bindings().get(name).filter(|bound| bound.served == *served) {
            return Ok(Done::Bound(bound.clone(), None));
        }
        self.check_from(name, from)?;
        self.swap(name, served, SwapAction::Bound, by)
    }

    pub fn roll_back(&mut self, name: &DataName, from: Option<&DataName>, by: &str) -> Result<Done, Problem> {
        self.check_from(name, from)?;
        let served = match (self.next.bindings().get(name), self.next.released(name)) {
            (Some(Bound { before: Some(before), .. }), _) => before.clone(),
            (Some(bound), _) => {
                return Err(Problem::conflict(format!(
                    "`{name}` never served anything but the values of `{}`: there is nothing to roll back to",
                    bound.served.to
                )));
            }
            (None, Some(released)) => released.served.clone(),
            (None, None) => return Err(Problem::not_found(format!("`{name}` never was bound"))),
        };
        self.swap(name, &served, SwapAction::RolledBack, by)
    }

    pub fn unbind(&mut self, name: &DataName, by: &str) -> Result<Done, Problem> {
        let Some(Bound { served, before, .. }) = self.next.bindings().get(name).cloned() else {
            return Err(Problem::not_found(format!("`{name}` is not bound")));
        };
        let revision = self.next_revision();
        self.next.unbind(name);
        self.note(Swapped {
            name: name.clone(),
            action: SwapAction::Unbound,
            served,
            before,
            revision,
            by: by.to_owned(),
        });
        Ok(Done::Nothing)
    }

    /// Two operators that do not know of each other must not undo each other's work.
    fn check_from(&self, name: &DataName, from: Option<&DataName>) -> Result<(), Problem> {
        let now = self.next.bindings().get(name).map(|bound| &bound.served.to);
        match (from, now) {
            (Some(from), Some(now)) if from != now => Err(Problem::conflict(format!(
                "`{name}` serves the values of `{now}` now, not those of `{from}`: somebody has bound it since"
            ))),
            (Some(from), None) => Err(Problem::conflict(format!(
                "`{name}` is not bound, so it does not serve the values of `{from}`"
            ))),
            _ => Ok(()),
        }
    }

    fn swap(
        &mut self,
        name: &DataName,
        served: &Served,
        action: SwapAction,
        by: &str,
    ) -> Result<Done, Problem> {
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
        self.note(Swapped {
            name: name.clone(),
            action,
            served: served.clone(),
            before,
            revision,
            by: by.to_owned(),
        });
        Ok(Done::Bound(bound, until_now))
    }

    /// Refuses what would be a chain or a circle, and what would hide values.
    fn check_target(&self, name: &DataName, to: &DataName) -> Result<(), Problem> {
        let refuse = |detail: String| Err(Problem::conflict(detail));
        if name == to {
            return refuse(format!("`{name}` cannot be bound to itself"));
        }
        if let Some(bound) = self.next.bindings().get(to) {
            let end = &bound.served.to;
            return refuse(format!("`{to}` is itself bound, to `{end}`: bind `{name}` to `{end}`"));
        }
        if let Some((other, _)) = self.next.bindings().iter().find(|(_, bound)| bound.served.to == *name) {
            return refuse(format!("`{other}` is bound to `{name}`, which therefore cannot be bound itself"));
        }
        let has_values = self.next.table(name.as_str()).is_some_and(|table| !table.is_empty());
        if has_values && !self.next.bindings().contains_key(name) {
            return refuse(format!(
                "`{name}` has values of its own, which the binding would hide: delete them first, and let what \
                 produces them write under another name"
            ));
        }
        Ok(())
    }

    fn note(&mut self, swapped: Swapped) {
        let (name, revision) = (swapped.name.clone(), swapped.revision);
        self.bindings.insert(name.clone());
        self.changes.push(Change::Rebound { name, revision });
        self.swaps.push(swapped);
    }
}

//! The table that a writer shows to readers.

use std::sync::{PoisonError, RwLock, RwLockReadGuard};

use estimand_api::problem::Problem;

/// A table that is shown to readers: none until it is loaded, and changed in place after each commit.
pub struct Published<T> {
    /// Names what it has, as in "the tasks".
    name: &'static str,
    table: RwLock<Option<T>>,
}

impl<T: Default> Published<T> {
    pub fn new(name: &'static str) -> Self {
        Published { name, table: RwLock::default() }
    }

    fn read(&self) -> RwLockReadGuard<'_, Option<T>> {
        self.table.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Looks at the table, which is empty before it is loaded.
    pub fn look<R>(&self, look: impl FnOnce(&T) -> R) -> R {
        match &*self.read() {
            Some(table) => look(table),
            None => look(&T::default()),
        }
    }

    /// Looks at the table for a request, which is answered only once it is loaded.
    pub fn loaded<R>(&self, look: impl FnOnce(&T) -> R) -> Result<R, Problem> {
        match &*self.read() {
            Some(table) => Ok(look(table)),
            None => Err(Problem::unavailable(format!("{} are not loaded yet", self.name), 1)),
        }
    }

    pub fn is_loaded(&self) -> bool {
        self.read().is_some()
    }

    /// Shows a table that was loaded.
    pub fn replace(&self, table: T) {
        *self.table.write().unwrap_or_else(PoisonError::into_inner) = Some(table);
    }

    /// Shows changes that are stored. Only what was loaded is changed.
    pub fn change(&self, change: impl FnOnce(&mut T)) {
        self.table.write().unwrap_or_else(PoisonError::into_inner).as_mut().map(change);
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn requests_wait_for_a_table_that_background_work_sees_empty() {
        let tallies = Published::<Vec<u64>>::new("the tallies");
        tallies.change(|table| table.push(1));
        let refused = tallies.loaded(Vec::len).unwrap_err();
        assert_eq!((refused.status, refused.detail.as_str()), (503, "the tallies are not loaded yet"));
        assert_eq!((tallies.look(Vec::len), tallies.is_loaded()), (0, false));
        tallies.replace(vec![7]);
        tallies.change(|table| table.push(8));
        assert_eq!((tallies.loaded(Vec::len), tallies.look(|table| table[1])), (Ok(2), 8));
    }
}

//! The tasks that a caller sees and changes: those of one user, or all of them.

use std::ops::Deref;

use estimand_api::access::forbidden_field;
use estimand_api::problem::{FieldError, Problem};
use estimand_api::resources::PLACES;
use estimand_api::task_document::TaskDocument;
use estimand_web::Principal;

use crate::table::{Named, TaskTable};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Scope(estimand_web::Scope);

impl Deref for Scope {
    type Target = estimand_web::Scope;

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

impl Scope {
    pub fn of(caller: &Principal) -> Self {
        Scope(estimand_web::Scope::of(caller))
    }

    pub fn has(&self, document: &TaskDocument) -> bool {
        self.has_user(document.user.as_deref())
    }

    /// The task or array of this id.
    pub fn find(&self, table: &TaskTable, id: &str) -> Option<Named> {
        table.find(id).filter(|named| self.has(named.document()))
    }

    /// Makes the document of a new task the user's own, and says so if it is another's. A user has no promises of their own;
    /// who makes one for them submits its task, too.
    pub fn claim(&self, document: &mut TaskDocument) -> Result<(), Problem> {
        if self.user().is_some() && document.promise.is_some() {
            let error = FieldError::new("promise", "is for operators to give");
            return Err(forbidden_field(error.expected("nothing: a reservation submits its task by itself")));
        }
        self.0.check_places("resources", document.resources.contains_key(PLACES))?;
        self.0.claim("user", &mut document.user)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn a_user_gives_no_promise_to_a_task() {
        let claimed = |own: Option<&str>| {
            let scope = Scope::of(&Principal::named("token").of_user(own.map(Into::into)));
            let promise = Some("p1".to_owned());
            scope
                .claim(&mut TaskDocument { promise, ..TaskDocument::default() })
                .map_err(|problem| problem.status)
        };
        assert_eq!((claimed(Some("alice")), claimed(None)), (Err(403), Ok(())));
    }

    #[test]
    fn a_user_asks_for_no_places() {
        let claimed = |own: Option<&str>| {
            let scope = Scope::of(&Principal::named("token").of_user(own.map(Into::into)));
            let resources = BTreeMap::from([(PLACES.to_owned(), 255)]);
            scope
                .claim(&mut TaskDocument { resources, ..TaskDocument::default() })
                .map_err(|problem| problem.errors)
        };
        assert_eq!(claimed(None), Ok(()));
        let [error] = &claimed(Some("alice")).unwrap_err()[..] else { panic!() };
        assert_eq!(error.field, "resources.tasks");
    }
}

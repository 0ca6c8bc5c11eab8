//! The tasks that a caller sees and changes: those of one user, or all of them.

use std::ops::Deref;

use estimand_api::access::forbidden_field;
use estimand_api::problem::{FieldError, Problem};
use estimand_api::resources::PLACES;
use estimand_api::task_document::TaskDocument;
use estimand_web::{Principal, Users};

use crate::table::{Named, TaskTable};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Scope {
    own: estimand_web::Scope,
    /// The caller is no user, and asks for this one.
    is_on_behalf: bool,
}

/// The query parameter that names the user for whom somebody else submits.
pub const BEHALF: &str = "behalf";

impl Deref for Scope {
    type Target = estimand_web::Scope;

    fn deref(&self) -> &Self::Target {
        &self.own
    }
}

impl Scope {
    pub fn of(caller: &Principal) -> Self {
        Scope { own: estimand_web::Scope::of(caller), is_on_behalf: false }
    }

    /// The scope of the caller, or of the user on whose behalf an operator or a scheduler asks.
    pub fn on_behalf(caller: &Principal, users: &Users, behalf: Option<&str>) -> Result<Self, Problem> {
        let Some(user) = behalf else { return Ok(Scope::of(caller)) };
        let own = estimand_web::Scope::on_behalf(caller, users, BEHALF, user)?;
        Ok(Scope { own, is_on_behalf: true })
    }

    pub fn has(&self, document: &TaskDocument) -> bool {
        self.has_user(document.user.as_deref())
    }

    /// The task or array of this id.
    pub fn find(&self, table: &TaskTable, id: &str) -> Option<Named> {
        table.find(id).filter(|named| self.has(named.document()))
    }

    /// Makes the document of a new task the user's own, and says so if it is another's. A user has no promises of their own;
    /// who makes one for them submits its task, too, also on their behalf.
    pub fn claim(&self, document: &mut TaskDocument) -> Result<(), Problem> {
        if self.is_on_behalf {
            return self.claim_on_behalf(document);
        }
        if self.user().is_some() && document.promise.is_some() {
            let error = FieldError::new("promise", "is for operators to give");
            return Err(forbidden_field(error.expected("nothing: a reservation submits its task by itself")));
        }
        self.own.check_places("resources", document.resources.contains_key(PLACES))?;
        self.own.claim("user", &mut document.user)
    }

    fn claim_on_behalf(&self, document: &mut TaskDocument) -> Result<(), Problem> {
        let user = self.user().map(str::to_owned);
        if let Some(given) = &document.user
            && document.user != user
        {
            let error =
                FieldError::new("user", format!("is not the user of `{BEHALF}`")).given(given.as_str());
            let expected = format!("`{}`, or nothing", user.as_deref().unwrap_or_default());
            return Err(Problem::invalid_field(error.expected(expected)));
        }
        document.user = user;
        Ok(())
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
    fn a_task_on_behalf_of_a_user_is_theirs_and_may_have_a_promise() {
        let scope =
            Scope::on_behalf(&Principal::named("operator"), &Users::default(), Some("alice")).unwrap();
        let claimed = |user: Option<&str>| {
            let promise = Some("p1".to_owned());
            let mut document =
                TaskDocument { promise, user: user.map(str::to_owned), ..TaskDocument::default() };
            let claimed = scope.claim(&mut document).map_err(|problem| problem.status);
            claimed.map(|()| document.user)
        };
        let hers = Ok(Some("alice".to_owned()));
        assert_eq!((claimed(None), claimed(Some("alice"))), (hers.clone(), hers));
        assert_eq!(claimed(Some("bob")), Err(400));
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

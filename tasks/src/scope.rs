//! The tasks that a caller sees and changes: those of one user, or all of them.
//!
//! To a user the tasks of others are as if they were not there. An answer that told "not yours" from "not there" would say
//! which ids others have.

use estimand_api::access::forbidden_field;
use estimand_api::names::MAX_USER_NAME;
use estimand_api::problem::{FieldError, Problem};
use estimand_web::Principal;

use crate::core::document::Document;
use crate::table::{Named, TaskTable};

/// The longest key of a submission as it is kept.
const MAX_KEY_BYTES: usize = 255;
/// Stands between a user and a key of theirs; no key has it.
const BETWEEN: char = '\t';

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Scope {
    /// None: the tasks of all users, and those of none.
    user: Option<String>,
}

impl Scope {
    pub fn of(caller: &Principal) -> Self {
        Scope { user: caller.user().map(str::to_owned) }
    }

    /// True for what belongs to this user, or to none.
    pub fn has_user(&self, user: Option<&str>) -> bool {
        self.user.as_deref().is_none_or(|own| user == Some(own))
    }

    pub fn has(&self, document: &Document) -> bool {
        self.has_user(document.user.as_deref())
    }

    /// The task or array of this id.
    pub fn find(&self, table: &TaskTable, id: &str) -> Option<Named> {
        table.find(id).filter(|named| self.has(named.document()))
    }

    /// Makes the document of a new task the user's own, and says so if it is another's. A user has no promises of their own;
    /// who makes one for them submits its task, too.
    pub fn claim(&self, document: &mut Document) -> Result<(), Problem> {
        if self.user.is_some() && document.promise.is_some() {
            let error = FieldError::new("promise", "is for operators to give");
            return Err(forbidden_field(error.expected("nothing: a reservation submits its task by itself")));
        }
        if let Some(own) = &self.user
            && document.user.replace(own.clone()).is_some_and(|given| given != *own)
        {
            let error = FieldError::new("user", "is another user");
            return Err(forbidden_field(error.expected(format!("`{own}`, whose token this is, or nothing"))));
        }
        Ok(())
    }

    /// The longest key that may be given with a submission.
    pub fn longest_key(&self) -> usize {
        match &self.user {
            Some(_) => MAX_KEY_BYTES - MAX_USER_NAME - BETWEEN.len_utf8(),
            None => MAX_KEY_BYTES,
        }
    }

    /// The key of a submission as it is kept: those of different users are different.
    pub fn key(&self, key: String) -> String {
        match &self.user {
            Some(user) => format!("{user}{BETWEEN}{key}"),
            None => key,
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn of(user: Option<&str>) -> Scope {
        Scope::of(&Principal::named("token").of_user(user.map(Into::into)))
    }

    fn document(user: Option<&str>) -> Document {
        Document { user: user.map(str::to_owned), ..Document::default() }
    }

    #[test]
    fn a_user_has_what_is_theirs_and_an_operator_has_all() {
        let has = |own, user| of(own).has(&document(user));
        assert!(has(Some("alice"), Some("alice")));
        assert!(!has(Some("alice"), Some("bob")) && !has(Some("alice"), None));
        assert!(has(None, Some("bob")) && has(None, None));
    }

    #[test]
    fn a_new_task_is_its_users() {
        let claimed = |own, given| {
            let mut document = document(given);
            of(own).claim(&mut document).map(|()| document.user)
        };
        assert_eq!(claimed(Some("alice"), None).unwrap().as_deref(), Some("alice"));
        assert_eq!(claimed(Some("alice"), Some("alice")).unwrap().as_deref(), Some("alice"));
        let problem = claimed(Some("alice"), Some("bob")).unwrap_err();
        assert_eq!((problem.status, &*problem.errors[0].field), (403, "user"));
        assert_eq!(claimed(None, Some("bob")).unwrap().as_deref(), Some("bob"));
        assert_eq!(claimed(None, None).unwrap(), None);
    }

    #[test]
    fn a_user_gives_no_promise_to_a_task() {
        let claimed = |own| {
            let promise = Some("p1".to_owned());
            of(own).claim(&mut Document { promise, ..Document::default() }).map_err(|problem| problem.status)
        };
        assert_eq!((claimed(Some("alice")), claimed(None)), (Err(403), Ok(())));
    }

    #[test]
    fn equal_keys_of_different_users_are_different() {
        let kept = [of(Some("alice")), of(Some("bob")), of(None)].map(|scope| scope.key("k".to_owned()));
        assert!(kept[0] != kept[1] && kept[1] != kept[2] && kept[0] != kept[2], "{kept:?}");
    }
}

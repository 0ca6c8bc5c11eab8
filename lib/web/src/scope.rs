//! The part of a service's things that a caller sees and changes: those of one user, or all of them.
//!
//! To a user the things of others are as if they were not there. An answer that told "not yours" from "not there" would say
//! which there are.

use estimand_api::access::forbidden_field;
use estimand_api::names::MAX_USER_NAME;
use estimand_api::problem::{FieldError, Problem};
use estimand_api::resources::PLACES;
use estimand_api::share::ShareKind;

use crate::parameters::MAX_KEY_BYTES;
use crate::role::Principal;
use crate::shares::User;

/// Stands between a user and a key of theirs; no key has it.
const BETWEEN: char = '\t';

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Scope {
    user: Option<User>,
}

impl Scope {
    pub fn of(caller: &Principal) -> Self {
        Scope { user: caller.as_user().cloned() }
    }

    /// The one user; none: the things of all users, and those of none.
    pub fn user(&self) -> Option<&str> {
        self.user.as_ref().map(User::name)
    }

    /// Refuses `more` of a thing that is kept, if the user has `used` of it already and so would have more than their share.
    /// `bound` is the most that is kept of it in all.
    pub fn check_share(&self, kind: ShareKind, used: u64, more: u64, bound: u64) -> Result<(), Problem> {
        self.user.as_ref().map_or(Ok(()), |user| user.check(kind, used, more, bound))
    }

    /// The user's limit of a kind; none if there is no user.
    pub fn limit(&self, kind: ShareKind, bound: u64) -> Option<u64> {
        self.user.as_ref().map(|user| user.limits().limit(kind, bound))
    }

    /// True for what belongs to this user, or to none.
    pub fn has_user(&self, user: Option<&str>) -> bool {
        self.user().is_none_or(|own| user == Some(own))
    }

    /// Makes something new the user's own, and says so if `field` names another one.
    pub fn claim(&self, field: &str, user: &mut Option<String>) -> Result<(), Problem> {
        let Some(own) = self.user() else { return Ok(()) };
        match user.replace(own.to_owned()) {
            Some(given) if given != own => {
                let error = FieldError::new(field, "is another user");
                Err(forbidden_field(error.expected(format!("`{own}`, whose token this is, or nothing"))))
            }
            _ => Ok(()),
        }
    }

    /// Refuses a document that asks for places of a node, if it is a user's: others would have none.
    pub fn check_places(&self, resources: &str, asks: bool) -> Result<(), Problem> {
        if self.user().is_none() || !asks {
            return Ok(());
        }
        let error =
            FieldError::new(format!("{resources}.{PLACES}"), "is for schedulers and operators to ask for");
        Err(Problem::invalid_field(
            error.expected("nothing: each task, and each unit, has a place without asking"),
        ))
    }

    /// The longest key that may be given with a request.
    pub fn longest_key(&self) -> usize {
        match self.user {
            Some(_) => MAX_KEY_BYTES - MAX_USER_NAME - BETWEEN.len_utf8(),
            None => MAX_KEY_BYTES,
        }
    }

    /// The key of a request as it is kept: those of different users are different.
    pub fn key(&self, key: String) -> String {
        match self.user() {
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

    #[test]
    fn a_user_has_what_is_theirs_and_an_operator_has_all() {
        assert!(of(Some("alice")).has_user(Some("alice")));
        assert!(!of(Some("alice")).has_user(Some("bob")) && !of(Some("alice")).has_user(None));
        assert!(of(None).has_user(Some("bob")) && of(None).has_user(None));
    }

    #[test]
    fn something_new_is_its_users() {
        let claimed = |own, given: Option<&str>| {
            let mut user = given.map(str::to_owned);
            of(own).claim("user", &mut user).map(|()| user)
        };
        assert_eq!(claimed(Some("alice"), None).unwrap().as_deref(), Some("alice"));
        assert_eq!(claimed(Some("alice"), Some("alice")).unwrap().as_deref(), Some("alice"));
        let problem = claimed(Some("alice"), Some("bob")).unwrap_err();
        assert_eq!((problem.status, &*problem.errors[0].field), (403, "user"));
        assert_eq!(claimed(None, Some("bob")).unwrap().as_deref(), Some("bob"));
        assert_eq!(claimed(None, None).unwrap(), None);
    }

    #[test]
    fn only_a_user_asks_for_no_places() {
        let checked = |own, asks| of(own).check_places("resources", asks).map_err(|problem| problem.status);
        assert_eq!(checked(Some("alice"), true), Err(400));
        assert_eq!((checked(Some("alice"), false), checked(None, true)), (Ok(()), Ok(())));
    }

    #[test]
    fn equal_keys_of_different_users_are_different() {
        let kept = [of(Some("alice")), of(Some("bob")), of(None)].map(|scope| scope.key("k".to_owned()));
        assert!(kept[0] != kept[1] && kept[1] != kept[2] && kept[0] != kept[2], "{kept:?}");
    }
}

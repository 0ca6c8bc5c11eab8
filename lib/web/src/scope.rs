//! The part of a service's things that a caller sees and changes: those of one user, or all of them.
//!
//! To a user the things of others are as if they were not there. An answer that told "not yours" from "not there" would say
//! which there are.

use estimand_api::access::forbidden_field;
use estimand_api::names::{MAX_USER_NAME, UserName};
use estimand_api::problem::{FieldError, Problem};
use estimand_api::resources::PLACES;
use estimand_api::share::ShareKind;

use crate::parameters::{MAX_KEY_BYTES, parsed};
use crate::role::Principal;
use crate::shares::{User, Users};

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

    /// The scope of the user on whose behalf a caller without a user asks, as the query parameter `field` has it.
    pub fn on_behalf(caller: &Principal, users: &Users, field: &str, user: &str) -> Result<Self, Problem> {
        if let Some(own) = caller.as_user() {
            let message =
                format!("is for operators and schedulers; this token is for the user `{}`", own.name());
            let error = FieldError::new(field, message).given(user);
            return Err(forbidden_field(error.expected("nothing: what a user asks for is theirs")));
        }
        let name: UserName = parsed(field, user)?;
        // A user without a token and limits is not kept, or there would be no bound to them.
        let user = users.find(name.as_str()).unwrap_or_else(|| User::from(name.as_str()));
        Ok(Scope { user: Some(user) })
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

    /// Refuses a priority above the user's highest. `field` is where it stands.
    pub fn check_priority(&self, field: &str, priority: i32) -> Result<(), Problem> {
        let Some(user) = &self.user else { return Ok(()) };
        let highest = user.limits().limit(ShareKind::Priority, 0);
        if i64::from(priority) <= i64::try_from(highest).unwrap_or(i64::MAX) {
            return Ok(());
        }
        let name = user.name();
        let expected = format!(
            "at most {highest}; an operator gives more: `estimand users set {name} --priority {priority}`"
        );
        let error = FieldError::new(field, format!("is above the highest of `{name}`")).given(priority);
        Err(Problem::invalid_field(error.expected(expected)))
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
    use std::collections::HashMap;

    use estimand_api::share::Limits;
    use serde_json::json;

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
    fn a_priority_is_at_most_its_users_highest() {
        let checked = |own, priority| of(own).check_priority("task.priority", priority);
        assert_eq!(
            (checked(Some("alice"), 0), checked(Some("alice"), -5), checked(None, 9)),
            (Ok(()), Ok(()), Ok(()))
        );
        let problem = checked(Some("alice"), 1).unwrap_err();
        assert_eq!((problem.status, &*problem.errors[0].field), (400, "task.priority"));
    }

    #[test]
    fn whoever_has_no_user_asks_on_behalf_of_one() {
        let users = Users::default();
        let limits = Limits::from_stored(&json!({ "priority": 7 }).as_object().unwrap().clone());
        users.set_limits(HashMap::from([("alice".to_owned(), limits)]));
        let operator = Principal::named("operator");
        let asked = |caller: &Principal, user: &str| Scope::on_behalf(caller, &users, "behalf", user);
        let hers = asked(&operator, "alice").unwrap();
        assert_eq!((hers.user(), hers.limit(ShareKind::Priority, 0)), (Some("alice"), Some(7)));
        assert_eq!(asked(&operator, "carol").unwrap().limit(ShareKind::Priority, 0), Some(0));
        assert!(users.find("carol").is_none(), "a name that is only asked for is not kept");
        assert_eq!(asked(&operator, "../x").map_err(|problem| problem.status), Err(400));
        let bob = operator.of_user(Some("bob".into()));
        for user in ["alice", "bob", "../x"] {
            let problem = asked(&bob, user).unwrap_err();
            assert_eq!((problem.status, &*problem.errors[0].field), (403, "behalf"));
        }
    }

    #[test]
    fn equal_keys_of_different_users_are_different() {
        let kept = [of(Some("alice")), of(Some("bob")), of(None)].map(|scope| scope.key("k".to_owned()));
        assert!(kept[0] != kept[1] && kept[1] != kept[2] && kept[0] != kept[2], "{kept:?}");
    }
}

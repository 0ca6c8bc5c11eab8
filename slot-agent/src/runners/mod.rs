//! The runner of a task: the user of this machine as whom it runs.
//!
//! Tasks that have no user run as slots do: as the user of `--run-as`, or as the agent itself. A user's tasks do not run as the
//! agent, whose files and token they could read, unless its operator says so; with `--run-as-range` each user has a number of
//! their own ([`numbers`]), so that users reach each other's processes and files no more than those of the machine do
//! ([136](../../../docs/decisions/136-a-number-a-user.md)).

mod leavings;
mod numbers;
mod range;

use std::io;

use estimand_api::node::UsersTasks;
use estimand_exec::Identity;

use crate::user::RunAs;

pub use leavings::clear;
pub use numbers::{NumbersError, UserNumbers};
pub use range::UserRange;

/// The user of this machine as whom a task runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Runner {
    pub identity: Identity,
    /// For `USER` and `LOGNAME`.
    pub name: Option<String>,
}

/// The rule by which each task has its runner.
#[derive(Debug, Default)]
pub struct Runners {
    pub run_as: Option<RunAs>,
    /// The numbers of users, if each has one.
    pub numbers: Option<UserNumbers>,
    /// Without another user to run as, users' tasks run as the agent itself.
    pub allow_users_as_agent: bool,
}

impl Runners {
    /// The runner of a task of this user, in a container or not; none: the agent itself. The error says why it does not run
    /// here. Blocking for a user that is new here.
    pub fn of(&self, user: Option<&str>, has_image: bool) -> Result<Option<Runner>, String> {
        let common = self.run_as.as_ref();
        let common =
            common.map(|run_as| Runner { identity: run_as.identity.clone(), name: run_as.name.clone() });
        let Some(user) = user else { return Ok(common) };
        if let Some(numbers) = &self.numbers {
            let number = numbers.of(user).map_err(|error| error.to_string())?;
            let identity = Identity { uid: number, gid: number, groups: Vec::new() };
            return Ok(Some(Runner { identity, name: Some(user.to_owned()) }));
        }
        // The rights of a container do not come from its agent.
        if common.is_none() && !has_image && !self.allow_users_as_agent {
            return Err(format!(
                "it is the task of the user `{user}`, and the agent on this node would run it as itself, so that it could read \
                 the agent's files and token; `--run-as USER` has it run as another user, and `--allow-users-as-agent` as the \
                 agent all the same"
            ));
        }
        Ok(common)
    }

    /// Gives a user who is new here a number, if they have one each. An error may pass. Blocking.
    pub fn prepare(&self, user: Option<&str>) -> io::Result<()> {
        let (Some(numbers), Some(user)) = (&self.numbers, user) else { return Ok(()) };
        match numbers.of(user) {
            Err(error @ NumbersError::NotKept { .. }) => Err(io::Error::other(error)),
            // A user who gets no number is told why when a task of theirs comes.
            _ => Ok(()),
        }
    }

    /// How tasks of users run here, in a word for the task service.
    pub fn users_tasks(&self) -> UsersTasks {
        match (&self.numbers, &self.run_as, self.allow_users_as_agent) {
            (Some(_), _, _) => UsersTasks::Apart,
            (None, Some(_), _) => UsersTasks::Together,
            (None, None, true) => UsersTasks::AsAgent,
            (None, None, false) => UsersTasks::Refused,
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_users_task_does_not_run_as_the_agent_unless_it_is_told() {
        let plain = Runners::default();
        assert_eq!((plain.of(None, false), plain.users_tasks()), (Ok(None), UsersTasks::Refused));
        let refused = plain.of(Some("alice"), false).unwrap_err();
        for part in ["`alice`", "`--run-as USER`", "`--allow-users-as-agent`"] {
            assert!(refused.contains(part), "{refused}");
        }
        assert_eq!(plain.of(Some("alice"), true), Ok(None), "a container has nothing of the agent's");
        let told = Runners { allow_users_as_agent: true, ..Runners::default() };
        assert_eq!((told.of(Some("alice"), false), told.users_tasks()), (Ok(None), UsersTasks::AsAgent));
        let other = Runners { run_as: Some(RunAs::find("7:8").unwrap()), ..Runners::default() };
        assert_eq!(other.of(Some("alice"), false), other.of(None, false));
        assert_eq!(other.of(None, false).unwrap().unwrap().identity.uid, 7);
        assert_eq!(other.users_tasks(), UsersTasks::Together);
    }

    #[test]
    fn each_user_has_a_runner_of_their_own_from_the_range() {
        let place = tempfile::tempdir().unwrap();
        let numbers = UserNumbers::open(place.path(), "300000-300009".parse().unwrap()).unwrap();
        let run_as = Some(RunAs::find("7:8").unwrap());
        let runners = Runners { run_as, numbers: Some(numbers), allow_users_as_agent: false };
        let identity = |user| runners.of(user, false).unwrap().unwrap().identity;
        let (alice, bob) = (identity(Some("alice")), identity(Some("bob")));
        assert_eq!((alice.uid, alice.gid, alice.groups.len()), (300_000, 300_000, 0));
        assert_eq!((bob.uid, bob.gid), (300_001, 300_001));
        assert_eq!(identity(None).uid, 7, "slots and tasks without a user stay as they are");
        assert_eq!((identity(Some("alice")), runners.users_tasks()), (alice, UsersTasks::Apart));
        assert_eq!(runners.of(Some("bob"), false).unwrap().unwrap().name.as_deref(), Some("bob"));
    }
}

//! The numbers of users on this node, each from the range of its operator.
//!
//! A number is a user's for ever: what it owns may lie anywhere on this machine, and whoever had the number next would own
//! it. So the file is on disk before a number is used, and one that cannot be read ends the agent. Numbers that an earlier
//! range gave are kept, and given to nobody else.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use estimand_runtime::files::write_atomically;
use nix::unistd::{Gid, Group, Uid, User};
use serde::{Deserialize, Serialize};

use super::UserRange;

/// The file in the agent's folder.
const FILE: &str = "users.json";

#[derive(Debug, thiserror::Error)]
pub enum NumbersError {
    #[error(
        "the numbers of users on this node, {}, cannot be read: {cause}; restore that file, since another user must not be given \
         a number that is in it",
        file.display()
    )]
    Unreadable { file: PathBuf, cause: io::Error },
    #[error(
        "each of the {} numbers of `--run-as-range {range}` on this node is given to a user or taken on the machine, and there is \
         none for `{user}`; a larger range has more",
        range.size()
    )]
    Exhausted { range: UserRange, user: String },
    #[error("the number of the user `{user}` on this node cannot be kept: {cause}")]
    NotKept { user: String, cause: io::Error },
}

/// The numbers of users, durable.
#[derive(Debug)]
pub struct UserNumbers {
    range: UserRange,
    file: PathBuf,
    given: Mutex<Vec<UserNumber>>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct UserNumber {
    user: String,
    number: u32,
}

impl UserNumbers {
    /// The numbers that are kept in this folder.
    pub fn open(folder: &Path, range: UserRange) -> Result<Self, NumbersError> {
        let file = folder.join(FILE);
        let unreadable = |cause| NumbersError::Unreadable { file: file.clone(), cause };
        let given = match fs::read(&file) {
            Ok(text) => serde_json::from_slice(&text).map_err(|error| unreadable(error.into()))?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
            Err(error) => return Err(unreadable(error)),
        };
        Ok(UserNumbers { range, file, given: Mutex::new(given) })
    }

    pub fn range(&self) -> UserRange {
        self.range
    }

    /// The number of a user; a new one if they have none within the range. Blocking then.
    pub fn of(&self, user: &str) -> Result<u32, NumbersError> {
        let mut given = self.given();
        let known = given.iter().find(|one| one.user == user && self.range.contains(one.number));
        if let Some(known) = known {
            return Ok(known.number);
        }
        let taken: BTreeSet<u32> = given.iter().map(|one| one.number).collect();
        let free = self.range.numbers().find(|number| !taken.contains(number) && !is_known(*number));
        let number =
            free.ok_or_else(|| NumbersError::Exhausted { range: self.range, user: user.to_owned() })?;
        let mut all = given.clone();
        all.push(UserNumber { user: user.to_owned(), number });
        let kept = serde_json::to_vec_pretty(&all).map_err(io::Error::from);
        let kept = kept.and_then(|text| write_atomically(&self.file, &text, 0o600));
        kept.map_err(|cause| NumbersError::NotKept { user: user.to_owned(), cause })?;
        *given = all;
        Ok(number)
    }

    /// All numbers that users have or had.
    pub fn all(&self) -> BTreeSet<u32> {
        self.given().iter().map(|one| one.number).collect()
    }

    fn given(&self) -> MutexGuard<'_, Vec<UserNumber>> {
        self.given.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The machine has a user or a group of this number. A source of users that fails has none.
fn is_known(number: u32) -> bool {
    matches!(User::from_uid(Uid::from_raw(number)), Ok(Some(_)))
        || matches!(Group::from_gid(Gid::from_raw(number)), Ok(Some(_)))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn open(folder: &Path, range: &str) -> UserNumbers {
        UserNumbers::open(folder, range.parse().unwrap()).unwrap()
    }

    #[test]
    fn a_number_is_a_users_for_ever() {
        let place = tempfile::tempdir().unwrap();
        let first = open(place.path(), "300000-300001");
        assert_eq!((first.of("alice").unwrap(), first.of("bob").unwrap()), (300_000, 300_001));
        let exhausted = first.of("carol").unwrap_err().to_string();
        for part in ["2 numbers", "--run-as-range 300000-300001", "`carol`", "larger range"] {
            assert!(exhausted.contains(part), "{exhausted}");
        }
        drop(first);
        let again = open(place.path(), "300000-300001");
        assert_eq!((again.of("bob").unwrap(), again.of("alice").unwrap()), (300_001, 300_000));
        // A larger range has room; another one gives other numbers, and the former ones to nobody.
        assert_eq!(open(place.path(), "300000-300002").of("carol").unwrap(), 300_002);
        assert_eq!(open(place.path(), "300001-300009").of("alice").unwrap(), 300_003);
        let last = open(place.path(), "300000-300009");
        assert_eq!((last.of("alice").unwrap(), last.of("dave").unwrap()), (300_000, 300_004));
        assert_eq!(last.all().len(), 5);
    }

    #[test]
    fn users_of_the_machine_keep_their_numbers() {
        let place = tempfile::tempdir().unwrap();
        let known = (1..65_534).find(|number| is_known(*number)).unwrap();
        let range = format!("{known}-{known}");
        assert!(matches!(open(place.path(), &range).of("alice"), Err(NumbersError::Exhausted { .. })));
    }

    #[test]
    fn numbers_that_cannot_be_read_are_not_given_anew() {
        let place = tempfile::tempdir().unwrap();
        fs::write(place.path().join(FILE), "[").unwrap();
        let error = UserNumbers::open(place.path(), "300000-300001".parse().unwrap()).unwrap_err();
        assert!(error.to_string().contains("users.json"), "{error}");
    }
}

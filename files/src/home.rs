//! The folder in which a caller's paths begin: a user's own one, or for operators that of the service. With a grant it is
//! that of the user for whom it was given, and only what it says can be named.
//!
//! A user cannot name anything outside of it: a path has no `..`, and no link is followed.

use estimand_api::access::forbidden;
use estimand_api::file::FilePath;
use estimand_api::file_share::{ReadPath, USERS_FOLDER};
use estimand_api::problem::Problem;
use estimand_api::share::ShareKind;
use estimand_web::{Permit, Principal, User};

use crate::grants::{Grant, Right};
use crate::owner::Owner;
use crate::shared_folders::SharedFolders;
use crate::unfinished::MAX_SENT;

#[derive(Debug, Clone)]
pub struct Home {
    /// `users/NAME`; none: the folder of the service.
    folder: Option<String>,
    /// None: everything in it.
    right: Option<Right>,
    /// The user who sends and fetches, if it is one.
    user: Option<User>,
}

impl Home {
    pub fn of(caller: &Principal) -> Self {
        Home { folder: caller.user().map(folder_of), right: None, user: caller.as_user().cloned() }
    }

    pub fn owner(&self) -> Owner {
        let folder = self.folder.as_deref().unwrap_or_default();
        let name =
            folder.strip_prefix(USERS_FOLDER).and_then(|name| name.strip_prefix('/')).unwrap_or_default();
        match self.right {
            Some(_) => Owner::tasks_of(name),
            None => Owner::user(name),
        }
    }

    /// A place among the uploads of the user, until it is dropped. The tasks of a user have others.
    pub fn begin_upload(&self) -> Result<Permit, Problem> {
        Permit::take_for(self.user.as_ref(), ShareKind::Uploads, MAX_SENT as u64)
    }

    /// The part that a grant gives.
    pub fn granted(grant: Grant) -> Self {
        Home { folder: grant.home, right: Some(grant.right), user: None }
    }

    /// The place of a caller's path below the folder of the service.
    pub fn place(&self, path: &FilePath) -> Result<FilePath, Problem> {
        let is_granted = match &self.right {
            None => true,
            Some(Right::Read(file)) => file == path,
            Some(Right::Write(folder)) => is_beneath(path, folder),
            // A file that another user does not share is as if it was not there.
            Some(Right::Nothing) => return Err(Problem::not_found(format!("there is no file `{path}`"))),
        };
        if !is_granted {
            return Err(forbidden(format!("the grant is not for `{path}`")));
        }
        let Some(folder) = &self.folder else { return Ok(path.clone()) };
        // An operator can name whatever a user can, so neither is longer nor deeper than a path may be.
        format!("{folder}/{path}")
            .parse()
            .map_err(|error: estimand_api::file::FilePathError| Problem::invalid_field(error.at("path")))
    }

    /// The place of a file or folder that is to be read, also another user's who shares it.
    pub fn place_to_read(&self, path: &ReadPath, shared: &SharedFolders) -> Result<FilePath, Problem> {
        let Some(owner) = path.owner() else { return self.place(path.path()) };
        let is_shared = match (&self.user, &self.right) {
            (Some(user), _) => shared.is_readable(user.name(), owner, path.path()),
            (None, None) => true,
            (None, Some(_)) => false,
        };
        if is_shared {
            Ok(path.place())
        } else {
            Err(Problem::not_found(format!("there is no file `{path}`")))
        }
    }

    /// The same for a file that is to be put there.
    pub fn place_to_write(&self, path: &FilePath) -> Result<FilePath, Problem> {
        match self.right {
            Some(Right::Read(_)) => Err(forbidden("the grant is for reading")),
            _ => self.place(path),
        }
    }

    /// The place of a folder below that of the service; none is that itself.
    pub fn folder(
        &self,
        folder: Option<&ReadPath>,
        shared: &SharedFolders,
    ) -> Result<Option<FilePath>, Problem> {
        match (folder, &self.folder) {
            (Some(folder), _) => match self.place_to_read(folder, shared) {
                Err(problem) if problem.status == 404 => {
                    Err(Problem::not_found(format!("there is no folder `{folder}`")))
                }
                place => place.map(Some),
            },
            (None, Some(own)) => Ok(own.parse().ok()),
            (None, None) => Ok(None),
        }
    }

    /// True if it may not be there yet: a user's folder is made with the first file in it.
    pub fn is_made_later(&self) -> bool {
        self.folder.is_some()
    }
}

/// The folder of a user.
pub fn folder_of(user: &str) -> String {
    format!("{USERS_FOLDER}/{user}")
}

fn is_beneath(path: &FilePath, folder: &FilePath) -> bool {
    path.as_str().strip_prefix(folder.as_str()).is_some_and(|rest| rest.starts_with('/'))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn path(text: &str) -> FilePath {
        text.parse().unwrap()
    }

    #[test]
    fn a_users_paths_begin_in_their_folder() {
        let home = Home::of(&Principal::named("laptop").of_user(Some(User::from("alice"))));
        assert_eq!(home.place(&path("a/b")).unwrap(), path("users/alice/a/b"));
        assert_eq!(home.place_to_write(&path("a/b")).unwrap(), path("users/alice/a/b"));
        assert_eq!(home.place(&path("users/bob/b")).unwrap(), path("users/alice/users/bob/b"));
        let shared = SharedFolders::default();
        assert_eq!(home.folder(None, &shared).unwrap(), Some(path("users/alice")));
        assert_eq!(home.folder(Some(&path("a").into()), &shared).unwrap(), Some(path("users/alice/a")));
        let longest = path(&["x".repeat(255).as_str(); 4].join("/"));
        assert_eq!(home.place(&longest).unwrap_err().status, 400);
        assert_eq!(home.owner(), Owner::user("alice"));
    }

    #[test]
    fn an_operators_paths_begin_in_the_folder_of_the_service() {
        let home = Home::of(&Principal::named("operator"));
        assert_eq!(home.place(&path("users/bob/b")).unwrap(), path("users/bob/b"));
        let shared = SharedFolders::default();
        assert_eq!(home.folder(None, &shared).unwrap(), None);
        let others = "/users/bob/b".parse().unwrap();
        assert_eq!(home.place_to_read(&others, &shared).unwrap(), path("users/bob/b"));
    }

    #[test]
    fn a_grant_gives_one_file_or_one_folder() {
        let home = |right| Home { folder: Some(folder_of("alice")), right: Some(right), user: None };
        let reads = home(Right::Read(path("data/x")));
        assert_eq!((reads.owner(), reads.owner().name()), (Owner::tasks_of("alice"), Some("alice")));
        assert_eq!(reads.place(&path("data/x")).unwrap(), path("users/alice/data/x"));
        for other in ["data/x/y", "data", "data/y"] {
            assert_eq!(reads.place(&path(other)).unwrap_err().status, 403, "{other}");
        }
        assert_eq!(reads.place_to_write(&path("data/x")).unwrap_err().status, 403);
        let others = "/users/alice/data/x".parse().unwrap();
        assert_eq!(reads.place_to_read(&others, &SharedFolders::default()).unwrap_err().status, 404);
        assert_eq!(home(Right::Nothing).place(&path("data/x")).unwrap_err().status, 404);
        let writes = home(Right::Write(path("tasks/t1")));
        assert_eq!(writes.place_to_write(&path("tasks/t1/a/b")).unwrap(), path("users/alice/tasks/t1/a/b"));
        for other in ["tasks/t1", "tasks/t11/a", "tasks/t2/a", "data/x"] {
            assert_eq!(writes.place_to_write(&path(other)).unwrap_err().status, 403, "{other}");
        }
    }
}

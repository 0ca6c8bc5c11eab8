//! The folder in which a caller's paths begin: a user's own one, or for operators that of the service.
//!
//! A user cannot name anything outside of it: a path has no `..`, and no link is followed.

use estimand_api::file::FilePath;
use estimand_api::problem::Problem;
use estimand_web::Principal;

/// The folder of users' folders.
const USERS: &str = "users";

#[derive(Debug, Clone)]
pub struct Home {
    /// `users/NAME`; none: the folder of the service.
    folder: Option<String>,
}

impl Home {
    pub fn of(caller: &Principal) -> Self {
        Home { folder: caller.user().map(|user| format!("{USERS}/{user}")) }
    }

    /// The place of a caller's path below the folder of the service.
    pub fn place(&self, path: &FilePath) -> Result<FilePath, Problem> {
        let Some(folder) = &self.folder else { return Ok(path.clone()) };
        // An operator can name whatever a user can, so neither is longer nor deeper than a path may be.
        format!("{folder}/{path}")
            .parse()
            .map_err(|error: estimand_api::file::FilePathError| Problem::invalid_field(error.at("path")))
    }

    /// The place of a folder below that of the service; none is that itself.
    pub fn folder(&self, folder: Option<&FilePath>) -> Result<Option<FilePath>, Problem> {
        match (folder, &self.folder) {
            (Some(folder), _) => self.place(folder).map(Some),
            (None, Some(own)) => Ok(own.parse().ok()),
            (None, None) => Ok(None),
        }
    }

    /// True if it may not be there yet: a user's folder is made with the first file in it.
    pub fn is_made_later(&self) -> bool {
        self.folder.is_some()
    }
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
        let home = Home::of(&Principal::named("laptop").of_user(Some("alice".into())));
        assert_eq!(home.place(&path("a/b")).unwrap(), path("users/alice/a/b"));
        assert_eq!(home.place(&path("users/bob/b")).unwrap(), path("users/alice/users/bob/b"));
        assert_eq!(home.folder(None).unwrap(), Some(path("users/alice")));
        assert_eq!(home.folder(Some(&path("a"))).unwrap(), Some(path("users/alice/a")));
        let longest = path(&["x".repeat(255).as_str(); 4].join("/"));
        assert_eq!(home.place(&longest).unwrap_err().status, 400);
    }

    #[test]
    fn an_operators_paths_begin_in_the_folder_of_the_service() {
        let home = Home::of(&Principal::named("operator"));
        assert_eq!(home.place(&path("users/bob/b")).unwrap(), path("users/bob/b"));
        assert_eq!(home.folder(None).unwrap(), None);
    }
}

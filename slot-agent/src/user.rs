//! `--run-as USER[:GROUP]`: the user and the groups on this machine.
//!
//! Looked up once, when the agent starts, wherever this machine keeps its users. Nothing is changed here.

use std::ffi::CString;
use std::fmt;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use estimand_exec::Identity;
use nix::unistd::{Group, Uid, User, getgrouplist};

/// The user that everything in slots runs as.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunAs {
    /// As it was given.
    given: String,
    /// The user's name, if it has one.
    pub name: Option<String>,
    pub identity: Identity,
}

/// There is no such user.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("cannot run anything as `{given}`: {cause}")]
pub struct RunAsError {
    given: String,
    cause: String,
}

impl RunAs {
    /// Names or numbers, `USER` or `USER:GROUP`. Without a group it has all groups that the user is in; with one it has
    /// that group alone.
    pub fn find(given: &str) -> Result<Self, RunAsError> {
        let wrong = |cause: String| RunAsError { given: given.to_owned(), cause };
        let (user, group) = match given.split_once(':') {
            Some((user, group)) => (user, Some(group)),
            None => (given, None),
        };
        // A source of users that fails has none.
        let known = match number(user) {
            Some(uid) => User::from_uid(Uid::from_raw(uid)),
            None => User::from_name(user),
        };
        let known = known.ok().flatten();
        let (uid, name) = match (&known, number(user)) {
            (Some(known), _) => (known.uid.as_raw(), Some(known.name.clone())),
            (None, Some(uid)) => (uid, None),
            (None, None) => return Err(wrong(format!("there is no user `{user}` on this machine"))),
        };
        let identity = match (group, known) {
            (Some(group), _) => {
                let gid = number(group).or_else(|| Some(Group::from_name(group).ok()??.gid.as_raw()));
                let gid = gid.ok_or_else(|| wrong(format!("there is no group `{group}` on this machine")))?;
                Identity { uid, gid, groups: Vec::new() }
            }
            (None, Some(known)) => Identity { uid, gid: known.gid.as_raw(), groups: groups_of(&known) },
            (None, None) => {
                let cause = format!("no user has the number {uid}, so it needs a group as well: {uid}:GROUP");
                return Err(wrong(cause));
            }
        };
        Ok(RunAs { given: given.to_owned(), name, identity })
    }

    /// The last folder on the way to this one that the user cannot go through, if there is one.
    pub fn barred_from(&self, folder: &Path) -> Option<PathBuf> {
        barred(&self.identity, folder)
    }
}

impl fmt::Display for RunAs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.given)
    }
}

/// The outermost folder on the way that somebody without capabilities cannot go through. A folder with an access
/// list may be open nonetheless; then its group's bits say what that allows at most.
pub fn barred(identity: &Identity, folder: &Path) -> Option<PathBuf> {
    let passes = |folder: &Path| {
        let Ok(meta) = folder.metadata() else { return true };
        let Identity { uid, gid, groups } = identity;
        let bit = match () {
            () if meta.uid() == *uid => 0o100,
            () if meta.gid() == *gid || groups.contains(&meta.gid()) => 0o010,
            () => 0o001,
        };
        meta.mode() & bit != 0
    };
    let mut way: Vec<&Path> = folder.ancestors().collect();
    way.reverse();
    way.into_iter().find(|folder| !passes(folder)).map(Path::to_owned)
}

fn number(text: &str) -> Option<u32> {
    // The largest one means "leave it as it is" to the kernel.
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok())?.filter(|id| *id != u32::MAX)
}

/// All groups that the user is in, but its own.
fn groups_of(user: &User) -> Vec<u32> {
    let groups = CString::new(user.name.as_str()).ok().and_then(|name| getgrouplist(&name, user.gid).ok());
    let groups = groups.unwrap_or_default().into_iter().filter(|group| *group != user.gid);
    groups.map(nix::unistd::Gid::as_raw).collect()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn users_and_groups_have_names_or_numbers() {
        let root = RunAs::find("root").unwrap();
        assert_eq!((root.identity.uid, root.identity.gid, root.name.as_deref()), (0, 0, Some("root")));
        assert_eq!(RunAs::find("0").unwrap().identity, root.identity);
        let alone = RunAs::find("4242:4343").unwrap();
        assert_eq!(alone.identity, Identity { uid: 4242, gid: 4343, groups: vec![] });
        assert_eq!(RunAs::find("4242:root").unwrap().identity.gid, 0);
        for (given, part) in [
            ("no such user", "there is no user `no such user`"),
            ("", "there is no user ``"),
            ("root:no such group", "there is no group"),
            ("root:", "there is no group"),
            ("4294967295", "there is no user"),
            ("4242", "needs a group as well: 4242:GROUP"),
        ] {
            let error = RunAs::find(given).unwrap_err().to_string();
            assert!(error.contains(part), "{given}: {error}");
        }
    }

    #[test]
    fn a_folder_that_is_closed_bars_the_way() {
        let place = tempfile::tempdir().unwrap();
        let inner = place.path().join("inner");
        fs::create_dir(&inner).unwrap();
        fs::set_permissions(place.path(), Permissions::from_mode(0o700)).unwrap();
        let stranger = Identity { uid: 4242, gid: 4343, groups: vec![] };
        assert_eq!(barred(&stranger, &inner).as_deref(), Some(place.path()));
        fs::set_permissions(place.path(), Permissions::from_mode(0o711)).unwrap();
        fs::set_permissions(&inner, Permissions::from_mode(0o755)).unwrap();
        assert_eq!(barred(&stranger, &inner), None);
        let gid = place.path().metadata().unwrap().gid();
        fs::set_permissions(&inner, Permissions::from_mode(0o701)).unwrap();
        let member = Identity { groups: vec![gid], ..stranger };
        assert_eq!(barred(&member, &inner), Some(inner));
    }
}

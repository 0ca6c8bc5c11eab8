//! `--run-as USER[:GROUP]`: who that is on this machine.
//!
//! Looked up once, when the agent starts, wherever this machine keeps its users. Nothing is changed here.

use std::ffi::{CStr, CString, c_char};
use std::fmt;
use std::mem::MaybeUninit;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::ptr;

use estimand_exec::Identity;

/// The largest entry of a user or a group that is read; a group may have many members.
const MAX_ENTRY_BYTES: usize = 1 << 20;
/// The most groups that a user may be in.
const MAX_GROUPS: usize = 8 * 1024;

/// The user that everything in slots runs as.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunAs {
    /// As it was given.
    given: String,
    /// The user's name, if it has one.
    pub name: Option<String>,
    pub identity: Identity,
}

/// Why there is no such user, for people.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("cannot run anything as `{given}`: {cause}")]
pub struct RunAsError {
    given: String,
    cause: String,
}

/// What is known of a user.
struct User {
    name: CString,
    uid: u32,
    gid: u32,
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
        let known = match number(user) {
            Some(uid) => user_of(Key::Number(uid)),
            None => user_of(Key::Name(user)),
        };
        let (uid, name) = match (&known, number(user)) {
            (Some(known), _) => (known.uid, Some(known.name.to_string_lossy().into_owned())),
            (None, Some(uid)) => (uid, None),
            (None, None) => return Err(wrong(format!("there is no user `{user}` on this machine"))),
        };
        let identity = match (group, known) {
            (Some(group), _) => {
                let gid = number(group).or_else(|| group_of(group));
                let gid = gid.ok_or_else(|| wrong(format!("there is no group `{group}` on this machine")))?;
                Identity { uid, gid, groups: Vec::new() }
            }
            (None, Some(known)) => Identity { uid, gid: known.gid, groups: groups_of(&known) },
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

#[derive(Clone, Copy)]
enum Key<'a> {
    Name(&'a str),
    Number(u32),
}

fn user_of(key: Key<'_>) -> Option<User> {
    let name = match key {
        Key::Name(name) => CString::new(name).ok()?,
        Key::Number(_) => CString::default(),
    };
    with_room(|room| {
        let mut entry = MaybeUninit::<libc::passwd>::uninit();
        let mut found = ptr::null_mut();
        let (start, length) = (room.as_mut_ptr().cast::<c_char>(), room.len());
        // SAFETY: the name ends in NUL; the entry, its room and the result outlive the call.
        let code = unsafe {
            match key {
                Key::Name(_) => {
                    libc::getpwnam_r(name.as_ptr(), entry.as_mut_ptr(), start, length, &raw mut found)
                }
                Key::Number(uid) => libc::getpwuid_r(uid, entry.as_mut_ptr(), start, length, &raw mut found),
            }
        };
        if found.is_null() {
            return Found::of(code);
        }
        // SAFETY: what was found is the entry, and its name is a string in its room.
        let (entry, name) = unsafe { (&*found, CStr::from_ptr((*found).pw_name).to_owned()) };
        Found::Yes(User { name, uid: entry.pw_uid, gid: entry.pw_gid })
    })
}

fn group_of(name: &str) -> Option<u32> {
    let name = CString::new(name).ok()?;
    with_room(|room| {
        let mut entry = MaybeUninit::<libc::group>::uninit();
        let mut found = ptr::null_mut();
        let (start, length) = (room.as_mut_ptr().cast::<c_char>(), room.len());
        // SAFETY: the name ends in NUL; the entry, its room and the result outlive the call.
        let code =
            unsafe { libc::getgrnam_r(name.as_ptr(), entry.as_mut_ptr(), start, length, &raw mut found) };
        // SAFETY: what was found is the entry.
        if found.is_null() { Found::of(code) } else { Found::Yes(unsafe { (*found).gr_gid }) }
    })
}

/// All groups that the user is in, but its own.
fn groups_of(user: &User) -> Vec<u32> {
    let mut groups: Vec<libc::gid_t> = vec![0; MAX_GROUPS];
    let mut count = MAX_GROUPS as libc::c_int;
    // SAFETY: the name ends in NUL, and no more groups are written than there is room for.
    let code =
        unsafe { libc::getgrouplist(user.name.as_ptr(), user.gid, groups.as_mut_ptr(), &raw mut count) };
    groups.truncate(if code < 0 { 0 } else { usize::try_from(count).unwrap_or(0) });
    groups.retain(|group| *group != user.gid);
    groups
}

enum Found<T> {
    Yes(T),
    No,
    MoreRoom,
}

impl<T> Found<T> {
    fn of(code: libc::c_int) -> Self {
        if code == libc::ERANGE { Found::MoreRoom } else { Found::No }
    }
}

fn with_room<T>(look: impl Fn(&mut [u8]) -> Found<T>) -> Option<T> {
    let mut room = vec![0; 1024];
    loop {
        match look(&mut room) {
            Found::Yes(found) => return Some(found),
            Found::No => return None,
            Found::MoreRoom if room.len() >= MAX_ENTRY_BYTES => return None,
            Found::MoreRoom => room.resize(room.len() * 4, 0),
        }
    }
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

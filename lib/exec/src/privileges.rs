//! Privileges of runs: the user that they run as, and the kernel's capabilities.
//!
//! Nothing that runs gains a privilege by executing a file (`no_new_privs`). Of the agent's own capabilities a run
//! has only those that the operator keeps for it, by default none, also as root: each child drops the others before it
//! executes its program, which then cannot give it more than it has.
//!
//! The bounding set stays as it is. Emptied, it would add nothing to that, and the kernel would refuse to execute
//! any program that has capabilities in its file (`ping`, `check_icmp`), which without them often works.
//!
//! The launcher's memory, which a child shares or has a copy of, can be read only by processes with more capabilities.

use std::io;

use rustix::process::DumpableBehavior;
use rustix::process::{Gid, Uid};
use rustix::thread::{self, CapabilitySet, CapabilitySets};
use serde::{Deserialize, Serialize};

use super::capabilities::Capabilities;
use super::failure::{Failure, Step};

/// The user and the capabilities of runs.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Privileges {
    /// `None`: as the agent's own user.
    pub run_as: Option<Identity>,
    /// The capabilities that runs keep.
    pub keep: Capabilities,
}

/// A user as the kernel knows it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Identity {
    pub uid: u32,
    pub gid: u32,
    /// Supplementary groups.
    pub groups: Vec<u32>,
}

impl Privileges {
    /// The capabilities that the agent needs for this: to become the user, to hand over the user's files, and to end
    /// processes of another user.
    pub fn needed(&self) -> Capabilities {
        let for_identity = match self.run_as {
            Some(_) => {
                Capabilities::of(&["cap_chown", "cap_dac_override", "cap_kill", "cap_setgid", "cap_setuid"])
            }
            None => Capabilities::NONE,
        };
        match self.keep {
            Capabilities::ALL => for_identity,
            keep => for_identity.with(keep),
        }
    }

    /// Gives this thread alone, and for ever, the rights to files that a run has as another user. The numbers by which
    /// processes are signalled and traced stay as they are, so nobody gets at this process through the thread.
    pub fn take_file_rights(&self) -> io::Result<()> {
        let Some(identity) = &self.run_as else { return Ok(()) };
        let groups: Vec<Gid> = identity.groups.iter().map(|group| Gid::from_raw(*group)).collect();
        thread::set_thread_groups(&groups)?;
        // SAFETY: the calls take a number and concern this thread alone; what is no user changes nothing and gives
        // the present one.
        let present = unsafe {
            libc::setfsgid(identity.gid);
            libc::setfsuid(identity.uid);
            (libc::setfsgid(u32::MAX).cast_unsigned(), libc::setfsuid(u32::MAX).cast_unsigned())
        };
        if present != (identity.gid, identity.uid) {
            return Err(io::Error::from_raw_os_error(libc::EPERM));
        }
        let keep = Capabilities(self.keep.0 & Capabilities::own().0).set();
        let sets = CapabilitySets { effective: keep, permitted: keep, inheritable: CapabilitySet::empty() };
        Ok(thread::set_capabilities(None, sets)?)
    }

    /// True if runs have all privileges of the agent.
    fn keep_everything(&self) -> bool {
        self.keep == Capabilities::ALL && self.run_as.is_none()
    }

    /// The privileges that each child gives up; `None` if it keeps all.
    pub(super) fn privilege_drop(&self) -> Option<PrivilegeDrop> {
        if self.keep_everything() {
            return None;
        }
        let user = self.run_as.as_ref().map(|identity| User {
            uid: Uid::from_raw(identity.uid),
            gid: Gid::from_raw(identity.gid),
            groups: identity.groups.iter().map(|group| Gid::from_raw(*group)).collect(),
        });
        Some(PrivilegeDrop { user, keep: Capabilities(self.keep.0 & Capabilities::own().0) })
    }
}

/// Forbids new privileges to the launcher and all that it starts, and hides its memory.
pub(super) fn seal() -> io::Result<()> {
    thread::set_no_new_privs(true)?;
    hide_memory()
}

/// Keeps other processes of the same user from reading this one's memory and environment, and from tracing it.
pub fn hide_memory() -> io::Result<()> {
    Ok(rustix::process::set_dumpable_behavior(DumpableBehavior::NotDumpable)?)
}

/// Reduces the capabilities that the launcher passes on. The launcher itself keeps its own, because it ends processes
/// of another user. This needs no privilege, and each child makes good a failure here.
pub(super) fn reduce_inheritance(privileges: &Privileges) {
    if privileges.keep_everything() {
        return;
    }
    let _ = thread::clear_ambient_capability_set();
    if let Ok(own) = thread::capabilities(None) {
        let inheritable = Capabilities::NONE.set();
        let _ = thread::set_capabilities(None, CapabilitySets { inheritable, ..own });
    }
}

/// The privileges that a child gives up, ready to be applied without allocating.
#[derive(Debug, Clone)]
pub(super) struct PrivilegeDrop {
    user: Option<User>,
    keep: Capabilities,
}

#[derive(Debug, Clone)]
struct User {
    uid: Uid,
    gid: Gid,
    groups: Vec<Gid>,
}

impl PrivilegeDrop {
    /// True if runs have the launcher's own user.
    pub fn is_own_user(&self) -> bool {
        self.user.as_ref().is_none_or(|user| user.uid == rustix::process::geteuid())
    }

    pub fn changes_user(&self) -> bool {
        self.user.is_some()
    }

    /// Gives them up for ever. Only for a process with one thread: each of these calls changes just its thread.
    pub fn give_up(&self) -> Result<(), Failure> {
        if let Some(User { uid, gid, groups }) = &self.user {
            thread::set_thread_groups(groups).map_err(Failure::at(Step::Identity))?;
            thread::set_thread_res_gid(*gid, *gid, *gid).map_err(Failure::at(Step::Identity))?;
            if !self.keep.is_empty() {
                thread::set_keep_capabilities(true).map_err(Failure::at(Step::Capabilities))?;
            }
            thread::set_thread_res_uid(*uid, *uid, *uid).map_err(Failure::at(Step::Identity))?;
        }
        let keep = self.keep.set();
        let sets = CapabilitySets { effective: keep, permitted: keep, inheritable: keep };
        thread::set_capabilities(None, sets).map_err(Failure::at(Step::Capabilities))?;
        for one in self.keep.each() {
            thread::configure_capability_in_ambient_set(one.set(), true)
                .map_err(Failure::at(Step::Capabilities))?;
        }
        Ok(())
    }
}

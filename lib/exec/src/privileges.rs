//! What a run may not do that the agent may: the user it is, and the kernel's capabilities.
//!
//! Nothing that runs gains a privilege by executing a file (`no_new_privs`), and of the agent's own capabilities it
//! has those alone that the operator keeps for it, by default none, also as root: each child drops the others before it
//! executes its program, which then cannot give it more than it has.
//!
//! The bounding set stays as it is. Emptied, it would add nothing to that, and the kernel would refuse to execute at all
//! whatever has capabilities in its file (`ping`, `check_icmp`), which without them often does what is asked of it.
//!
//! A child that becomes another user gets a copy of the launcher's memory and does not share it: whoever is that
//! user, too, could otherwise reach into the launcher through it. The launcher's memory can be read by nobody that
//! has not more capabilities than it.

use std::io;

use rustix::process::DumpableBehavior;
use rustix::thread::{self, CapabilitySets};

use super::capabilities::Capabilities;
use super::child::{Step, check};
use super::kernel::{call, call5};

/// As whom things run, and what of the agent's power they have.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Privileges {
    /// None: as whoever the agent is.
    pub run_as: Option<Identity>,
    /// The capabilities that runs keep.
    pub keep: Capabilities,
}

/// A user as the kernel knows it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Identity {
    pub uid: u32,
    pub gid: u32,
    /// Beside the group.
    pub groups: Vec<u32>,
}

impl Privileges {
    /// What the agent needs in order to run things so: to become the user, to give it what is its own, and to end
    /// what runs as another user.
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

    /// Whether runs have all that the agent has.
    fn keep_everything(&self) -> bool {
        self.keep == Capabilities::ALL && self.run_as.is_none()
    }

    /// What each child gives up. It points to the groups, which must stay where they are while a child starts.
    pub(super) fn shed(&self) -> Option<Shed> {
        let keep = Capabilities(self.keep.0 & Capabilities::own().0);
        (!self.keep_everything()).then(|| Shed {
            identity: self.run_as.as_ref().map(|identity| Becomes {
                uid: identity.uid,
                gid: identity.gid,
                groups: identity.groups.as_ptr(),
                group_count: identity.groups.len(),
            }),
            keep: keep.0,
        })
    }
}

/// What holds for the launcher itself from its first moment, and for all that it starts.
pub(super) fn seal() -> io::Result<()> {
    thread::set_no_new_privs(true)?;
    rustix::process::set_dumpable_behavior(DumpableBehavior::NotDumpable)?;
    Ok(())
}

/// Takes what runs shall not have out of what the launcher passes on. The launcher itself goes on with what it has,
/// because it ends what runs as another user. It needs no privilege, and what fails here each child makes good.
pub(super) fn pass_on(privileges: &Privileges) {
    if privileges.keep_everything() {
        return;
    }
    let _ = thread::clear_ambient_capability_set();
    if let Ok(own) = thread::capabilities(None) {
        let inheritable = Capabilities::NONE.set();
        let _ = thread::set_capabilities(None, CapabilitySets { inheritable, ..own });
    }
}

/// What a child gives up.
#[derive(Debug, Clone, Copy)]
pub(super) struct Shed {
    pub identity: Option<Becomes>,
    keep: u64,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Becomes {
    uid: u32,
    gid: u32,
    groups: *const u32,
    group_count: usize,
}

/// The kernel's structures for `capset`.
#[repr(C)]
struct Header {
    version: u32,
    pid: i32,
}

#[repr(C)]
#[derive(Clone, Copy)]
struct Half {
    effective: u32,
    permitted: u32,
    inheritable: u32,
}

const CAPABILITY_VERSION_3: u32 = 0x2008_0522;

/// Gives it up for ever.
///
/// # Safety
/// Only in a child that has not executed its program; the groups must be there.
pub(super) unsafe fn give_up(shed: &Shed) -> Result<(), (Step, i32)> {
    let prctl = |option: i32, two: usize, three: usize| {
        // SAFETY: these options take numbers.
        unsafe { call5(libc::SYS_prctl, [option as usize, two, three, 0, 0]) }
    };
    // SAFETY: the calls take numbers, the groups of the caller, and structures that lie on this stack.
    unsafe {
        if let Some(becomes) = &shed.identity {
            let (uid, gid) = (becomes.uid as usize, becomes.gid as usize);
            let groups = [becomes.group_count, becomes.groups as usize, 0, 0];
            check(Step::Identity, call(libc::SYS_setgroups, groups))?;
            check(Step::Identity, call(libc::SYS_setresgid, [gid, gid, gid, 0]))?;
            if shed.keep != 0 {
                check(Step::Capabilities, prctl(libc::PR_SET_KEEPCAPS, 1, 0))?;
            }
            check(Step::Identity, call(libc::SYS_setresuid, [uid, uid, uid, 0]))?;
        }
        let header = Header { version: CAPABILITY_VERSION_3, pid: 0 };
        let half = |bits: u32| Half { effective: bits, permitted: bits, inheritable: bits };
        let halves = [half(shed.keep as u32), half((shed.keep >> 32) as u32)];
        let capset = [(&raw const header) as usize, (&raw const halves) as usize, 0, 0];
        check(Step::Capabilities, call(libc::SYS_capset, capset))?;
    }
    let mut left = shed.keep;
    while left != 0 {
        let number = left.trailing_zeros() as usize;
        left &= left - 1;
        let raised = prctl(libc::PR_CAP_AMBIENT, libc::PR_CAP_AMBIENT_RAISE as usize, number);
        check(Step::Capabilities, raised)?;
    }
    Ok(())
}

//! The kernel's capabilities by name, as a set.
//!
//! The names and numbers are the kernel's and never change; one that this list does not know yet has its number.

use std::fmt;
use std::str::FromStr;

use rustix::thread::CapabilitySet;

/// In the kernel's order.
const NAMES: [&str; 41] = [
    "cap_chown",
    "cap_dac_override",
    "cap_dac_read_search",
    "cap_fowner",
    "cap_fsetid",
    "cap_kill",
    "cap_setgid",
    "cap_setuid",
    "cap_setpcap",
    "cap_linux_immutable",
    "cap_net_bind_service",
    "cap_net_broadcast",
    "cap_net_admin",
    "cap_net_raw",
    "cap_ipc_lock",
    "cap_ipc_owner",
    "cap_sys_module",
    "cap_sys_rawio",
    "cap_sys_chroot",
    "cap_sys_ptrace",
    "cap_sys_pacct",
    "cap_sys_admin",
    "cap_sys_boot",
    "cap_sys_nice",
    "cap_sys_resource",
    "cap_sys_time",
    "cap_sys_tty_config",
    "cap_mknod",
    "cap_lease",
    "cap_audit_write",
    "cap_audit_control",
    "cap_setfcap",
    "cap_mac_override",
    "cap_mac_admin",
    "cap_syslog",
    "cap_wake_alarm",
    "cap_block_suspend",
    "cap_audit_read",
    "cap_perfmon",
    "cap_bpf",
    "cap_checkpoint_restore",
];

/// A set of capabilities.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Capabilities(pub(super) u64);

impl Capabilities {
    pub const NONE: Capabilities = Capabilities(0);
    pub const ALL: Capabilities = Capabilities(u64::MAX);

    /// Those that this process has in effect.
    pub fn own() -> Self {
        rustix::thread::capabilities(None).map_or(Self::NONE, |sets| Capabilities(sets.effective.bits()))
    }

    pub(super) fn of(names: &[&str]) -> Self {
        names.iter().filter_map(|name| name.parse().ok()).fold(Self::NONE, Self::with)
    }

    #[must_use]
    pub fn with(self, others: Self) -> Self {
        Capabilities(self.0 | others.0)
    }

    #[must_use]
    pub fn without(self, others: Self) -> Self {
        Capabilities(self.0 & !others.0)
    }

    /// Whether one that has these goes through any folder.
    pub fn reads_everything(self) -> bool {
        self.0 & Self::of(&["cap_dac_override", "cap_dac_read_search"]).0 != 0
    }

    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    pub(super) fn set(self) -> CapabilitySet {
        CapabilitySet::from_bits_retain(self.0)
    }

    /// Each of them alone.
    pub(super) fn each(self) -> impl Iterator<Item = Capabilities> {
        (0..u64::BITS).map(|number| Capabilities(1 << number)).filter(move |one| one.0 & self.0 != 0)
    }
}

/// A name, with or without `cap_`, or `all`.
impl FromStr for Capabilities {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let name = text.to_ascii_lowercase();
        if name == "all" {
            return Ok(Self::ALL);
        }
        let bare = name.strip_prefix("cap_").unwrap_or(&name);
        let place = NAMES.iter().position(|known| known.strip_prefix("cap_") == Some(bare));
        let number = place.or_else(|| bare.parse().ok().filter(|number| (NAMES.len()..64).contains(number)));
        let number = number.ok_or_else(|| {
            format!(
                "`{text}` is not a capability; they have names such as cap_net_raw, and `all` means every one"
            )
        })?;
        Ok(Capabilities(1 << number))
    }
}

impl fmt::Display for Capabilities {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if *self == Self::ALL {
            return f.write_str("all");
        }
        let name = |one: Capabilities| {
            let number = one.0.trailing_zeros();
            NAMES.get(number as usize).map_or_else(|| number.to_string(), |name| (*name).to_owned())
        };
        f.write_str(&self.each().map(name).collect::<Vec<_>>().join(", "))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn names_are_the_kernels() {
        assert_eq!(Capabilities::of(&["cap_net_raw"]).0, CapabilitySet::NET_RAW.bits());
        assert_eq!("SYS_RAWIO".parse::<Capabilities>().unwrap().0, CapabilitySet::SYS_RAWIO.bits());
        assert_eq!(Capabilities::of(&["cap_checkpoint_restore"]).0, CapabilitySet::CHECKPOINT_RESTORE.bits());
        assert_eq!("63".parse::<Capabilities>().unwrap().to_string(), "63");
        assert_eq!("all".parse(), Ok(Capabilities::ALL));
        assert_eq!(Capabilities::of(&["cap_setuid", "cap_kill"]).to_string(), "cap_kill, cap_setuid");
        for wrong in ["", "cap_", "cap_root", "7", "64", "-1"] {
            assert!(wrong.parse::<Capabilities>().is_err(), "{wrong}");
        }
    }
}

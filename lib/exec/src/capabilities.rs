//! The kernel's capabilities by name, as a set.
//!
//! The names and numbers are the kernel's and never change; a capability newer than this program is named by its
//! number.

use std::fmt;
use std::str::FromStr;

use rustix::thread::CapabilitySet;
use serde::{Deserialize, Serialize};

/// A set of capabilities.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Capabilities(pub(super) u64);

impl Capabilities {
    pub const NONE: Capabilities = Capabilities(0);
    pub const ALL: Capabilities = Capabilities(u64::MAX);

    /// The capabilities that this process has in effect.
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

    /// True if a process with these can enter any folder.
    pub fn reads_everything(self) -> bool {
        self.0 & Self::of(&["cap_dac_override", "cap_dac_read_search"]).0 != 0
    }

    /// True if it has each of the others.
    #[must_use]
    pub fn contains(self, others: Self) -> bool {
        others.without(self).is_empty()
    }

    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    pub(super) fn set(self) -> CapabilitySet {
        CapabilitySet::from_bits_retain(self.0)
    }

    /// The kernel's name of a single capability.
    fn name(self) -> Option<String> {
        let (name, _) = self.set().iter_names().next()?;
        Some(format!("cap_{}", name.to_ascii_lowercase()))
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
        let named = CapabilitySet::from_name(&bare.to_ascii_uppercase()).map(|one| Capabilities(one.bits()));
        let numbered = || bare.parse().ok().and_then(|number| 1_u64.checked_shl(number)).map(Capabilities);
        let unnamed = |one: &Capabilities| one.name().is_none();
        named.or_else(|| numbered().filter(unnamed)).ok_or_else(|| {
            format!(
                "`{text}` is not a capability; they have names such as cap_net_raw, and `all` means every one"
            )
        })
    }
}

impl fmt::Display for Capabilities {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if *self == Self::ALL {
            return f.write_str("all");
        }
        let name = |one: Capabilities| one.name().unwrap_or_else(|| one.0.trailing_zeros().to_string());
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

//! The variables of a run's environment that a registration may set on this node.
//!
//! A variable can make an interpreter, a loader or a tool run something else than what was allowed (`LD_PRELOAD`,
//! `BASH_ENV`, `PYTHONWARNINGS`, `PATH`), and no list of such names is complete. So what is not allowed is refused. Names
//! that begin with `SLOT_` are always free: nothing reads them but the program that was told to.

use std::fmt;
use std::str::FromStr;

use crate::allow::ProgramError;

/// Allowed everywhere: they choose a language, a time zone, or mean nothing to anybody else.
const ALWAYS: [&str; 4] = ["SLOT_*", "LANG", "LC_*", "TZ"];

/// The names that are allowed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AllowEnv {
    Everything,
    /// These, and those that always are.
    Names(Vec<EnvPattern>),
}

/// The name of a variable, or the beginning of names with a `*` behind it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EnvPattern(String);

impl AllowEnv {
    /// Refuses a program whose registration sets a variable that is not allowed.
    pub fn check<'n>(
        &self,
        word: &str,
        mut names: impl Iterator<Item = &'n str>,
    ) -> Result<(), ProgramError> {
        let AllowEnv::Names(patterns) = self else { return Ok(()) };
        let allowed = || ALWAYS.into_iter().chain(patterns.iter().map(|pattern| pattern.0.as_str()));
        let refused = names.find(|name| !allowed().any(|pattern| matches(pattern, name)));
        refused.map_or(Ok(()), |name| {
            let allowed: Vec<&str> = allowed().collect();
            Err(ProgramError::Refused(format!(
                "`{word}` is not run: the variable `{name}` is set for it, and the agent on this node allows \
                 only {}; `--allow-env {name}` allows it",
                allowed.join(", ")
            )))
        })
    }
}

fn matches(pattern: &str, name: &str) -> bool {
    match pattern.strip_suffix('*') {
        Some(beginning) => name.starts_with(beginning),
        None => name == pattern,
    }
}

impl FromStr for EnvPattern {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let name = text.strip_suffix('*').unwrap_or(text);
        let fits = name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
            && !name.starts_with(|first: char| first.is_ascii_digit());
        match fits && !text.is_empty() {
            true => Ok(EnvPattern(text.to_owned())),
            false => Err(format!("`{text}` is no variable; expected a name such as PGPASSWORD, or MUNIN_*")),
        }
    }
}

impl fmt::Display for EnvPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_allowed_may_be_set() {
        let allow = AllowEnv::Names(["PGPASSWORD", "MUNIN_*"].map(|name| name.parse().unwrap()).into());
        let check = |name: &str| allow.check("p", [name].into_iter());
        for free in ["SLOT_TOKEN", "LANG", "LC_ALL", "TZ", "PGPASSWORD", "MUNIN_LIBDIR"] {
            assert_eq!(check(free), Ok(()), "{free}");
        }
        for switch in [
            "LD_PRELOAD",
            "LD_AUDIT",
            "PATH",
            "HOME",
            "BASH_ENV",
            "ENV",
            "PYTHONWARNINGS",
            "PYTHONPATH",
            "BROWSER",
            "PERL5OPT",
            "NODE_OPTIONS",
            "PGPASSWORDS",
            "LANGUAGE",
            "SLOT",
            "MUNIN",
            "slot_x",
        ] {
            let refused = check(switch).unwrap_err();
            assert!(
                matches!(&refused, ProgramError::Refused(why) if why.contains(&format!("`--allow-env {switch}`")))
            );
        }
        assert_eq!(AllowEnv::Everything.check("p", ["LD_PRELOAD"].into_iter()), Ok(()));
        for wrong in ["", "A=B", "*_A", "1A", "A-B"] {
            assert!(wrong.parse::<EnvPattern>().is_err(), "{wrong}");
        }
        assert!("*".parse::<EnvPattern>().is_ok());
    }
}

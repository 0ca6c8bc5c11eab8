//! The power of the agent's process at its start: enough for what it was told to do, and what it means for its runs.

use estimand_exec::{Capabilities, Identity, Privileges};

use crate::errors::AgentError;
use crate::home::Home;
use crate::runners::{UserNumbers, UserRange};
use crate::user::{self, RunAs};

/// Checks that this process can run things as the options ask.
pub fn check(privileges: &Privileges) -> Result<(), AgentError> {
    let missing = privileges.needed().without(Capabilities::own());
    let doing = match privileges.run_as {
        Some(_) => "runs things as another user",
        None => "keeps capabilities for what it runs",
    };
    if missing.is_empty() { Ok(()) } else { Err(AgentError::Powerless { doing, missing }) }
}

/// Checks that the user of slots can reach their folders.
pub fn check_way(
    privileges: &Privileges,
    run_as: Option<&RunAs>,
    runs_things: bool,
    home: &Home,
) -> Result<(), AgentError> {
    if let Some(run_as) = run_as {
        return match run_as.barred_from(home.slots()) {
            None => Ok(()),
            Some(folder) => Err(AgentError::Barred { user: run_as.to_string(), folder }),
        };
    }
    if rustix::process::geteuid().is_root() && runs_things {
        tracing::warn!(
            "what runs here runs as root, though without its capabilities: it can read and change root's files, and end root's \
             processes, such as this one; --run-as USER keeps it from both, and tasks of users run here as well then"
        );
    }
    if drops_root(privileges)
        && let Some(folder) = user::barred(&Identity::default(), home.slots())
    {
        tracing::warn!(
            folder = %folder.display(),
            "what runs here is root without capabilities and cannot go through the folder of another user, so it can \
             reach its own folder only as the one that it starts in; --keep-capability cap_dac_read_search lets it, or \
             --data-dir names another place"
        );
    }
    Ok(())
}

/// The numbers of users in this range, if all of it is free here and its users can reach the folders of tasks.
pub fn open_numbers(
    range: UserRange,
    privileges: &Privileges,
    home: &Home,
) -> Result<UserNumbers, AgentError> {
    let own = privileges.run_as.iter().map(|identity| identity.uid);
    let own = own.chain([rustix::process::geteuid().as_raw()]).find(|uid| range.contains(*uid));
    let own = own.map(|uid| format!("{uid} is the user of --run-as or of the agent"));
    if let Some(taken) = own.or_else(|| range.given_away()) {
        return Err(AgentError::RangeTaken { range, taken });
    }
    let first = Identity { uid: range.first(), gid: range.first(), groups: Vec::new() };
    match user::barred(&first, home.tasks()) {
        Some(folder) => Err(AgentError::Barred { user: range.to_string(), folder }),
        None => Ok(UserNumbers::open(home.path(), range)?),
    }
}

/// True if things run as root and are kept from going wherever root may.
pub fn drops_root(privileges: &Privileges) -> bool {
    let is_root = match &privileges.run_as {
        Some(identity) => identity.uid == 0,
        None => rustix::process::geteuid().is_root(),
    };
    is_root && !privileges.keep.reads_everything()
}

//! The power of the agent's process at its start: enough for what it was told to do, and what it means for its runs.

use estimand_exec::{Capabilities, Identity, Privileges};

use crate::errors::AgentError;
use crate::home::Home;
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
            Some(folder) => Err(AgentError::Barred { user: run_as.clone(), folder }),
        };
    }
    if rustix::process::geteuid().is_root() && runs_things {
        tracing::warn!(
            "what runs here runs as root, though without its capabilities: it can read and change root's files, and end root's \
             processes, such as this one; --run-as USER keeps it from both"
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

/// True if things run as root and are kept from going wherever root may.
pub fn drops_root(privileges: &Privileges) -> bool {
    let is_root = match &privileges.run_as {
        Some(identity) => identity.uid == 0,
        None => rustix::process::geteuid().is_root(),
    };
    is_root && !privileges.keep.reads_everything()
}

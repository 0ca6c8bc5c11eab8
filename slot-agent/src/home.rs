//! The agent's data folder: who the agent is, how often it was started, and what it was last told to run.
//!
//! One process at a time uses the folder, held by a lock that ends with the process. What is told here outlives
//! any crash: files are written beside their place, synced, and moved there.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use estimand_api::node::Desired;
use rustix::fs::{FlockOperation, flock};

/// A folder that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum HomeError {
    #[error("the data folder {} is used by another agent that runs on this machine", .0.display())]
    Taken(PathBuf),
    #[error("cannot {doing} {}: {cause}", path.display())]
    Io { doing: &'static str, path: PathBuf, cause: io::Error },
}

/// The data folder, held.
#[derive(Debug)]
pub struct Home {
    folder: PathBuf,
    /// Names the folder, for ever.
    pub agent: String,
    /// Grows with each start.
    pub boot: u64,
    _lock: File,
}

impl Home {
    pub fn open(folder: &Path) -> Result<Self, HomeError> {
        fs::create_dir_all(folder).map_err(at("make", folder))?;
        let folder = folder.canonicalize().map_err(at("find", folder))?;
        let lock_path = folder.join("lock");
        let lock = File::create(&lock_path).map_err(at("open", &lock_path))?;
        if let Err(error) = flock(&lock, FlockOperation::NonBlockingLockExclusive) {
            return Err(match error {
                rustix::io::Errno::WOULDBLOCK => HomeError::Taken(folder),
                other => at("lock", &lock_path)(other.into()),
            });
        }
        let known = fs::read_to_string(folder.join("agent")).unwrap_or_default();
        let agent = match known.trim() {
            id if id.len() == 16 && id.bytes().all(|b| b.is_ascii_hexdigit()) => id.to_owned(),
            _ => format!("{:016x}", fastrand::u64(..)),
        };
        let last: u64 = fs::read_to_string(folder.join("boot"))
            .ok()
            .and_then(|text| text.trim().parse().ok())
            .unwrap_or(0);
        let boot = last + 1;
        replace(&folder.join("agent"), agent.as_bytes())?;
        replace(&folder.join("boot"), boot.to_string().as_bytes())?;
        Ok(Home { folder, agent, boot, _lock: lock })
    }

    /// Where deliveries wait.
    pub fn spool(&self) -> PathBuf {
        self.folder.join("spool")
    }

    /// The folder in which a slot's executable runs, and which is its own to keep things in.
    pub fn slot_folder(&self, data_name: &str) -> io::Result<PathBuf> {
        let folder = self.folder.join("slots").join(data_name);
        fs::create_dir_all(&folder)?;
        Ok(folder)
    }

    pub fn path(&self) -> &Path {
        &self.folder
    }

    /// What was last told to run; none if nothing was, or it cannot be read.
    pub fn desired(&self) -> Option<Desired> {
        let text = fs::read(self.folder.join("desired.json")).ok()?;
        match serde_json::from_slice(&text) {
            Ok(desired) => Some(desired),
            Err(error) => {
                tracing::warn!(%error, "what was last told to run cannot be read; the manager will tell again");
                None
            }
        }
    }

    pub fn keep_desired(&self, desired: &Desired) -> Result<(), HomeError> {
        let text = serde_json::to_vec(desired).unwrap_or_default();
        replace(&self.folder.join("desired.json"), &text)
    }
}

/// Writes a file so that there is the old one or the new one, whatever happens.
fn replace(path: &Path, content: &[u8]) -> Result<(), HomeError> {
    let beside = path.with_extension("new");
    let write = || {
        let mut file = File::create(&beside)?;
        file.write_all(content)?;
        file.sync_data()?;
        fs::rename(&beside, path)?;
        File::open(path.parent().unwrap_or(path))?.sync_all()
    };
    write().map_err(at("write", path))
}

fn at(doing: &'static str, path: &Path) -> impl Fn(io::Error) -> HomeError {
    let path = path.to_owned();
    move |cause| HomeError::Io { doing, path: path.clone(), cause }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn an_agent_is_the_same_after_a_restart_and_alone_in_its_folder() {
        let place = tempfile::tempdir().unwrap();
        let first = Home::open(place.path()).unwrap();
        assert!(matches!(Home::open(place.path()), Err(HomeError::Taken(_))));
        assert_eq!(first.desired(), None);
        let desired = Desired { revision: 7, ..Desired::default() };
        first.keep_desired(&desired).unwrap();
        let (agent, boot) = (first.agent.clone(), first.boot);
        drop(first);
        let second = Home::open(place.path()).unwrap();
        assert_eq!((second.agent.clone(), second.boot), (agent, boot + 1));
        assert_eq!(second.desired(), Some(desired));
        fs::write(place.path().join("desired.json"), "{").unwrap();
        assert_eq!(second.desired(), None);
    }
}

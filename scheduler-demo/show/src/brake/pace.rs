//! Where no group may be made: files with the share of a core that each node's worker takes.
//!
//! The worker pauses by it. What else the node would be busy with is not there; the share is less by as much.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// No worker takes less, or more.
const SHARES: (f64, f64) = (0.01, 1.0);
/// What stands for the node's name.
const NODE: &str = "{node}";

#[derive(Debug)]
pub(super) struct Paces {
    folder: PathBuf,
}

impl Paces {
    pub fn new(folder: &Path, nodes: &[&str]) -> io::Result<Paces> {
        let paces = Paces { folder: folder.join("pace") };
        for node in nodes {
            fs::create_dir_all(paces.folder.join(node))?;
        }
        Ok(paces)
    }

    pub fn pattern(&self) -> String {
        self.folder.join(NODE).join("share").display().to_string()
    }

    pub fn folder(&self) -> &Path {
        &self.folder
    }

    pub fn set(&self, node: &str, share: f64, free: f64) -> io::Result<()> {
        let folder = self.folder.join(node);
        put(&folder, "share", share.clamp(SHARES.0, SHARES.1))?;
        put(&folder, "free", free)
    }
}

/// Whoever reads sees the old number or the new one.
fn put(folder: &Path, name: &str, number: f64) -> io::Result<()> {
    let new = folder.join(format!("{name}.new"));
    fs::write(&new, format!("{number:.4}\n"))?;
    fs::rename(new, folder.join(name))
}

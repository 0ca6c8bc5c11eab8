//! Files with the share of a core of each node's worker, for machines without control groups.
//!
//! The worker pauses by it. The other load of the node does not run; the share is smaller instead.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// No worker takes less, or more.
const SHARES: (f64, f64) = (0.01, 1.0);
/// Placeholder of the node's name.
const NODE: &str = "{node}";

#[derive(Debug)]
pub(super) struct PaceFiles {
    folder: PathBuf,
}

impl PaceFiles {
    pub fn new(folder: &Path, nodes: &[&str]) -> io::Result<PaceFiles> {
        let pace_files = PaceFiles { folder: folder.join("pace") };
        for node in nodes {
            fs::create_dir_all(pace_files.folder.join(node))?;
        }
        Ok(pace_files)
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

/// Replaces the file at once: a reader sees the old number or the new one.
fn put(folder: &Path, name: &str, number: f64) -> io::Result<()> {
    let new = folder.join(format!("{name}.new"));
    fs::write(&new, format!("{number:.4}\n"))?;
    fs::rename(new, folder.join(name))
}

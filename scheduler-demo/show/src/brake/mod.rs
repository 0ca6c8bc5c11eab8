//! Slows the nodes: by a limit of the kernel where one may be set, else by the worker's own pauses.
//!
//! The first of these that works is used: control groups of version 1, of version 2, and a file for each node with the
//! share of a core that its worker takes. Groups are named after the demo's process and removed with the value; groups
//! of a killed demo are removed by the next one. No other group is touched.

mod groups;
mod pace;
mod place;

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use crate::nodes::Node;
pub use groups::Groups;
use pace::PaceFiles;

/// The present speed of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NodeSpeed {
    /// Not slowed: this time is in no figure.
    Free,
    /// The speed of the node.
    Own,
    /// A third of that.
    Third,
}

/// The way of slowing.
#[derive(Debug)]
enum BrakeKind {
    Groups(Groups),
    PaceFiles(PaceFiles),
}

/// Slows the nodes of one demo.
#[derive(Debug)]
pub struct Brakes {
    kind: BrakeKind,
    nodes: Vec<(Node, NodeSpeed)>,
    /// The machine's cores.
    most: f64,
}

impl Brakes {
    /// Finds the first way that works. `folder` is the demo's; `enters` tries to enter a group by its files.
    pub fn find(
        nodes: &[Node],
        cores: usize,
        folder: &Path,
        groups: bool,
        enters: impl Fn(&[PathBuf]) -> bool,
    ) -> io::Result<Brakes> {
        let names: Vec<&str> = nodes.iter().map(|node| node.name).collect();
        let found = if groups { Groups::find(&names, enters) } else { None };
        let kind = match found {
            Some(groups) => BrakeKind::Groups(groups),
            None => BrakeKind::PaceFiles(PaceFiles::new(folder, &names)?),
        };
        let nodes = nodes.iter().map(|node| (node.clone(), NodeSpeed::Own)).collect();
        let brakes = Brakes { kind, nodes, most: cores as f64 };
        brakes.nodes.iter().try_for_each(|(node, speed)| brakes.apply(node, *speed))?;
        Ok(brakes)
    }

    /// True if the load of a node really runs; otherwise its worker pauses for it too.
    pub fn is_real(&self) -> bool {
        matches!(self.kind, BrakeKind::Groups(_))
    }

    /// The files by which a process enters the node's groups.
    pub fn entries(&self, node: &str) -> Vec<PathBuf> {
        match &self.kind {
            BrakeKind::Groups(groups) => groups.entries(node),
            BrakeKind::PaceFiles(_) => Vec::new(),
        }
    }

    /// The processor of a node: one after the other and back, so that all have about equal shares of nodes.
    pub fn cpu(&self, node: &str) -> Option<usize> {
        let cpus = if self.is_real() { self.most as usize } else { 0 };
        let at = self.nodes.iter().position(|(other, _)| other.name == node)?;
        let at = at.checked_rem(2 * cpus)?;
        Some(if at < cpus { at } else { 2 * cpus - 1 - at })
    }

    /// The parameter `throttle` of workers, with `{node}` for the node.
    pub fn throttle(&self) -> Option<String> {
        match &self.kind {
            BrakeKind::Groups(_) => None,
            BrakeKind::PaceFiles(pace_files) => Some(pace_files.pattern()),
        }
    }

    /// The folder with a file `NODE/free`, the free part of each node, if no limit of the kernel can be measured.
    pub fn free_folder(&self) -> Option<&Path> {
        match &self.kind {
            BrakeKind::Groups(_) => None,
            BrakeKind::PaceFiles(pace_files) => Some(pace_files.folder()),
        }
    }

    /// Changes the speed of a node, if it differs.
    pub fn shift(&mut self, name: &str, speed: NodeSpeed) -> io::Result<()> {
        let Some(at) = self.nodes.iter().position(|(node, _)| node.name == name) else { return Ok(()) };
        if self.nodes[at].1 != speed {
            self.apply(&self.nodes[at].0, speed)?;
            self.nodes[at].1 = speed;
        }
        Ok(())
    }

    fn apply(&self, node: &Node, speed: NodeSpeed) -> io::Result<()> {
        match &self.kind {
            BrakeKind::Groups(groups) => {
                let cores = match speed {
                    // A number still, so that what is read of the group has one.
                    NodeSpeed::Free => self.most,
                    NodeSpeed::Own => node.cores,
                    NodeSpeed::Third => node.cores / 3.0,
                };
                groups.limit(node.name, cores)
            }
            BrakeKind::PaceFiles(pace_files) => {
                let share = if speed == NodeSpeed::Third { node.free() / 3.0 } else { node.free() };
                pace_files.set(node.name, share, 1.0 - node.busy)
            }
        }
    }
}

/// For people.
impl fmt::Display for Brakes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.kind {
            BrakeKind::Groups(groups) => {
                write!(f, "limits of the kernel's (control groups, version {})", groups.version())
            }
            BrakeKind::PaceFiles(_) => {
                write!(f, "workers that pause (no control groups), also for what their nodes are busy with")
            }
        }
    }
}

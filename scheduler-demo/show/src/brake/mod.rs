//! What makes a node slower than the machine: a limit of the kernel's where one may be set, else the worker's own pace.
//!
//! What works is found by trying, in this order: control groups of version 1, of version 2, and then a file for each
//! node with the share of a core that its worker takes. Groups are named after the demo's process and removed with the
//! value; what a demo left that was killed is removed by the next one. Nobody else's group is touched.

mod groups;
mod pace;
mod place;

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use crate::nodes::Node;
use groups::Groups;
use pace::Paces;

/// How fast a node is at the moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Gear {
    /// Not slowed: what is done now is in no figure.
    Free,
    /// As fast as it is.
    Own,
    /// A third of that.
    Third,
}

/// The means.
#[derive(Debug)]
enum Means {
    Groups(Groups),
    Paces(Paces),
}

/// Slows the nodes of one demo.
#[derive(Debug)]
pub struct Brakes {
    means: Means,
    nodes: Vec<(Node, Gear)>,
    /// The machine's cores.
    most: f64,
}

impl Brakes {
    /// Finds out what works. `folder` is the demo's; `enters` says whether a process can enter a group by its files.
    pub fn find(
        nodes: &[Node],
        cores: usize,
        folder: &Path,
        groups: bool,
        enters: impl Fn(&[PathBuf]) -> bool,
    ) -> io::Result<Brakes> {
        let names: Vec<&str> = nodes.iter().map(|node| node.name).collect();
        let found = if groups { Groups::find(&names, enters) } else { None };
        let means = match found {
            Some(groups) => Means::Groups(groups),
            None => Means::Paces(Paces::new(folder, &names)?),
        };
        let nodes = nodes.iter().map(|node| (node.clone(), Gear::Own)).collect();
        let brakes = Brakes { means, nodes, most: cores as f64 };
        brakes.nodes.iter().try_for_each(|(node, gear)| brakes.apply(node, *gear))?;
        Ok(brakes)
    }

    /// Whether the load of a node is really there; otherwise it is only reckoned with.
    pub fn is_real(&self) -> bool {
        matches!(self.means, Means::Groups(_))
    }

    /// The files by which a process enters the node's groups.
    pub fn entries(&self, node: &str) -> Vec<PathBuf> {
        match &self.means {
            Means::Groups(groups) => groups.entries(node),
            Means::Paces(_) => Vec::new(),
        }
    }

    /// Which processor a node is a part of: one after the other, and back, so that each has about as much of them.
    pub fn cpu(&self, node: &str) -> Option<usize> {
        let cpus = if self.is_real() { self.most as usize } else { 0 };
        let at = self.nodes.iter().position(|(other, _)| other.name == node)?;
        let at = at.checked_rem(2 * cpus)?;
        Some(if at < cpus { at } else { 2 * cpus - 1 - at })
    }

    /// What workers are told as `throttle`, with `{node}` for the node.
    pub fn throttle(&self) -> Option<String> {
        match &self.means {
            Means::Groups(_) => None,
            Means::Paces(paces) => Some(paces.pattern()),
        }
    }

    /// The folder in which `NODE/free` says what part of a node is free, if there is no better way to know.
    pub fn told_free(&self) -> Option<&Path> {
        match &self.means {
            Means::Groups(_) => None,
            Means::Paces(paces) => Some(paces.folder()),
        }
    }

    /// Changes how fast a node is; nothing happens if that is how fast it is.
    pub fn shift(&mut self, name: &str, gear: Gear) -> io::Result<()> {
        let Some(at) = self.nodes.iter().position(|(node, _)| node.name == name) else { return Ok(()) };
        if self.nodes[at].1 != gear {
            self.apply(&self.nodes[at].0, gear)?;
            self.nodes[at].1 = gear;
        }
        Ok(())
    }

    fn apply(&self, node: &Node, gear: Gear) -> io::Result<()> {
        match &self.means {
            Means::Groups(groups) => {
                let cores = match gear {
                    // A number still, so that what is read of the group has one.
                    Gear::Free => self.most,
                    Gear::Own => node.cores,
                    Gear::Third => node.cores / 3.0,
                };
                groups.limit(node.name, cores)
            }
            Means::Paces(paces) => {
                let share = if gear == Gear::Third { node.free() / 3.0 } else { node.free() };
                paces.set(node.name, share, 1.0 - node.busy)
            }
        }
    }
}

/// For people.
impl fmt::Display for Brakes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.means {
            Means::Groups(groups) => {
                write!(f, "limits of the kernel's (control groups, version {})", groups.version())
            }
            Means::Paces(_) => {
                write!(f, "workers that pause (no control groups), also for what their nodes are busy with")
            }
        }
    }
}

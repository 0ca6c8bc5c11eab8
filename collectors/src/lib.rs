//! Collectors that ship in the box: what a node is and how it is.
//!
//! A collector is made once and asked again and again, so it can tell what happened between two samples. Each is one
//! file: reading and parsing are apart, so that parsing is tested on fixtures, and where it reads can be put elsewhere
//! ([`Roots`]). It spawns no process and knows neither registrations nor data names. One that finds nothing to measure
//! on this machine says so ([`Failure::NotHere`]), which is not an error.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Instant;

use serde_json::Value;

mod between;
mod cgroup;
mod cpu;
mod disk;
mod disk_io;
mod figures;
mod files;
mod gpu;
mod hardware;
#[cfg(feature = "hdfs")]
mod hdfs;
mod http;
mod load;
mod log_tail;
mod memory;
mod mounts;
mod network;
mod params;
mod pressure;
mod processes;
mod system;
mod tcp;
mod waiting;

pub use params::Params;

/// What measures.
pub trait Collector: Send {
    /// Measures once. May block, and must not for longer than until then. Some have a runtime of their own to wait on:
    /// it is called on a thread on which blocking is allowed, never inside an asynchronous task.
    fn collect(&mut self, until: Instant) -> Result<Reading, Failure>;
}

/// What was measured.
#[derive(Debug, Clone, PartialEq)]
pub enum Reading {
    /// Of this node.
    Here(Value),
    /// Of many nodes, by their names.
    PerNode(BTreeMap<String, Value>),
}

/// Why nothing was measured, for people.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    /// There is nothing of the kind on this machine; there may be later.
    #[error("not available here: {0}")]
    NotHere(String),
    #[error("{0}")]
    Failed(String),
}

/// Where the kernel's files are.
#[derive(Debug, Clone)]
pub struct Roots {
    pub proc: PathBuf,
    pub sys: PathBuf,
    pub etc: PathBuf,
    /// Where paths that these files name begin.
    pub root: PathBuf,
}

impl Default for Roots {
    fn default() -> Self {
        Roots { proc: "/proc".into(), sys: "/sys".into(), etc: "/etc".into(), root: "/".into() }
    }
}

/// What a collector is made with.
#[derive(Debug, Clone, Default)]
pub struct Surroundings {
    pub roots: Roots,
    /// The node's name, if there is one.
    pub node: Option<String>,
    /// A folder of its own that outlives it, if it has one.
    pub folder: Option<PathBuf>,
}

/// A parameter of a collector, for people.
#[derive(Debug, Clone, Copy)]
pub struct Param {
    pub name: &'static str,
    pub about: &'static str,
    pub required: bool,
}

/// How a new cluster registers it.
#[derive(Debug, Clone, Copy)]
pub struct ByDefault {
    /// Seconds.
    pub every: f64,
    /// Whether one node answers for all.
    pub once: bool,
}

/// Makes a collector of its parameters.
pub type Make = fn(&mut Params, &Surroundings) -> Result<Box<dyn Collector>, String>;

/// A collector by its name.
pub struct Kind {
    pub name: &'static str,
    pub about: &'static str,
    pub params: &'static [Param],
    /// None if nothing is registered unless somebody asks for it.
    pub by_default: Option<ByDefault>,
    /// Makes one; refuses parameters that are no good.
    pub make: Make,
}

/// All of them, in the order in which they are listed.
pub const ALL: &[&Kind] = &[
    &cpu::CPU,
    &memory::MEMORY,
    &load::LOAD,
    &disk::DISK,
    &disk_io::DISK_IO,
    &network::NETWORK,
    &processes::PROCESSES,
    &system::SYSTEM,
    &cgroup::CGROUP,
    &gpu::GPU,
    &http::HTTP,
    &tcp::TCP,
    &log_tail::LOG_TAIL,
    #[cfg(feature = "hdfs")]
    &hdfs::HDFS,
];

/// The one of a name.
pub fn find(name: &str) -> Option<&'static Kind> {
    ALL.iter().find(|kind| kind.name == name).copied()
}

/// Makes the collector of a kind; refuses parameters that it has not.
pub fn make(
    kind: &Kind,
    params: &BTreeMap<String, Value>,
    around: &Surroundings,
) -> Result<Box<dyn Collector>, String> {
    let mut params = Params::new(params.clone());
    let made = (kind.make)(&mut params, around)?;
    params.end(kind)?;
    Ok(made)
}

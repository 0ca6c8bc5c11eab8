//! Collectors that ship in the box: the hardware and the state of a node.
//!
//! A collector is made once and asked again and again, so it can measure what happened between two samples. Each is
//! one file: reading and parsing are apart, so that parsing is tested on fixtures, and it can read elsewhere
//! ([`Roots`]). It spawns no process and knows neither registrations nor data names. One that finds nothing to
//! measure on this machine fails with [`Failure::NotHere`], which is not an error.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Instant;

use serde_json::Value;

mod blocking;
mod bounds;
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
mod samples;
mod system;
mod tcp;

pub use bounds::{AllowLibraries, AllowNet, AllowRead, Bounds, NetPattern};
pub use params::Params;

/// The parameters of a registration, by name.
pub type ParamValues = BTreeMap<String, Value>;

/// Something that measures.
pub trait Collector: Send {
    /// Measures once. May block, and must not for longer than until then. Some have a runtime of their own to wait on:
    /// it is called on a thread on which blocking is allowed, never inside an asynchronous task.
    fn collect(&mut self, until: Instant) -> Result<Reading, Failure>;
}

/// The result of a collection.
#[derive(Debug, Clone, PartialEq)]
pub enum Reading {
    /// Of this node.
    Here(Value),
    /// Of many nodes, by their names.
    PerNode(BTreeMap<String, Value>),
}

/// The reason, for people, why nothing was measured.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    /// There is nothing of the kind on this machine; there may be later.
    #[error("not available here: {0}")]
    NotHere(String),
    /// The operator of the node does not allow it.
    #[error("{0}")]
    Refused(String),
    #[error("{0}")]
    Failed(String),
}

/// The folders of the kernel's files.
#[derive(Debug, Clone)]
pub struct Roots {
    pub proc: PathBuf,
    pub sys: PathBuf,
    pub etc: PathBuf,
    /// The beginning of the paths that these files name.
    pub root: PathBuf,
}

impl Default for Roots {
    fn default() -> Self {
        Roots { proc: "/proc".into(), sys: "/sys".into(), etc: "/etc".into(), root: "/".into() }
    }
}

/// The machine and the node that a collector works for.
#[derive(Debug, Clone, Default)]
pub struct Surroundings {
    pub roots: Roots,
    /// The node's name, if there is one.
    pub node: Option<String>,
    /// A folder of its own that outlives it, if it has one.
    pub folder: Option<PathBuf>,
    /// The files that it may read, and the addresses that it may reach.
    pub bounds: Bounds,
}

/// A parameter of a collector, for people.
#[derive(Debug, Clone, Copy)]
pub struct Param {
    pub name: &'static str,
    pub about: &'static str,
    pub required: bool,
}

impl Param {
    pub const fn required(name: &'static str, about: &'static str) -> Self {
        Param { name, about, required: true }
    }

    pub const fn optional(name: &'static str, about: &'static str) -> Self {
        Param { name, about, required: false }
    }
}

/// The registration that a new cluster makes of a collector by itself.
#[derive(Debug, Clone, Copy)]
pub struct DefaultRegistration {
    /// Seconds.
    pub every: f64,
    /// One node answers for all.
    pub once: bool,
}

impl From<String> for Failure {
    fn from(reason: String) -> Self {
        Failure::Failed(reason)
    }
}

type Make = fn(&Params, &Surroundings) -> Result<Box<dyn Collector>, String>;

/// A collector in the catalogue: its name, its parameters, and the function that makes one.
pub struct CollectorKind {
    pub name: &'static str,
    pub about: &'static str,
    pub params: &'static [Param],
    /// None if it is registered only on request.
    pub default: Option<DefaultRegistration>,
    make: Make,
}

/// The catalogue, in the order in which it is listed.
pub const ALL: &[&CollectorKind] = &[
    &cpu::KIND,
    &memory::KIND,
    &load::KIND,
    &disk::KIND,
    &disk_io::KIND,
    &network::KIND,
    &processes::KIND,
    &system::KIND,
    &cgroup::KIND,
    &gpu::KIND,
    &http::KIND,
    &tcp::KIND,
    &log_tail::KIND,
    #[cfg(feature = "hdfs")]
    &hdfs::KIND,
];

/// The collector of a name.
pub fn find(name: &str) -> Option<&'static CollectorKind> {
    ALL.iter().find(|kind| kind.name == name).copied()
}

/// Makes a collector; rejects parameters that it does not have, and values that they cannot take.
pub fn make(
    kind: &CollectorKind,
    params: &ParamValues,
    around: &Surroundings,
) -> Result<Box<dyn Collector>, String> {
    (kind.make)(&Params::new(kind, params)?, around)
}

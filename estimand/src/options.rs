//! The settings of services and agents, as the command line and settings files give them.

use std::collections::BTreeMap;
use std::io::Read as _;
use std::path::PathBuf;

use estimand_api::names::NodeName;
use estimand_slot_agent::{EnvPattern, ImagePattern, NetPattern, UserRange};
use estimand_web::server::ListenAddress;
use estimand_web::{BasePath, Origin};

use crate::cli::tls::TlsFiles;
use crate::services::{Owner, ServiceKind, ServiceOptions};
use crate::telemetry;

/// The services to start, and their settings.
pub struct Options {
    pub listen: ListenAddress,
    /// The permissions of a socket in the file system.
    pub socket_mode: u32,
    pub data_dir: PathBuf,
    /// `sqlite://…`, `postgres://…` or `mysql://…`; a SQLite file in the data folder if absent.
    pub store: Option<String>,
    /// Takes the database over from services that run on it.
    pub takes_over: bool,
    pub workers: Option<usize>,
    pub insecure: bool,
    /// A token is needed on a loopback address, too.
    pub require_token: bool,
    /// The path below which a proxy shows the service.
    pub base: Option<BasePath>,
    /// Their pages may send requests.
    pub origins: Vec<Origin>,
    /// None: plain HTTP.
    pub tls: Option<TlsFiles>,
    pub log: telemetry::Log,
    pub platform: Platform,
    pub services: Vec<Box<dyn ServiceOptions>>,
    /// Everything runs here, for this machine.
    pub is_up: bool,
    /// The agent of this machine, if something shall run on it.
    pub agent: Option<Box<AgentOptions>>,
}

/// The services of a platform that are spoken to.
#[derive(Clone, Default)]
pub struct Platform {
    /// The URL of the RabbitMQ that is told what happens to tasks.
    pub publish: Option<String>,
    pub eureka: Option<Eureka>,
}

/// The Eureka with which this process is registered.
#[derive(Clone)]
pub struct Eureka {
    /// Their URLs; one that answers is enough.
    pub servers: Vec<String>,
    pub app: String,
    /// None: the address that is listened on.
    pub advertise: Option<String>,
}

impl Options {
    /// True if requests of this machine need no token for values.
    pub fn is_open_here(&self) -> bool {
        !self.require_token && !self.insecure && self.is_local()
    }

    /// True if this machine alone reaches the address.
    pub fn is_local(&self) -> bool {
        self.listen.is_local()
    }

    /// True if a service of some kind runs here.
    pub fn has(&self, is_one: impl Fn(&ServiceKind) -> bool) -> bool {
        self.services.iter().any(|service| is_one(service.kind()))
    }

    /// The services of this process that are alone over a store.
    pub fn owners(&self) -> Vec<Owner> {
        self.services.iter().filter_map(|service| service.kind().owner).collect()
    }
}

/// The programs that may run on a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AllowedPrograms {
    Everything,
    /// Only those in these folders.
    Folders(Vec<PathBuf>),
}

/// Where the token is with which a node joins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum JoinToken {
    Given(String),
    /// In this file, or `-` for standard input.
    File(PathBuf),
}

impl JoinToken {
    pub fn read(&self) -> std::io::Result<String> {
        /// No join token is longer.
        const MAX_BYTES: u64 = 4096;
        let mut text = String::new();
        match self {
            JoinToken::Given(token) => text.clone_from(token),
            JoinToken::File(file) if file.as_os_str() == "-" => {
                std::io::stdin().take(MAX_BYTES).read_to_string(&mut text)?;
            }
            JoinToken::File(file) => {
                std::fs::File::open(file)?.take(MAX_BYTES).read_to_string(&mut text)?;
            }
        }
        Ok(text)
    }
}

/// The settings of an agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgentOptions {
    /// The managers; none in `up`, whose own address is known only when it listens.
    pub servers: Vec<String>,
    /// The token with which it joins; it is not read once it has.
    pub join: Option<JoinToken>,
    /// The authority that it trusts, if not the one that it was told when it joined.
    pub authority: Option<PathBuf>,
    pub node: NodeName,
    /// It had another name when its folder was used last.
    pub renamed: bool,
    pub labels: BTreeMap<String, String>,
    /// The ids of the node's devices, by resource.
    pub devices: BTreeMap<String, Vec<String>>,
    pub allow: AllowedPrograms,
    /// The variables that registrations may set, besides those that they always may.
    pub allow_env: Vec<EnvPattern>,
    /// The files and folders that built-in collectors may read when a registration names them.
    pub allow_read: Vec<PathBuf>,
    /// The addresses that they may reach.
    pub allow_net: Vec<NetPattern>,
    /// Uploaded files may run.
    pub allow_uploads: bool,
    /// The public half of the key that signs them, if they must be signed.
    pub upload_key: Option<PathBuf>,
    /// The socket of the engine that runs containers, if they run here.
    pub docker: Option<PathBuf>,
    pub allow_images: Vec<ImagePattern>,
    /// The folders below which their volumes may lie.
    pub allow_volumes: Vec<PathBuf>,
    /// The user that things run as, if not the agent's own.
    pub run_as: Option<String>,
    /// The numbers that users have one each of, if they have.
    pub run_as_range: Option<UserRange>,
    /// Without another user, users' tasks run as the agent.
    pub allow_users_as_agent: bool,
    /// The limits of tasks that say nothing of them.
    pub task_memory: Option<u64>,
    pub task_processes: Option<u64>,
    /// The capabilities that they keep.
    pub keep: Vec<String>,
    pub data_dir: PathBuf,
    /// Where the folders of slots are, if not there.
    pub slots_dir: Option<PathBuf>,
    /// The space without which no run begins.
    pub reserve_mib: Option<u64>,
    /// The most that the inputs of a task may have, and so its outputs.
    pub task_files_mib: Option<u64>,
    pub max_runs: Option<u32>,
    pub max_spool_bytes: Option<u64>,
    pub cgroups: bool,
}

//! The settings of services and agents, as the command line and settings files give them.

use std::collections::BTreeMap;
use std::fmt;
use std::io::Read as _;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::ValueEnum;
use estimand_api::names::NodeName;
use estimand_reservation_bridges::CeleryBroker;
use estimand_reservation_service::Settings;
use estimand_slot_agent::{EnvPattern, ImagePattern, NetPattern, UserRange};
use estimand_web::server::ListenAddress;
use estimand_web::{BasePath, Origin};

use crate::cli::tls::TlsFiles;
use crate::telemetry;

/// The services to start, and their settings.
#[derive(Debug, Clone)]
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
    pub parts: Parts,
}

/// The services of a platform that are spoken to.
#[derive(Clone, Default)]
pub struct Platform {
    /// The URL of the RabbitMQ that is told what happens to tasks.
    pub publish: Option<String>,
    pub eureka: Option<Eureka>,
}

/// Without its addresses, which may have passwords.
impl fmt::Debug for Platform {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Platform(publish: {}, eureka: {})", self.publish.is_some(), self.eureka.is_some())
    }
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

/// The operator's terms for all tasks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TaskTerms {
    /// A task with an image that is not published is refused.
    pub published_images_only: bool,
    /// The length of the lease of a task that asks for no other one.
    pub lease: Duration,
}

/// The services that run in this process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Parts {
    /// All of them, and an agent if something shall run on this machine.
    All {
        agent: Option<Box<AgentOptions>>,
        defaults: Defaults,
        /// The folder of files, if not one in the data folder.
        files: Option<PathBuf>,
        terms: TaskTerms,
        sale: Sale,
    },
    /// The registry alone; it tells the data service which names keep a history, and the managers of changes.
    Registry {
        data_service: Option<String>,
        managers: Vec<String>,
        defaults: Defaults,
    },
    Manager(ManagerOptions),
    Data,
    /// The task service alone; it speaks to the manager that leads, and reads facts from the data service.
    Tasks {
        managers: Vec<String>,
        data_service: String,
        terms: TaskTerms,
        /// The file service, and its address as agents reach it, if that is another.
        file_service: Option<String>,
        file_server: Option<String>,
    },
    /// The reservation service alone; the task service has the ledger.
    Reservations {
        task_service: String,
        /// Where the predictor of demand is chosen.
        data_service: Option<String>,
        sale: Sale,
    },
    /// The file service alone.
    Files {
        files: Option<PathBuf>,
    },
}

impl Parts {
    pub fn has_registry(&self) -> bool {
        matches!(self, Parts::All { .. } | Parts::Registry { .. })
    }

    pub fn defaults(&self) -> Defaults {
        match self {
            Parts::All { defaults, .. } | Parts::Registry { defaults, .. } => *defaults,
            Parts::Manager(_)
            | Parts::Data
            | Parts::Tasks { .. }
            | Parts::Reservations { .. }
            | Parts::Files { .. } => Defaults::None,
        }
    }

    pub fn has_manager(&self) -> bool {
        matches!(self, Parts::All { .. } | Parts::Manager(_))
    }

    pub fn has_data(&self) -> bool {
        matches!(self, Parts::All { .. } | Parts::Data)
    }

    /// Where values are, people look at them.
    pub fn has_dashboard(&self) -> bool {
        self.has_data()
    }

    /// The terms of tasks, if the task service runs here.
    pub fn task_terms(&self) -> Option<TaskTerms> {
        match self {
            Parts::All { terms, .. } | Parts::Tasks { terms, .. } => Some(*terms),
            _ => None,
        }
    }

    /// The terms of sale, if the reservation service runs here.
    pub fn sale(&self) -> Option<&Sale> {
        match self {
            Parts::All { sale, .. } | Parts::Reservations { sale, .. } => Some(sale),
            _ => None,
        }
    }

    pub fn has_files(&self) -> bool {
        matches!(self, Parts::All { .. } | Parts::Files { .. })
    }
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

    /// The folder of files.
    pub fn files(&self) -> PathBuf {
        let given = match &self.parts {
            Parts::All { files, .. } | Parts::Files { files } => files.clone(),
            _ => None,
        };
        given.unwrap_or_else(|| self.data_dir.join("files"))
    }
}

/// How the reservation service sells time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sale {
    pub settings: Settings,
    /// Reservations are made over plain TCP here, too.
    pub lines: Option<SocketAddr>,
    /// The broker that workers of Celery read, if there is one.
    pub celery: Option<CeleryBroker>,
}

/// The default registrations of a new cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Defaults {
    Standard,
    None,
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

/// The services that a manager speaks to, and the addresses that it hands out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ManagerOptions {
    pub registry: String,
    pub data_service: String,
    /// Handed to agents.
    pub data_server: String,
    /// Handed to agents; none: where they ask for it.
    pub task_server: Option<String>,
    /// Handed to callers of a manager that stands by; none: the address that it listens on.
    pub advertise: Option<String>,
}

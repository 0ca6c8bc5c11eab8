//! The commands that start a node's agent, and everything for this machine.

use std::collections::BTreeMap;
use std::path::PathBuf;

use crate::telemetry;
use clap::error::ErrorKind;
use clap::{Args, CommandFactory as _, ValueHint};
use estimand_api::names::NodeName;
use estimand_slot_agent::{EnvPattern, ImagePattern, NetPattern, UserRange};

use estimand_cli::credentials::data_dir_or_default;

use super::platform::PlatformArgs;
use super::services::{ServiceArgs, log_format};
use super::tls::JoinArgs;
use estimand_cli::Remote;
use estimand_cli::arguments::parse;

use super::Cli;
use crate::options::{AgentOptions, AllowedPrograms, Options};
use crate::services::AllTerms;

/// Where Docker's engine listens, unless it was told otherwise.
const DOCKER_SOCKET: &str = "/var/run/docker.sock";

const AGENT_EXAMPLES: &str = "\
An agent asks a manager what to run, and opens no port. Nothing is allowed to run unless --allow
names the folder that it lies in. When the agent ends, whatever it runs is ended first.

Examples:
  estimand agent --allow /opt/collectors
  estimand agent --server http://10.0.0.1:7070 --node node-1 --label zone=a --allow /opt/collectors";

// The argument structs below have no doc comments of their own: clap would take one for the text of the
// command.

// The node of an agent, however it is started.
#[derive(Debug, Args)]
pub struct NodeOptions {
    /// The name of this node [default: the machine's host name]
    #[arg(long, value_name = "NAME", env = "ESTIMAND_NODE", hide_env_values = true)]
    node: Option<NodeName>,
    /// This node had another name when the agent's folder was used last: forget what was assigned to that name, and what
    /// waits to be delivered for it
    #[arg(long)]
    renamed: bool,
    /// A label of this node, by which registrations choose it; may be repeated
    #[arg(long = "label", id = "labels", value_name = "KEY=VALUE", value_parser = parse::label_of_node)]
    labels: Vec<(String, String)>,
    /// The devices of this node by their ids, such as gpu=GPU-5f0c,GPU-91b2 or gpu=/dev/xdma0, of which each task has its
    /// own; their number is the label, unless that is given; may be repeated [default: numbers from 0, by the label]
    #[arg(long = "device", id = "devices", value_name = "gpu=ID,ID", value_parser = parse::devices_of_node)]
    devices: Vec<(String, Vec<String>)>,
    /// A folder whose executables may run; may be repeated
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    allow: Vec<PathBuf>,
    /// A variable that registrations may set for what they run, such as PGPASSWORD or MUNIN_*; may be repeated. Always
    /// allowed are SLOT_*, LANG, LC_* and TZ
    #[arg(long, value_name = "NAME")]
    allow_env: Vec<EnvPattern>,
    /// A file, or a folder of files, that the built-in collector `log_tail` may read; may be repeated
    #[arg(long, value_name = "PATH", value_hint = ValueHint::AnyPath)]
    allow_read: Vec<PathBuf>,
    /// An address that the built-in collectors `http`, `tcp` and `hdfs` may reach when a registration names it: a name, an
    /// address, a network such as 10.0.0.0/8, or `*`, each with or without a port; may be repeated
    #[arg(long, value_name = "HOST[:PORT]")]
    allow_net: Vec<NetPattern>,
    /// Run files that came with a registration (`register --upload`), too
    #[arg(long)]
    allow_uploads: bool,
    /// Run only uploaded files that the holder of this key signed: the public half that `estimand pki upload-key` makes
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, requires = "allow_uploads")]
    upload_key: Option<PathBuf>,
    /// Run the containers of tasks, by the Docker engine with this socket [default socket: /var/run/docker.sock]
    #[arg(long, value_name = "SOCKET", value_hint = ValueHint::FilePath, num_args = 0..=1, default_missing_value = DOCKER_SOCKET)]
    docker: Option<PathBuf>,
    /// An image that may run, such as python:3.12 or registry.example.com/team/*; without a tag each of its tags; may be
    /// repeated
    #[arg(long = "allow-image", id = "allow_images", value_name = "PATTERN", requires = "docker")]
    allow_images: Vec<ImagePattern>,
    /// A folder below which volumes of containers may lie; may be repeated
    #[arg(long = "allow-volume", id = "allow_volumes", value_name = "DIR", value_hint = ValueHint::DirPath, requires = "docker")]
    allow_volumes: Vec<PathBuf>,
    /// Run everything as this user, by name or number; needs root [default: as the agent itself]
    #[arg(long, value_name = "USER[:GROUP]")]
    run_as: Option<String>,
    /// Run the tasks of each user of the cluster as a user of their own, with a number from here that nothing else on this
    /// machine has, such as 400000-465535; once given it is theirs for ever
    #[arg(long, value_name = "FIRST-LAST", requires = "run_as")]
    run_as_range: Option<UserRange>,
    /// Run tasks of users as the agent itself, whose files and token they can read then [default: without --run-as they are
    /// not run, but for containers]
    #[arg(long, conflicts_with = "run_as")]
    allow_users_as_agent: bool,
    /// The memory of a task that says nothing of it, such as 2GiB [default: no limit]
    #[arg(long, value_name = "SIZE", value_parser = parse::size)]
    task_memory: Option<u64>,
    /// How many processes, with their threads, a task may have [default: 16384]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=4_194_304))]
    task_processes: Option<u64>,
    /// A capability of the agent's that what it runs keeps, such as cap_net_raw, or `all`; may be repeated [default:
    /// none, also as root]
    #[arg(long = "keep-capability", id = "keep", value_name = "NAME")]
    keep: Vec<String>,
    /// Keep the folders of slots here, such as on a disk of their own [default: the agent's own folder]
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    slots_dir: Option<PathBuf>,
    /// Begin no run while the disk of the slots, or of the agent's own folder, has less free, in MiB [default: 64, or a
    /// hundredth of the disk]
    #[arg(long = "reserve", id = "reserve", value_name = "N", value_parser = clap::value_parser!(u64).range(0..=1_048_576))]
    reserve: Option<u64>,
    /// The most that the inputs of a task may have, and so its outputs, in MiB [default: 16384]
    #[arg(long = "task-files", id = "task_files", value_name = "N", value_parser = clap::value_parser!(u64).range(0..=1_073_741_824))]
    task_files: Option<u64>,
    /// How many runs may go on at the same time [default: four a core]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    max_runs: Option<u32>,
}

#[derive(Debug, Args)]
#[command(after_help = AGENT_EXAMPLES)]
pub struct AgentArgs {
    /// The manager, or `estimand up`; may be repeated if there are several managers [default:
    /// $ESTIMAND_SERVER, else http://127.0.0.1:7070]
    #[arg(long = "server", id = "servers", value_name = "URL", value_hint = ValueHint::Url, value_parser = parse::address)]
    servers: Vec<String>,
    #[command(flatten)]
    joining: JoinArgs,
    #[command(flatten)]
    node: NodeOptions,
    /// Let everything run that anybody registers
    #[arg(long, conflicts_with = "allow")]
    allow_all: bool,
    /// The agent's own folder; each agent on a machine needs another one [default: the folder agent in the
    /// data folder of `estimand up`]
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    data_dir: Option<PathBuf>,
    /// How much is kept on disk of what cannot be delivered, in MiB
    #[arg(long, value_name = "N", default_value_t = 256, value_parser = clap::value_parser!(u64).range(1..=1_048_576))]
    spool_mib: u64,
    /// Use no cgroups, even where they may be used
    #[arg(long)]
    no_cgroups: bool,
    /// Read settings from this YAML file: each option here is a key there, and goes before it; read again on SIGHUP
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    config: Option<PathBuf>,
    /// How much is logged, e.g. debug or info,estimand::access=debug [default: $ESTIMAND_LOG, else info]
    #[arg(long, value_name = "FILTER", value_parser = telemetry::filter)]
    log: Option<String>,
    /// How the log looks, which goes to standard error
    #[arg(long, value_name = "FORMAT", default_value = "pretty", value_parser = log_format())]
    log_format: telemetry::Format,
}

// All services, and an agent for this machine.
#[derive(Debug, Args)]
pub struct UpArgs {
    #[command(flatten)]
    service: ServiceArgs,
    #[command(flatten, next_help_heading = PlatformArgs::HEADING)]
    platform: PlatformArgs,
    #[command(flatten, next_help_heading = "What runs here")]
    node: NodeOptions,
    /// Run nothing on this machine
    #[arg(long, help_heading = "What runs here", conflicts_with_all = ["node", "renamed", "labels", "devices", "allow", "allow_env", "allow_read", "allow_net", "allow_uploads", "upload_key", "docker", "allow_images", "allow_volumes", "run_as", "run_as_range", "allow_users_as_agent", "task_memory", "task_processes", "keep", "slots_dir", "reserve", "task_files", "max_runs"])]
    no_agent: bool,
    #[command(flatten)]
    terms: AllTerms,
}

impl AgentArgs {
    pub fn log(&self) -> telemetry::Log {
        telemetry::Log { format: self.log_format, filter: self.log.clone() }
    }

    /// The error says what is wrong with the arguments, and ends the process as wrong usage does.
    pub fn options(self) -> Result<AgentOptions, clap::Error> {
        let data_dir = self.data_dir.unwrap_or_else(|| data_dir_or_default(None).join("agent"));
        let mut options = self.node.options(data_dir)?;
        options.servers = match self.servers {
            none if none.is_empty() => Remote::default().addresses(),
            servers => servers,
        };
        options.join = self.joining.source();
        options.authority = self.joining.authority.filter(|file| !file.as_os_str().is_empty());
        if self.allow_all {
            options.allow = AllowedPrograms::Everything;
        }
        options.max_spool_bytes = Some(self.spool_mib << 20);
        options.cgroups = !self.no_cgroups;
        Ok(options)
    }
}

impl UpArgs {
    /// The error says what is wrong with the arguments, and ends the process as wrong usage does.
    pub fn options(self) -> Result<Options, clap::Error> {
        let UpArgs { service, platform, node, no_agent, terms } = self;
        let agent = if no_agent { None } else { Some(node.options(service.data_dir().join("agent"))?) };
        let (platform, agent) = (platform.options(), agent.map(Box::new));
        Ok(Options { platform, agent, is_up: true, ..service.options(terms.services()?) })
    }
}

impl NodeOptions {
    fn options(self, data_dir: PathBuf) -> Result<AgentOptions, clap::Error> {
        let node = match self.node {
            Some(node) => node,
            None => node_of_host(&host_name())?,
        };
        let mut labels = BTreeMap::new();
        for (key, value) in self.labels {
            if let Some(before) = labels.insert(key.clone(), value.clone()) {
                return Err(wrong(&format!("the label `{key}` is given twice: `{before}` and `{value}`")));
            }
        }
        let devices = devices(self.devices, &labels)?;
        Ok(AgentOptions {
            servers: Vec::new(),
            join: None,
            authority: None,
            node,
            renamed: self.renamed,
            labels,
            devices,
            allow: AllowedPrograms::Folders(self.allow),
            allow_env: self.allow_env,
            allow_read: self.allow_read,
            allow_net: self.allow_net,
            allow_uploads: self.allow_uploads,
            upload_key: self.upload_key,
            docker: self.docker,
            allow_images: self.allow_images,
            allow_volumes: self.allow_volumes,
            run_as: self.run_as,
            run_as_range: self.run_as_range,
            allow_users_as_agent: self.allow_users_as_agent,
            task_memory: self.task_memory,
            task_processes: self.task_processes,
            keep: self.keep,
            data_dir,
            slots_dir: self.slots_dir,
            reserve_mib: self.reserve,
            task_files_mib: self.task_files,
            max_runs: self.max_runs,
            max_spool_bytes: None,
            cgroups: true,
        })
    }
}

/// The ids of the node's devices, each of them once, of which a label counts no more than there are.
fn devices(
    given: Vec<(String, Vec<String>)>,
    labels: &BTreeMap<String, String>,
) -> Result<BTreeMap<String, Vec<String>>, clap::Error> {
    let mut devices: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (resource, ids) in given {
        let all = devices.entry(resource.clone()).or_default();
        for id in ids {
            if all.contains(&id) {
                return Err(wrong(&format!("the device `{id}` of `{resource}` is given twice")));
            }
            all.push(id);
        }
    }
    for (resource, ids) in &devices {
        let label = labels.get(resource).and_then(|count| count.parse::<usize>().ok());
        if let Some(count) = label.filter(|count| *count > ids.len()) {
            return Err(wrong(&format!(
                "the label `{resource}={count}` counts more than the {} devices that `--device` names",
                ids.len()
            )));
        }
    }
    Ok(devices)
}

/// As the kernel has it; empty if that cannot be read.
fn host_name() -> String {
    std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default().trim().to_owned()
}

fn node_of_host(host: &str) -> Result<NodeName, clap::Error> {
    NodeName::parse(host).map_err(|_| {
        let expected = NodeName::EXPECTED;
        wrong(&format!(
            "this machine's host name, `{host}`, is not a node name ({expected}): give one with --node"
        ))
    })
}

fn wrong(message: &str) -> clap::Error {
    Cli::command().error(ErrorKind::ValueValidation, message)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
#[path = "engine_tests.rs"]
mod tests;

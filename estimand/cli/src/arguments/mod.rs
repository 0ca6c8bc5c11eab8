//! The arguments of the client commands.
//!
//! They become the types of `estimand_api` here, so that a command never sees a wrong name or a wrong duration; wrong
//! arguments end with clap's message and exit code 2. Nothing is done here.

use clap::{Args, Subcommand};

use crate::credentials::TlsOptions;

pub mod access;
pub mod capacity;
pub mod configuration;
pub mod data;
pub mod doctor;
pub mod field_options;
pub mod files;
pub mod images;
pub mod nodes;
pub mod parse;
pub mod registrations;
pub mod reservations;
pub mod tasks;
pub mod top;
pub mod tune;
pub mod users;

use access::{AuditArgs, TokenArgs};
use capacity::CapacityArgs;
use configuration::{ApplyArgs, ExportArgs};
use data::{
    BindArgs, BindingsArgs, CompareArgs, DeleteArgs, GetArgs, HistoryArgs, PutArgs, UnbindArgs, WatchArgs,
};
use doctor::DoctorArgs;
use files::FilesArgs;
use images::ImagesArgs;
use nodes::{InstancesArgs, LogsArgs, NodesArgs, RunArgs};
use registrations::{
    ChangesArgs, EditArgs, ListArgs, PauseArgs, RegisterArgs, RenameArgs, ShowArgs, UnregisterArgs,
};
use reservations::{CreditsArgs, PriceArgs, ReservationsArgs, ReserveArgs};
use tasks::{RunTaskArgs, TasksArgs};
use top::TopArgs;
use tune::TuneArgs;
use users::UsersArgs;

/// Names the service that client commands speak to.
const SERVER_VARIABLE: &str = "ESTIMAND_SERVER";
const DEFAULT_SERVER: &str = "http://127.0.0.1:7070";

#[derive(Debug, Subcommand)]
pub enum ClientCommand {
    /// Say what is wrong with this set-up, and the remedy
    Doctor(Remotely<DoctorArgs>),
    /// Show nodes, their load and tasks while they change
    Top(Remotely<TopArgs>),
    /// Register a command that produces a data name's values
    Register(Box<Remotely<RegisterArgs>>),
    /// Make registrations and bindings what files say
    Apply(Remotely<ApplyArgs>),
    /// Write registrations and bindings as YAML, which `apply` reads
    Export(Remotely<ExportArgs>),
    /// Change some fields of a registration and keep the others
    Edit(Box<Remotely<EditArgs>>),
    /// Let registrations run nowhere for a while; their values and history stay
    Pause(Remotely<PauseArgs>),
    /// Let paused registrations run again
    Resume(Remotely<PauseArgs>),
    /// Give a registration another name
    Rename(Remotely<RenameArgs>),
    /// Stop producing data names and forget their registrations
    Unregister(Remotely<UnregisterArgs>),
    /// List everything that is registered
    List(Remotely<ListArgs>),
    /// All about one data name: registration, values, bindings
    Show(Remotely<ShowArgs>),
    /// One registration's versions, with their authors
    Changes(Remotely<ChangesArgs>),
    /// Write a value of a data name for a node
    Put(Remotely<PutArgs>),
    /// Read the latest values
    Get(Remotely<GetArgs>),
    /// Delete a data name's values, of one node or of all
    Delete(Remotely<DeleteArgs>),
    /// Follow values as they change, until Ctrl-C
    Watch(Remotely<WatchArgs>),
    /// Read the values that a data name had in the past
    History(Remotely<HistoryArgs>),
    /// Make a data name serve the values of another one
    Bind(Remotely<BindArgs>),
    /// Undo `bind`
    Unbind(Remotely<UnbindArgs>),
    /// List the data names that serve the values of others
    Bindings(Remotely<BindingsArgs>),
    /// Compare values of data names for the same nodes
    Compare(Remotely<CompareArgs>),
    /// List the nodes, show one, cordon or remove one
    Nodes(Remotely<NodesArgs>),
    /// List the instances: their nodes, their runs, their troubles
    Instances(Remotely<InstancesArgs>),
    /// The output of a data name's runs on standard error
    Logs(Remotely<LogsArgs>),
    /// Run one now, by hand, and show all that comes of it
    Run(Remotely<RunArgs>),
    /// Submit tasks, list them, read their logs, cancel them or wait for them
    Tasks(Remotely<TasksArgs>),
    /// Run a command as a task, on the node that suits best, as if it ran here
    RunTask(Box<Remotely<RunTaskArgs>>),
    /// Studies that look for good parameters: make one, ask it for trials, tell it results
    Tune(Remotely<TuneArgs>),
    /// The nodes' capacity, free and promised
    Capacity(Remotely<CapacityArgs>),
    /// Reserve a time to come at a price, or ask for the price
    Reserve(Box<Remotely<ReserveArgs>>),
    /// List reservations, show one, change one or cancel some
    Reservations(Remotely<ReservationsArgs>),
    /// Show what a time to come costs, start by start
    Price(Remotely<PriceArgs>),
    /// List credits and their journal, or grant some
    Credits(Remotely<CreditsArgs>),
    /// Send, fetch, list and remove files
    Files(Remotely<FilesArgs>),
    /// Publish, list and remove the images that tasks name
    Images(Remotely<ImagesArgs>),
    /// Make, list and revoke tokens
    Token(Remotely<TokenArgs>),
    /// Users' shares: show them, set their limits
    Users(Remotely<UsersArgs>),
    /// Every change of anything: author, time and address
    Audit(Remotely<AuditArgs>),
}

// The types below have no doc comments where clap would take them for the text of the command.

// A client command's own arguments, and those that all of them have.
#[derive(Debug, Args)]
pub struct Remotely<A: Args> {
    #[command(flatten)]
    pub own: A,
    #[command(flatten)]
    pub remote: Remote,
}

// The service, the credentials and the form of the answer; they may stand before the command or after it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Args)]
pub struct Remote {
    /// The services [default: $ESTIMAND_SERVER, else http://127.0.0.1:7070]
    #[arg(long, value_name = "URL", value_delimiter = ',', display_order = 900, value_hint = clap::ValueHint::Url)]
    pub server: Vec<String>,
    /// Trust these authorities [default: $ESTIMAND_AUTHORITY or the system's]
    #[arg(long, value_name = "FILE", display_order = 900, value_hint = clap::ValueHint::FilePath)]
    pub authority: Option<std::path::PathBuf>,
    /// Show this certificate (key beside it) [default: $ESTIMAND_CERTIFICATE]
    #[arg(long, value_name = "FILE", display_order = 900, value_hint = clap::ValueHint::FilePath)]
    pub certificate: Option<std::path::PathBuf>,
    /// Print what the service answered, as JSON
    #[arg(long, display_order = 901)]
    pub json: bool,
}

impl Remote {
    /// These options, completed by those that stood before the command.
    pub fn or(&self, before: &Remote) -> Remote {
        Remote {
            server: if self.server.is_empty() { before.server.clone() } else { self.server.clone() },
            authority: self.authority.clone().or_else(|| before.authority.clone()),
            certificate: self.certificate.clone().or_else(|| before.certificate.clone()),
            json: self.json || before.json,
        }
    }

    /// The addresses of the services; there is at least one.
    pub fn addresses(&self) -> Vec<String> {
        if !self.server.is_empty() {
            return self.server.clone();
        }
        let given = std::env::var(SERVER_VARIABLE).unwrap_or_default();
        let given: Vec<String> = given
            .split(',')
            .map(str::trim)
            .filter(|address| !address.is_empty())
            .map(str::to_owned)
            .collect();
        if given.is_empty() { vec![DEFAULT_SERVER.to_owned()] } else { given }
    }

    /// The options about TLS.
    pub fn tls(&self) -> TlsOptions {
        TlsOptions { authority: self.authority.clone(), certificate: self.certificate.clone() }
    }
}

// A command line of client commands alone.
#[cfg(test)]
#[derive(Debug, clap::Parser)]
pub(crate) struct CommandLine {
    #[command(subcommand)]
    pub command: ClientCommand,
}

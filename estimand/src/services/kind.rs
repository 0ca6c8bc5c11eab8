//! The shape of an entry of the table, and what an entry gets of its process.

use std::sync::Arc;

use anyhow::Context;
use clap::{ArgMatches, Command};
use estimand_access::Access;
use estimand_broker::amqp::AmqpUrl;
use estimand_client::{self as client, Client};
use estimand_runtime::{Readiness, Stop, Tasks};
use estimand_store::StoreUrl;
use estimand_web::{ServedPart, Users};

use crate::fate::Fate;
use crate::guard::Guard;
use crate::options::Options;

/// A service as the binary knows it.
pub struct ServiceKind {
    /// The command that starts it alone, and its sentence.
    pub command: &'static str,
    pub about: &'static str,
    /// The text below the command's help.
    pub examples: Option<&'static str>,
    /// Its place in the store, if only one process at a time runs it there.
    pub owner: Option<Owner>,
    /// Operators' tokens are made where it runs.
    pub makes_tokens: bool,
    /// The data folder has more of it than the store.
    pub keeps_files: bool,
    /// Alone, it may be a part of a platform.
    pub on_platform: bool,
    /// Adds the options that name its peers, which it has alone.
    pub peers: fn(Command) -> Command,
    /// Adds the options that it has wherever it is started.
    pub terms: fn(Command) -> Command,
    /// Reads both; the peers only if it is started alone.
    pub options: fn(matches: &ArgMatches, alone: bool) -> ReadOptions,
}

impl std::fmt::Debug for ServiceKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.command)
    }
}

/// Options as they were typed, or the error that says what is wrong with them.
type ReadOptions = Result<Box<dyn ServiceOptions>, clap::Error>;

/// The place of a service in a store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Owner {
    /// Its name in the store.
    pub name: &'static str,
    /// The service, for people.
    pub service: &'static str,
}

/// The options of a service of this process.
pub trait ServiceOptions {
    fn kind(&self) -> &'static ServiceKind;

    /// True if it asks services of other processes for something.
    fn speaks_to_others(&self) -> bool {
        false
    }

    fn start(&self, host: &Host<'_>) -> anyhow::Result<Box<dyn ServiceHandle>>;
}

/// A service that runs.
pub trait ServiceHandle: Send {
    /// Its part of the server, and the parts that are served where it runs.
    fn parts(&self, access: &Access) -> Vec<Box<dyn ServedPart>>;

    /// Makes its peers known to it; in one process their address is known only when it listens.
    fn introduce(&mut self, _: &Introduction<'_>) -> anyhow::Result<()> {
        Ok(())
    }

    /// Stores what it accepted, after the server has ended. May take a while.
    fn finish(&mut self) {}
}

/// The process in which services start, with all that they share.
pub struct Host<'h> {
    pub options: &'h Options,
    pub store: &'h StoreUrl,
    /// The broker that is told what happens to tasks.
    pub publish: Option<AmqpUrl>,
    pub fate: &'h Fate,
    /// The server's stop.
    pub stop: &'h Stop,
    pub tasks: Tasks,
    pub readiness: Readiness,
    pub users: Users,
}

impl Host<'_> {
    /// Ends the process when a service cannot go on.
    pub fn on_fatal(&self) -> Box<dyn Fn(&str) + Send + Sync> {
        let fate = self.fate.clone();
        Box::new(move |reason| fate.seal(reason))
    }
}

/// The way from a service of this process to its peers.
pub struct Introduction<'i> {
    /// The address of this process, where its own services are.
    pub own: &'i str,
    pub guard: &'i Arc<Guard>,
    pub tasks: &'i Tasks,
}

impl Introduction<'_> {
    /// A client of a peer. `of` names it, for an address that is wrong.
    pub fn client(&self, address: &str, of: &str) -> anyhow::Result<Client> {
        self.client_with(address, client::Options::default(), of)
    }

    pub fn client_with(&self, address: &str, options: client::Options, of: &str) -> anyhow::Result<Client> {
        self.guard.client(address, options).with_context(|| format!("the address of {of}"))
    }
}

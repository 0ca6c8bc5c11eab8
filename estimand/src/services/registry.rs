//! The registry in the binary.

use std::sync::Arc;

use clap::{Args, FromArgMatches as _, ValueEnum, ValueHint};
use estimand_access::Access;
use estimand_cli::arguments::parse;
use estimand_registry::{Registry, RegistryOptions, manager_options};
use estimand_runtime::SystemClock;
use estimand_web::ServedPart;

use super::{Host, Introduction, Owner, ServiceHandle, ServiceKind, ServiceOptions};
use crate::defaults;

pub static KIND: ServiceKind = ServiceKind {
    command: "registry",
    about: "Start the registry alone: it keeps what is registered",
    examples: None,
    owner: Some(Owner { name: "registry", service: "registry" }),
    makes_tokens: true,
    keeps_files: false,
    on_platform: false,
    peers: RegistryPeers::augment_args,
    terms: RegistryTerms::augment_args,
    options: |matches, alone| {
        let peers = alone.then(|| RegistryPeers::from_arg_matches(matches)).transpose()?;
        Ok(Box::new(RegistryStart { peers, terms: RegistryTerms::from_arg_matches(matches)? }))
    },
};

// The services that it tells of changes.
#[derive(Debug, Clone, Args)]
struct RegistryPeers {
    /// The data service to tell which data names keep a history [default: none]
    #[arg(long, value_name = "URL", value_hint = ValueHint::Url)]
    data_service: Option<String>,
    /// A manager to tell of changes, so that they take effect at once; may be repeated [default: none]
    #[arg(long = "manager", id = "managers", value_name = "URL", value_hint = ValueHint::Url, value_parser = parse::address)]
    managers: Vec<String>,
}

#[derive(Debug, Args)]
struct RegistryTerms {
    /// Registrations of a new cluster: the collectors that ship in the box, or none of them
    #[arg(long, value_name = "SET", default_value = "standard")]
    defaults: Defaults,
}

/// The default registrations of a new cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Defaults {
    Standard,
    None,
}

struct RegistryStart {
    /// None: they are in this process.
    peers: Option<RegistryPeers>,
    terms: RegistryTerms,
}

impl ServiceOptions for RegistryStart {
    fn kind(&self) -> &'static ServiceKind {
        &KIND
    }

    fn speaks_to_others(&self) -> bool {
        self.peers.as_ref().is_some_and(|peers| peers.data_service.is_some() || !peers.managers.is_empty())
    }

    fn start(&self, host: &Host<'_>) -> anyhow::Result<Box<dyn ServiceHandle>> {
        let defaults = match self.terms.defaults {
            Defaults::Standard => defaults::registrations()?,
            Defaults::None => Vec::new(),
        };
        let options = RegistryOptions {
            store: host.store.clone(),
            clock: Arc::new(SystemClock),
            check: Box::new(estimand_slot_agent::check),
            defaults,
            on_fatal: host.on_fatal(),
        };
        let registry = Registry::start(options, &host.tasks, &host.readiness);
        Ok(Box::new(RegistryHandle { registry, peers: self.peers.clone() }))
    }
}

struct RegistryHandle {
    registry: Registry,
    peers: Option<RegistryPeers>,
}

impl ServiceHandle for RegistryHandle {
    // Tokens are made where registrations are changed.
    fn parts(&self, access: &Access) -> Vec<Box<dyn ServedPart>> {
        vec![Box::new(self.registry.clone()), Box::new(access.tokens())]
    }

    fn introduce(&mut self, introduction: &Introduction<'_>) -> anyhow::Result<()> {
        let own = || introduction.own.to_owned();
        let here = || RegistryPeers { data_service: Some(own()), managers: vec![own()] };
        let RegistryPeers { data_service, managers } = self.peers.clone().unwrap_or_else(here);
        if let Some(address) = data_service {
            self.registry.set_data_service(introduction.client(&address, "the data service")?);
        }
        let client = |address: &String| introduction.client_with(address, manager_options(), "a manager");
        self.registry.set_managers(managers.iter().map(client).collect::<anyhow::Result<_>>()?);
        Ok(())
    }
}

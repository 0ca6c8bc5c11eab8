//! The tuning service in the binary.

use std::sync::Arc;

use clap::{Args, FromArgMatches as _, ValueHint};
use estimand_access::Access;
use estimand_cli::arguments::parse;
use estimand_runtime::SystemClock;
use estimand_tuning_service::{TuningService, TuningServiceOptions};
use estimand_web::ServedPart;

use super::{Host, Introduction, Owner, ServiceHandle, ServiceKind, ServiceOptions};

pub static KIND: ServiceKind = ServiceKind {
    command: "tuning-service",
    about: "Start the tuning service alone: studies that propose parameters, and their trials",
    examples: None,
    owner: Some(Owner { name: "tuning", service: "tuning service" }),
    makes_tokens: false,
    keeps_files: false,
    on_platform: false,
    peers: TuningPeers::augment_args,
    terms: |command| command,
    options: |matches, alone| {
        let peers = alone.then(|| TuningPeers::from_arg_matches(matches)).transpose()?;
        Ok(Box::new(TuningStart { peers }))
    },
};

// The services that it speaks to.
#[derive(Debug, Clone, Args)]
struct TuningPeers {
    /// The task service, which runs the trials of studies with a task [default: none; whoever asks runs them]
    #[arg(long, value_name = "URL", value_hint = ValueHint::Url, value_parser = parse::address)]
    task_service: Option<String>,
}

struct TuningStart {
    /// None: they are in this process.
    peers: Option<TuningPeers>,
}

impl ServiceOptions for TuningStart {
    fn kind(&self) -> &'static ServiceKind {
        &KIND
    }

    fn speaks_to_others(&self) -> bool {
        self.peers.as_ref().is_some_and(|peers| peers.task_service.is_some())
    }

    fn start(&self, host: &Host<'_>) -> anyhow::Result<Box<dyn ServiceHandle>> {
        let options = TuningServiceOptions {
            store: host.store.clone(),
            clock: Arc::new(SystemClock),
            on_fatal: host.on_fatal(),
        };
        let service = TuningService::start(options, &host.tasks, &host.readiness);
        Ok(Box::new(TuningHandle { service, peers: self.peers.clone() }))
    }
}

struct TuningHandle {
    service: TuningService,
    peers: Option<TuningPeers>,
}

impl ServiceHandle for TuningHandle {
    fn parts(&self, _: &Access) -> Vec<Box<dyn ServedPart>> {
        vec![Box::new(self.service.clone())]
    }

    fn introduce(&mut self, introduction: &Introduction<'_>) -> anyhow::Result<()> {
        let here = || TuningPeers { task_service: Some(introduction.own.to_owned()) };
        let peers = self.peers.clone().unwrap_or_else(here);
        if let Some(address) = peers.task_service {
            self.service.set_task_service(introduction.client(&address, "the task service")?);
        }
        Ok(())
    }
}

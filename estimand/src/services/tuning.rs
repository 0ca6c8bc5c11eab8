//! The tuning service in the binary.

use std::sync::Arc;

use clap::ArgMatches;
use estimand_access::Access;
use estimand_runtime::SystemClock;
use estimand_tuning_service::{TuningService, TuningServiceOptions};
use estimand_web::ServedPart;

use super::{Host, Owner, ServiceHandle, ServiceKind, ServiceOptions};

pub static KIND: ServiceKind = ServiceKind {
    command: "tuning-service",
    about: "Start the tuning service alone: studies that propose parameters, and their trials",
    examples: None,
    owner: Some(Owner { name: "tuning", service: "tuning service" }),
    makes_tokens: false,
    keeps_files: false,
    on_platform: false,
    peers: |command| command,
    terms: |command| command,
    options: |_: &ArgMatches, _| Ok(Box::new(TuningStart)),
};

struct TuningStart;

impl ServiceOptions for TuningStart {
    fn kind(&self) -> &'static ServiceKind {
        &KIND
    }

    fn start(&self, host: &Host<'_>) -> anyhow::Result<Box<dyn ServiceHandle>> {
        let options = TuningServiceOptions {
            store: host.store.clone(),
            clock: Arc::new(SystemClock),
            on_fatal: host.on_fatal(),
        };
        Ok(Box::new(TuningHandle(TuningService::start(options, &host.tasks, &host.readiness))))
    }
}

struct TuningHandle(TuningService);

impl ServiceHandle for TuningHandle {
    fn parts(&self, _: &Access) -> Vec<Box<dyn ServedPart>> {
        vec![Box::new(self.0.clone())]
    }
}

//! The data service in the binary, and the dashboard: people look at values where they are.

use std::sync::Arc;

use anyhow::Context;
use estimand_access::Access;
use estimand_dashboard::Dashboard;
use estimand_data_service::{DataService, FOLD_AGE, Options, WriterThread};
use estimand_runtime::SystemClock;
use estimand_web::ServedPart;

use super::{Host, Owner, ServiceHandle, ServiceKind, ServiceOptions};

pub static KIND: ServiceKind = ServiceKind {
    command: "data",
    about: "Start the data service alone: it keeps values",
    examples: None,
    owner: Some(Owner { name: "data", service: "data service" }),
    makes_tokens: false,
    keeps_files: false,
    on_platform: false,
    peers: |command| command,
    terms: |command| command,
    options: |_, _| Ok(Box::new(DataStart)),
};

struct DataStart;

impl ServiceOptions for DataStart {
    fn kind(&self) -> &'static ServiceKind {
        &KIND
    }

    fn start(&self, host: &Host<'_>) -> anyhow::Result<Box<dyn ServiceHandle>> {
        let on_fatal = host.on_fatal();
        let options = Options {
            store: host.store.clone(),
            fold_age: FOLD_AGE,
            clock: Arc::new(SystemClock),
            readiness: host.readiness.clone(),
            stop: host.stop.clone(),
            on_fatal: Box::new(move |reason| on_fatal(&reason)),
        };
        let (service, writer) =
            DataService::start(options, &host.tasks).context("cannot start the data service")?;
        Ok(Box::new(DataHandle { service, writer: Some(writer) }))
    }
}

struct DataHandle {
    service: DataService,
    writer: Option<WriterThread>,
}

impl ServiceHandle for DataHandle {
    fn parts(&self, _: &Access) -> Vec<Box<dyn ServedPart>> {
        vec![Box::new(self.service.clone()), Box::new(Dashboard::new())]
    }

    fn finish(&mut self) {
        if let Some(writer) = self.writer.take() {
            writer.finish();
        }
    }
}

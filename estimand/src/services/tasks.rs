//! The task service in the binary.

use std::sync::Arc;

use anyhow::Context;
use clap::{Args, FromArgMatches as _, ValueHint};
use estimand_access::Access;
use estimand_api::duration::Span;
use estimand_api::task::{LEASE_EXPECTED, LEASES};
use estimand_cli::arguments::parse;
use estimand_client::Client;
use estimand_runtime::SystemClock;
use estimand_tasks::{FilePeer, Peers, TaskService, TaskServiceOptions};
use estimand_web::ServedPart;

use super::{Host, Introduction, Owner, ServiceHandle, ServiceKind, ServiceOptions};

pub static KIND: ServiceKind = ServiceKind {
    command: "task-service",
    about: "Start the task service alone: it places tasks on nodes, and keeps their logs",
    examples: None,
    owner: Some(Owner { name: "tasks", service: "task service" }),
    makes_tokens: false,
    keeps_files: false,
    on_platform: true,
    peers: TaskPeers::augment_args,
    terms: TaskTerms::augment_args,
    options: |matches, alone| {
        let peers = alone.then(|| TaskPeers::from_arg_matches(matches)).transpose()?;
        Ok(Box::new(TasksStart { peers, terms: TaskTerms::from_arg_matches(matches)? }))
    },
};

// The services that it speaks to.
#[derive(Debug, Clone, Args)]
struct TaskPeers {
    /// A manager, which is told what belongs on each node; may be repeated, and the one that leads is asked
    #[arg(long = "manager", id = "managers", required = true, value_name = "URL", value_hint = ValueHint::Url, value_parser = parse::address)]
    managers: Vec<String>,
    /// The data service, whose facts say how busy each node is
    #[arg(long, value_name = "URL", value_hint = ValueHint::Url, value_parser = parse::address)]
    data_service: String,
    /// The file service, which has the inputs and outputs of tasks [default: tasks have none]
    #[arg(long, value_name = "URL", value_hint = ValueHint::Url, value_parser = parse::address)]
    file_service: Option<String>,
    /// The file service as the agents reach it [default: as --file-service says]
    #[arg(long, value_name = "URL", value_hint = ValueHint::Url, value_parser = parse::address, requires = "file_service")]
    file_server: Option<String>,
}

// The operator's terms for all tasks.
#[derive(Debug, Args)]
struct TaskTerms {
    /// Refuse tasks whose image is not published (`estimand images publish`)
    #[arg(long)]
    published_images_only: bool,
    /// How long tasks go on while their node is not heard of, before they are taken for lost
    #[arg(long, value_name = "DURATION", default_value = "10m", value_parser = lease)]
    task_lease: Span,
}

fn lease(text: &str) -> Result<Span, String> {
    let span: Span = text.parse().map_err(|error| format!("{error}"))?;
    if LEASES.contains(&span.as_std()) { Ok(span) } else { Err(format!("expected {LEASE_EXPECTED}")) }
}

struct TasksStart {
    /// None: they are in this process.
    peers: Option<TaskPeers>,
    terms: TaskTerms,
}

impl ServiceOptions for TasksStart {
    fn kind(&self) -> &'static ServiceKind {
        &KIND
    }

    fn speaks_to_others(&self) -> bool {
        self.peers.is_some()
    }

    fn start(&self, host: &Host<'_>) -> anyhow::Result<Box<dyn ServiceHandle>> {
        let options = TaskServiceOptions {
            store: host.store.clone(),
            clock: Arc::new(SystemClock),
            stop: host.stop.clone(),
            on_fatal: host.on_fatal(),
            publish: host.publish.clone(),
            published_images_only: self.terms.published_images_only,
            lease: self.terms.task_lease.as_std(),
            users: host.users.clone(),
        };
        let service = TaskService::start(options, &host.tasks, &host.readiness);
        Ok(Box::new(TasksHandle { service, peers: self.peers.clone() }))
    }
}

struct TasksHandle {
    service: TaskService,
    peers: Option<TaskPeers>,
}

impl ServiceHandle for TasksHandle {
    fn parts(&self, _: &Access) -> Vec<Box<dyn ServedPart>> {
        vec![Box::new(self.service.clone())]
    }

    fn introduce(&mut self, introduction: &Introduction<'_>) -> anyhow::Result<()> {
        let own = || introduction.own.to_owned();
        let here = || TaskPeers {
            managers: vec![own()],
            data_service: own(),
            file_service: Some(own()),
            file_server: None,
        };
        let is_apart = self.peers.is_some();
        let peers = self.peers.clone().unwrap_or_else(here);
        let files = peers.file_service.map(|service| {
            let client = introduction.client(&service, "the file service")?;
            // In one process it is where the task service is, under whatever address agents reach that.
            let address = is_apart.then(|| peers.file_server.unwrap_or(service));
            anyhow::Ok(FilePeer { client, address })
        });
        let manager = any_manager(&peers.managers, introduction)?;
        self.service.set_peers(Peers {
            engine: Arc::new(self.service.agents(manager)),
            data_service: introduction.client(&peers.data_service, "the data service")?,
            files: files.transpose()?,
        });
        Ok(())
    }
}

/// A client of whichever manager leads.
fn any_manager(addresses: &[String], introduction: &Introduction<'_>) -> anyhow::Result<Client> {
    let clients = addresses.iter().map(|address| introduction.client(address, "a manager"));
    let mut clients = clients.collect::<anyhow::Result<Vec<_>>>()?.into_iter();
    let first = clients.next().context("the task service needs a manager")?;
    Ok(first.with_others(clients.collect()))
}

//! The manager in the binary.

use std::sync::Arc;
use std::time::Duration;

use clap::{Args, FromArgMatches as _, ValueHint};
use estimand_access::Access;
use estimand_cli::arguments::parse;
use estimand_manager::{Manager, ManagerOptions, Peers, Settings};
use estimand_runtime::SystemClock;
use estimand_web::ServedPart;

use super::{Host, Introduction, ServiceHandle, ServiceKind, ServiceOptions};

/// How long a manager leads without its database, if no other process could lead.
const LEAD_ALONE: Duration = Duration::from_secs(15);

const EXAMPLES: &str = "\
Of several managers over one database one leads, and another one takes over when it ends.

Examples:
  estimand manager --registry http://10.0.0.1:7070 --data-service http://10.0.0.2:7070
  estimand manager --listen 10.0.0.3:7070 --insecure --advertise http://10.0.0.3:7070 \\
    --store postgres://10.0.0.4/estimand --registry http://10.0.0.1:7070 \\
    --data-service http://10.0.0.2:7070";

pub static KIND: ServiceKind = ServiceKind {
    command: "manager",
    about: "Start a manager alone: it knows the nodes, and says what belongs where",
    examples: Some(EXAMPLES),
    owner: None,
    makes_tokens: false,
    keeps_files: false,
    on_platform: false,
    peers: ManagerPeers::augment_args,
    terms: |command| command,
    options: |matches, alone| {
        let peers = alone.then(|| ManagerPeers::from_arg_matches(matches)).transpose()?;
        Ok(Box::new(ManagerStart { peers }))
    },
};

// The services that a manager speaks to, and the addresses that it hands out.
#[derive(Debug, Clone, Args)]
struct ManagerPeers {
    /// The registry, which says what should run
    #[arg(long, value_name = "URL", value_hint = ValueHint::Url, value_parser = parse::address)]
    registry: String,
    /// The data service, which is told whose values nobody renews
    #[arg(long, value_name = "URL", value_hint = ValueHint::Url, value_parser = parse::address)]
    data_service: String,
    /// The data service as the agents reach it [default: as --data-service says]
    #[arg(long, value_name = "URL", value_hint = ValueHint::Url, value_parser = parse::address)]
    data_server: Option<String>,
    /// The task service as the agents reach it [default: the address at which they reach this manager]
    #[arg(long, value_name = "URL", value_hint = ValueHint::Url, value_parser = parse::address)]
    task_server: Option<String>,
    /// This manager as others reach it [default: the address that it listens on]
    #[arg(long, value_name = "URL", value_hint = ValueHint::Url, value_parser = parse::address)]
    advertise: Option<String>,
}

impl ManagerPeers {
    fn data_server(&self) -> String {
        self.data_server.clone().unwrap_or_else(|| self.data_service.clone())
    }
}

struct ManagerStart {
    /// None: they are in this process.
    peers: Option<ManagerPeers>,
}

impl ServiceOptions for ManagerStart {
    fn kind(&self) -> &'static ServiceKind {
        &KIND
    }

    fn speaks_to_others(&self) -> bool {
        self.peers.is_some()
    }

    fn start(&self, host: &Host<'_>) -> anyhow::Result<Box<dyn ServiceHandle>> {
        // No other process leads on a file that one process uses at a time: then a disk that is slow for a while
        // is no reason to step down.
        let alone = host.store.is_sqlite();
        let mut settings = Settings::default();
        if alone {
            settings.leadership.ttl = LEAD_ALONE;
        }
        let options = ManagerOptions {
            store: host.store.clone(),
            data_server: self.peers.as_ref().map(ManagerPeers::data_server),
            task_server: self.peers.as_ref().and_then(|peers| peers.task_server.clone()),
            alone,
            clock: Arc::new(SystemClock),
            stop: host.stop.clone(),
            settings,
        };
        let manager = Manager::start(options, &host.tasks, &host.readiness);
        Ok(Box::new(ManagerHandle { manager, peers: self.peers.clone() }))
    }
}

struct ManagerHandle {
    manager: Manager,
    peers: Option<ManagerPeers>,
}

impl ServiceHandle for ManagerHandle {
    // Nodes join where agents ask.
    fn parts(&self, access: &Access) -> Vec<Box<dyn ServedPart>> {
        vec![Box::new(self.manager.clone()), Box::new(access.joining())]
    }

    fn introduce(&mut self, introduction: &Introduction<'_>) -> anyhow::Result<()> {
        let peers = self.peers.as_ref();
        let registry = peers.map_or(introduction.own, |peers| &peers.registry);
        let data_service = peers.map_or(introduction.own, |peers| &peers.data_service);
        let advertised = peers.and_then(|peers| peers.advertise.as_deref());
        self.manager.set_peers(Peers {
            address: advertised.unwrap_or(introduction.own).to_owned(),
            registry: introduction.client(registry, "the registry")?,
            data_service: introduction.client(data_service, "the data service")?,
        });
        Ok(())
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn agents_are_handed_the_data_service_that_the_manager_knows() {
        let peers = |more: &str| {
            let line = format!("manager --registry http://r --data-service http://d{more}");
            let matches = KIND.definition().try_get_matches_from(line.split(' ')).unwrap();
            ManagerPeers::from_arg_matches(&matches).unwrap()
        };
        let plain = peers("");
        assert_eq!((plain.registry.as_str(), plain.data_service.as_str()), ("http://r", "http://d"));
        assert_eq!(
            (plain.data_server().as_str(), plain.task_server, plain.advertise),
            ("http://d", None, None)
        );
        let both = peers(" --data-server http://public --advertise http://me");
        assert_eq!(
            (both.data_server().as_str(), both.advertise.as_deref()),
            ("http://public", Some("http://me"))
        );
        let error =
            KIND.definition().try_get_matches_from(["manager", "--registry", "http://r"]).unwrap_err();
        assert!(error.to_string().contains("--data-service <URL>"), "{error}");
        assert_eq!(error.exit_code(), 2);
    }
}

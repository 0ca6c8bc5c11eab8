//! The manager: knows the nodes, and decides which instance belongs on which of them.
//!
//! It runs nothing itself: agents ask for their desired state, and report how they are. Everything is decided
//! from the registrations and the agents' reports; a notice of a change only makes the manager look sooner.
//! One of several managers over one store leads, the others stand by; the state of a leader is rebuilt from
//! the registry, the store and the agents when another one takes over.
//!
//! `core` is pure: it decides. Around it: `leadership` (the state of a leader, behind one lock, and the term
//! of its leadership), `tasks` (leading, reading the registry, looking at the cluster, keeping the data
//! service up to date), `storage`, and `http` (the handlers). Invariant: no answer is given on behalf of a
//! leadership that is over.

pub mod core;

mod desired;
mod http;
mod leadership;
mod metrics;
mod storage;
mod tasks;
mod uptime;

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use estimand_client::Client;
use estimand_runtime::metrics::Exposition;
use estimand_runtime::{Clock, Readiness, Stop, Tasks};
use estimand_store::StoreUrl;
use estimand_web::{Role, Routes, ServedPart};
use tokio::sync::{SetOnce, watch};

use desired::Servers;
use http::uploads::{self, Uploads};
use http::{agents, changes, discovery, instances, nodes, runs, tasks as node_tasks};
use leadership::{Leadership, LeadershipError};
use metrics::Figures;
use storage::Storage;
use tasks::Candidate;

pub use tasks::LeadershipTimes;

/// Everything that a manager needs to start.
pub struct ManagerOptions {
    pub store: StoreUrl,
    /// Where agents are told to write values; where they asked, if absent.
    pub data_server: Option<String>,
    /// Where they are told to report tasks; where they asked, if absent.
    pub task_server: Option<String>,
    /// This is the only manager: it leads at once instead of waiting for the end of a term that no other has.
    pub alone: bool,
    pub clock: Arc<dyn Clock>,
    /// The server's stop: requests that wait are answered then, and the leadership is given up.
    pub stop: Stop,
    pub settings: Settings,
}

/// The spans of a manager, and how it watches nodes.
#[derive(Debug, Clone)]
pub struct Settings {
    pub cluster: core::Settings,
    pub leadership: LeadershipTimes,
    /// How often the registry is read although no change was announced.
    pub read_every: Duration,
    /// How long a request for a run by hand waits for it.
    pub run_within: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            cluster: core::Settings::default(),
            leadership: LeadershipTimes::default(),
            read_every: Duration::from_secs(5),
            run_within: Duration::from_secs(60),
        }
    }
}

/// The services that the manager speaks to, and its own address.
#[derive(Debug, Clone)]
pub struct Peers {
    /// Where this manager can be reached; one that stands by names the leader's.
    pub address: String,
    pub registry: Client,
    pub data_service: Client,
}

/// A manager that runs. Clones are the same one.
#[derive(Clone)]
pub struct Manager(Arc<Shared>);

/// Shared by handlers and tasks.
struct Shared {
    settings: Settings,
    servers: Servers,
    clock: Arc<dyn Clock>,
    stop: Stop,
    storage: Storage,
    figures: Figures,
    uploads: Uploads,
    peers: SetOnce<Arc<Peers>>,
    /// None while this process does not lead.
    leadership: watch::Sender<Option<Arc<Leadership>>>,
    /// The address of the leader, or of the last one; empty if there is none.
    leader: Mutex<String>,
}

impl Manager {
    /// Starts the tasks. It stands by until [`Manager::set_peers`] was called and it may lead.
    pub fn start(options: ManagerOptions, tasks: &Tasks, readiness: &Readiness) -> Self {
        let ManagerOptions { store, data_server, task_server, alone, clock, stop, settings } = options;
        let ready = readiness.part("manager");
        let candidate = Candidate::new(store.clone(), &settings.leadership, alone, ready, tasks);
        let shared = Arc::new(Shared {
            settings,
            servers: Servers { data: data_server, tasks: task_server },
            clock,
            stop,
            storage: Storage::new(store),
            figures: Figures::default(),
            uploads: Uploads::default(),
            peers: SetOnce::new(),
            leadership: watch::Sender::new(None),
            leader: Mutex::default(),
        });
        tasks::start(&shared, candidate, tasks);
        Manager(shared)
    }

    /// Sets the services that it speaks to; they may not be known when it starts. It does not lead before. The first
    /// ones given stay.
    pub fn set_peers(&self, peers: Peers) {
        let _ = self.0.peers.set(Arc::new(peers));
    }

    /// True while this manager leads.
    pub fn is_leading(&self) -> bool {
        self.0.leadership.borrow().as_ref().is_some_and(|leadership| leadership.term().is_valid())
    }

    fn shared(&self) -> &Shared {
        &self.0
    }

    /// The leadership, while this manager leads.
    fn leadership(&self) -> Result<Arc<Leadership>, LeadershipError> {
        let leadership = self.0.leadership.borrow().clone();
        leadership.filter(|leadership| leadership.term().is_valid()).ok_or_else(|| {
            let leader = self.0.leader.lock().unwrap_or_else(PoisonError::into_inner);
            LeadershipError { leader: Some(leader.clone()).filter(|address| !address.is_empty()) }
        })
    }
}

impl ServedPart for Manager {
    fn routes(&self) -> Routes {
        Routes::new("manager")
            .add(Role::Node, agents::heartbeat, agents::__path_heartbeat)
            .add(Role::Node, agents::slots, agents::__path_slots)
            .add(Role::Node, agents::report_run, agents::__path_report_run)
            .add(Role::Node, uploads::get, uploads::__path_get)
            .add(Role::Read, nodes::list, nodes::__path_list)
            .add(Role::Read, nodes::get, nodes::__path_get)
            .add(Role::Read, discovery::targets, discovery::__path_targets)
            .add(Role::Operate, nodes::remove, nodes::__path_remove)
            .add(Role::Operate, nodes::cordon, nodes::__path_cordon)
            .add(Role::Operate, nodes::uncordon, nodes::__path_uncordon)
            .add(Role::Operate, nodes::label, nodes::__path_label)
            .add(Role::Operate, changes::post, changes::__path_post)
            .add(Role::Service, node_tasks::put, node_tasks::__path_put)
            .add(Role::Service, node_tasks::told, node_tasks::__path_told)
            .add(Role::Read, instances::list, instances::__path_list)
            .add(Role::Read, instances::summary, instances::__path_summary)
            .add(Role::Operate, changes::delete_instances, changes::__path_delete_instances)
            .add(Role::Operate, runs::run, runs::__path_run)
            .add(Role::Operate, runs::try_registration, runs::__path_try_registration)
            .add(Role::Operate, changes::delete, changes::__path_delete)
            .share(self.clone())
    }

    fn write_figures(&self, text: &mut String) {
        let leadership = self.0.leadership.borrow().clone();
        self.0.figures.write(&mut Exposition::new(text), leadership.as_ref());
    }
}

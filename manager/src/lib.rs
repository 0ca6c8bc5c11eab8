//! The manager: which nodes there are, and which instance belongs on which of them.
//!
//! It runs nothing itself: agents ask what they should run, and say how they are. Everything is decided from
//! what is registered and what agents say; whoever tells the manager of a change only makes it look sooner.
//! One of several managers over one store leads, the others stand by; what a leader knows is rebuilt from
//! the registry, the store and the agents when another one takes over.
//!
//! `cluster` is the pure core: it decides. Everything else here is the shell around it: `lead` and `term` (who
//! may decide), `reign` (what exists while one does), `reader`, `pace` and `upkeep` (the tasks), and the
//! handlers. What must hold: nothing is answered on behalf of a lead that is over.

pub mod cluster;

mod agents;
mod changes;
mod desired;
mod figures;
mod input;
mod instances;
mod lead;
mod nodes;
mod pace;
mod reader;
mod refusal;
mod reign;
mod runs;
mod shelf;
mod stops;
mod term;
mod ticks;
mod upkeep;

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use estimand_api::problem::Problem;
use estimand_client::Client;
use estimand_runtime::metrics::Exposition;
use estimand_runtime::{Clock, Readiness, Stop, Tasks};
use estimand_store::StoreUrl;
use estimand_web::{Role, Routes};
use tokio::sync::{Mutex as TaskMutex, watch};
use tokio::time::timeout;

use cluster::Cluster;
use figures::Figures;
use lead::Candidate;
use reign::Reign;
use shelf::Shelf;
use stops::Stops;
use term::{End, Term};

pub use lead::LeadTimes;

/// How long a new leader may take to read what is stored.
const LOAD_WITHIN: Duration = Duration::from_secs(30);

/// What a manager needs.
pub struct ManagerOptions {
    pub store: StoreUrl,
    /// Where agents are told to write values; where they asked, if absent.
    pub data_server: Option<String>,
    /// This is the only manager: it leads at once instead of waiting for the end of a lead that nobody has.
    pub alone: bool,
    pub clock: Arc<dyn Clock>,
    /// The server's stop: questions that wait are answered then, and the lead is given up.
    pub stop: Stop,
    pub settings: Settings,
}

/// The spans of a manager, and how it watches nodes.
#[derive(Debug, Clone)]
pub struct Settings {
    pub cluster: cluster::Settings,
    pub lead: LeadTimes,
    /// How often the registry is read although nobody says that it has changed.
    pub read_every: Duration,
    /// How long somebody who asked for a run waits for it.
    pub run_within: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            cluster: cluster::Settings::default(),
            lead: LeadTimes::default(),
            read_every: Duration::from_secs(5),
            run_within: Duration::from_secs(60),
        }
    }
}

/// Whom the manager speaks to, and what it says of itself.
#[derive(Debug, Clone)]
pub struct Peers {
    /// Where this manager can be reached; shown to whoever asks one that stands by.
    pub address: String,
    pub registry: Client,
    pub data_service: Client,
}

/// A manager that runs. Clones are the same one.
#[derive(Clone)]
pub struct Manager(Arc<Shared>);

/// What handlers and tasks share.
struct Shared {
    settings: Settings,
    data_server: Option<String>,
    clock: Arc<dyn Clock>,
    stop: Stop,
    shelf: Shelf,
    figures: Figures,
    peers: watch::Sender<Option<Arc<Peers>>>,
    /// None while this process does not lead.
    reign: watch::Sender<Option<Arc<Reign>>>,
    /// The address of whoever leads or did last; empty if nobody does.
    leader: Mutex<String>,
}

impl Manager {
    /// Starts the tasks. It stands by until [`Manager::set_peers`] was called and it may lead.
    pub fn start(options: ManagerOptions, tasks: &Tasks, readiness: &Readiness) -> Self {
        let ManagerOptions { store, data_server, alone, clock, stop, settings } = options;
        let ready = readiness.part("manager");
        let candidate = Candidate::new(store.clone(), settings.lead.clone(), alone, ready);
        let shared = Arc::new(Shared {
            settings,
            data_server,
            clock,
            stop,
            shelf: Shelf::new(store),
            figures: Figures::default(),
            peers: watch::Sender::new(None),
            reign: watch::Sender::new(None),
            leader: Mutex::default(),
        });
        let leading = Arc::clone(&shared);
        // The lock says that one run of the task at a time owns the candidate; nobody else ever takes it.
        let candidate = Arc::new(TaskMutex::new(candidate));
        tasks.spawn("manager-lead", move |stop| {
            let (shared, candidate) = (Arc::clone(&leading), Arc::clone(&candidate));
            async move { shared.lead(&mut *candidate.lock().await, stop).await }
        });
        let reading = Arc::clone(&shared);
        tasks.spawn("manager-registry", move |stop| {
            let shared = Arc::clone(&reading);
            async move {
                while let Some((reign, peers)) = shared.next_reign(&stop).await {
                    reader::follow(&shared, &reign, &peers.registry, &stop).await;
                }
            }
        });
        let looking = Arc::clone(&shared);
        tasks.spawn("manager-pace", move |stop| {
            let shared = Arc::clone(&looking);
            async move {
                while let Some((reign, _)) = shared.next_reign(&stop).await {
                    pace::follow(&shared, &reign, &stop).await;
                }
            }
        });
        let telling = Arc::clone(&shared);
        tasks.spawn("manager-upkeep", move |stop| {
            let shared = Arc::clone(&telling);
            async move {
                while let Some((reign, peers)) = shared.next_reign(&stop).await {
                    upkeep::follow(&reign, &peers.data_service, &stop).await;
                }
            }
        });
        Manager(shared)
    }

    /// Says whom it speaks to; they may not be known when it starts. It does not lead before.
    pub fn set_peers(&self, peers: Peers) {
        self.0.peers.send_replace(Some(Arc::new(peers)));
    }

    /// Whether this manager leads just now.
    pub fn is_leading(&self) -> bool {
        self.0.reign.borrow().as_ref().is_some_and(|reign| reign.term().is_valid())
    }

    pub fn routes(&self) -> Routes {
        Routes::new("manager")
            .add(Role::Node, agents::heartbeat, agents::__path_heartbeat)
            .add(Role::Node, agents::slots, agents::__path_slots)
            .add(Role::Node, agents::report_run, agents::__path_report_run)
            .add(Role::Read, nodes::list, nodes::__path_list)
            .add(Role::Read, nodes::get, nodes::__path_get)
            .add(Role::Operate, nodes::remove, nodes::__path_remove)
            .add(Role::Operate, nodes::cordon, nodes::__path_cordon)
            .add(Role::Operate, nodes::uncordon, nodes::__path_uncordon)
            .add(Role::Operate, changes::post, changes::__path_post)
            .add(Role::Read, instances::list, instances::__path_list)
            .add(Role::Operate, changes::delete_instances, changes::__path_delete_instances)
            .add(Role::Operate, instances::run, instances::__path_run)
            .add(Role::Operate, changes::delete, changes::__path_delete)
            .share(self.clone())
    }

    /// Writes what is known of the cluster: a source for [`Metrics`](estimand_runtime::Metrics).
    pub fn write_figures(&self, text: &mut String) {
        let reign = self.0.reign.borrow().clone();
        self.0.figures.write(&mut Exposition::new(text), reign.as_ref());
    }

    fn shared(&self) -> &Shared {
        &self.0
    }

    /// What is held while this manager leads; who else leads, if it does not.
    fn reign(&self) -> Result<Arc<Reign>, Problem> {
        let reign = self.0.reign.borrow().clone();
        reign.filter(|reign| reign.term().is_valid()).ok_or_else(|| {
            let leader = self.0.leader.lock().unwrap_or_else(PoisonError::into_inner);
            refusal::standing_by(Some(leader.as_str()).filter(|address| !address.is_empty()))
        })
    }
}

impl Shared {
    /// The task that stands by and leads in turns.
    async fn lead(&self, candidate: &mut Candidate, stop: Stop) {
        let stops = Stops { server: self.stop.clone(), task: stop };
        let mut known = self.peers.subscribe();
        let peers = tokio::select! {
            // The sender is borrowed here, so that it cannot be gone.
            peers = known.wait_for(Option::is_some) => peers.ok().and_then(|peers| peers.clone()),
            () = stops.requested() => return,
        };
        candidate.set_address(peers.as_ref().map_or("", |peers| &peers.address));
        let hear = |address: &str| {
            address.clone_into(&mut self.leader.lock().unwrap_or_else(PoisonError::into_inner));
        };
        while let Some(term) = candidate.stand(&stops, hear).await {
            tracing::info!(epoch = term.epoch(), "this manager leads");
            self.figures.leads.increment();
            let term = Arc::new(term);
            let _ends_with_this = EndAtDrop(Arc::clone(&term));
            let (end, ()) = tokio::join!(candidate.keep(&term, &stops), self.rule(&term));
            candidate.leave(&term, end).await;
        }
    }

    /// Makes the reign of a term, as long as that lasts.
    async fn rule(&self, term: &Arc<Term>) {
        let load = tokio::select! {
            load = timeout(LOAD_WITHIN, self.shelf.load()) => load,
            _ = term.ended() => return,
        };
        let (nodes, placements) = match load {
            Ok(Ok(stored)) => stored,
            Ok(Err(error)) => {
                tracing::warn!(%error, "what is stored cannot be read");
                return term.end(End::GivenUp);
            }
            Err(_) => {
                tracing::warn!("what is stored could not be read in time");
                return term.end(End::GivenUp);
            }
        };
        let mut settings = self.settings.cluster.clone();
        settings.takeover_ms += term.overlap_ms();
        let cluster = Cluster::new(settings, term.epoch(), nodes, placements, ticks::now());
        let reign = Arc::new(Reign::new(Arc::clone(term), cluster));
        self.reign.send_replace(Some(Arc::clone(&reign)));
        term.ended().await;
        self.reign.send_replace(None);
        reign.end();
    }

    /// For a task: the reign that there is, or the next one, with whom to speak to; none after the stop.
    async fn next_reign(&self, stop: &Stop) -> Option<(Arc<Reign>, Arc<Peers>)> {
        let mut reigns = self.reign.subscribe();
        let lasting =
            |reign: &Option<Arc<Reign>>| reign.as_ref().is_some_and(|reign| !reign.term().is_over());
        tokio::select! {
            reign = reigns.wait_for(lasting) => {
                let reign = reign.ok()?.clone()?;
                let peers = self.peers.borrow().clone()?;
                Some((reign, peers))
            }
            () = stop.requested() => None,
        }
    }
}

/// Ends a term when the task that keeps it goes, also by a panic: then nobody beats any more.
struct EndAtDrop(Arc<Term>);

impl Drop for EndAtDrop {
    fn drop(&mut self) {
        self.0.end(End::GivenUp);
    }
}

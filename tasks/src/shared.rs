//! Everything that handlers and background loops share: the published tasks, what is known of the cluster, and the bells
//! that are rung when something changes.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use arc_swap::ArcSwapOption;
use estimand_api::node::Node;
use estimand_api::problem::Problem;
use estimand_api::task_log::OpenLines;
use estimand_client::Client;
use estimand_runtime::{Clock, PartReady, Readiness, Rounds};
use estimand_service::Published;
use tokio::sync::{SetOnce, watch};

use crate::arriving::Arriving;
use crate::bells::{Bell, Bells};
use crate::change::{self, Change, NAME, Rejection};
use crate::core::outline::PlanOutline;
use crate::core::queue::TaskNumber;
use crate::engines::Engine;
use crate::feed::{Feed, Revised};
use crate::metrics::{Figures, PublisherFigures};
use crate::open_lines::OpenLogs;
use crate::pressures::Pressures;
use crate::progress::{self, Report};
use crate::scope::Scope;
use crate::silences::Silences;
use crate::table::{Named, TaskTable};
use crate::task::{Array, Edit, Task};
use crate::tunnels::Tunnels;

/// The engine that runs the tasks, and the services that the task service speaks to.
#[derive(Clone)]
pub struct Peers {
    pub engine: Arc<dyn Engine>,
    pub data_service: Client,
    /// None: tasks have no files.
    pub files: Option<FilePeer>,
}

/// The file service.
#[derive(Debug, Clone)]
pub struct FilePeer {
    pub client: Client,
    /// As agents reach it; none: at the address of this service.
    pub address: Option<String>,
}

pub struct Shared {
    pub clock: Arc<dyn Clock>,
    pub table: Published<TaskTable>,
    /// The tasks that changed since the planner looked last.
    changed: Mutex<Changed>,
    pub peers: SetOnce<Peers>,
    /// The nodes as the manager gave them last.
    pub nodes: ArcSwapOption<Vec<Node>>,
    pub pressures: Mutex<Pressures>,
    /// The silent nodes that have tasks.
    silences: Mutex<Silences>,
    /// The length of the lease of a task that asks for no other one.
    pub lease: Duration,
    /// The plan as the planner left it, for those who ask why.
    pub plan: ArcSwapOption<PlanOutline>,
    pub planning: Rounds,
    pub telling: Rounds,
    pub reading: Rounds,
    /// What is left of deleted tasks is to be removed.
    pub removing: Rounds,
    pub open_lines: OpenLogs,
    pub arriving: Arriving,
    /// The bells of tasks that are followed.
    pub bells: Arc<Bells>,
    /// Rung when promises or the nodes under them have changed, and when everything is loaded.
    pub ledger_bell: watch::Sender<u64>,
    pub figures: Figures,
    pub feed: Feed,
    pub progress: Feed<Report>,
    /// The connections to ports of tasks.
    pub tunnels: Arc<Tunnels>,
    /// The reader of the feed that publishes it, if this process has one, and how it does.
    pub publishes: bool,
    pub publishing: Rounds,
    pub published: PublisherFigures,
    /// The nodes are known, and a plan of them is made; or they are not waited for any longer.
    pub nodes_ready: PartReady,
    pub plan_ready: PartReady,
}

/// The tasks to be looked at by the planner.
#[derive(Debug, Default)]
pub struct Changed {
    /// All of them, because they were loaded anew.
    pub all: bool,
    pub tasks: BTreeSet<TaskNumber>,
}

impl Shared {
    pub fn new(clock: Arc<dyn Clock>, lease: Duration, publishes: bool, readiness: &Readiness) -> Self {
        let open_lines = OpenLogs::new(clock.now_micros());
        Shared {
            clock,
            tunnels: Arc::default(),
            table: Published::new(NAME),
            changed: Mutex::default(),
            peers: SetOnce::new(),
            nodes: ArcSwapOption::empty(),
            pressures: Mutex::default(),
            silences: Mutex::default(),
            lease,
            plan: ArcSwapOption::empty(),
            planning: Rounds::new(),
            telling: Rounds::new(),
            reading: Rounds::new(),
            removing: Rounds::new(),
            open_lines,
            arriving: Arriving::default(),
            bells: Arc::default(),
            ledger_bell: watch::Sender::new(0),
            figures: Figures::default(),
            feed: Feed::new(),
            progress: Feed::new(),
            publishes,
            publishing: Rounds::new(),
            published: PublisherFigures::default(),
            nodes_ready: readiness.part("nodes"),
            plan_ready: readiness.part("plan"),
        }
    }

    pub fn known_peers(&self) -> Result<&Peers, Problem> {
        self.peers.get().ok_or_else(|| Problem::unavailable("the other services are not known yet", 1))
    }

    /// The file service, if this one knows any.
    pub fn file_peer(&self) -> Result<FilePeer, Problem> {
        self.known_peers()?.files.clone().ok_or_else(|| {
            Problem::conflict(
                "tasks have no files here: the task service knows no file service (`--file-service`)",
            )
        })
    }

    /// Waits until the tasks are loaded.
    pub async fn loading(&self) {
        // The sender lives as long as this.
        let _ = self.ledger_bell.subscribe().wait_for(|_| self.table.is_loaded()).await;
    }

    /// The task or array of this id, if the caller sees it.
    pub fn find(&self, scope: &Scope, id: &str) -> Result<Named, Problem> {
        let found = self.table.loaded(|table| scope.find(table, id))?;
        found.ok_or_else(|| unknown(id))
    }

    /// The task or array of this id, with its bell: a change that is not seen in it rings.
    pub fn follow(&self, scope: &Scope, id: &str) -> Result<(Named, Bell), Problem> {
        let found = self.table.loaded(|table| {
            let named = scope.find(table, id)?;
            let bell = self.bells.listen(named.number());
            Some((named, bell))
        })?;
        found.ok_or_else(|| unknown(id))
    }

    /// The bell of the task of this id; without an id, or as long as there is no such task, that of a feed.
    pub fn listen<E: Revised>(&self, id: Option<&str>, feed: &Feed<E>) -> Bell {
        self.table.look(|table| match id.and_then(|id| table.named(id)) {
            Some(task) => self.bells.listen(task.number),
            None => Bell::of_all(feed.listen()),
        })
    }

    pub fn array(&self, scope: &Scope, id: &str) -> Result<Arc<Array>, Problem> {
        let found = self.table.loaded(|table| table.array(id).cloned())?;
        found
            .filter(|array| scope.has(&array.document))
            .ok_or_else(|| Problem::not_found(format!("there is no array `{id}`")))
    }

    pub fn task(&self, scope: &Scope, id: &str) -> Result<Arc<Task>, Problem> {
        self.find(scope, id)?.task()
    }

    /// Shows the unfinished lines of attempts that run on a node for which the caller speaks.
    pub fn show_open(&self, open: Vec<OpenLines>, node: Option<&str>) {
        for OpenLines { id, attempt, lines } in open {
            let number = self.table.look(|table| {
                let task = table.named(&id).filter(|task| task.progress.attempt == attempt)?;
                let placed_on = task.placed_on()?;
                node.is_none_or(|own| own == placed_on).then_some(task.number)
            });
            if let Some(number) = number {
                self.open_lines.replace(number, attempt, lines);
                self.bells.ring_one(number);
            }
        }
    }

    /// Shows tasks that were loaded.
    pub fn replace(&self, table: TaskTable) {
        self.table.replace(table);
        self.changed().all = true;
        self.poke();
        // The promises have no nodes yet.
        self.reading.ask();
        self.removing.ask();
        self.bells.ring_all();
        self.ledger_bell.send_modify(|rung| *rung += 1);
    }

    /// Shows changes that are stored, as another table has them already.
    pub fn publish(&self, changes: &[Change], staged: &TaskTable) {
        self.table.change(|table| {
            // In one step with the lines, so that nobody sees one that has ended as unfinished.
            self.open_lines.follow(changes);
            table.follow(staged, &change::numbers(changes));
            table.follow_forgotten(staged, changes);
            table.follow_promises(staged, &change::promise_numbers(changes));
        });
        let mut moved: Vec<TaskNumber> = Vec::new();
        for Change { edits, deleted, .. } in changes {
            // A line more in a log is nothing to plan for.
            let is_move = |edit: &&Edit| edit.lines.is_empty() || !edit.transitions.is_empty();
            moved.extend(edits.iter().filter(is_move).map(|edit| edit.after.number));
            moved.extend(deleted.iter().map(|task| task.number));
            if !deleted.is_empty() {
                self.removing.ask();
            }
        }
        changes.iter().for_each(|change| self.figures.count(change));
        self.show_progress(changes);
        if self.feed.publish(changes, &self.bells) {
            self.publishing.ask();
        }
        if changes.iter().any(|change| change.promises.revision > 0) {
            self.poke();
            self.ledger_bell.send_modify(|rung| *rung += 1);
        }
        if !moved.is_empty() {
            self.changed().tasks.extend(moved);
            self.poke();
        }
    }

    /// Shows the progress in changes that are stored.
    fn show_progress(&self, changes: &[Change]) {
        let reports = progress::reports_of(changes, self.progress.newest());
        if !reports.is_empty() {
            let removed_to = self.progress.removal(reports.len() as u64);
            self.progress.append(reports, removed_to, || self.bells.ring(changes));
        }
    }

    pub fn silences(&self) -> MutexGuard<'_, Silences> {
        self.silences.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The nodes are not known, and nobody waits for them any longer.
    pub fn wait_for_no_nodes(&self) {
        self.nodes_ready.ready();
        self.plan_ready.ready();
    }

    fn poke(&self) {
        self.planning.ask();
        self.telling.ask();
    }

    fn changed(&self) -> MutexGuard<'_, Changed> {
        self.changed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The tasks that changed since this was called last.
    pub fn take_changed(&self) -> Changed {
        std::mem::take(&mut *self.changed())
    }

    /// These are to be looked at in the planner's next round.
    pub fn look_again(&self, tasks: Vec<TaskNumber>) {
        self.changed().tasks.extend(tasks);
    }
}

fn unknown(id: &str) -> Problem {
    Problem::not_found(Rejection::Unknown(id.to_owned()).to_string())
}

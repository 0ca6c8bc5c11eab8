//! Reads the nodes of the engine every second, and tells tasks of silent nodes how it stands with them.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use estimand_api::node::Node;
use estimand_runtime::{Next, Work};
use estimand_service::{SubmitError, Writer};

use crate::change::Rejection;
use crate::core::nodes::offers;
use crate::core::retries::OnLoss;
use crate::core::state::State;
use crate::engines::EngineError;
use crate::requests::{Attempt, NodeOffers, NodeStandings};
use crate::shared::{Peers, Shared};
use crate::silences::{self, Look, Station};
use crate::table::TaskTable;
use crate::writer::TasksState;

/// A service that starts is ready without the nodes after so long: what needs none of them goes on while the engine is away.
const WAITED_FOR: Duration = Duration::from_secs(3);

pub struct NodeReader {
    shared: Arc<Shared>,
    writer: Writer<TasksState>,
    began: Instant,
    /// The epoch of the engine, as it was asked for in the last round.
    epoch: Option<u64>,
}

/// Why a round was not done.
#[derive(Debug, thiserror::Error)]
pub enum RoundError {
    #[error(transparent)]
    Engine(#[from] EngineError),
    #[error(transparent)]
    Writer(#[from] SubmitError<Rejection>),
}

impl NodeReader {
    pub fn new(shared: Arc<Shared>, writer: Writer<TasksState>) -> Self {
        NodeReader { shared, writer, began: Instant::now(), epoch: None }
    }

    /// Notes which nodes with tasks are silent, and for how long.
    async fn look(&mut self, peers: &Peers, nodes: &[Node], asked: Instant, answered: (Instant, i64)) {
        let stations = self.shared.table.look(stations);
        let after = if silences::is_any_silent(nodes, &stations) {
            peers.engine.assigned().await.ok().map(|told| told.epoch)
        } else {
            None
        };
        let before = std::mem::replace(&mut self.epoch, after);
        let (answered, answered_us) = answered;
        self.shared.silences().take(&Look { nodes, asked, answered, answered_us, before, after }, stations);
    }

    /// The tasks that do not know yet how it stands with their nodes.
    fn standings(&self) -> NodeStandings {
        let silences = self.shared.silences();
        let mut all = NodeStandings::default();
        self.shared.table.look(|table| {
            for task in table.nodes().flat_map(|node| table.on_node(node)) {
                let Some(station) = task.station() else { continue };
                let attempt: Attempt = (task.number, task.progress.attempt);
                let silence = silences.of(&station);
                match (silence, task.state() == State::Lost) {
                    (None, true) => all.back.push(attempt),
                    (Some(_), false) => all.lost.push(attempt),
                    _ => {}
                }
                let has_lease = task.document.on_loss != OnLoss::Wait;
                if has_lease && silence.is_some_and(|silence| silence.ends(task.progress.lease_ms)) {
                    all.over.push(attempt);
                }
            }
        });
        all
    }

    /// Says why a service that starts is not ready, as long as it waits for the nodes.
    fn miss_the_nodes(&self, error: &EngineError) {
        if self.shared.nodes.load().is_some() {
            return;
        }
        match self.began.elapsed() < WAITED_FOR {
            true => {
                let why = format!("the nodes are not known: {error}");
                self.shared.nodes_ready.not_ready(why);
            }
            false => self.shared.wait_for_no_nodes(),
        }
    }
}

impl Work for NodeReader {
    type Error = RoundError;

    async fn round(&mut self) -> Result<Next, RoundError> {
        let shared = Arc::clone(&self.shared);
        let peers = shared.peers.wait().await;
        let asked = Instant::now();
        let nodes = peers.engine.nodes().await;
        let nodes = Arc::new(nodes.inspect_err(|error| self.miss_the_nodes(error))?);
        let answered = (Instant::now(), self.shared.clock.now_micros());
        let before = self.shared.nodes.load_full();
        if before.is_none_or(|before| !are_alike(&before, &nodes)) {
            self.shared.nodes.store(Some(Arc::clone(&nodes)));
            self.shared.planning.ask();
            self.shared.telling.ask();
        }
        if let Some(offers) = news(&self.shared, &nodes) {
            self.writer.submit(offers).await?;
        }
        if self.shared.table.look(|table| table.promises.nodes().is_some()) {
            self.shared.nodes_ready.ready();
        }
        self.look(peers, &nodes, asked, answered).await;
        let standings = self.standings();
        if !standings.is_empty() {
            let leaves_units = !standings.over.is_empty();
            self.writer.submit(standings).await?;
            if leaves_units {
                // Units of promises on silent nodes that had a task may move.
                let offers = NodeOffers(offers(&nodes));
                self.writer.submit(offers).await?;
            }
        }
        Ok(Next::Period)
    }
}

/// The capacity that the nodes have to give, if the promises do not know it yet.
fn news(shared: &Shared, nodes: &[Node]) -> Option<NodeOffers> {
    let offers = offers(nodes);
    let is_known = shared.table.look(|table| table.promises.nodes().is_some_and(|known| **known == offers));
    (shared.table.is_loaded() && !is_known).then_some(NodeOffers(offers))
}

/// The nodes and agents that may have something of a task.
fn stations(table: &TaskTable) -> BTreeSet<Station> {
    let tasks = table.nodes().flat_map(|node| table.on_node(node));
    let all: BTreeSet<(&str, Option<&str>)> =
        tasks.filter_map(|task| Some((task.placed_on()?, task.progress.agent.as_deref()))).collect();
    all.into_iter().map(|(node, agent)| (node.to_owned(), agent.map(str::to_owned))).collect()
}

/// Nothing has changed that a plan is made of.
fn are_alike(one: &[Node], other: &[Node]) -> bool {
    let alike = |(one, other): (&Node, &Node)| {
        (
            &one.node_name,
            one.state,
            &one.agent,
            one.cordoned,
            &one.labels,
            &one.label_sources,
            one.facts.cores,
            one.facts.memory,
            one.facts.users_tasks,
        ) == (
            &other.node_name,
            other.state,
            &other.agent,
            other.cordoned,
            &other.labels,
            &other.label_sources,
            other.facts.cores,
            other.facts.memory,
            other.facts.users_tasks,
        )
    };
    one.len() == other.len() && one.iter().zip(other).all(alike)
}

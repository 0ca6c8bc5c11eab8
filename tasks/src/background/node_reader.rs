//! Reads the nodes from the manager every second, and has the tasks of a lost node looked at.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use estimand_api::node::{Node, NodeState};
use estimand_client::{PeerError, within};
use estimand_runtime::single_writer::Writer;
use estimand_runtime::{Next, Work};

use super::{ANSWER_WITHIN, peers};
use crate::core::retries::OnLoss;
use crate::core::state::State;
use crate::plan::offers;
use crate::requests::{NodeOffers, NodeStandings};
use crate::shared::Shared;
use crate::writer::TasksState;

/// A service that starts is ready without the nodes after so long: what needs none of them goes on while the manager is away.
const WAITED_FOR: Duration = Duration::from_secs(3);

pub struct NodeReader {
    shared: Arc<Shared>,
    writer: Writer<TasksState>,
    began: Instant,
}

impl NodeReader {
    pub fn new(shared: Arc<Shared>, writer: Writer<TasksState>) -> Self {
        NodeReader { shared, writer, began: Instant::now() }
    }

    /// Says why a service that starts is not ready, as long as it waits for the nodes.
    fn miss_the_nodes(&self, error: &PeerError) {
        if self.shared.nodes.load().is_some() {
            return;
        }
        match self.began.elapsed() < WAITED_FOR {
            true => {
                let why = format!("the manager does not give the nodes: {error}");
                self.shared.nodes_ready.not_ready(why);
            }
            false => self.shared.wait_for_no_nodes(),
        }
    }
}

impl Work for NodeReader {
    type Error = PeerError;

    async fn round(&mut self) -> Result<Next, PeerError> {
        let peers = peers(&self.shared).await;
        let nodes = within(ANSWER_WITHIN, peers.manager.nodes()).await;
        let nodes = nodes.inspect_err(|error| self.miss_the_nodes(error))?;
        let (standings, offers) = (standings(&self.shared, &nodes), news(&self.shared, &nodes));
        // The plan has them first, so that what a node lost is not placed there again.
        let before = self.shared.nodes.load_full();
        if before.is_none_or(|before| !are_alike(&before, &nodes)) {
            self.shared.nodes.store(Some(Arc::new(nodes)));
            self.shared.planning.ask();
            self.shared.telling.ask();
        }
        if let Some(offers) = offers {
            self.writer.submit(offers).await.map_err(PeerError::of_write)?;
        }
        if self.shared.table(|table| table.promises.nodes().is_some()) {
            self.shared.nodes_ready.ready();
        }
        if let Some(standings) = standings {
            self.writer.submit(standings).await.map_err(PeerError::of_write)?;
        }
        Ok(Next::Period)
    }
}

/// The capacity that the nodes have to give, if the promises do not know it yet.
fn news(shared: &Shared, nodes: &[Node]) -> Option<NodeOffers> {
    let offers = offers(nodes);
    let is_known = shared.table(|table| table.promises.nodes().is_some_and(|known| **known == offers));
    (shared.is_loaded() && !is_known).then_some(NodeOffers(offers))
}

/// Nothing has changed that a plan is made of.
fn are_alike(one: &[Node], other: &[Node]) -> bool {
    let alike = |(one, other): (&Node, &Node)| {
        (
            &one.node_name,
            one.state,
            one.cordoned,
            &one.labels,
            &one.label_sources,
            one.facts.cores,
            one.facts.memory,
        ) == (
            &other.node_name,
            other.state,
            other.cordoned,
            &other.labels,
            &other.label_sources,
            other.facts.cores,
            other.facts.memory,
        )
    };
    one.len() == other.len() && one.iter().zip(other).all(alike)
}

/// The nodes whose tasks do not know yet how it stands with them; none if all do.
fn standings(shared: &Shared, nodes: &[Node]) -> Option<NodeStandings> {
    let ready: BTreeSet<&str> = nodes
        .iter()
        .filter(|node| node.state == NodeState::Ready)
        .map(|node| node.node_name.as_str())
        .collect();
    let (mut lost, mut back) = (Vec::new(), Vec::new());
    shared.table(|table| {
        for node in table.nodes() {
            // A node that was removed was lost before.
            let is_lost = !ready.contains(node);
            let waits = |state, on_loss| state == State::Lost && on_loss == OnLoss::Wait;
            let is_news = table.on_node(node).any(|task| match is_lost {
                true => !waits(task.state(), task.document.on_loss),
                false => task.state() == State::Lost,
            });
            if is_news {
                if is_lost { &mut lost } else { &mut back }.push(node.to_owned());
            }
        }
    });
    (!lost.is_empty() || !back.is_empty()).then_some(NodeStandings { lost, back })
}

//! Assigns to each node what belongs there, after it was stored.
//!
//! An engine keeps that for as long as its epoch lasts: when another one begins, every node is told again, also one that has no
//! tasks, since it goes on as before until it is told. A node is told whenever what it was told last is not what belongs there.
//! The engine forgets what it was told of a node that is lost, which is told when it is back. Tasks that another agent of the node has
//! are not told to this one: they may run there still.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use estimand_api::names::NodeName;
use estimand_api::node::NodeState;
use estimand_api::task::{NodeTasks, NodesTold};
use estimand_runtime::{Next, Work};
use futures_util::{StreamExt, stream};
use tokio::time::Instant;

use crate::engines::EngineError;
use crate::shared::Shared;
use crate::silences::is_of_agent;
use crate::task::millis;

/// How many nodes are told at once.
const AT_ONCE: usize = 16;
/// How often the epoch is asked for.
const ASK_EVERY: Duration = Duration::from_secs(2);

pub struct Teller {
    shared: Arc<Shared>,
    /// The epoch of the engine that was told.
    epoch: u64,
    /// The generation of each node's tasks that it was told.
    told: HashMap<NodeName, u64>,
    asked_at: Option<Instant>,
}

impl Teller {
    pub fn new(shared: Arc<Shared>) -> Self {
        Teller { shared, epoch: 0, told: HashMap::new(), asked_at: None }
    }

    /// Everything that was told in another epoch is told in this one.
    fn begin(&mut self, epoch: u64) {
        if self.epoch != epoch {
            self.epoch = epoch;
            self.told.clear();
        }
    }

    /// The nodes that have not been told what belongs there now, with that.
    fn news(&mut self) -> Vec<(NodeName, u64, NodeTasks)> {
        let Some(nodes) = self.shared.nodes.load_full() else { return Vec::new() };
        let (ready, lost): (Vec<_>, Vec<_>) = nodes.iter().partition(|node| node.state == NodeState::Ready);
        for node in lost {
            self.told.remove(&node.node_name);
        }
        let now = millis(self.shared.clock.now_micros());
        self.shared.table.look(|table| {
            let news = ready.into_iter().filter_map(|node| {
                let name = &node.node_name;
                let generation = table.generation(name.as_str());
                let is_news = self.told.get(name) != Some(&generation);
                is_news.then(|| {
                    let tasks = table.on_node(name.as_str()).filter(|task| is_of_agent(task, node));
                    let tasks = tasks.map(|task| task.assignment(table.promise_end_of(task, now)));
                    (name.clone(), generation, NodeTasks { tasks: tasks.collect() })
                })
            });
            news.collect()
        })
    }
}

impl Work for Teller {
    type Error = EngineError;

    async fn round(&mut self) -> Result<Next, EngineError> {
        let shared = Arc::clone(&self.shared);
        let peers = shared.peers.wait().await;
        // An empty list out of ignorance would end everything that runs.
        if !self.shared.table.is_loaded() {
            return Ok(Next::Period);
        }
        if self.asked_at.is_none_or(|at| at.elapsed() >= ASK_EVERY) {
            let NodesTold { epoch, nodes } = peers.engine.assigned().await?;
            self.asked_at = Some(Instant::now());
            self.begin(epoch);
            let known: BTreeSet<NodeName> = nodes.into_iter().collect();
            self.told.retain(|node, _| known.contains(node));
        }
        let telling = self.news().into_iter().map(|(node, generation, tasks)| {
            let engine = &peers.engine;
            async move { (engine.assign(&node, &tasks).await, node, generation) }
        });
        let answers: Vec<_> = stream::iter(telling).buffer_unordered(AT_ONCE).collect().await;
        let mut failed = None;
        for (answer, node, generation) in answers {
            match answer {
                Ok(NodesTold { epoch, .. }) => {
                    if epoch > self.epoch {
                        self.begin(epoch);
                        self.shared.telling.ask();
                    }
                    if epoch == self.epoch {
                        self.told.insert(node, generation);
                    }
                }
                Err(EngineError::NoNode) => {}
                Err(error) => failed = Some(error),
            }
        }
        match failed {
            Some(error) => Err(error),
            None => Ok(Next::Period),
        }
    }
}

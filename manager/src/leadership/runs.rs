//! Runs that were asked for by hand, while their requests wait.
//!
//! They live in memory: the request is to be repeated if the manager ends. Each is delivered to its node's agent
//! once, since a request that was repeated could run twice; if that answer is lost, the run times out.

use std::collections::BTreeMap;
use std::sync::Arc;

use estimand_api::names::NodeName;
use estimand_api::registration::RegistrationRecord;
use estimand_api::slot::RunReport;
use tokio::sync::oneshot;

/// How many may be under way at once.
const MAX_RUNS: usize = 64;

/// An agent's answer: the report of the run, or why there was none.
pub type RunResult = Result<RunReport, String>;

/// As many as may be are under way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{MAX_RUNS} runs by hand are under way already; nothing was done")]
pub struct TooManyRuns;

#[derive(Debug)]
pub struct ManualRuns {
    last: u64,
    open: BTreeMap<u64, OpenRun>,
}

#[derive(Debug)]
struct OpenRun {
    node: NodeName,
    registered: Arc<RegistrationRecord>,
    delivered: bool,
    reply: oneshot::Sender<RunResult>,
}

impl ManualRuns {
    /// No identifier comes twice, whichever process leads.
    pub fn new(epoch: u64) -> Self {
        ManualRuns { last: epoch << 32, open: BTreeMap::new() }
    }

    pub fn len(&self) -> usize {
        self.open.len()
    }

    pub fn ask(
        &mut self,
        node: &NodeName,
        registered: Arc<RegistrationRecord>,
    ) -> Result<(u64, oneshot::Receiver<RunResult>), TooManyRuns> {
        // A request that was given up does not wait.
        self.open.retain(|_, open| !open.reply.is_closed());
        if self.open.len() >= MAX_RUNS {
            return Err(TooManyRuns);
        }
        self.last += 1;
        let (reply, answer) = oneshot::channel();
        self.open.insert(self.last, OpenRun { node: node.clone(), registered, delivered: false, reply });
        Ok((self.last, answer))
    }

    /// The runs that the node's agent has not been given yet; from now on it has.
    pub fn deliver(&mut self, node: &NodeName) -> Vec<(u64, Arc<RegistrationRecord>)> {
        let new = self.open.iter_mut().filter(|(_, open)| !open.delivered && open.node == *node);
        new.map(|(id, open)| {
            open.delivered = true;
            (*id, Arc::clone(&open.registered))
        })
        .collect()
    }

    /// The runs by hand on a node, delivered or not.
    pub fn of(&self, node: &NodeName) -> impl Iterator<Item = &Arc<RegistrationRecord>> {
        self.open.values().filter(move |open| open.node == *node).map(|open| &open.registered)
    }

    pub fn is_waiting(&self, node: &NodeName) -> bool {
        self.open.values().any(|open| !open.delivered && open.node == *node)
    }

    /// Passes on the agent's answer; `false` if no request waits for it (any more).
    pub fn finish(&mut self, node: &NodeName, id: u64, outcome: RunResult) -> bool {
        match self.open.get(&id) {
            Some(open) if open.node == *node => {}
            _ => return false,
        }
        self.open.remove(&id).is_some_and(|open| open.reply.send(outcome).is_ok())
    }

    pub fn forget(&mut self, id: u64) {
        self.open.remove(&id);
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use estimand_api::json::parse_object;

    fn node(name: &str) -> NodeName {
        NodeName::parse(name).unwrap()
    }

    fn registered() -> Arc<RegistrationRecord> {
        let map = parse_object(br#"{"dataName": "a", "cmd": "true", "max-Time": 1}"#).unwrap();
        Arc::new(RegistrationRecord::from_map(map).unwrap())
    }

    #[test]
    fn a_run_is_delivered_once_and_to_its_node() {
        let mut runs = ManualRuns::new(2);
        let (id, mut answer) = runs.ask(&node("m"), registered()).unwrap();
        assert_eq!(id, (2 << 32) + 1);
        assert!(runs.deliver(&node("n")).is_empty());
        assert!(runs.is_waiting(&node("m")));
        assert_eq!(runs.deliver(&node("m")).len(), 1);
        assert!(runs.deliver(&node("m")).is_empty() && !runs.is_waiting(&node("m")));
        assert!(!runs.finish(&node("n"), id, Err("no".to_owned())));
        assert!(runs.finish(&node("m"), id, Err("no".to_owned())));
        assert!(!runs.finish(&node("m"), id, Err("twice".to_owned())));
        assert_eq!(answer.try_recv(), Ok(Err("no".to_owned())));
    }

    #[test]
    fn runs_under_way_are_limited() {
        let mut runs = ManualRuns::new(1);
        let mut answers: Vec<_> =
            (0..MAX_RUNS).map(|_| runs.ask(&node("m"), registered()).unwrap()).collect();
        assert_eq!(runs.ask(&node("m"), registered()).unwrap_err(), TooManyRuns);
        runs.forget(answers[0].0);
        answers.push(runs.ask(&node("m"), registered()).unwrap());
        // A request that is given up makes room.
        drop(answers.pop());
        assert!(runs.ask(&node("m"), registered()).is_ok());
    }
}

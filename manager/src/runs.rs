//! Runs that somebody asked for by hand and waits for.
//!
//! They live in memory: whoever asked asks again if the manager ends. Each is delivered to its node's agent
//! once, since a request that was repeated could run twice; if that answer is lost, the run times out.

use std::collections::BTreeMap;
use std::sync::Arc;

use estimand_api::names::NodeName;
use estimand_api::problem::Problem;
use estimand_api::registration::Registered;
use estimand_api::slot::RunReport;
use tokio::sync::oneshot;

/// How many may be under way at once.
pub const MAX_RUNS: usize = 64;

/// What an agent says of a run: everything about it, or why it made none.
pub type Outcome = Result<RunReport, String>;

#[derive(Debug)]
pub struct Runs {
    last: u64,
    open: BTreeMap<u64, Open>,
}

#[derive(Debug)]
struct Open {
    node: NodeName,
    registered: Arc<Registered>,
    delivered: bool,
    reply: oneshot::Sender<Outcome>,
}

impl Runs {
    /// No identifier comes twice, whoever leads.
    pub fn new(epoch: u64) -> Self {
        Runs { last: epoch << 32, open: BTreeMap::new() }
    }

    pub fn len(&self) -> usize {
        self.open.len()
    }

    pub fn ask(
        &mut self,
        node: &NodeName,
        registered: Arc<Registered>,
    ) -> Result<(u64, oneshot::Receiver<Outcome>), Problem> {
        // Whoever went away without a word waits no more.
        self.open.retain(|_, open| !open.reply.is_closed());
        if self.open.len() >= MAX_RUNS {
            let detail = format!("{MAX_RUNS} runs by hand are under way already; nothing was done");
            return Err(Problem::unavailable(detail, 5));
        }
        self.last += 1;
        let (reply, answer) = oneshot::channel();
        self.open.insert(self.last, Open { node: node.clone(), registered, delivered: false, reply });
        Ok((self.last, answer))
    }

    /// What the node's agent has not been told of yet; from now on it has.
    pub fn deliver(&mut self, node: &NodeName) -> Vec<(u64, Arc<Registered>)> {
        let new = self.open.iter_mut().filter(|(_, open)| !open.delivered && open.node == *node);
        new.map(|(id, open)| {
            open.delivered = true;
            (*id, Arc::clone(&open.registered))
        })
        .collect()
    }

    pub fn is_waiting(&self, node: &NodeName) -> bool {
        self.open.values().any(|open| !open.delivered && open.node == *node)
    }

    /// Passes on what the agent says; `false` if nobody waits for it (any more).
    pub fn finish(&mut self, node: &NodeName, id: u64, outcome: Outcome) -> bool {
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

    fn registered() -> Arc<Registered> {
        let map = parse_object(br#"{"dataName": "a", "cmd": "true", "max-Time": 1}"#).unwrap();
        Arc::new(Registered::from_map(map).unwrap())
    }

    #[test]
    fn each_is_delivered_once_and_to_its_node() {
        let mut runs = Runs::new(2);
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
    fn as_many_as_may_be_are_under_way() {
        let mut runs = Runs::new(1);
        let mut answers: Vec<_> =
            (0..MAX_RUNS).map(|_| runs.ask(&node("m"), registered()).unwrap()).collect();
        assert_eq!(runs.ask(&node("m"), registered()).unwrap_err().status, 503);
        runs.forget(answers[0].0);
        answers.push(runs.ask(&node("m"), registered()).unwrap());
        // Whoever goes away makes room.
        drop(answers.pop());
        assert!(runs.ask(&node("m"), registered()).is_ok());
    }
}

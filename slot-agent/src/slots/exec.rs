//! A scheduled run: one attempt, and its values into the outbox.

use std::collections::BTreeSet;
use std::sync::Arc;

use estimand_api::names::NodeName;
use estimand_api::write::Order;

use super::Context;
use super::attempt::{Attempt, Verdict, attempt, exit_text};
use super::version::Shared;
use super::writes::{self, Origin};
use crate::dialect::Answer;

/// What the slot needs to know of a run that is over.
pub struct Ended {
    pub started_at: i64,
    pub ended_at: i64,
    pub outcome: Outcome,
    pub exit: Option<String>,
    pub cpu_ms: Option<f64>,
    pub memory: Option<u64>,
    pub stderr: String,
}

#[derive(Debug, Clone, PartialEq)]
pub enum Outcome {
    /// The nodes that it gave a value for; none if it had nothing to say.
    Good(BTreeSet<NodeName>),
    Failed(String),
    TimedOut(String),
    Refused(String),
    Stopped,
}

impl Outcome {
    pub fn is_good(&self) -> bool {
        matches!(self, Outcome::Good(_))
    }

    pub fn reason(&self) -> Option<&str> {
        match self {
            Outcome::Failed(reason) | Outcome::TimedOut(reason) | Outcome::Refused(reason) => Some(reason),
            Outcome::Good(_) | Outcome::Stopped => None,
        }
    }
}

/// Runs it once and hands over what it gave. `failing_for` are the nodes whose values a failure marks; none
/// while an older version goes on serving them.
pub async fn exec(context: Arc<Context>, shared: Arc<Shared>, run: u64, failing_for: Vec<NodeName>) -> Ended {
    let Attempt { started_at, ended_at, captured, verdict, .. } = attempt(&context, &shared).await;
    let exit = captured.as_ref().map(|captured| exit_text(captured.ended.exit));
    let origin = Origin {
        registered: &shared.registered,
        node: &context.node,
        order: Order { epoch: shared.epoch(), sequence: context.sequencer.next() },
        run,
        started_at,
        ended_at,
        exit: exit.as_deref(),
    };
    let outcome = match verdict {
        // Its slot may have been ended while it ended by itself.
        _ if shared.ends().is_requested() => Outcome::Stopped,
        Verdict::Good(answer) => {
            let nodes = nodes_of(&answer, &context.node);
            context.outbox.put(writes::values(&origin, answer));
            Outcome::Good(nodes)
        }
        Verdict::Failed(reason) => Outcome::Failed(reason),
        Verdict::TimedOut(reason) => Outcome::TimedOut(reason),
        Verdict::Refused(reason) => Outcome::Refused(reason),
        Verdict::Stopped => Outcome::Stopped,
    };
    if outcome.reason().is_some() && !failing_for.is_empty() {
        context.outbox.put(writes::failed(&origin, &failing_for));
    }
    Ended {
        started_at,
        ended_at,
        outcome,
        exit,
        cpu_ms: captured.as_ref().map(|captured| captured.ended.cpu.as_secs_f64() * 1e3),
        memory: captured.as_ref().map(|captured| captured.ended.max_rss),
        stderr: captured
            .map(|captured| String::from_utf8_lossy(&captured.stderr_tail).into_owned())
            .unwrap_or_default(),
    }
}

pub fn nodes_of(answer: &Answer, own: &NodeName) -> BTreeSet<NodeName> {
    match answer {
        Answer::Nothing => BTreeSet::new(),
        Answer::One(_) => BTreeSet::from([own.clone()]),
        Answer::PerNode(answers) => answers.iter().map(|(node, _)| node.clone()).collect(),
    }
}

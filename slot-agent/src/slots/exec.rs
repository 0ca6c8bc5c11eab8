//! A scheduled run: one attempt, and its values into the outbox.

use std::collections::BTreeSet;
use std::sync::Arc;

use estimand_api::names::NodeName;
use estimand_api::write::Order;

use super::Context;
use super::attempt::{Attempt, exit_text, stderr_shown};
use super::run_once::run_once;
use super::verdict::Verdict;
use super::version::Shared;
use super::writes::{self, Origin};
use estimand_dialects::Answer;

/// The result of a run, for its slot.
pub struct RunResult {
    pub started_at: i64,
    pub ended_at: i64,
    pub outcome: Outcome,
    pub exit: Option<String>,
    pub cpu_ms: Option<f64>,
    pub memory: Option<u64>,
    pub stderr: String,
    /// True for a line of a process that goes on.
    pub goes_on: bool,
}

/// A verdict whose answer is on its way to the data service: the nodes that have a value by it, none if it had nothing
/// to say.
pub type Outcome = Verdict<BTreeSet<NodeName>>;

impl Outcome {
    /// The outcome of a verdict, and the answer to be delivered.
    pub fn of(verdict: Verdict, own: &NodeName) -> (Outcome, Answer) {
        let outcome = match verdict {
            Verdict::Good(answer, note) => return (Outcome::Good(nodes_of(&answer, own), note), answer),
            Verdict::Silent(what) => Outcome::Silent(what),
            Verdict::NotHere(what) => Outcome::NotHere(what),
            Verdict::Missing(reason) => Outcome::Missing(reason),
            Verdict::Failed(reason) => Outcome::Failed(reason),
            Verdict::Quarantined { reason, value } => Outcome::Quarantined { reason, value },
            Verdict::TimedOut(reason) => Outcome::TimedOut(reason),
            Verdict::Refused(reason) => Outcome::Refused(reason),
            Verdict::Stopped => Outcome::Stopped,
        };
        (outcome, Answer::Nothing)
    }
}

/// The values before a run, which it may leave without a successor.
pub struct PreviousValues {
    /// The nodes whose values a failure marks; none while an older version goes on serving them.
    pub failing_for: Vec<NodeName>,
    /// False if there were none.
    pub gave_values: bool,
}

/// Runs it once and hands over what it gave.
pub async fn exec(context: Arc<Context>, shared: Arc<Shared>, run: u64, before: PreviousValues) -> RunResult {
    let Attempt { started_at, ended_at, captured, verdict, .. } = run_once(&context, &shared).await;
    let exit = captured.as_ref().map(|captured| exit_text(captured.outcome.exit));
    let order = Order { epoch: shared.epoch(), sequence: context.sequencer.next() };
    let (outcome, answer) = match Outcome::of(verdict, &context.node) {
        // Its slot may have been ended while it ended by itself.
        _ if shared.ends().is_requested() => (Outcome::Stopped, Answer::Nothing),
        // A value that was there and is not any more is missed.
        (Outcome::NotHere(what), _) if before.gave_values => {
            (Outcome::Failed(format!("it is not available here any more: {what}")), Answer::Nothing)
        }
        told => told,
    };
    let origin = Origin {
        registered: &shared.registered,
        node: &context.node,
        order,
        run,
        started_at,
        ended_at,
        exit: exit.as_deref(),
        note: outcome.note(),
    };
    if answer != Answer::Nothing {
        context.outbox.put_in_company(writes::values(&origin, answer));
    }
    if outcome.reason().is_some() && !before.failing_for.is_empty() {
        context.outbox.put_in_company(writes::failed(&origin, &before.failing_for));
    }
    RunResult {
        started_at,
        ended_at,
        outcome,
        exit,
        cpu_ms: captured.as_ref().map(|captured| captured.outcome.cpu.as_secs_f64() * 1e3),
        memory: captured.as_ref().and_then(|captured| captured.outcome.memory),
        stderr: captured.map(|captured| stderr_shown(&captured.stderr_tail)).unwrap_or_default(),
        goes_on: false,
    }
}

pub fn nodes_of(answer: &Answer, own: &NodeName) -> BTreeSet<NodeName> {
    match answer {
        Answer::Nothing => BTreeSet::new(),
        Answer::One(_) => BTreeSet::from([own.clone()]),
        Answer::PerNode(answers) => answers.iter().map(|(node, _)| node.clone()).collect(),
    }
}

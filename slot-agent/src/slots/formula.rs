//! A slot whose values are computed by the agent: its version puts a formula into the engine and takes it away again.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use estimand_api::instant::to_rfc3339;
use estimand_api::names::{DataName, NodeName};
use estimand_api::write::{Order, Write};
use estimand_dialects::Answer;
use serde_json::{Value, json};
use tokio::sync::mpsc;

use super::exec::{Outcome, RunResult};
use super::stream::without_process;
use super::stream_events::{StreamEvent, StreamUpdate};
use super::verdict::{self, Verdict};
use super::version::Shared;
use super::writes::{self, Origin};
use super::{Context, plan};
use crate::derive::{Formula, Moment, NodeAnswer, Round, Sink};
use crate::timetable::Key;

/// Has it computed until the version is ended.
pub async fn formula(
    context: Arc<Context>,
    shared: Arc<Shared>,
    key: Key,
    events: mpsc::Sender<StreamEvent>,
) {
    let registration = &shared.registered.registration;
    let name = registration.data_name.clone();
    let formula = match Formula::read(registration) {
        Ok(formula) => formula,
        Err(reason) => {
            let pause = Duration::ZERO;
            let (began, stderr) = (context.clock.now_micros(), String::new());
            let outcome = Outcome::Refused(reason);
            let what = StreamUpdate::Ended { began, outcome, stderr, exit: None, pause };
            let _ = events.send(StreamEvent { name, key, what }).await;
            return shared.ends().requested().await;
        }
    };
    let _ = events.send(StreamEvent { name: name.clone(), key, what: StreamUpdate::Started }).await;
    let valid_for = plan::valid_for_us(registration, context.clock.now_micros());
    let slot =
        Arc::new(Slot { context: Arc::clone(&context), shared: Arc::clone(&shared), name, key, events });
    context.derive.put(key.0, formula, valid_for, slot).await;
    loop {
        tokio::select! {
            () = shared.ends().requested() => break,
            () = shared.ask.notified() => context.derive.fall_due(key.0).await,
        }
    }
    context.derive.remove(key.0).await;
}

/// Takes what the formula gives.
struct Slot {
    context: Arc<Context>,
    shared: Arc<Shared>,
    name: DataName,
    key: Key,
    events: mpsc::Sender<StreamEvent>,
}

impl Sink for Slot {
    fn take(&self, round: Round, now: Moment, took: Duration) -> Vec<Write> {
        let registration = &self.shared.registered.registration;
        let started_at = now.wall_us.saturating_sub(i64::try_from(took.as_micros()).unwrap_or(0));
        let ended_at = now.wall_us;
        let origin = Origin {
            registered: &self.shared.registered,
            node: &self.context.node,
            order: Order { epoch: self.shared.epoch(), sequence: self.context.sequencer.next() },
            run: self.shared.count_run(),
            started_at,
            // The very moment that the engine gives it, so that it knows it again.
            ended_at,
            exit: None,
            note: None,
        };
        let Round { answers, mut failures, broken, waits } = round;
        let (mut writes, mut nodes, mut quarantined) = (Vec::new(), BTreeSet::new(), None);
        for NodeAnswer { node, value, read } in answers {
            let answer = Answer::PerNode(vec![(node.clone(), value.to_string().into_boxed_str())]);
            match verdict::judge(registration, Ok(answer.into())) {
                Verdict::Good(answer, _) => {
                    writes.extend(writes::computed(&origin, answer, &shown(&read)));
                    nodes.insert(node);
                }
                Verdict::Quarantined { reason, value } => {
                    failures.push((node, reason.clone()));
                    quarantined.get_or_insert((reason, value));
                }
                _ => {}
            }
        }
        if !self.shared.is_quiet() {
            writes.extend(writes::failed(&origin, failures.iter().map(|(node, _)| node)));
            if broken.is_some() {
                writes.extend(writes::failed(&origin, &self.shared.gave_for()));
            }
        }
        self.shared.gave(&nodes);
        let outcome = outcome(nodes, &failures, broken, waits, quarantined);
        let ended = RunResult { started_at, ..without_process(ended_at, outcome) };
        // If the slots are that far behind, the next round tells them as well.
        let _ = self.events.try_send(StreamEvent {
            name: self.name.clone(),
            key: self.key,
            what: StreamUpdate::Line(ended),
        });
        writes
    }
}

/// The outcome of a round, for its slot.
fn outcome(
    nodes: BTreeSet<NodeName>,
    failures: &[(NodeName, String)],
    broken: Option<String>,
    (waiting, reasons): (usize, Vec<String>),
    quarantined: Option<(String, String)>,
) -> Outcome {
    if let Some((reason, value)) = quarantined {
        return Outcome::Quarantined { reason, value };
    }
    match (broken, failed_for(failures)) {
        (Some(reason), _) => Outcome::Failed(reason),
        (None, Some(reason)) if nodes.is_empty() => Outcome::Failed(reason),
        (None, Some(reason)) => Outcome::Good(nodes, Some(format!("failed {reason}"))),
        (None, None) if waiting > 0 && nodes.is_empty() => Outcome::Good(nodes, Some(waits_for(&reasons))),
        (None, None) => Outcome::Good(nodes, None),
    }
}

/// The failure of a round, if it failed for a node.
pub fn failed_for(failures: &[(NodeName, String)]) -> Option<String> {
    failures.first().map(|(node, reason)| match failures.len() {
        1 => reason.clone(),
        count => format!("for {count} nodes, among them {node}: {reason}"),
    })
}

/// The remark on a round that gave nothing yet.
pub fn waits_for(reasons: &[String]) -> String {
    format!("waits: {}", reasons.join("; "))
}

fn shown(read: &[crate::derive::Read]) -> Value {
    let one = |read: &crate::derive::Read| {
        let mut map = json!({
            "dataName": read.data_name,
            "nodeName": read.node,
            "collectedAt": to_rfc3339(read.collected_at),
        });
        if let Some(revision) = read.revision {
            map["revision"] = json!(revision);
        }
        map
    };
    read.iter().map(one).collect()
}

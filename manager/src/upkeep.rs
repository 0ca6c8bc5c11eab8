//! What the data service is told: which nodes' values are those of a lost node, which nodes' values go because the
//! node was removed, and which nodes answer for others.
//!
//! It is level-triggered: each round tells everything that is still to be told, and what failed is told again,
//! so that a data service that was away misses nothing. To tell the same twice does no harm.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use estimand_api::names::{DataName, NodeName};
use estimand_api::problem::Problem;
use estimand_client::{Client, Error, Query};
use estimand_runtime::Stop;
use tokio::time::{sleep, timeout};

use crate::cluster::RemoveRefused;
use crate::refusal;
use crate::reign::{Held, Reign};

/// How long one request may take.
const TELL_WITHIN: Duration = Duration::from_secs(5);
/// How long deleting all the values of a node may take.
const DELETE_WITHIN: Duration = Duration::from_secs(60);
const FIRST_PAUSE: Duration = Duration::from_millis(200);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);
/// How often it is told who answers for others although that has not changed: it does not store it.
const REPAIR_EVERY: Duration = Duration::from_secs(5);

/// Tells as long as the reign lasts.
pub async fn follow(reign: &Reign, client: &Client, stop: &Stop) {
    let mut pause = FIRST_PAUSE;
    let mut failing = false;
    let mut told_speakers = None;
    loop {
        let begun = reign.upkeep.begin();
        let told = tokio::select! {
            told = round(reign, client, &mut told_speakers) => told,
            _ = reign.term().ended() => return,
            () = stop.requested() => return,
        };
        reign.upkeep.end(begun);
        let again = match told {
            Ok(()) => {
                if std::mem::take(&mut failing) {
                    tracing::info!("the data service was told at last what became of nodes");
                }
                pause = FIRST_PAUSE;
                None
            }
            Err(cause) => {
                if !std::mem::replace(&mut failing, true) {
                    tracing::warn!(cause, "the data service was not told what became of nodes; trying on");
                }
                excuse(reign, &cause);
                let wait = pause.mul_f64(0.5 + fastrand::f64() / 2.0);
                pause = (pause * 2).min(LONGEST_PAUSE);
                Some(wait)
            }
        };
        tokio::select! {
            // After a failure the next attempt has its time, whoever asks.
            () = sleep(again.unwrap_or_default()), if again.is_some() => {}
            () = reign.upkeep.asked_since(begun), if again.is_none() => {}
            () = sleep(REPAIR_EVERY), if again.is_none() => told_speakers = None,
            _ = reign.term().ended() => return,
            () = stop.requested() => return,
        }
    }
}

async fn round(
    reign: &Reign,
    client: &Client,
    told: &mut Option<BTreeMap<DataName, Vec<NodeName>>>,
) -> Result<(), String> {
    // First, because a node may wait with values for being allowed to write them; but the rest does not wait for it.
    let spoke = tell_speakers(reign, client, told).await;
    for (node, lost) in reign.with(|held| held.cluster.marks()) {
        if !reign.term().is_valid() {
            return Ok(());
        }
        let done = within(TELL_WITHIN, client.mark_node(&node, lost)).await?;
        tracing::info!(%node, lost, values = done.changed, "a node's values are marked");
        reign.with(|held| held.cluster.marked(&node, lost));
    }
    for node in reign.with(|held| held.removals.keys().cloned().collect::<Vec<_>>()) {
        remove(reign, client, &node).await?;
    }
    spoke
}

async fn tell_speakers(
    reign: &Reign,
    client: &Client,
    told: &mut Option<BTreeMap<DataName, Vec<NodeName>>>,
) -> Result<(), String> {
    let speakers = reign.with(|held| held.settled.then(|| held.cluster.speakers()));
    if let Some(speakers) = speakers.filter(|speakers| told.as_ref() != Some(speakers)) {
        within(TELL_WITHIN, client.set_speakers(&speakers)).await?;
        *told = Some(speakers);
    }
    Ok(())
}

/// Deletes the values first: if this is cut short, the node is still there to be removed again.
async fn remove(reign: &Reign, client: &Client, node: &NodeName) -> Result<(), String> {
    if !reign.term().is_valid() {
        return Ok(());
    }
    if let Err(refused) = reign.with(|held| removable(held, node)) {
        reign.with(|held| held.settle_removal(node, &Err(refused)));
        return Ok(());
    }
    match timeout(DELETE_WITHIN, delete_values(client, node)).await {
        Ok(done) => done?,
        Err(_) => return Err(format!("no end within {DELETE_WITHIN:?}")),
    }
    reign.with(|held| {
        let removed = held.cluster.remove(node).map_err(|refused| refusal::of_removal(&refused));
        if removed.is_ok() {
            held.forget(node);
            tracing::info!(%node, "a node and its values are removed");
        }
        held.settle_removal(node, &removed);
    });
    Ok(())
}

/// Whether a node may be removed as it is now.
pub fn removable(held: &Held, node: &NodeName) -> Result<(), Problem> {
    use estimand_api::node::NodeState;
    match held.cluster.node_view(node).map(|view| view.state) {
        None => Err(refusal::of_removal(&RemoveRefused::Unknown(node.clone()))),
        Some(NodeState::Ready) => Err(refusal::of_removal(&RemoveRefused::HeardOf(node.clone()))),
        Some(NodeState::Lost) => Ok(()),
    }
}

async fn delete_values(client: &Client, node: &NodeName) -> Result<(), String> {
    let query = Query { node: Some(node.clone()), ..Query::default() };
    let (values, _) = within(TELL_WITHIN, client.values(&query)).await?;
    let names: BTreeSet<_> = values.into_iter().map(|value| value.data_name).collect();
    for name in names {
        match timeout(TELL_WITHIN, client.delete(&name, Some(node))).await {
            Ok(Ok(_)) => {}
            // It was bound to another name since, and has no values of its own.
            Ok(Err(error)) if error.status() == Some(409) => {}
            Ok(Err(error)) => return Err(error.to_string()),
            Err(_) => return Err(late(TELL_WITHIN)),
        }
    }
    Ok(())
}

/// Lets those go who wait for a removal that has failed for now.
fn excuse(reign: &Reign, cause: &str) {
    reign.with(|held| {
        for waiting in held.removals.values_mut().flat_map(std::mem::take) {
            let detail = format!("the data service has not deleted the node's values: {cause}; this goes on");
            // Whoever has gone away needs no excuse.
            let _ = waiting.send(Err(Problem::unavailable(detail, 5)));
        }
    });
}

async fn within<T>(span: Duration, work: impl Future<Output = Result<T, Error>>) -> Result<T, String> {
    match timeout(span, work).await {
        Ok(done) => done.map_err(|error| error.to_string()),
        Err(_) => Err(late(span)),
    }
}

fn late(span: Duration) -> String {
    format!("no answer within {span:?}")
}

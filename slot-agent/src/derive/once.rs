//! One evaluation that somebody asked for. It has an engine of its own, so that no other formula sees the result.

use estimand_api::names::NodeName;
use estimand_client::{Client, Error, Query};

use super::engine::{Engine, Round};
use super::formula::Formula;
use super::recall::{self, Recall};
use super::table::Moment;

/// Evaluates a formula over the values of this moment and what was kept of them.
pub async fn evaluate(client: &Client, own: NodeName, formula: Formula, now: Moment) -> Result<Round, Error> {
    let mut engine = Engine::new(own.clone());
    let (inputs, recalls) = (formula.spec.inputs.clone(), recall::recalls(&formula.spec, &own));
    engine.put(0, formula, 0);
    if !inputs.is_empty() {
        let node_names = Vec::from_iter((!engine.reads_other_nodes()).then_some(own));
        let query = Query { names: inputs.into_iter().collect(), node_names, ..Query::default() };
        let (values, _) = client.values(&query).await?;
        engine.snapshot(values, now);
    }
    for Recall { input, part, query } in recalls {
        match recall::kept(client, &input, &query).await {
            Ok(past) => engine.recall(&input, &part, past),
            Err(error) => tracing::warn!(%error, %input, "its history cannot be read"),
        }
    }
    Ok(engine.next(None, now).map(|(_, round)| round).unwrap_or_default())
}

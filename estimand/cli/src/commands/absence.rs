//! The reason why a data name has no value, as far as the services know it.

use std::time::Duration;

use estimand_api::names::{DataName, NodeName};
use estimand_api::registration::{Registration, Replicas};
use estimand_api::slot::{Instance, SlotActivity};
use estimand_client::Options;

use super::instances::reason;
use super::list::by_nodes;
use super::{Session, found, shortage};
use crate::output::failure::Failure;
use crate::output::words;

/// A manager that is away must not hold up the rest of the answer.
const WITHIN: Duration = Duration::from_secs(5);
const MAX_REASONS: usize = 3;

/// The failure of a command that was asked for the values of these names, of which there are none.
pub async fn failure(session: &Session, names: &[DataName], node: Option<&NodeName>) -> Failure {
    let mut reasons = Vec::with_capacity(names.len());
    for name in names {
        reasons.push(explain(session, name, node).await);
    }
    Failure::Missing(reasons.join("\n"))
}

async fn explain(session: &Session, name: &DataName, node: Option<&NodeName>) -> String {
    let of_node = node.map(|node| format!(" for the node `{node}`")).unwrap_or_default();
    let bindings = session.client.bindings().await.unwrap_or_default();
    if let Some(binding) = bindings.iter().find(|binding| binding.data_name == *name) {
        return format!("`{name}` serves the values of `{}`, which has none{of_node}", binding.to);
    }
    let registered = match found(session.client.registration(name).await) {
        Ok(Some(registered)) => registered,
        // The registry may run apart; then all of its paths are unknown here.
        Ok(None) if session.client.registrations().await.is_ok() => {
            return format!("`{name}` is unknown: no registration produces it and it has no values{of_node}");
        }
        Ok(None) | Err(_) => return format!("`{name}` has no value{of_node}"),
    };
    match instances(session, name, node).await {
        None => format!("`{name}` has no value{of_node}; it is registered, and no manager says how it runs"),
        Some(instances) if instances.is_empty() => {
            let why = nowhere(session, &registered.registration, node).await;
            format!("`{name}` has no value{of_node}: {why}")
        }
        Some(instances) => {
            let reasons = by_nodes(&instances, MAX_REASONS, |one| Some(told(one)));
            let reasons: Vec<String> = reasons.iter().map(ToString::to_string).collect();
            format!("`{name}` has no value{of_node}: {}", reasons.join("; "))
        }
    }
}

/// The reason why there is no instance, on any node or on this one.
pub async fn nowhere(session: &Session, registration: &Registration, node: Option<&NodeName>) -> String {
    if registration.paused {
        return format!("it is paused; `estimand resume {}` lets it run again", registration.data_name);
    }
    let Some(nodes) = shortage::nodes(session).await else {
        return "it is registered, and no manager says on which nodes it should run".to_owned();
    };
    if let Some(node) = node {
        match nodes.iter().find(|known| known.node_name == *node) {
            None => return "there is no such node".to_owned(),
            Some(known) if !registration.nodes.matches(&known.labels) => {
                return format!(
                    "it is for nodes with the labels `{}`, which this one has not",
                    registration.nodes
                );
            }
            Some(_) if registration.replicas != Replicas::All => return "it runs on other nodes".to_owned(),
            Some(_) => {}
        }
    }
    match shortage::nowhere(registration, &nodes) {
        Some(reason) => format!("it is registered and runs nowhere so far: {reason}"),
        None => "it is registered, and its nodes are about to be told of it".to_owned(),
    }
}

/// Its instances, if a manager answers. It is asked once.
pub async fn instances(session: &Session, name: &DataName, node: Option<&NodeName>) -> Option<Vec<Instance>> {
    let options = Options { read_timeout: WITHIN, total_timeout: WITHIN, attempts: 1, ..Options::default() };
    session.client_with(&options).ok()?.instances(Some(name), node).await.ok()
}

/// The reason why an instance has given no value.
pub fn told(instance: &Instance) -> String {
    let status = &instance.status;
    let otherwise = || match status.doing {
        SlotActivity::Pending => "its agent has not told of it yet".to_owned(),
        SlotActivity::Running => "it runs, and has not answered yet".to_owned(),
        _ if status.runs == 0 => "it has not run yet".to_owned(),
        _ => format!("nothing is wrong after {}", words::count_u64(status.runs, "run")),
    };
    reason(instance).map_or_else(otherwise, |(reason, _)| reason)
}

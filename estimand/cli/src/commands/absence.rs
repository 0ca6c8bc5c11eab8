//! The reason why a data name has no value, as far as the services know it.

use std::time::Duration;

use estimand_api::names::{DataName, NodeName};
use estimand_api::slot::{Instance, SlotActivity};
use estimand_client::Options;

use super::instances::reason;
use super::list::by_nodes;
use super::{Session, found};
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
    match found(session.client.registration(name).await) {
        Ok(Some(_)) => {}
        // The registry may run apart; then all of its paths are unknown here.
        Ok(None) if session.client.registrations().await.is_ok() => {
            return format!("`{name}` is unknown: no registration produces it and it has no values{of_node}");
        }
        Ok(None) | Err(_) => return format!("`{name}` has no value{of_node}"),
    }
    match instances(session, name, node).await {
        None => format!("`{name}` has no value{of_node}; it is registered, and no manager says how it runs"),
        Some(instances) if instances.is_empty() => {
            format!("`{name}` has no value{of_node}: it is registered and runs nowhere so far")
        }
        Some(instances) => {
            let reasons = by_nodes(&instances, MAX_REASONS, told);
            let reasons: Vec<String> = reasons.iter().map(ToString::to_string).collect();
            format!("`{name}` has no value{of_node}: {}", reasons.join("; "))
        }
    }
}

/// Its instances, if a manager answers. It is asked once.
pub async fn instances(session: &Session, name: &DataName, node: Option<&NodeName>) -> Option<Vec<Instance>> {
    let options = Options { read_timeout: WITHIN, total_timeout: WITHIN, attempts: 1, ..Options::default() };
    session.client_with(&options).ok()?.instances(Some(name), node).await.ok()
}

/// The reason why an instance has given no value.
fn told(instance: &Instance) -> Option<String> {
    let status = &instance.status;
    let otherwise = || match status.doing {
        SlotActivity::Pending => "its agent has not told of it yet".to_owned(),
        SlotActivity::Running => "it runs, and has not answered yet".to_owned(),
        _ if status.runs == 0 => "it has not run yet".to_owned(),
        _ => format!("nothing is wrong after {}", words::count_u64(status.runs, "run")),
    };
    Some(reason(instance).map_or_else(otherwise, |(reason, _)| reason))
}

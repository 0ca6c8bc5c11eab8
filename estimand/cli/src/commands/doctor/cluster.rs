//! Findings about what the services know: nodes, registrations, names, deliveries, tasks.

use std::collections::{BTreeMap, BTreeSet};

use chrono::{DateTime, Utc};
use estimand_api::names::{DataName, NodeName};
use estimand_api::node::{Node, NodeState, UsersTasks};
use estimand_api::registration::RegistrationRecord;
use estimand_api::slot::Instance;
use estimand_api::task_record::TaskRecord;
use estimand_api::value::Binding;

use super::finding::{Finding, or_ok};
use super::services::SAME_TIME;
use crate::commands::list::by_nodes;
use crate::output::words;

/// How many nodes, names or tasks one finding names.
const MAX_NAMED: usize = 5;
/// How many reasons are given for one registration.
const MAX_REASONS: usize = 3;
/// Of so many values that wait somebody should know, though nothing fails.
const MANY_WAIT: u64 = 10_000;

pub fn of_nodes(nodes: &[Node], now: DateTime<Utc>) -> Vec<Finding> {
    if nodes.is_empty() {
        return vec![Finding::warning("nodes", "no node is known").remedy("estimand agent, on a machine")];
    }
    let mut all = Vec::new();
    for node in nodes.iter().filter(|node| node.state == NodeState::Lost) {
        let age = words::age(node.last_heartbeat, now);
        let found = format!("`{}` is lost: nothing was heard of it for {age}", node.node_name);
        let remedy = format!("look at its agent there, or: estimand nodes remove {}", node.node_name);
        all.push(Finding::failure("nodes", found).remedy(remedy));
    }
    for node in nodes.iter().filter(|node| node.cordoned) {
        let remedy = format!("estimand nodes uncordon {}", node.node_name);
        all.push(Finding::warning("nodes", format!("`{}` is cordoned", node.node_name)).remedy(remedy));
    }
    or_ok(all, "nodes", format!("{}, all ready", words::count(nodes.len(), "node")))
}

/// Findings about the clocks of nodes against the manager's.
pub fn of_clocks(nodes: &[Node]) -> Vec<Finding> {
    let mut known =
        nodes.iter().filter(|node| node.state == NodeState::Ready && node.clock_ahead_ms.is_some());
    let off = known.clone().filter_map(|node| Some((&node.node_name, node.clock_off_ms()?)));
    let all: Vec<Finding> = off
        .map(|(node, ahead)| {
            let off = words::clock(ahead);
            let found =
                format!("the clock of `{node}` is {off} the manager's; its values are corrected by that");
            Finding::warning("clock", found).remedy(SAME_TIME)
        })
        .collect();
    match known.next() {
        Some(_) => or_ok(all, "clock", "the clocks of nodes and manager agree"),
        // Agents of before say nothing of it.
        None => all,
    }
}

pub fn of_versions(nodes: &[Node], services: &BTreeSet<&str>) -> Vec<Finding> {
    let mut versions: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for node in nodes.iter().filter(|node| node.state == NodeState::Ready) {
        versions.entry(&node.facts.version).or_default().push(node.node_name.as_str());
    }
    if services.is_empty() {
        return vec![Finding::not_checked("versions", "no service told its version")];
    }
    let known: Vec<&str> = services.iter().copied().collect();
    let known = known.join(", ");
    let mut all = Vec::new();
    if services.len() > 1 {
        all.push(Finding::warning("versions", format!("the services are of the versions {known}")));
    }
    for (version, nodes) in versions.iter().filter(|(version, _)| !services.contains(*version)) {
        let nodes = words::some_of(nodes, MAX_NAMED);
        let found = format!("agents of version {version}, services of version {known}: {nodes}");
        all.push(Finding::warning("versions", found).remedy("upgrade what is older (docs/cluster.md)"));
    }
    or_ok(all, "versions", format!("services and agents are of version {known}"))
}

/// The limits that a machine does not enforce, and the nodes whose processes are not in cgroups.
pub fn of_containment(nodes: &[Node], instances: &[Instance]) -> Vec<Finding> {
    const REMEDY: &str = "give the agent a cgroup of its own: `Delegate=yes` in its unit of systemd";
    let mut all = Vec::new();
    let without: Vec<&str> = nodes
        .iter()
        .filter(|node| node.state == NodeState::Ready && !node.facts.containment.starts_with("cgroup"))
        .map(|node| node.node_name.as_str())
        .collect();
    if !without.is_empty() {
        let found =
            format!("no cgroups, so limits are not enforced: {}", words::some_of(&without, MAX_NAMED));
        all.push(Finding::warning("containment", found).remedy(REMEDY));
    }
    let unenforced =
        |one: &Instance| (!one.status.unenforced.is_empty()).then(|| one.status.unenforced.join("; "));
    for (name, instances) in by_name(instances) {
        for reason in by_nodes(&instances, MAX_REASONS, unenforced) {
            all.push(Finding::warning("containment", format!("`{name}` is run without a limit: {reason}")));
        }
    }
    or_ok(all, "containment", "every node runs its slots in cgroups, with their limits")
}

/// Findings about nodes on which tasks of users are not apart from their agents, or not known to be.
pub fn of_users(nodes: &[Node]) -> Vec<Finding> {
    let ready: Vec<&Node> = nodes.iter().filter(|node| node.state == NodeState::Ready).collect();
    let named = |right: fn(Option<UsersTasks>) -> bool| {
        let some: Vec<&str> = ready
            .iter()
            .filter(|node| right(node.facts.users_tasks))
            .map(|node| node.node_name.as_str())
            .collect();
        (!some.is_empty()).then(|| words::some_of(&some, MAX_NAMED))
    };
    let mut all = Vec::new();
    if let Some(nodes) = named(|known| known.is_none()) {
        let found = format!("agents of before, which may run tasks of users as themselves: {nodes}");
        all.push(Finding::warning("users", found).remedy("upgrade them (docs/cluster.md)"));
    }
    if let Some(nodes) = named(|known| known == Some(UsersTasks::AsAgent)) {
        let found = format!("tasks of users run as the agent, whose files and token they can read: {nodes}");
        all.push(Finding::warning("users", found).remedy("estimand agent --run-as USER (docs/tasks.md)"));
    }
    all
}

/// Findings about registrations. A lost node is one cause for all that runs there, and a finding of [`of_nodes`].
pub fn of_instances(instances: &[Instance]) -> Vec<Finding> {
    let mut all = Vec::new();
    let heard: Vec<Instance> =
        instances.iter().filter(|one| one.node_state != NodeState::Lost).cloned().collect();
    let groups = by_name(&heard);
    for (name, instances) in &groups {
        let reasons = by_nodes(instances, MAX_REASONS, Instance::trouble);
        if reasons.is_empty() {
            continue;
        }
        let troubled = instances.iter().filter(|one| one.trouble().is_some()).count();
        let everywhere = troubled == instances.len();
        let place = match (everywhere, instances.len()) {
            (_, 1) => "fails".to_owned(),
            (true, nodes) => format!("fails on all {nodes} nodes"),
            (false, nodes) => format!("fails on {troubled} of {nodes} nodes"),
        };
        let lines: Vec<String> = reasons.iter().map(ToString::to_string).collect();
        let found = format!("`{name}` {place}\n{}", lines.join("\n"));
        let finding = if everywhere { Finding::failure } else { Finding::warning };
        all.push(finding("registrations", found).remedy(format!("estimand logs {name}")));
    }
    let absent = groups.values().filter(|instances| instances.iter().all(Instance::is_absent)).count();
    let nothing = match absent {
        0 => String::new(),
        absent => format!(", {absent} of them n/a: no node has what they measure"),
    };
    let found = format!("{} without trouble{nothing}", words::count(groups.len(), "registration"));
    or_ok(all, "registrations", found)
}

fn by_name(instances: &[Instance]) -> BTreeMap<&DataName, Vec<Instance>> {
    let mut groups: BTreeMap<&DataName, Vec<Instance>> = BTreeMap::new();
    for one in instances {
        groups.entry(&one.status.data_name).or_default().push(one.clone());
    }
    groups
}

/// The names that something reads, that nothing produces and that serve no other one, with their readers.
pub fn unproduced(
    registrations: &[RegistrationRecord],
    bindings: &[Binding],
) -> BTreeMap<DataName, Vec<String>> {
    let registered = registrations.iter().map(|one| &one.registration.data_name);
    let known: BTreeSet<&DataName> = registered.chain(bindings.iter().map(|one| &one.data_name)).collect();
    let mut readers: BTreeMap<DataName, Vec<String>> = BTreeMap::new();
    for binding in bindings.iter().filter(|binding| !known.contains(&binding.to)) {
        readers.entry(binding.to.clone()).or_default().push(format!("the binding `{}`", binding.data_name));
    }
    for one in registrations {
        for input in one.registration.inputs.iter().filter(|input| !known.contains(input)) {
            let reader = format!("the registration `{}`", one.registration.data_name);
            readers.entry(input.clone()).or_default().push(reader);
        }
    }
    readers
}

/// `written` are those that somebody writes without a registration.
pub fn of_names(unproduced: &BTreeMap<DataName, Vec<String>>, written: &BTreeSet<DataName>) -> Vec<Finding> {
    let missing = unproduced.iter().filter(|(name, _)| !written.contains(*name));
    let all = missing.map(|(name, readers)| {
        let readers: Vec<&str> = readers.iter().map(String::as_str).collect();
        let by = words::some_of(&readers, MAX_NAMED);
        let found = format!("`{name}` is read by {by}; nothing produces it and it has no values");
        Finding::failure("names", found)
            .remedy(format!("estimand register {name} …, or correct what reads it"))
    });
    or_ok(all.collect(), "names", "whatever is read is produced or has values")
}

pub fn of_delivery(nodes: &[Node]) -> Vec<Finding> {
    let mut all = Vec::new();
    for Node { node_name, delivery, .. } in nodes {
        let spooled = words::bytes(delivery.spooled_bytes);
        let waiting = words::count_u64(delivery.waiting, "value");
        if let Some(cause) = &delivery.failing {
            let found =
                format!("`{node_name}` cannot deliver; {waiting} kept ({spooled} on its disk): {cause}");
            all.push(Finding::failure("delivery", found).remedy("the data service, and the way there"));
        } else if delivery.waiting > MANY_WAIT {
            let found = format!("`{node_name}` has {waiting} to deliver ({spooled} on its disk)");
            all.push(Finding::warning("delivery", found));
        }
        if delivery.dropped > 0 {
            let dropped = words::count_u64(delivery.dropped, "value");
            let found = format!("`{node_name}` gave up {dropped}, because more waited than is kept");
            all.push(Finding::warning("delivery", found));
        }
        if delivery.refused > 0 {
            let refused = words::count_u64(delivery.refused, "value");
            let found = format!("{refused} of `{node_name}` not taken by the data service");
            all.push(Finding::warning("delivery", found).remedy(log_of(node_name)));
        }
    }
    or_ok(all, "delivery", "no value waits for long, and none is lost")
}

fn log_of(node: &NodeName) -> String {
    format!("the log of the agent of `{node}` says why")
}

/// Findings about tasks that wait.
pub fn of_tasks(waiting: &[TaskRecord]) -> Vec<Finding> {
    let mut reasons: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    let fits_nowhere = |waits: &str| waits.starts_with("it fits on no node");
    for task in waiting {
        if let Some(waits) = task.waits.as_deref().filter(|waits| fits_nowhere(waits)) {
            reasons.entry(waits).or_default().push(&task.id);
        }
    }
    let all = reasons.iter().map(|(waits, ids)| {
        let found = format!("{}: {waits}", words::some_of(ids, MAX_NAMED));
        let first = ids.first().copied().unwrap_or_default();
        Finding::failure("tasks", found)
            .remedy(format!("estimand nodes label …, another agent, or: estimand tasks cancel {first}"))
    });
    or_ok(
        all.collect(),
        "tasks",
        format!("{} queued, and each fits somewhere", words::count(waiting.len(), "task")),
    )
}

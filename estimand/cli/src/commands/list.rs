//! `list`: everything that is registered, and how it goes where a manager knows that.
//!
//! A registry that runs alone is listed as well: then the manager's column is left out, and that is said.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use chrono::{DateTime, Utc};
use estimand_api::names::{DataName, NamePattern};
use estimand_api::node::Node;
use estimand_api::registration::{RegistrationRecord, Replicas, Timing};
use estimand_api::slot::{Instance, SlotActivity};
use estimand_client::Options;
use serde_json::Value;

use super::{Session, shortage};
use crate::arguments::registrations::ListArgs;
use crate::output::failure::{Exit, Failure};
use crate::output::table::{Cell, Table, Tone};
use crate::output::{aside, remark, words};

/// How many reasons are shown for one registration.
const MAX_REASONS: usize = 3;
/// How many nodes are named for one reason.
const MAX_NODES: usize = 5;

/// The instances of each data name.
type InstancesByName = BTreeMap<DataName, Vec<Instance>>;

pub async fn list(session: &mut Session, args: &ListArgs) -> Result<(), Failure> {
    let all = session.client.registrations().await?;
    let there_are_none = all.is_empty();
    let mut registrations = named(all, &args.names)?;
    let running = match args.failing {
        true => Some(by_name(session.client.instances(None, None).await?)),
        false if session.out.json => None,
        false => running(session).await,
    };
    if let Some(running) = running.as_ref().filter(|_| args.failing) {
        registrations
            .retain(|one| instances_of(one, running).iter().any(|instance| instance.trouble().is_some()));
    }
    let some_fail = args.failing && !registrations.is_empty();
    if session.out.json {
        let all: Vec<Value> = registrations.iter().map(|one| Value::Object(one.to_map())).collect();
        session.out.pretty(&all)?;
    } else if there_are_none {
        remark("nothing is registered; `estimand register --help` says how to change that");
    } else if registrations.is_empty() {
        remark("nothing needs attention");
    } else {
        if running.is_none() {
            aside("no manager answers there, so how it runs is not shown");
        }
        let nodes = match &running {
            Some(running) if registrations.iter().any(|one| is_short(one, instances_of(one, running))) => {
                shortage::nodes(session).await
            }
            _ => None,
        };
        session.out.table(&table(&registrations, running.as_ref(), nodes.as_deref(), Utc::now()))?;
    }
    if some_fail { Err(Failure::Said(Exit::Failed)) } else { Ok(()) }
}

/// Those that are asked for. A name that is not registered, or a pattern that matches nothing, is missing.
fn named(all: Vec<RegistrationRecord>, asked: &[NamePattern]) -> Result<Vec<RegistrationRecord>, Failure> {
    let matches = |pattern: &NamePattern, one: &RegistrationRecord| {
        pattern.matches(one.registration.data_name.as_str())
    };
    match asked.iter().find(|pattern| !all.iter().any(|one| matches(pattern, one))) {
        Some(pattern) if pattern.name().is_some() => {
            Err(Failure::Missing(format!("`{pattern}` is not registered")))
        }
        Some(pattern) => Err(Failure::Missing(format!("no registered name matches `{pattern}`"))),
        None if asked.is_empty() => Ok(all),
        None => {
            let wanted = |one: &RegistrationRecord| asked.iter().any(|pattern| matches(pattern, one));
            Ok(all.into_iter().filter(wanted).collect())
        }
    }
}

fn instances_of<'r>(one: &RegistrationRecord, running: &'r InstancesByName) -> &'r [Instance] {
    running.get(&one.registration.data_name).map_or(&[][..], Vec::as_slice)
}

fn by_name(instances: Vec<Instance>) -> InstancesByName {
    let mut running = InstancesByName::new();
    for instance in instances {
        running.entry(instance.status.data_name.clone()).or_default().push(instance);
    }
    running
}

/// The instances, if there is a manager that knows them. It is asked once: the list is of use without it.
async fn running(session: &Session) -> Option<InstancesByName> {
    let deadline = Duration::from_secs(5);
    let options =
        Options { read_timeout: deadline, total_timeout: deadline, attempts: 1, ..Options::default() };
    session.client_with(&options).ok()?.instances(None, None).await.ok().map(by_name)
}

fn table(
    registrations: &[RegistrationRecord],
    running: Option<&InstancesByName>,
    known: Option<&[Node]>,
    now: DateTime<Utc>,
) -> Table {
    let header = ["NAME", "KIND", "MODE", "EVERY", "NODES", "VERSION", "UPDATED", "CMD"];
    let Some(running) = running else {
        let mut table = Table::new(header, 7);
        registrations.iter().for_each(|one| table.row(row(one, now)));
        return table;
    };
    let [name, kind, mode, every, nodes, version, updated, cmd] = header;
    let mut table = Table::new([name, "OK", kind, mode, every, nodes, version, updated, cmd], 8);
    for one in registrations {
        let instances = instances_of(one, running);
        let troubles = by_nodes(instances, MAX_REASONS, Instance::trouble);
        let remarks = by_nodes(instances, MAX_REASONS, remark_of);
        let [mut name, kind, mode, every, nodes, version, updated, cmd] = row(one, now);
        if !troubles.is_empty() {
            name = Cell::toned(one.registration.data_name.as_str(), Tone::Bad);
        }
        let well = well(one, instances, !troubles.is_empty());
        table.row([name, well, kind, mode, every, nodes, version, updated, cmd]);
        for (reasons, tone) in [(troubles, Tone::Bad), (remarks, Tone::Warning)] {
            reasons.iter().for_each(|one| table.note(Cell::verdict(&one.nodes, &one.reason, tone)));
        }
        if is_short(one, instances)
            && let Some(reason) = known.and_then(|nodes| shortage::reason(&one.registration, nodes))
        {
            table.note(Cell::verdict("", &reason, Tone::Warning));
        }
    }
    table
}

fn row(one: &RegistrationRecord, now: DateTime<Utc>) -> [Cell; 8] {
    let registration = &one.registration;
    [
        Cell::from(registration.data_name.as_str()),
        Cell::from(words::wire(&registration.kind)),
        Cell::from(words::wire(&registration.mode)),
        Cell::from(registration.timing.to_string()),
        Cell::from(words::placement(registration)),
        Cell::from(one.version.to_string()),
        Cell::from(words::age(one.updated_at, now) + " ago"),
        Cell::from(registration.cmd.to_string()),
    ]
}

/// True if there are fewer instances than the registration asks for, or none at all.
fn is_short(one: &RegistrationRecord, instances: &[Instance]) -> bool {
    let wanted = match one.registration.replicas {
        Replicas::All => 1,
        Replicas::Count(count) => count as usize,
    };
    !one.registration.paused && instances.len() < wanted
}

/// `4/5`: how many run well of those that there are, or of those that there should be.
fn well(one: &RegistrationRecord, instances: &[Instance], trouble: bool) -> Cell {
    if one.registration.paused {
        return Cell::toned("paused", Tone::Warning);
    }
    let calendar = matches!(one.registration.timing, Timing::Cron(_));
    // Where there is nothing to measure nothing is amiss.
    let here = || instances.iter().filter(|instance| !instance.is_absent());
    if !instances.is_empty() && here().next().is_none() {
        return Cell::from("n/a");
    }
    let well = here().filter(|instance| is_well(instance, calendar)).count();
    let wanted = match one.registration.replicas {
        Replicas::All => 0,
        Replicas::Count(count) => usize::try_from(count).unwrap_or(usize::MAX),
    };
    let all = here().count().max(wanted);
    let tone = match () {
        () if trouble => Tone::Bad,
        () if well < all || all == 0 => Tone::Warning,
        () => Tone::Plain,
    };
    Cell::toned(&format!("{well}/{all}"), tone)
}

/// It has had a good run and no trouble since. The first moment of a calendar may be far away.
fn is_well(instance: &Instance, calendar: bool) -> bool {
    let status = &instance.status;
    let waits = calendar && status.runs == 0 && status.doing != SlotActivity::Pending;
    instance.trouble().is_none() && (status.last_good.is_some() || waits)
}

/// A remark on an instance that is no trouble: why it has given no value yet, or what its value lacks.
fn remark_of(instance: &Instance) -> Option<String> {
    let status = &instance.status;
    let note = status.note.clone().filter(|_| !instance.is_absent());
    note.filter(|_| instance.trouble().is_none())
}

/// A reason, and the nodes that share it.
pub struct SharedReason {
    pub nodes: String,
    pub reason: String,
}

impl fmt::Display for SharedReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.nodes.is_empty() {
            true => f.write_str(&self.reason),
            false => write!(f, "{}: {}", self.nodes, self.reason),
        }
    }
}

/// The reasons of the instances that have one, with their nodes; the same reason once.
pub fn by_nodes(
    instances: &[Instance],
    most: usize,
    reason: impl Fn(&Instance) -> Option<String>,
) -> Vec<SharedReason> {
    let mut by_reason: Vec<(String, Vec<&str>)> = Vec::new();
    for instance in instances {
        let Some(reason) = reason(instance) else { continue };
        let node = instance.node_name.as_str();
        match by_reason.iter_mut().find(|(known, _)| *known == reason) {
            Some((_, nodes)) => nodes.push(node),
            None => by_reason.push((reason, vec![node])),
        }
    }
    let more = by_reason.len().saturating_sub(most);
    by_reason.truncate(most);
    let shown = |(reason, nodes): (String, Vec<&str>)| SharedReason {
        nodes: words::some_of(&nodes, MAX_NODES),
        reason,
    };
    let mut shown: Vec<SharedReason> = by_reason.into_iter().map(shown).collect();
    if more > 0 {
        let reason = format!("and {}; `estimand instances --failing` has all", words::count(more, "reason"));
        shown.push(SharedReason { nodes: String::new(), reason });
    }
    shown
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use estimand_api::node::NodeState;

    use super::super::instances::samples::{self, NOW};
    use super::*;
    use crate::output::Style;

    fn registered(name: &str, more: &str) -> RegistrationRecord {
        let body = format!(
            r#"{{"dataName": "{name}", "cmd": "./{name}", "max-Time": 5, "version": 3,
                "createdAt": "2026-01-31T12:00:00Z", "updatedAt": "2026-01-31T12:00:00Z"{more}}}"#
        );
        RegistrationRecord::from_map(serde_json::from_str(&body).unwrap()).unwrap()
    }

    fn shown(style: Style) -> String {
        let registrations = [
            registered("cpu", ""),
            registered("disk", ""),
            registered("load", r#", "kind": "processor", "replicas": 2, "inputs": ["cpu"]"#),
            registered("new", ""),
        ];
        let mut running = InstancesByName::new();
        for instance in samples::instances() {
            running.entry(instance.status.data_name.clone()).or_default().push(instance);
        }
        table(&registrations, Some(&running), None, *NOW).render(style)
    }

    #[test]
    fn a_list_says_how_many_run_well_and_why_others_do_not() {
        insta::assert_snapshot!(shown(Style { width: Some(80), colours: false }));
    }

    #[test]
    fn an_instance_without_a_good_run_is_not_well_yet() {
        let mut new = samples::instance("a", "n");
        (new.status.runs, new.status.last_good) = (0, None);
        assert!(!is_well(&new, false) && is_well(&new, true));
        new.status.doing = SlotActivity::Pending;
        assert!(!is_well(&new, true));
        (new.status.runs, new.status.failing) = (1, 1);
        assert!(!is_well(&new, false) && !is_well(&new, true));
    }

    #[test]
    fn an_instance_in_trouble_is_red() {
        let text = shown(Style { width: None, colours: true });
        let red = |what: &str| text.contains(&format!("\u{1b}[31m{what}\u{1b}[0m"));
        assert!(red("disk") && red("0/4") && red("its node is lost"), "{text:?}");
        assert!(red("failed 12 times in a row") && !red("node-1"), "{text:?}");
        assert!(!red("cpu\u{1b}"), "{text:?}");
    }

    #[test]
    fn without_a_manager_there_is_nothing_to_say_about_instances() {
        let text = table(&[registered("cpu", "")], None, None, *NOW).render(Style::default());
        assert!(text.starts_with("NAME  KIND "), "{text}");
    }

    #[test]
    fn a_reason_is_said_once_and_so_are_many() {
        let troubles = |instances: &[Instance]| -> Vec<String> {
            by_nodes(instances, MAX_REASONS, Instance::trouble).iter().map(ToString::to_string).collect()
        };
        let lost = |node: String| {
            let mut instance = samples::instance("a", &node);
            instance.node_state = NodeState::Lost;
            instance
        };
        let lost: Vec<Instance> = (0..7).map(|place| lost(format!("n{place}"))).collect();
        assert_eq!(troubles(&lost), ["n0, n1, n2, n3, n4 and 2 more: its node is lost"]);
        let refused = |node: String| {
            let mut instance = samples::instance("a", &node);
            instance.status.doing = SlotActivity::Refused;
            instance.status.last_error = Some(format!("no {node}"));
            instance
        };
        let refused: Vec<Instance> = (0..5).map(|place| refused(format!("n{place}"))).collect();
        let said = troubles(&refused);
        assert_eq!(said[0], "n0: no n0");
        assert_eq!(said[3], "and 2 reasons; `estimand instances --failing` has all");
    }
}

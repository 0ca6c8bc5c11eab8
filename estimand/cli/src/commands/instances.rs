//! `instances`: one registration on one node a line, and a line below for what is wrong with it.

use chrono::{DateTime, Utc};
use estimand_api::names::{DataName, NodeName};
use estimand_api::node::NodeState;
use estimand_api::slot::{Instance, SlotActivity, Status};

use super::{Session, found};
use crate::arguments::nodes::InstancesArgs;
use crate::output::failure::{Exit, Failure};
use crate::output::table::{Cell, Table, Tone};
use crate::output::{remark, words};

#[cfg(test)]
pub mod samples;

pub async fn instances(session: &mut Session, args: &InstancesArgs) -> Result<(), Failure> {
    let mut instances = fetch(session, args.name.as_ref(), args.node.as_ref()).await?;
    let all = instances.len();
    if args.failing {
        instances.retain(|instance| instance.trouble().is_some());
    }
    let some_fail = args.failing && !instances.is_empty();
    match (instances.is_empty(), all) {
        _ if session.out.json => session.out.pretty(&instances)?,
        (false, _) => session.out.table(&table(&instances, Utc::now()))?,
        (true, 0) if args.name.is_none() && args.node.is_none() => remark("nothing runs anywhere"),
        (true, 0) => remark("nothing of that runs anywhere"),
        (true, all) => remark(&format!("{}, and nothing is wrong", words::count(all, "instance"))),
    }
    match some_fail {
        true => Err(Failure::Said(Exit::Failed)),
        false => Ok(()),
    }
}

/// The instances of a name, on a node. A name or a node that does not exist is a failure.
pub async fn fetch(
    session: &Session,
    name: Option<&DataName>,
    node: Option<&NodeName>,
) -> Result<Vec<Instance>, Failure> {
    let client = &session.client;
    let instances = client.instances(name, node).await?;
    if instances.is_empty() {
        if let Some(name) = name
            && found(client.registration(name).await)?.is_none()
        {
            return Err(Failure::Missing(format!("`{name}` is not registered, and nothing of it runs")));
        }
        if let Some(node) = node
            && found(client.node(node).await)?.is_none()
        {
            return Err(Failure::Missing(format!("there is no node `{node}`")));
        }
    }
    Ok(instances)
}

pub fn table(instances: &[Instance], now: DateTime<Utc>) -> Table {
    let header = ["NAME", "NODE", "V", "DOING", "RUNS", "FAIL", "TOUT", "OVER", "LAST RUN", "TOOK", "EXIT"];
    let mut table = Table::new(header, 0);
    for instance in instances {
        let status = &instance.status;
        let number = |number: u64| Cell::from(number.to_string());
        let failures = match status.failing {
            0 => number(status.failures),
            _ => Cell::toned(&status.failures.to_string(), Tone::Warning),
        };
        table.row([
            name_cell(instance),
            Cell::from(instance.node_name.as_str()),
            number(status.version),
            doing(instance),
            number(status.runs),
            failures,
            number(status.timeouts),
            number(status.overruns),
            Cell::from(status.last_start.map(|at| words::age(at, now) + " ago").unwrap_or_default()),
            Cell::from(status.last_duration_ms.map(words::took).unwrap_or_default()),
            Cell::from(status.last_exit.as_deref().unwrap_or_default()),
        ]);
        if let Some(note) = note(instance) {
            table.note(note);
        }
    }
    table
}

fn name_cell(instance: &Instance) -> Cell {
    let tone = if instance.trouble().is_some() { Tone::Bad } else { Tone::Plain };
    Cell::toned(instance.status.data_name.as_str(), tone)
}

/// The activity of an instance; of a lost node only the last one is known.
fn doing(instance: &Instance) -> Cell {
    let tone = match instance.status.doing {
        _ if instance.node_state == NodeState::Lost => return Cell::toned("lost", Tone::Bad),
        SlotActivity::Refused => Tone::Bad,
        SlotActivity::BackingOff | SlotActivity::Unleased => Tone::Warning,
        SlotActivity::Pending
        | SlotActivity::Idle
        | SlotActivity::Waiting
        | SlotActivity::Running
        | SlotActivity::Unavailable
        | SlotActivity::Stopping => Tone::Plain,
    };
    Cell::toned(instance.status.doing.as_str(), tone)
}

/// The words for values that were older than those that the data service has.
fn older(status: &Status) -> Option<String> {
    let were = if status.superseded == 1 { "was" } else { "were" };
    let writes = words::count_u64(status.superseded, "write");
    (status.superseded > 0).then(|| format!("{writes} {were} older than what is stored"))
}

/// A note beyond the columns.
pub fn note(instance: &Instance) -> Option<Cell> {
    reason(instance).map(|(reason, tone)| Cell::verdict("", &reason, tone))
}

/// A remark about an instance, and how bad it is.
pub fn reason(instance: &Instance) -> Option<(String, Tone)> {
    let status = &instance.status;
    if let Some(trouble) = instance.trouble() {
        return Some((trouble, Tone::Bad));
    }
    let text = if instance.registered.is_none() {
        "it is registered no more; its slot still ends".to_owned()
    } else if let Some(next) = &status.next {
        format!("version {} is tried", next.version)
    } else if status.failing > 0 {
        let because = status.last_error.as_ref().map(|error| format!(": {error}")).unwrap_or_default();
        format!("failed {} in a row{because}", words::count_u64(status.failing, "time"))
    } else if status.doing == SlotActivity::Unleased {
        "it may run only once in the cluster, and waits for the manager to be heard of again".to_owned()
    } else if let Some(note) = &status.note {
        let tone = if status.doing == SlotActivity::Unavailable { Tone::Plain } else { Tone::Warning };
        return Some((note.clone(), tone));
    } else if let Some(older) = older(status) {
        older
    } else if is_waited_for(status) {
        return Some(("it runs, and has not answered yet".to_owned(), Tone::Plain));
    } else {
        return None;
    };
    Some((text, Tone::Warning))
}

/// It was started and goes on, and has given no value yet.
pub fn is_waited_for(status: &Status) -> bool {
    let goes_on = status.doing == SlotActivity::Running && status.last_exit.is_none();
    goes_on && status.last_start.is_some() && status.last_good.is_none()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::samples::{self, NOW};
    use super::*;
    use crate::output::Style;

    #[test]
    fn instances_fit_a_terminal_of_eighty_columns() {
        let text = table(&samples::instances(), *NOW).render(Style { width: Some(80), colours: false });
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
        insta::assert_snapshot!(text);
    }

    #[test]
    fn trouble_is_red_and_what_may_pass_is_yellow() {
        let mut instance = samples::instance("a", "n");
        let tone_of = |instance: &Instance| note(instance).map(|note| note.shown(true));
        assert_eq!(tone_of(&instance), None);
        instance.status.failing = 1;
        instance.status.last_error = Some("exit 1".to_owned());
        assert_eq!(tone_of(&instance).unwrap(), "\u{1b}[33mfailed 1 time in a row\u{1b}[0m: exit 1");
        instance.status.failing = 3;
        assert_eq!(tone_of(&instance).unwrap(), "\u{1b}[31mfailed 3 times in a row\u{1b}[0m: exit 1");
        instance.status.last_good = None;
        (instance.status.failing, instance.status.runs) = (1, 1);
        assert_eq!(tone_of(&instance).unwrap(), "\u{1b}[31mfailed in its first run\u{1b}[0m: exit 1");
        instance = Instance { registered: None, ..samples::instance("a", "n") };
        assert!(tone_of(&instance).unwrap().contains("registered no more"));
    }
}

//! `nodes`: which there are, how each is, and what an operator does with one.

use chrono::{DateTime, Utc};
use estimand_api::labels::{LabelChanges, LabelSource, NODE_LABEL};
use estimand_api::names::NodeName;
use estimand_api::node::{Delivery, Node, NodeState};

use super::Session;
use crate::arguments::nodes::{LabelArgs, NodesAction, NodesArgs};
use crate::output::failure::Failure;
use crate::output::table::{Cell, Table, Tone};
use crate::output::{remark, words};

pub async fn nodes(session: &mut Session, args: &NodesArgs) -> Result<(), Failure> {
    match (&args.action, &args.name) {
        (Some(_), Some(name)) => {
            let message = format!("`{name}` is one node too many: a command has its node after it");
            Err(Failure::Usage(message).hint("`estimand nodes --help` has examples"))
        }
        (Some(NodesAction::Cordon(args)), None) => cordon(session, &args.own.name, true).await,
        (Some(NodesAction::Uncordon(args)), None) => cordon(session, &args.own.name, false).await,
        (Some(NodesAction::Label(args)), None) => label(session, &args.own).await,
        (Some(NodesAction::Remove(args)), None) => remove(session, &args.own.name).await,
        (None, Some(name)) => show(session, name).await,
        (None, None) => list(session).await,
    }
}

async fn list(session: &mut Session) -> Result<(), Failure> {
    let nodes = session.client.nodes().await?;
    if session.out.json {
        return Ok(session.out.pretty(&nodes)?);
    }
    if nodes.is_empty() {
        remark("no node is known; `estimand agent` on a machine makes it one");
        return Ok(());
    }
    Ok(session.out.table(&table(&nodes, Utc::now()))?)
}

async fn show(session: &mut Session, name: &NodeName) -> Result<(), Failure> {
    let node = session.client.node(name).await?;
    let out = &mut session.out;
    if out.json {
        return Ok(out.pretty(&node)?);
    }
    out.line(node.node_name.as_str())?;
    Ok(out.facts(&facts(&node, Utc::now()))?)
}

async fn cordon(session: &mut Session, name: &NodeName, cordoned: bool) -> Result<(), Failure> {
    let node = session.client.cordon(name, cordoned).await?;
    if session.out.json {
        return Ok(session.out.pretty(&node)?);
    }
    let done = match cordoned {
        true => "is cordoned: nothing further that runs on a number of nodes is placed there",
        false => "is cordoned no more",
    };
    Ok(session.out.line(&format!("`{name}` {done}"))?)
}

async fn label(session: &mut Session, args: &LabelArgs) -> Result<(), Failure> {
    let mut changes = LabelChanges::default();
    for (key, change) in &args.changes {
        if changes.0.insert(key.clone(), change.clone()).is_some() {
            return Err(Failure::Usage(format!("the label `{key}` is given twice")));
        }
    }
    let node = session.client.label(&args.name, &changes).await?;
    if session.out.json {
        return Ok(session.out.pretty(&node)?);
    }
    for (key, _) in changes.0.iter().filter(|(_, change)| change.is_none()) {
        if let Some(source) = node.label_sources.get(key) {
            remark(&format!("the node still has `{key}`: {}", source_words(*source)));
        }
    }
    Ok(session.out.line(&format!("`{}` has the labels {}", args.name, labels(&node)))?)
}

fn source_words(source: LabelSource) -> &'static str {
    match source {
        LabelSource::Operator => "an operator has set it",
        LabelSource::Credential => "the agent's token or certificate says so",
        LabelSource::Agent => "its agent says so",
        LabelSource::Value => "a value says so",
    }
}

async fn remove(session: &mut Session, name: &NodeName) -> Result<(), Failure> {
    session.client.remove_node(name).await?;
    if !session.out.json {
        session.out.line(&format!("removed `{name}` and its values"))?;
    }
    Ok(())
}

fn table(nodes: &[Node], now: DateTime<Utc>) -> Table {
    let mut table = Table::new(["NODE", "STATE", "LABELS", "CORES", "MEMORY", "INSTANCES", "HEARTBEAT"], 2);
    for node in nodes {
        table.row([
            Cell::from(node.node_name.as_str()),
            state(node),
            Cell::from(labels(node)),
            Cell::from(node.facts.cores.to_string()),
            Cell::from(words::bytes(node.facts.memory)),
            Cell::from(node.instances.to_string()),
            Cell::from(words::age(node.last_heartbeat, now) + " ago"),
        ]);
        let troubles = delivery_troubles(&node.delivery).into_iter().chain(clock_trouble(node));
        troubles.for_each(|trouble| table.note(trouble));
    }
    table
}

fn state(node: &Node) -> Cell {
    match (node.state, node.cordoned) {
        (NodeState::Lost, false) => Cell::toned("lost", Tone::Bad),
        (NodeState::Lost, true) => Cell::toned("lost, cordoned", Tone::Bad),
        (NodeState::Ready, true) => Cell::toned("ready, cordoned", Tone::Warning),
        (NodeState::Ready, false) => Cell::from("ready"),
    }
}

fn labels(node: &Node) -> String {
    labels_where(node, |_| true)
}

fn labels_where(node: &Node, wanted: impl Fn(Option<LabelSource>) -> bool) -> String {
    // Its name stands beside them.
    let shown = node.labels.iter().filter(|(key, _)| *key != NODE_LABEL);
    let shown = shown.filter(|(key, _)| wanted(node.label_sources.get(*key).copied()));
    let shown =
        shown.map(|(key, value)| if value.is_empty() { key.clone() } else { format!("{key}={value}") });
    shown.collect::<Vec<_>>().join(",")
}

/// The labels of a node by their sources, those that count most first.
fn labels_by_source(node: &Node) -> Vec<(&'static str, Cell)> {
    let of = |source| labels_where(node, |given| given.unwrap_or(LabelSource::Agent) == source);
    let sources = [
        ("by operators", LabelSource::Operator),
        ("by credential", LabelSource::Credential),
        ("claimed", LabelSource::Agent),
        ("from values", LabelSource::Value),
    ];
    let lines = sources.into_iter().map(|(words, source)| (words, of(source)));
    lines
        .filter(|(_, labels)| !labels.is_empty())
        .map(|(words, labels)| (words, Cell::from(labels)))
        .collect()
}

/// The trouble with the deliveries to the data service.
fn delivery_troubles(delivery: &Delivery) -> Vec<Cell> {
    let Delivery { waiting, dropped, refused, failing, .. } = delivery;
    let values = |number: u64| words::count_u64(number, "value");
    let failing = failing.as_ref().map(|cause| {
        Cell::toned(&format!("cannot deliver, {} kept until then: {cause}", values(*waiting)), Tone::Bad)
    });
    let dropped = (*dropped > 0).then(|| {
        let text = format!("{} given up, because more waited than is kept", values(*dropped));
        Cell::toned(&text, Tone::Warning)
    });
    let refused = (*refused > 0)
        .then(|| Cell::toned(&format!("{} not taken by the data service", values(*refused)), Tone::Warning));
    failing.into_iter().chain(dropped).chain(refused).collect()
}

fn clock(node: &Node) -> Cell {
    match (node.clock_off_ms(), node.clock_ahead_ms) {
        (Some(ahead), _) => Cell::toned(
            &format!("{} the manager's, values are corrected", words::clock(ahead)),
            Tone::Warning,
        ),
        (None, Some(_)) => Cell::from("agrees with the manager's"),
        (None, None) => Cell::from("not known"),
    }
}

/// The trouble with its clock.
fn clock_trouble(node: &Node) -> Option<Cell> {
    let off = words::clock(node.clock_off_ms()?);
    Some(Cell::toned(&format!("its clock is {off} the manager's"), Tone::Warning))
}

fn facts(node: &Node, now: DateTime<Utc>) -> Vec<(String, Cell)> {
    let Node { facts, delivery, .. } = node;
    let when = |at| Cell::from(format!("{} ({} ago)", words::instant(at), words::age(at, now)));
    let spooled = match delivery.spooled_bytes {
        0 => String::new(),
        bytes => format!(", {} of them on disk", words::bytes(bytes)),
    };
    let allowed = match facts.allow.is_empty() {
        true => Cell::toned("nothing", Tone::Warning),
        false => Cell::from(facts.allow.join(", ")),
    };
    let mut all = vec![("state", state(node)), ("labels", Cell::from(labels(node)))];
    all.extend(labels_by_source(node));
    all.extend([
        ("host name", Cell::from(&facts.hostname)),
        ("cores", Cell::from(facts.cores.to_string())),
        ("memory", Cell::from(words::bytes(facts.memory))),
        ("machine", Cell::from(format!("{}, {}", facts.arch, facts.kernel))),
        ("agent", Cell::from(format!("version {}", facts.version))),
        ("contained by", Cell::from(&facts.containment)),
        ("may run", allowed),
        ("instances", Cell::from(node.instances.to_string())),
        ("clock", clock(node)),
        ("last heartbeat", when(node.last_heartbeat)),
        ("known since", when(node.known_since)),
        ("delivered", Cell::from(words::count_u64(delivery.delivered, "value"))),
        ("waiting", Cell::from(format!("{}{spooled}", words::count_u64(delivery.waiting, "value")))),
    ]);
    all.extend(delivery_troubles(delivery).into_iter().map(|trouble| ("trouble", trouble)));
    all.into_iter().map(|(label, what)| (label.to_owned(), what)).collect()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::collections::BTreeMap;

    use chrono::TimeDelta;
    use estimand_api::node::Facts;

    use super::*;
    use crate::output::Style;
    use crate::output::table::line;

    fn now() -> DateTime<Utc> {
        "2026-01-31T12:00:05Z".parse().unwrap()
    }

    fn node(name: &str, labels: &[(&str, &str)]) -> Node {
        Node {
            node_name: NodeName::parse(name).unwrap(),
            state: NodeState::Ready,
            cordoned: false,
            labels: labels.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect(),
            agent: None,
            left: false,
            label_sources: labels.iter().map(|(key, _)| ((*key).to_owned(), LabelSource::Agent)).collect(),
            facts: Facts {
                hostname: "host".to_owned(),
                cores: 16,
                memory: 135_000_000_000,
                arch: "x86_64".to_owned(),
                kernel: "Linux 6.1.0".to_owned(),
                version: "0.1.0".to_owned(),
                containment: "cgroup v2".to_owned(),
                allow: vec!["/opt/a".to_owned(), "/opt/b".to_owned()],
                users_tasks: None,
            },
            last_heartbeat: now() - TimeDelta::milliseconds(1_250),
            known_since: now() - TimeDelta::days(3),
            instances: 12,
            delivery: Delivery { delivered: 1_000, ..Delivery::default() },
            clock_ahead_ms: Some(3),
        }
    }

    fn nodes() -> Vec<Node> {
        let mut failing = node("node-2", &[("zone", "b")]);
        failing.delivery = Delivery { waiting: 120, spooled_bytes: 70_000, refused: 1, ..failing.delivery };
        failing.delivery.failing =
            Some("http://10.0.0.1:7070/api/data/batch does not answer: timed out".to_owned());
        failing.cordoned = true;
        failing.clock_ahead_ms = Some(-30_000);
        let lost = Node {
            state: NodeState::Lost,
            last_heartbeat: now() - TimeDelta::minutes(90),
            labels: BTreeMap::new(),
            ..node("node-3", &[])
        };
        vec![node("node-1", &[("gpu", "h200"), ("zone", "a"), ("rack", "17-b")]), failing, lost]
    }

    #[test]
    fn nodes_fit_a_terminal_of_eighty_columns() {
        let text = table(&nodes(), now()).render(Style { width: Some(80), colours: false });
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
        insta::assert_snapshot!(text);
    }

    #[test]
    fn a_node_is_shown_in_full() {
        let shown = |node: &Node| {
            let facts = facts(node, now());
            let lines = facts.iter().map(|(label, what)| {
                line(&[Cell::from(label), what.clone()], &[14, 200], false).trim_end().to_owned()
            });
            lines.collect::<Vec<_>>().join("\n")
        };
        insta::assert_snapshot!(shown(&nodes()[1]));
        let mut closed = node("node-4", &[]);
        closed.facts.allow.clear();
        closed.labels.insert("role".to_owned(), "db".to_owned());
        closed.label_sources.insert("role".to_owned(), LabelSource::Operator);
        assert!(
            shown(&closed).contains("labels          role=db\nby operators    role=db\n"),
            "{}",
            shown(&closed)
        );
        assert!(shown(&closed).contains("may run         nothing\n"), "{}", shown(&closed));
    }
}

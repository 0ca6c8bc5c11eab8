//! The first run of what was registered: `register` waits for it for a moment, and shows its value or its failure.

use std::collections::BTreeSet;
use std::time::Duration;

use estimand_api::names::NodeName;
use estimand_api::node::NodeState;
use estimand_api::problem::shorten;
use estimand_api::registration::{RegistrationRecord, Timing};
use estimand_api::slot::Instance;
use estimand_client::{Client, Error, Options, Query};
use tokio::time::{Instant, sleep, timeout_at};

use super::list::{SharedReason, by_nodes};
use super::values::Value;
use super::{Session, absence, shortage};
use crate::output::failure::Failure;
use crate::output::remark;
use crate::output::table::{Cell, Tone};

/// A longer first run is not waited for.
const WITHIN: Duration = Duration::from_secs(10);
/// The words for what did not come in that time.
const LATE: &str = "nothing within 10 s";
/// For the answer to the last look.
const GRACE: Duration = Duration::from_secs(1);
/// Services that have just started may know no node for so long.
const NODES_WITHIN: Duration = Duration::from_secs(2);
/// Between two looks.
const PAUSE: Duration = Duration::from_millis(200);
/// How many values, and how many reasons, are shown.
const MOST: usize = 5;

/// The outcome of the first run as far as it is known.
struct Outcome {
    instances: Vec<Instance>,
    values: Vec<Value>,
    /// The nodes that have had a good run and whose value is not with its readers yet.
    late: BTreeSet<NodeName>,
    /// Each instance has run, or cannot.
    settled: bool,
}

/// Waits for the first run on every node and shows what came of it. The run of a calendar may be far away, and what is
/// paused has none.
pub async fn show(session: &mut Session, registered: &RegistrationRecord) -> Result<(), Failure> {
    if registered.registration.paused || matches!(registered.registration.timing, Timing::Cron(_)) {
        return Ok(());
    }
    let client = session.client_with(&Options { attempts: 1, ..Options::default() })?;
    let began = Instant::now();
    let end = began + WITHIN;
    let mut seen = None;
    while seen.as_ref().is_none_or(|outcome: &Outcome| !outcome.settled) && Instant::now() < end {
        match timeout_at(end + GRACE, look(&client, registered)).await {
            Ok(Ok(outcome)) => seen = Some(outcome),
            // Where no manager is, or it tells others only, the registration is all that is known.
            Ok(Err(Error::Problem(problem))) if problem.status != 503 => return Ok(()),
            Ok(Err(_)) | Err(_) => {}
        }
        if seen.as_ref().is_some_and(|outcome| outcome.instances.is_empty())
            && let Some(nodes) = shortage::nodes(session).await
            && (!nodes.is_empty() || began.elapsed() >= NODES_WITHIN)
            && let Some(reason) = shortage::nowhere(&registered.registration, &nodes)
        {
            remark(&format!("it runs nowhere so far: {reason}"));
            return Ok(());
        }
        if seen.as_ref().is_none_or(|outcome| !outcome.settled) {
            sleep(PAUSE).await;
        }
    }
    match seen {
        Some(outcome) if !outcome.instances.is_empty() => return print(session, registered, &outcome),
        Some(_) => remark(&format!("{LATE}: its nodes have not been told of it yet")),
        None => remark(&format!("{LATE}: the services do not say how it runs")),
    }
    Ok(())
}

async fn look(client: &Client, registered: &RegistrationRecord) -> Result<Outcome, Error> {
    let registration = &registered.registration;
    let version = registered.version;
    let mut instances = client.instances(Some(&registration.data_name), None).await?;
    // A node that is lost was so before, and says nothing of the run.
    instances.retain(|instance| {
        let knows = instance.registered.is_some_and(|known| known >= version);
        knows && instance.node_state != NodeState::Lost
    });
    let ran = |instance: &&Instance| is_good(instance, version);
    let good: Vec<&NodeName> = instances.iter().filter(ran).map(|instance| &instance.node_name).collect();
    let (mut values, _, _) = client.values_or_hint(&Query::of(registration.data_name.clone())).await?;
    let speaks = registration.answers_for_others();
    values.retain(|value| speaks && !good.is_empty() || good.contains(&&value.node_name));
    drop_older(client, version, &mut values).await;
    // The value of a run is with its readers a moment after the news of the run.
    let has_value =
        |node: &NodeName| speaks && !values.is_empty() || values.iter().any(|value| value.node_name == *node);
    let late: BTreeSet<NodeName> = good.into_iter().filter(|node| !has_value(node)).cloned().collect();
    let settled = !instances.is_empty()
        && late.is_empty()
        && instances.iter().all(|instance| is_good(instance, version) || cannot(instance, version));
    Ok(Outcome { instances, values, late, settled })
}

/// Drops the values of an older version, as far as they would be shown.
async fn drop_older(client: &Client, version: u64, values: &mut Vec<Value>) {
    if version == 1 {
        return;
    }
    for place in (0..values.len().min(MOST)).rev() {
        let Value { data_name, node_name, .. } = &values[place];
        let explained = client.explain(data_name, node_name).await.ok().flatten();
        let of = explained.and_then(|value| value.provenance?.get("version")?.as_u64());
        if of.is_none_or(|of| of < version) {
            values.remove(place);
        }
    }
}

/// This version has had a good run there.
fn is_good(instance: &Instance, version: u64) -> bool {
    let status = &instance.status;
    let serves = status.version >= version && status.next.is_none();
    serves && status.last_good.is_some() && instance.trouble().is_none()
}

/// The instance has failed in this version, or there is no run of it to wait for.
fn cannot(instance: &Instance, version: u64) -> bool {
    let status = &instance.status;
    let tried = match &status.next {
        Some(next) => next.version >= version && next.failures > 0,
        None => status.version >= version && instance.trouble().is_some(),
    };
    tried || instance.is_absent()
}

fn print(session: &mut Session, registered: &RegistrationRecord, outcome: &Outcome) -> Result<(), Failure> {
    let out = &mut session.out;
    let version = registered.version;
    for value in outcome.values.iter().take(MOST) {
        out.line(&format!("  {}: {}", value.node_name, shorten(value.data_value.as_str())))?;
    }
    if outcome.values.len() > MOST {
        let more = outcome.values.len() - MOST;
        out.line(&format!(
            "  and {more} more; `estimand get {}` has all",
            registered.registration.data_name
        ))?;
    }
    let troubles = by_nodes(&outcome.instances, MOST, |one| one.trouble().filter(|_| cannot(one, version)));
    let absent = by_nodes(&outcome.instances, MOST, |one| {
        let note = one.status.note.as_deref().unwrap_or("there is nothing to measure");
        one.is_absent().then(|| format!("n/a: {note}"))
    });
    let pending =
        by_nodes(&outcome.instances, MOST, |one| match is_good(one, version) || cannot(one, version) {
            false => Some(format!("{LATE}: {}", absence::told(one))),
            true if outcome.late.contains(&one.node_name) => Some(format!("{LATE}: its value is on the way")),
            true => None,
        });
    let reasons = [(troubles, Tone::Bad), (absent, Tone::Plain), (pending, Tone::Warning)];
    for (SharedReason { nodes, reason }, tone) in
        reasons.into_iter().flat_map(|(all, tone)| all.into_iter().map(move |one| (one, tone)))
    {
        let line = Cell::verdict(&nodes, &reason, tone).shown(out.style.colours);
        out.verbatim(&format!("  {line}"))?;
    }
    Ok(())
}

//! The first run of what was registered: `register` waits for it for a moment, and shows its value or its failure.

use std::time::Duration;

use estimand_api::names::NodeName;
use estimand_api::node::NodeState;
use estimand_api::problem::shorten;
use estimand_api::registration::{RegistrationRecord, Timing};
use estimand_api::slot::Instance;
use estimand_api::value::Value;
use estimand_client::Query;
use tokio::time::{Instant, sleep, timeout_at};

use super::list::{SharedReason, by_nodes};
use super::{Session, absence, shortage};
use crate::output::failure::Failure;
use crate::output::remark;
use crate::output::table::{Cell, Tone};

/// A longer first run is not waited for.
const WITHIN: Duration = Duration::from_secs(10);
/// For the answer to the last look.
const GRACE: Duration = Duration::from_secs(1);
/// Between two looks.
const PAUSE: Duration = Duration::from_millis(200);
/// How many values, and how many reasons, are shown.
const MOST: usize = 5;

/// The outcome of the first run as far as it is known.
struct Outcome {
    instances: Vec<Instance>,
    values: Vec<Value>,
    /// Each instance has run, or cannot.
    settled: bool,
}

/// Waits for the first run on every node and shows what came of it. The run of a calendar may be far away, and what is
/// paused has none.
pub async fn show(session: &mut Session, registered: &RegistrationRecord) -> Result<(), Failure> {
    if registered.registration.paused || matches!(registered.registration.timing, Timing::Cron(_)) {
        return Ok(());
    }
    let end = Instant::now() + WITHIN;
    let outcome = loop {
        let Ok(seen) = timeout_at(end + GRACE, look(session, registered)).await else {
            let name = &registered.registration.data_name;
            remark(&format!("the services do not tell of its first run; `estimand list {name}` does later"));
            return Ok(());
        };
        // Where no manager answers the registration is all that is known.
        let Some(outcome) = seen else { return Ok(()) };
        if outcome.settled || Instant::now() >= end {
            break outcome;
        }
        if outcome.instances.is_empty()
            && let Some(nodes) = shortage::nodes(session).await
            && let Some(reason) = shortage::reason(&registered.registration, &nodes)
        {
            remark(&format!("it runs nowhere so far: {reason}"));
            return Ok(());
        }
        sleep(PAUSE).await;
    };
    if outcome.instances.is_empty() {
        remark("its nodes have not been told of it yet");
    }
    print(session, registered, &outcome)
}

async fn look(session: &Session, registered: &RegistrationRecord) -> Option<Outcome> {
    let (registration, version) = (&registered.registration, registered.version);
    let mut instances = absence::instances(session, &registration.data_name, None).await?;
    // A node that is lost was so before, and says nothing of the run.
    instances.retain(|instance| {
        let knows = instance.registered.is_some_and(|known| known >= version);
        knows && instance.node_state != NodeState::Lost
    });
    let ran = |instance: &&Instance| is_good(instance, version);
    let good: Vec<&NodeName> = instances.iter().filter(ran).map(|instance| &instance.node_name).collect();
    let (mut values, _) = session.client.values(&Query::of(registration.data_name.clone())).await.ok()?;
    let speaks = registration.answers_for_others();
    values.retain(|value| speaks && !good.is_empty() || good.contains(&&value.node_name));
    drop_older(session, version, &mut values).await;
    // The value of a run is with its readers a moment after the news of the run.
    let delivered = if speaks { !values.is_empty() || good.is_empty() } else { values.len() == good.len() };
    let settled = !instances.is_empty()
        && delivered
        && instances.iter().all(|instance| is_good(instance, version) || cannot(instance, version));
    Some(Outcome { instances, values, settled })
}

/// Drops the values of an older version, as far as they would be shown.
async fn drop_older(session: &Session, version: u64, values: &mut Vec<Value>) {
    if version == 1 {
        return;
    }
    for place in (0..values.len().min(MOST)).rev() {
        let Value { data_name, node_name, .. } = &values[place];
        let explained = session.client.explain(data_name, node_name).await.ok().flatten();
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
    let (out, version) = (&mut session.out, registered.version);
    for value in outcome.values.iter().take(MOST) {
        out.line(&format!("  {}: {}", value.node_name, shorten(&value.data_value.to_string())))?;
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
    let pending = by_nodes(&outcome.instances, MOST, |one| {
        (!is_good(one, version) && !cannot(one, version)).then(|| absence::told(one))
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

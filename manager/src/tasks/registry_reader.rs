//! Reads the registry: all of it, when asked and every few seconds, and hands it to the cluster.
//!
//! It is read with the values of secrets, which go from here to the agents that need them and nowhere else.
//!
//! A read that fails changes nothing: the registrations that were read before stay. Those that were read under an
//! earlier leadership are not used, since agents may have been given newer ones since.

use std::sync::Arc;
use std::time::Duration;

use estimand_api::registration::RegistrationRecord;
use estimand_client::{Client, PeerError, within};
use estimand_runtime::{Driver, Next, Rounds, Work};

use super::LeaderWork;
use crate::leadership::{Leadership, Registrations};
use crate::{Peers, Shared};

/// How long one read may take.
const READ_WITHIN: Duration = Duration::from_secs(5);
const FIRST_PAUSE: Duration = Duration::from_millis(200);

pub struct RegistryReader {
    shared: Arc<Shared>,
    leadership: Arc<Leadership>,
    registry: Client,
}

impl LeaderWork for RegistryReader {
    const TASK: &'static str = "manager-registry";
    const ACTIVITY: &'static str = "reading the registry";

    fn schedule(shared: &Shared, driver: Driver) -> Driver {
        let every = shared.settings.read_every;
        driver.every(every).pauses(FIRST_PAUSE, every)
    }

    fn new(shared: &Arc<Shared>, leadership: &Arc<Leadership>, peers: &Peers) -> Self {
        let (shared, leadership) = (Arc::clone(shared), Arc::clone(leadership));
        RegistryReader { shared, leadership, registry: peers.registry.clone() }
    }

    fn rounds(leadership: &Leadership) -> &Rounds {
        &leadership.reads
    }
}

impl Work for RegistryReader {
    type Error = PeerError;

    async fn round(&mut self) -> Result<Next, PeerError> {
        let figures = &self.shared.figures;
        let read = within(READ_WITHIN, self.registry.registrations_with_secrets()).await;
        let all = read.inspect_err(|_| figures.failed_reads.increment())?;
        figures.reads.increment();
        take_over(&self.leadership, all);
        Ok(Next::Period)
    }
}

/// A registration that has not changed stays the same in memory, so that its rendered pieces stay valid.
fn take_over(leadership: &Leadership, all: Vec<RegistrationRecord>) {
    let before = leadership.with(|state| state.registrations.clone());
    let kept = |registered: &RegistrationRecord| {
        let before = before.as_ref()?.get(&registered.registration.data_name)?;
        (**before == *registered).then(|| Arc::clone(before))
    };
    let registrations: Registrations = all
        .into_iter()
        .map(|registered| {
            let shared = kept(&registered).unwrap_or_else(|| Arc::new(registered));
            (shared.registration.data_name.clone(), shared)
        })
        .collect();
    if before.is_some_and(|before| is_same(&before, &registrations)) {
        return;
    }
    tracing::debug!(registrations = registrations.len(), "the registry has changed");
    let registrations = Arc::new(registrations);
    leadership.with(|state| {
        state.cluster.set_registrations(registrations.values().cloned().collect());
        state.rendered.retain(|name| registrations.contains_key(name));
        state.registrations = Some(registrations);
    });
    leadership.ask_look();
}

fn is_same(one: &Registrations, other: &Registrations) -> bool {
    one.len() == other.len() && one.values().zip(other.values()).all(|(one, other)| Arc::ptr_eq(one, other))
}

//! The registrations as the single writer's state: their storage, their publication, and the consequences of a change.

use std::collections::HashMap;
use std::sync::Arc;

use estimand_api::names::DataName;
use estimand_api::registration::Registration;
use estimand_runtime::Ticket;
use estimand_service::{Decision, Request, State, StorageError};

use crate::Shared;
use crate::core::edit::{self, Ask, Occasion, Outcome, Protection};
use crate::core::{Edit, Registrations, Rejection, RenderedRegistration};
use crate::storage::{Storage, rows};

/// The author of the default registrations in the audit trail.
const DEFAULTS_BY: &str = "estimand";

/// The state that the writer owns.
pub struct RegistryState {
    shared: Arc<Shared>,
    storage: Storage,
    /// The highest version that each name ever had.
    versions: HashMap<String, u64>,
    defaults: Vec<Registration>,
}

/// Asks that take effect together or not at all.
pub struct Change {
    pub asks: Vec<Ask>,
    pub protection: Protection,
    pub by: String,
}

/// The data service is being told of another history; none if the histories are as before.
pub type HistoriesTicket = Option<Ticket>;

impl RegistryState {
    pub fn new(shared: Arc<Shared>, storage: Storage, defaults: Vec<Registration>) -> Self {
        RegistryState { shared, storage, versions: HashMap::new(), defaults }
    }

    fn registrations(&self) -> Arc<Registrations> {
        self.shared.registrations.load_full().unwrap_or_default()
    }

    fn occasion<'a>(&'a self, by: &'a str) -> Occasion<'a> {
        Occasion { now: rows::instant(self.shared.clock.now_micros()), by, versions: &self.versions }
    }

    fn show(&self, registrations: Registrations) {
        self.shared.registrations.store(Some(Arc::new(registrations)));
    }

    /// Stores the default registrations that were never there.
    async fn store_defaults(
        &mut self,
        mut registrations: Registrations,
        bound: &[String],
    ) -> Result<Registrations, StorageError> {
        let mut edits: Vec<Edit> = Vec::new();
        for default in self.defaults.clone() {
            let name = default.data_name.clone();
            if self.versions.contains_key(name.as_str()) || bound.iter().any(|bound| bound == name.as_str()) {
                continue;
            }
            let occasion = self.occasion(DEFAULTS_BY);
            match edit::decide(&registrations, vec![Ask::Create(default)], &Protection::Forced, occasion) {
                Ok(outcomes) => {
                    let new: Vec<Edit> = outcomes.into_iter().filter_map(|outcome| outcome.edit).collect();
                    registrations = registrations.with(registrations_after(&new));
                    edits.extend(new);
                }
                Err(rejection) => tracing::error!(%rejection, %name, "a default collector is not registered"),
            }
        }
        if !edits.is_empty() {
            self.storage.store(&edits).await?;
        }
        self.versions.extend(edits.iter().map(|edit| (edit.name.to_string(), edit.version)));
        if !std::mem::take(&mut self.defaults).is_empty() {
            tracing::info!(
                "the default collectors are registered, but for those that somebody changed or deleted"
            );
        }
        Ok(registrations)
    }

    fn tell_histories(&self, edits: &[Edit]) -> HistoriesTicket {
        edits.iter().any(|edit| edit.retention_changed).then(|| self.shared.histories.ask())
    }

    /// True if exactly this edit is the last one of its name.
    fn has(&self, edit: &Edit) -> bool {
        let last = self.versions.get(edit.name.as_str()).copied();
        let registrations = self.shared.registrations.load();
        let stored = registrations.as_ref().and_then(|all| all.get(edit.name.as_str()));
        last == Some(edit.version)
            && match (&edit.after, stored) {
                (Some(after), Some(stored)) => {
                    stored.readable().is_some_and(|entry| entry.registered == after.registered)
                }
                (None, None) => true,
                (Some(_), None) | (None, Some(_)) => false,
            }
    }
}

impl State for RegistryState {
    type Change = Vec<Edit>;
    type Rejection = Rejection;
    const NAME: &'static str = "the registrations";
    const SERVICE: &'static str = "registry";

    async fn load(&mut self) -> Result<(), StorageError> {
        let contents = self.storage.load().await?;
        let by_name = contents.rows.into_iter().filter_map(rows::stored_registration).collect();
        self.versions = contents.versions;
        let before = self.shared.registrations.load().as_ref().map_or(0, |before| before.generation);
        let registrations = Registrations::new(before + 1, by_name);
        let registrations = self.store_defaults(registrations, &contents.bound).await?;
        tracing::info!(registrations = registrations.len(), "the registrations are loaded");
        self.show(registrations);
        self.shared.histories.ask();
        Ok(())
    }

    async fn store(&mut self, changes: &[Vec<Edit>]) -> Result<(), StorageError> {
        Ok(self.storage.store(&changes.concat()).await?)
    }

    fn publish(&mut self, changes: &[Vec<Edit>]) {
        let edits = changes.concat();
        self.versions.extend(edits.iter().map(|edit| (edit.name.to_string(), edit.version)));
        self.show(self.registrations().with(registrations_after(&edits)));
    }

    /// They are one transaction, so one of them says it for all; all are asked, to be sure.
    fn took_effect(&self, changes: &[Vec<Edit>]) -> bool {
        changes.iter().flatten().all(|edit| self.has(edit))
    }
}

impl Request<RegistryState> for Change {
    type Reply = (Vec<Outcome>, HistoriesTicket);

    fn decide(self, state: &RegistryState) -> Result<Decision<RegistryState, Self::Reply>, Rejection> {
        let occasion = state.occasion(&self.by);
        let outcomes = edit::decide(&state.registrations(), self.asks, &self.protection, occasion)?;
        let edits: Vec<Edit> = outcomes.iter().filter_map(|outcome| outcome.edit.clone()).collect();
        if edits.is_empty() {
            return Ok(Decision::Nothing((outcomes, None)));
        }
        Ok(Decision::change(edits, |state: &RegistryState, edits| {
            // Before the managers are told: they wait for it.
            let histories = state.tell_histories(edits);
            for edit in edits {
                log(edit);
                // Here rather than in the handler, which ends when its client goes away. Managers are told of a
                // deletion by the handler, which waits for its effect.
                if edit.after.is_some() {
                    state.shared.managers.poke(&edit.name);
                }
            }
            (outcomes, histories)
        }))
    }
}

/// The registration of each name after these edits.
fn registrations_after(
    edits: &[Edit],
) -> impl Iterator<Item = (DataName, Option<Arc<RenderedRegistration>>)> {
    edits.iter().map(|edit| (edit.name.clone(), edit.after.clone()))
}

fn log(edit: &Edit) {
    let Edit { name, action, version, by, .. } = edit;
    tracing::info!(%name, version, action = action.as_str(), by, "changed");
}

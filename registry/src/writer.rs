//! The registrations as the single writer's state: their storage, their publication, and the consequences of a change.

use std::collections::HashMap;
use std::sync::Arc;

use estimand_api::names::DataName;
use estimand_api::registration::Registration;
use estimand_runtime::Ticket;
use estimand_runtime::single_writer::{Decision, Request, State, StorageError};

use crate::Shared;
use crate::core::edit::{self, Ask, Occasion, Outcome};
use crate::core::{Edit, Registrations, Rejection, RenderedRegistration};
use crate::http::problems::TAKEN_OVER;
use crate::storage::{self, Storage, rows};

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

/// Registers or replaces.
pub struct Register {
    pub ask: Ask,
    pub by: String,
}

/// Removes a registration.
pub struct Remove {
    pub name: DataName,
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

    fn occasion<'a>(&self, name: &DataName, by: &'a str) -> Occasion<'a> {
        let last_version = self.versions.get(name.as_str()).copied().unwrap_or(0);
        Occasion { now: rows::instant(self.shared.clock.now_micros()), by, last_version }
    }

    fn show(&self, registrations: Registrations) {
        self.shared.registrations.store(Some(Arc::new(registrations)));
    }

    /// Stores the default registrations that were never there. A later attempt goes on where an earlier one broke off.
    async fn store_defaults(
        &mut self,
        mut registrations: Registrations,
        bound: &[String],
    ) -> Result<Registrations, StorageError> {
        for default in self.defaults.clone() {
            let name = default.data_name.clone();
            if self.versions.contains_key(name.as_str()) || bound.iter().any(|bound| bound == name.as_str()) {
                continue;
            }
            let occasion = self.occasion(&name, DEFAULTS_BY);
            match edit::decide(&registrations, Ask::Create(default), occasion) {
                Ok(Outcome::Edit(edit, _)) => {
                    self.storage.store(&edit).await.map_err(|error| storage::outcome(&error))?;
                    self.versions.insert(name.to_string(), edit.version);
                    registrations = registrations.with(&name, edit.after.clone());
                }
                Ok(Outcome::Unchanged(_)) => {}
                Err(rejection) => tracing::error!(%rejection, %name, "a default collector is not registered"),
            }
        }
        if !std::mem::take(&mut self.defaults).is_empty() {
            tracing::info!(
                "the default collectors are registered, but for those that somebody changed or deleted"
            );
        }
        Ok(registrations)
    }

    fn tell_histories(&self, edit: &Edit) -> HistoriesTicket {
        edit.retention_changed.then(|| self.shared.histories.ask())
    }
}

impl State for RegistryState {
    type Change = Edit;
    type Rejection = Rejection;
    const NAME: &'static str = "the registrations";
    const TAKEN_OVER: &'static str = TAKEN_OVER;

    async fn load(&mut self) -> Result<(), StorageError> {
        let contents = self.storage.load().await.map_err(|error| storage::outcome(&error))?;
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

    async fn store(&mut self, edit: &Edit) -> Result<(), StorageError> {
        self.storage.store(edit).await.map_err(|error| storage::outcome(&error))
    }

    fn publish(&mut self, edit: &Edit) {
        self.versions.insert(edit.name.to_string(), edit.version);
        self.show(self.registrations().with(&edit.name, edit.after.clone()));
    }

    /// True if exactly this edit is the last one of its name.
    fn took_effect(&self, edit: &Edit) -> bool {
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

impl Request<RegistryState> for Register {
    type Reply = (Arc<RenderedRegistration>, HistoriesTicket);

    fn decide(self, state: &RegistryState) -> Result<Decision<RegistryState, Self::Reply>, Rejection> {
        let occasion = state.occasion(self.ask.name(), &self.by);
        Ok(match edit::decide(&state.registrations(), self.ask, occasion)? {
            Outcome::Unchanged(entry) => Decision::Nothing((entry, None)),
            Outcome::Edit(edit, entry) => Decision::change(edit, |state: &RegistryState, edit| {
                log(edit);
                // Here rather than in the handler, which ends when its client goes away.
                state.shared.managers.poke(&edit.name);
                (entry, state.tell_histories(edit))
            }),
        })
    }
}

impl Request<RegistryState> for Remove {
    type Reply = HistoriesTicket;

    fn decide(self, state: &RegistryState) -> Result<Decision<RegistryState, Self::Reply>, Rejection> {
        let occasion = state.occasion(&self.name, &self.by);
        let edit = edit::decide_removal(&state.registrations(), self.name, occasion)?;
        // Managers are told of a deletion by the handler, which waits for its effect.
        Ok(Decision::change(edit, |state: &RegistryState, edit| {
            log(edit);
            state.tell_histories(edit)
        }))
    }
}

fn log(edit: &Edit) {
    let Edit { name, action, version, by, .. } = edit;
    tracing::info!(%name, version, action = action.as_str(), by, "changed");
}

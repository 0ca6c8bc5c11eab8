//! The registry: how each data name is produced. The paper's `t_DP`, of which it is the only writer.
//!
//! All registrations are in memory, rendered; reads never wait for the database. Changes go one after the
//! other through a single writer, which checks them against the others, stores them and then publishes them. The
//! registry runs nothing and places nothing: managers are told that something has changed, and read it here.
//!
//! `core` decides, `http` translates, `storage` knows the rows, `tasks` tell others of changes.
//!
//! Invariants: an acknowledged change survives any crash; reads give the stored registrations; the version of
//! a name never goes back; the inputs of registrations form no cycle; each change is in the audit trail.

mod core;
mod http;
mod storage;
mod tasks;
mod uploads;
mod writer;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwapOption;
use estimand_api::fields::nearest;
use estimand_api::names::DataName;
use estimand_api::problem::{FieldError, Problem};
use estimand_api::registration::{Change, Mode, Registration};
use estimand_api::value::Binding;
use estimand_client::{Client, Query as Values};
use estimand_runtime::metrics::{Exposition, Kind};
use estimand_runtime::{Clock, Readiness, Tasks};
use estimand_service::{OnFatal, Writer};
use estimand_store::{StoreUrl, Worker};
use estimand_web::{Principal, Role, Routes, ServedPart};
use futures_util::future::join_all;
use tokio::time::timeout;

use crate::core::edit::{Ask, Outcome, Protection, ServedName};
use crate::core::{Registrations, RenderedRegistration, StoredRegistration};
use storage::{Storage, rows};
use tasks::histories::Histories;
use tasks::managers::Managers;
use writer::{Change as ChangeRequest, RegistryState};

pub use crate::core::MAX_REGISTRATIONS;
pub use tasks::managers::manager_options;

/// How long the registry waits for the data service's bindings and values.
const ASK_WITHIN: Duration = Duration::from_millis(500);

/// The needs of a registry.
pub struct RegistryOptions {
    pub store: StoreUrl,
    pub clock: Arc<dyn Clock>,
    /// Says why no agent would run a registration; the registry knows nothing of commands.
    pub check: Check,
    /// Registered before anybody is answered, but for names that were registered before, or are bound: a changed one
    /// stays changed and a deleted one stays deleted.
    pub defaults: Vec<Registration>,
    pub on_fatal: OnFatal,
}

/// Rejects a registration that no agent would run, with the reason.
pub type Check = Box<dyn Fn(&Registration) -> Result<(), String> + Send + Sync>;

/// A registry that runs. Clones are the same one.
#[derive(Clone)]
pub struct Registry(Arc<Inner>);

struct Inner {
    shared: Arc<Shared>,
    writer: Writer<RegistryState>,
    /// Reads the audit trail, so that reading much of it makes no change wait.
    audit: Worker,
}

/// Shared by handlers and tasks.
struct Shared {
    /// None until everything is loaded.
    registrations: ArcSwapOption<Registrations>,
    histories: Histories,
    managers: Managers,
    clock: Arc<dyn Clock>,
    check: Check,
}

impl Shared {
    fn registrations(&self) -> Result<Arc<Registrations>, Problem> {
        self.registrations
            .load_full()
            .ok_or_else(|| Problem::unavailable("the registrations are not loaded yet", 1))
    }
}

impl Registry {
    /// Starts the tasks; loading goes on after this returns, and `readiness` says when it is done.
    pub fn start(options: RegistryOptions, tasks: &Tasks, readiness: &Readiness) -> Self {
        let RegistryOptions { store, clock, check, defaults, on_fatal } = options;
        let (histories, managers) = (Histories::default(), Managers::new());
        let shared =
            Arc::new(Shared { registrations: ArcSwapOption::empty(), histories, managers, clock, check });
        let state = RegistryState::new(Arc::clone(&shared), Storage::new(store.clone()), defaults);
        let writer = Writer::start(tasks, "registry", state, readiness.part("registry"), on_fatal);
        Histories::start(&shared, tasks);
        let poking = Arc::clone(&shared);
        tasks.spawn_until_stop("registry-managers", move || {
            let shared = Arc::clone(&poking);
            async move { shared.managers.run(&shared.registrations, &shared.histories).await }
        });
        let audit = Worker::start(store, "registry-audit");
        Registry(Arc::new(Inner { shared, writer, audit }))
    }

    /// Sets the data service that is told which histories to keep. Its address may not be known when the registry
    /// starts; until this is called none is told.
    pub fn set_data_service(&self, client: Client) {
        self.0.shared.histories.set_data_service(client);
    }

    /// Sets the managers that are told of changes; their clients are made with [`manager_options`]. Their addresses may
    /// not be known when the registry starts; until this is called no manager is told, and no deletion waits.
    pub fn set_managers(&self, clients: Vec<Client>) {
        self.0.shared.managers.set(clients);
    }

    fn registrations(&self) -> Result<Arc<Registrations>, Problem> {
        self.0.shared.registrations()
    }

    /// Carries out asks, all or none, and waits until that is durable and the data service has heard of the histories.
    async fn change(
        &self,
        asks: Vec<Ask>,
        protection: Protection,
        by: &Principal,
    ) -> Result<Vec<Outcome>, Problem> {
        self.registrations()?;
        let request = ChangeRequest { asks, protection, by: by.to_string() };
        let (outcomes, histories) = self.0.writer.submit(request).await?;
        if let Some(ticket) = histories {
            self.0.shared.histories.tried(ticket).await;
        }
        Ok(outcomes)
    }

    /// Registers or replaces.
    async fn register(&self, ask: Ask, by: &Principal) -> Result<Arc<RenderedRegistration>, Problem> {
        let outcomes = self.change(vec![ask], Protection::Forced, by).await?;
        outcomes.into_iter().find_map(|outcome| outcome.after).ok_or_else(Problem::internal)
    }

    /// The protection of names that are removed. Bindings that cannot be asked for protect nothing.
    async fn protection(&self, force: bool) -> Protection {
        if force {
            return Protection::Forced;
        }
        let bindings = self.bindings().await.unwrap_or_default().into_iter();
        Protection::Needed(
            bindings.map(|binding| ServedName { name: binding.data_name, to: binding.to }).collect(),
        )
    }

    /// Waits until the slots of deleted names are gone, and returns a hint if that is not certain.
    async fn ended(&self, names: &[&DataName]) -> Option<String> {
        let asked = join_all(names.iter().map(|name| self.0.shared.managers.gone(name))).await;
        let hints: Vec<String> = asked.into_iter().flatten().collect();
        let hint = (!hints.is_empty()).then(|| hints.join("; "))?;
        tracing::info!(hint, "a deletion was not confirmed everywhere");
        Some(hint)
    }

    /// Rejects a registration that no agent would run, and inputs that nothing provides.
    async fn check(&self, registration: &Registration) -> Result<(), Problem> {
        self.check_among(registration, &BTreeSet::new()).await
    }

    /// The same for a registration that comes together with those of other names.
    async fn check_among(
        &self,
        registration: &Registration,
        others: &BTreeSet<&DataName>,
    ) -> Result<(), Problem> {
        if let Err(reason) = (self.0.shared.check)(registration) {
            return Err(Problem::invalid_field(FieldError::new("cmd", reason)));
        }
        self.check_upload(registration).await?;
        // An executable may have any inputs; a built-in collector and an expression wait for theirs.
        match registration.mode {
            Mode::Exec | Mode::Stream => Ok(()),
            Mode::Builtin | Mode::Expr => self.check_inputs(&registration.inputs, others).await,
        }
    }

    async fn check_inputs(&self, inputs: &[DataName], others: &BTreeSet<&DataName>) -> Result<(), Problem> {
        let registrations = self.registrations()?;
        let known = |input: &DataName| others.contains(input) || registrations.get(input.as_str()).is_some();
        let unknown = inputs.iter().filter(|input| !known(input));
        for input in unknown {
            if self.has_values(input).await {
                continue;
            }
            let known =
                registrations.names().filter(|name| name.as_str() != input.as_str()).map(DataName::as_str);
            let expected = match nearest(input.as_str(), known) {
                Some(near) => format!("`{near}`?"),
                None => "the name of a registration, or of values that are there".to_owned(),
            };
            let message = format!("has `{input}`, which nothing is registered for and no value is known of");
            return Err(Problem::invalid_field(FieldError::new("inputs", message).expected(expected)));
        }
        Ok(())
    }

    /// True if values are served under the name, or the data service cannot be asked.
    async fn has_values(&self, name: &DataName) -> bool {
        let Some(client) = self.0.shared.histories.data_service() else { return true };
        let asked = async {
            let bound = client.bindings().await?.iter().any(|binding| binding.data_name == *name);
            let values = client.values(&Values::of(name.clone())).await?;
            Ok::<_, estimand_client::Error>(bound || !values.0.is_empty())
        };
        match timeout(ASK_WITHIN, asked).await {
            Ok(Ok(known)) => known,
            Ok(Err(_)) | Err(_) => true,
        }
    }

    /// The bindings; none if the data service cannot be asked.
    async fn bindings(&self) -> Option<Vec<Binding>> {
        let client = self.0.shared.histories.data_service()?;
        match timeout(ASK_WITHIN, client.bindings()).await.ok()? {
            Ok(bindings) => Some(bindings),
            Err(error) => {
                tracing::debug!(%error, "the data service was not asked for its bindings");
                None
            }
        }
    }

    /// Rejects names that serve another one's values. If the data service cannot be asked, that is left to
    /// it: it rejects writes to a bound name.
    async fn check_unbound(&self, names: &[&DataName]) -> Result<(), Problem> {
        if names.is_empty() {
            return Ok(());
        }
        let bindings = self.bindings().await.unwrap_or_default();
        match bindings.iter().find(|binding| names.contains(&&binding.data_name)) {
            None => Ok(()),
            Some(Binding { data_name: name, to, .. }) => Err(Problem::conflict(format!(
                "`{name}` is bound to `{to}` and serves its values; DELETE /api/bindings/{name} frees the name"
            ))),
        }
    }

    async fn history(&self, name: &DataName, most: usize) -> Result<Vec<Change>, Problem> {
        self.registrations()?;
        let (wanted, most) = (name.clone(), i64::try_from(most).unwrap_or(i64::MAX));
        let read = self.0.audit.run(move |connection| connection.registration_history(wanted.as_str(), most));
        let entries = read.await.map_err(|error| {
            tracing::warn!(%error, %name, "the audit trail cannot be read");
            Problem::unavailable("the database does not answer", 1)
        })?;
        let current =
            self.registrations()?.get(name.as_str()).and_then(StoredRegistration::readable).cloned();
        let known = current.map(|entry| entry.registered.registration.secrets.clone()).unwrap_or_default();
        Ok(rows::changes(entries, known))
    }
}

impl ServedPart for Registry {
    fn routes(&self) -> Routes {
        Routes::new("registry")
            .add(Role::Read, http::read::get, http::read::__path_get)
            .add(Role::Read, http::read::list, http::read::__path_list)
            .add(Role::Read, http::read::history, http::read::__path_history)
            .add(Role::Operate, http::read::secrets, http::read::__path_secrets)
            .add(Role::Operate, http::change::post, http::change::__path_post)
            .add(Role::Operate, http::change::put, http::change::__path_put)
            .add(Role::Operate, http::batch::batch, http::batch::__path_batch)
            .add(Role::Operate, http::patch::patch, http::patch::__path_patch)
            .add(Role::Operate, http::patch::rename, http::patch::__path_rename)
            .add(Role::Operate, http::change::delete, http::change::__path_delete)
            .add(Role::Operate, http::uploads::post, http::uploads::__path_post)
            .add(Role::Operate, http::uploads::get, http::uploads::__path_get)
            .share(self.clone())
    }

    fn write_figures(&self, text: &mut String) {
        let Some(registrations) = self.0.shared.registrations.load_full() else { return };
        let mut out = Exposition::new(text);
        out.single("estimand_registrations", Kind::Gauge, "Registrations held.", registrations.len() as f64);
        let help = "Stored registrations that cannot be read and are not in effect.";
        out.single("estimand_registrations_unreadable", Kind::Gauge, help, registrations.unreadable() as f64);
        write_units(&mut out, &registrations);
    }
}

/// The declared units, as a family of their own that is joined to the values by name and path.
fn write_units(out: &mut Exposition<'_>, registrations: &Registrations) {
    let metric = "estimand_registration_unit";
    out.family(
        metric,
        Kind::Gauge,
        "The declared unit of the values of a name, or of a place in them; always 1.",
    );
    let readable = registrations.names().filter_map(|name| registrations.get(name.as_str())?.readable());
    for entry in readable {
        let registration = &entry.registered.registration;
        for (path, unit) in registration.expect.units() {
            let all = [("data_name", registration.data_name.as_str()), ("unit", unit), ("path", path)];
            out.sample(metric, if path.is_empty() { &all[..2] } else { &all }, 1.0);
        }
    }
}

//! The registry: how each data name is produced. The paper's `t_DP`, of which it is the only writer.
//!
//! All registrations are in memory, rendered; reads never wait for the database. Changes go one after the
//! other through one task, which checks them against the others, stores them and then publishes them. The
//! registry runs nothing and places nothing: who does is told that something has changed, and reads it here.
//!
//! What must hold: what was acknowledged survives any crash; what is read is what is stored; the version of
//! a name never goes back; the inputs of registrations form no cycle; each change is in the audit trail.

mod book;
mod change;
mod edit;
mod graph;
mod listeners;
mod managers;
mod read;
mod rows;
mod shelf;
mod writer;

use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwapOption;
use estimand_api::fields::nearest;
use estimand_api::names::DataName;
use estimand_api::problem::{FieldError, Problem};
use estimand_api::registration::{Change, Mode, Registration};
use estimand_client::{Client, Query as Values};
use estimand_runtime::metrics::{Exposition, Kind};
use estimand_runtime::{Clock, Readiness, Tasks};
use estimand_store::{StoreUrl, Worker};
use estimand_web::{Role, Routes};
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::{Mutex, mpsc, oneshot};
use tokio::time::timeout;

use book::{Book, Held};
use edit::Ask;
use listeners::Listeners;
use managers::Managers;
use shelf::Shelf;
use writer::{Done, Job, Writer};

pub use edit::MAX_REGISTRATIONS;
pub use managers::manager_options;

/// How many changes may wait.
const MAX_WAITING: usize = 256;
/// How long a caller waits for its change to be durable.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long the data service is asked whether a name is bound.
const ASK_WITHIN: Duration = Duration::from_millis(500);

/// Called once, with the reason, when the registry cannot go on and its process should end.
pub type OnFatal = Box<dyn Fn(&str) + Send + Sync>;

/// What a registry needs.
pub struct RegistryOptions {
    pub store: StoreUrl,
    pub clock: Arc<dyn Clock>,
    /// Says why no agent would run a registration: what needs to be known of that is not the registry's.
    pub check: Check,
    pub on_fatal: OnFatal,
}

/// What refuses a registration that nothing would run, with what is wrong about its command.
pub type Check = Box<dyn Fn(&Registration) -> Result<(), String> + Send + Sync>;

/// A registry that runs. Clones are the same one.
#[derive(Clone)]
pub struct Registry(Arc<Inner>);

struct Inner {
    shared: Arc<Shared>,
    jobs: mpsc::Sender<Job>,
    /// Reads the audit trail, so that reading much of it makes no change wait.
    audit: Worker,
}

/// What handlers and tasks share.
struct Shared {
    /// None until everything is loaded.
    book: ArcSwapOption<Book>,
    listeners: Listeners,
    managers: Managers,
    clock: Arc<dyn Clock>,
    check: Check,
}

impl Shared {
    fn book(&self) -> Result<Arc<Book>, Problem> {
        self.book.load_full().ok_or_else(|| Problem::unavailable("the registrations are not loaded yet", 1))
    }
}

impl Registry {
    /// Starts the tasks; loading goes on after this returns, and `readiness` says when it is done.
    pub fn start(options: RegistryOptions, tasks: &Tasks, readiness: &Readiness) -> Self {
        let RegistryOptions { store, clock, check, on_fatal } = options;
        let (jobs, inbox) = mpsc::channel(MAX_WAITING);
        let (listeners, managers) = (Listeners::new(), Managers::new());
        let shared = Arc::new(Shared { book: ArcSwapOption::empty(), listeners, managers, clock, check });
        let (shelf, ready) = (Shelf::new(store.clone()), readiness.part("registry"));
        let writer = Writer::new(Arc::clone(&shared), inbox, shelf, ready, on_fatal);
        // The lock says that one run of the task at a time owns the writer; nobody else ever takes it.
        let writer = Arc::new(Mutex::new(writer));
        tasks.spawn("registry", move |stop| {
            let writer = Arc::clone(&writer);
            async move { writer.lock().await.run(&stop).await }
        });
        let told = Arc::clone(&shared);
        tasks.spawn("registry-listeners", move |stop| {
            let shared = Arc::clone(&told);
            async move { shared.listeners.run(&shared.book, &stop).await }
        });
        let poking = Arc::clone(&shared);
        tasks.spawn("registry-managers", move |stop| {
            let shared = Arc::clone(&poking);
            async move { shared.managers.run(&shared.book, &stop).await }
        });
        let audit = Worker::start(store, "registry-audit");
        Registry(Arc::new(Inner { shared, jobs, audit }))
    }

    /// Which data service is told what history to keep. Its address may not be known when the registry starts;
    /// until this is called nobody is told.
    pub fn set_data_service(&self, client: Client) {
        self.0.shared.listeners.set_data_service(client);
    }

    /// Which managers are told that something has changed, made with [`manager_options`]. Their addresses may
    /// not be known when the registry starts; until this is called nobody is told, and no deletion waits.
    pub fn set_managers(&self, clients: Vec<Client>) {
        self.0.shared.managers.set(clients);
    }

    pub fn routes(&self) -> Routes {
        Routes::new("registry")
            .add(Role::Read, read::get, read::__path_get)
            .add(Role::Read, read::list, read::__path_list)
            .add(Role::Read, read::history, read::__path_history)
            .add(Role::Operate, read::secrets, read::__path_secrets)
            .add(Role::Operate, change::post, change::__path_post)
            .add(Role::Operate, change::put, change::__path_put)
            .add(Role::Operate, change::delete, change::__path_delete)
            .share(self.clone())
    }

    /// Writes how much is registered: a source for [`Metrics`](estimand_runtime::Metrics).
    pub fn write_figures(&self, text: &mut String) {
        let Some(book) = self.0.shared.book.load_full() else { return };
        let mut out = Exposition::new(text);
        out.single("estimand_registrations", Kind::Gauge, "Registrations held.", book.len() as f64);
        let help = "Stored registrations that cannot be read and are not in effect.";
        out.single("estimand_registrations_unreadable", Kind::Gauge, help, book.unreadable() as f64);
    }

    fn book(&self) -> Result<Arc<Book>, Problem> {
        self.0.shared.book()
    }

    /// Has something changed and waits until it is durable, and a little for the listeners to hear of it.
    async fn submit(&self, ask: Ask, by: &str) -> Result<Done, Problem> {
        self.book()?;
        let (reply, answer) = oneshot::channel();
        let job = Job { ask, by: by.to_owned(), reply };
        self.0.jobs.try_send(job).map_err(|refused| match refused {
            TrySendError::Full(_) => Problem::unavailable("too many changes wait; nothing was done", 1),
            TrySendError::Closed(_) => Problem::unavailable("the registry is stopping; nothing was done", 1),
        })?;
        let done = match timeout(PATIENCE, answer).await {
            Ok(Ok(answer)) => answer?,
            // The task has ended, or panicked with this in its hands.
            Ok(Err(_)) | Err(_) => return Err(writer::unknown_outcome()),
        };
        if let Some(generation) = done.retention {
            self.0.shared.listeners.told(generation).await;
        }
        Ok(done)
    }

    /// Waits until the slots of a deleted name are gone, and returns what is not certain about that.
    async fn gone(&self, name: &DataName) -> Option<String> {
        self.0.shared.managers.gone(name).await
    }

    /// Refuses what no agent would run, and inputs that nothing provides.
    async fn check(&self, registration: &Registration) -> Result<(), Problem> {
        if let Err(reason) = (self.0.shared.check)(registration) {
            return Err(Problem::invalid_field(FieldError::new("cmd", reason)));
        }
        // An executable may ask for whatever it likes; what is computed here waits for what it names.
        match registration.mode {
            Mode::Exec | Mode::Stream => Ok(()),
            Mode::Builtin | Mode::Expr => self.check_inputs(&registration.inputs).await,
        }
    }

    async fn check_inputs(&self, inputs: &[DataName]) -> Result<(), Problem> {
        let book = self.book()?;
        let unknown = inputs.iter().filter(|input| book.get(input.as_str()).is_none());
        for input in unknown {
            if self.has_values(input).await {
                continue;
            }
            let known = book.names().filter(|name| name.as_str() != input.as_str()).map(DataName::as_str);
            let expected = match nearest(input.as_str(), known) {
                Some(near) => format!("`{near}`?"),
                None => "the name of a registration, or of values that are there".to_owned(),
            };
            let message = format!("has `{input}`, which nothing is registered for and no value is known of");
            return Err(Problem::invalid_field(FieldError::new("inputs", message).expected(expected)));
        }
        Ok(())
    }

    /// Whether values are served under the name. If the data service cannot be asked, they may be.
    async fn has_values(&self, name: &DataName) -> bool {
        let Some(client) = self.0.shared.listeners.data_service() else { return true };
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

    /// Refuses a name that serves another one's values. If the data service cannot be asked, that is left to
    /// it: it refuses what is written to a bound name.
    async fn check_unbound(&self, name: &DataName) -> Result<(), Problem> {
        let Some(client) = self.0.shared.listeners.data_service() else { return Ok(()) };
        let bindings = match timeout(ASK_WITHIN, client.bindings()).await {
            Ok(Ok(bindings)) => bindings,
            Ok(Err(error)) => {
                tracing::debug!(%error, "the data service was not asked for its bindings");
                return Ok(());
            }
            Err(_) => return Ok(()),
        };
        match bindings.iter().find(|binding| binding.data_name == *name) {
            None => Ok(()),
            Some(binding) => Err(Problem::conflict(format!(
                "`{name}` is bound to `{}` and serves its values; DELETE /api/bindings/{name} frees the name",
                binding.to
            ))),
        }
    }

    async fn history(&self, name: &DataName, most: usize) -> Result<Vec<Change>, Problem> {
        self.book()?;
        let (wanted, most) = (name.clone(), i64::try_from(most).unwrap_or(i64::MAX));
        let read = self.0.audit.run(move |connection| connection.registration_history(wanted.as_str(), most));
        let entries = read.await.map_err(|error| {
            tracing::warn!(%error, %name, "the audit trail cannot be read");
            Problem::unavailable("the database does not answer", 1)
        })?;
        let current = self.book()?.get(name.as_str()).and_then(Held::readable).cloned();
        let known = current.map(|entry| entry.registered.registration.secrets.clone()).unwrap_or_default();
        Ok(rows::changes(entries, known))
    }
}

//! Starts services and ends them in order.
//!
//! Every part speaks to the others through the same interface as any client, also when they run in one
//! process: `up` gives each of them a client of its own address. The order of the end is: the agent ends its
//! processes and delivers their values, the server drains, tasks stop, then the writer stores the accepted
//! writes, and only then the process ends.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use estimand_broker::amqp::AmqpUrl;
use estimand_client::{self as client, Client, Credentials};
use estimand_dashboard::Dashboard;
use estimand_data_service::DataService;
use estimand_files::{FileService, FileServiceOptions};
use estimand_manager::{Manager, Peers};
use estimand_registry::{Registry, RegistryOptions, manager_options};
use estimand_reservation_bridges::{Connect, publish_starts, serve_lines};
use estimand_reservation_service::{ReservationService, ReservationServiceOptions};
use estimand_runtime::Metrics;
use estimand_runtime::Signals;
use estimand_runtime::open_files::raise_open_files;
use estimand_runtime::stop::{self, Stop, StopTrigger};
use estimand_runtime::{Readiness, SystemClock, Tasks};
use estimand_slot_agent::Agent;
use estimand_store::{Preparation, StoreUrl};
use estimand_tasks::{TaskService, TaskServiceOptions};
use estimand_web::server::{BoundAddress, HandedOn, ServerError};
use estimand_web::{Routes, ServedPart, Server, ServerOptions, Site, Users, serve_parts};

use estimand_cli::output::say;

use crate::agent;
use crate::defaults;
use crate::eureka::Registration;
use crate::fate::Fate;
use crate::greeting::greeting;
use crate::guard::{self, Guard};
use crate::keeper::{Keeper, KeeperOptions};
use crate::lines::lines;
use crate::options::{Defaults, Options, Parts};
use crate::peers::{any_manager, file_peer};
use crate::place::{self, Place};
use crate::telemetry;
use crate::tls::ServiceTls;

/// How long a manager leads without its database, if no other process could lead.
const LEAD_ALONE: Duration = Duration::from_secs(15);

/// Serves until a signal or a fatal error ends it. Everything that was given is checked before anything is touched.
pub async fn serve(mut options: Options) -> anyhow::Result<()> {
    telemetry::init(&options.log)?;
    let handed_on = HandedOn::take().map_err(ServerError::HandedOn)?;
    if let Some(socket) = &handed_on {
        options.listen = socket.address.clone();
    }
    let secure = options.tls.as_ref().map(ServiceTls::load).transpose()?;
    let store = place::store_url(&options)?;
    let publish = options.platform.publish.as_deref().map(str::parse::<AmqpUrl>).transpose()?;
    let registration = options.platform.eureka.as_ref().map(Registration::check).transpose()?;
    guard::check(&options, secure.as_ref())?;
    let (trigger, stop) = stop::pair();
    let signals = Signals::listen(trigger.clone())?;
    let fate = Fate { reason: Arc::default(), trigger };
    let agent = agent_options(&options.parts, &fate)?;
    let mut server_options = ServerOptions::new(options.listen.clone());
    server_options.socket_mode = options.socket_mode;
    (server_options.workers, server_options.insecure) = (options.workers, options.insecure);
    server_options.tls = secure.as_ref().map(ServiceTls::tls);
    let bound = match handed_on {
        Some(socket) => BoundAddress::handed_on(socket, &server_options)?,
        None => BoundAddress::bind(&server_options)?,
    };
    let scheme = if secure.is_some() { "https" } else { "http" };
    let address = bound.address().url(scheme);
    let place = Place::take(&options, &store, &address)?;

    // The server goes on while the agent ends, because the agent still delivers to it.
    let (end_server, server_stop) = stop::pair();
    let (prepared, preparation) = store.after_preparation();
    let parts = Services::start(&options, &prepared, publish, &fate, &server_stop)?;
    let lines = lines(&options)?;
    let (tasks, readiness) = (&parts.tasks, &parts.readiness);
    let mut guard = Guard::start(&options, secure, &prepared, &parts.users, tasks, readiness)?;
    let routes = parts.routes(&options.parts, &guard)?.below(options.base.clone());
    let site = Site::new(
        routes.allow_origins(options.origins.clone().into()),
        guard.access.admission(),
        parts.metrics.clone(),
        parts.readiness.clone(),
    );
    let server = Server::on(bound, &server_options, site)?;
    guard.listens_at(&address);
    parts.introduce(&options.parts, &address, &guard)?;
    let guard = Arc::new(guard);
    if let Some(lines) = lines {
        let (guard, address) = (Arc::clone(&guard), address.clone());
        tracing::info!(address = %lines.local_addr()?, "reservations are taken over TCP");
        let connect: Connect = Arc::new(move |token| guard.client_of(&address, token));
        serve_lines(lines, connect, &parts.tasks).context("cannot take reservations over TCP")?;
    }
    let agent = match agent {
        Some(agent) => Some(start_agent(agent, &address, &guard).await?),
        None => None,
    };
    if let Some(registration) = registration {
        registration.start(&address, &parts.tasks, &parts.readiness, &stop)?;
    }
    say(&format!("listening on {address}\n"));
    let greeting = greeting(&address, &options, &store, &guard);
    let keeper = parts.keep(&options, store, &preparation, &address, &fate, move || say(&greeting))?;
    raise_open_files();

    let (served, ()) =
        tokio::join!(server.run_until(server_stop, &parts.tasks), end_in_order(stop, agent, end_server));
    preparation.halt();
    if let Some(data) = parts.data {
        tokio::task::spawn_blocking(move || data.1.finish()).await.context("the writer did not end")?;
    }
    drop((keeper, place, signals));
    match served {
        // They waited for something that is away; all that was acknowledged is stored.
        Err(ServerError::Tasks(unfinished)) => tracing::warn!("{unfinished}"),
        served => served?,
    }
    fate.outcome()
}

/// The services of this process.
struct Services {
    tasks: Tasks,
    readiness: Readiness,
    metrics: Metrics,
    users: Users,
    registry: Option<Registry>,
    manager: Option<Manager>,
    data: Option<(DataService, estimand_data_service::WriterThread)>,
    task_service: Option<TaskService>,
    reservations: Option<ReservationService>,
    files: Option<FileService>,
}

impl Services {
    fn start(
        options: &Options,
        store: &StoreUrl,
        publish: Option<AmqpUrl>,
        fate: &Fate,
        stop: &Stop,
    ) -> anyhow::Result<Self> {
        let (tasks, readiness, metrics) = (Tasks::new(), Readiness::new(), Metrics::new());
        let users = Users::default();
        let loops = tasks.clone();
        metrics.source(Box::new(move |text| loops.write_figures(text)));
        let defaults = match options.parts.defaults() {
            Defaults::Standard => defaults::registrations()?,
            Defaults::None => Vec::new(),
        };
        let registry = options.parts.has_registry().then(|| {
            let fate = fate.clone();
            let options = RegistryOptions {
                store: store.clone(),
                clock: Arc::new(SystemClock),
                check: Box::new(estimand_slot_agent::check),
                defaults,
                on_fatal: Box::new(move |reason| fate.seal(reason)),
            };
            Registry::start(options, &tasks, &readiness)
        });
        let manager = options.parts.has_manager().then(|| {
            let (data_server, task_server) = match &options.parts {
                Parts::Manager(options) => (Some(options.data_server.clone()), options.task_server.clone()),
                _ => (None, None),
            };
            // No other process leads on a file that one process uses at a time: then a disk that is slow for a while
            // is no reason to step down.
            let alone = store.is_sqlite();
            let mut settings = estimand_manager::Settings::default();
            if alone {
                settings.leadership.ttl = LEAD_ALONE;
            }
            let options = estimand_manager::ManagerOptions {
                store: store.clone(),
                data_server,
                task_server,
                alone,
                clock: Arc::new(SystemClock),
                stop: stop.clone(),
                settings,
            };
            Manager::start(options, &tasks, &readiness)
        });
        let mut data = None;
        if options.parts.has_data() {
            let fate = fate.clone();
            let options = estimand_data_service::Options {
                store: store.clone(),
                fold_age: estimand_data_service::FOLD_AGE,
                clock: Arc::new(SystemClock),
                readiness: readiness.clone(),
                stop: stop.clone(),
                on_fatal: Box::new(move |reason| fate.seal(&reason)),
            };
            let started = DataService::start(options, &tasks);
            data = Some(started.context("cannot start the data service")?);
        }
        let task_service = options.parts.task_terms().map(|terms| {
            let fate = fate.clone();
            let options = TaskServiceOptions {
                store: store.clone(),
                clock: Arc::new(SystemClock),
                stop: stop.clone(),
                on_fatal: Box::new(move |reason| fate.seal(reason)),
                publish,
                published_images_only: terms.published_images_only,
                lease: terms.lease,
                users: users.clone(),
            };
            TaskService::start(options, &tasks, &readiness)
        });
        let reservations = options.parts.sale().map(|sale| {
            let fate = fate.clone();
            let options = ReservationServiceOptions {
                store: store.clone(),
                clock: Arc::new(SystemClock),
                settings: sale.settings.clone(),
                on_fatal: Box::new(move |reason| fate.seal(reason)),
            };
            let service = ReservationService::start(options, &tasks, &readiness);
            if let Some(broker) = &sale.celery {
                publish_starts(service.starts(), broker, &tasks);
            }
            service
        });
        let files = options.parts.has_files().then(|| {
            let folder = options.files();
            let options =
                FileServiceOptions { folder: folder.clone(), stop: stop.clone(), users: users.clone() };
            let failed = || format!("cannot keep files in {}", folder.display());
            FileService::start(options, &tasks).with_context(failed)
        });
        let files = files.transpose()?;
        Ok(Services {
            tasks,
            readiness,
            metrics,
            users,
            registry,
            manager,
            data,
            task_service,
            reservations,
            files,
        })
    }

    /// Starts the keeper of their store, for which they wait.
    fn keep(
        &self,
        options: &Options,
        store: StoreUrl,
        preparation: &Preparation,
        address: &str,
        fate: &Fate,
        on_prepared: impl FnOnce() + Send + 'static,
    ) -> anyhow::Result<Keeper> {
        let fate = fate.clone();
        let options = KeeperOptions {
            store,
            preparation: preparation.clone(),
            owners: options.parts.owners(),
            takes_over: options.takes_over,
            description: place::description(address),
            ready: self.readiness.part("store"),
            on_prepared: Box::new(on_prepared),
            on_fatal: Box::new(move |reason| fate.seal(reason)),
        };
        Keeper::start(options).context("cannot start a thread")
    }

    /// The routes of all parts of this process, whose figures are on `/metrics` from then on.
    fn routes(&self, parts: &Parts, guard: &Guard) -> anyhow::Result<Routes> {
        fn boxed<P: ServedPart + 'static>(part: P) -> Box<dyn ServedPart> {
            Box::new(part)
        }
        let data = self.data.as_ref().map(|(service, _)| boxed(service.clone()));
        let registry = self.registry.clone().map(boxed);
        let manager = self.manager.clone().map(boxed);
        let task_service = self.task_service.clone().map(boxed);
        let reservations = self.reservations.clone().map(boxed);
        let files = self.files.clone().map(boxed);
        let dashboard = parts.has_dashboard().then(|| boxed(Dashboard::new()));
        // Tokens are made where registrations are changed, and nodes join where agents ask.
        let tokens = self.registry.is_some().then(|| boxed(guard.access.tokens()));
        let joining = self.manager.is_some().then(|| boxed(guard.access.joining()));
        let parts = [data, registry, manager, task_service, reservations, files, tokens, joining, dashboard];
        let parts = parts.into_iter().flatten().collect();
        serve_parts(parts, &self.users, &self.metrics).context("nothing to serve")
    }

    /// Tells each service where the others are; in one process that is known only now.
    fn introduce(&self, parts: &Parts, own_address: &str, guard: &Guard) -> anyhow::Result<()> {
        let own = || vec![own_address.to_owned()];
        let (data_service, managers, registry) = match parts {
            Parts::All { .. } => (Some(own_address.to_owned()), own(), Some(own_address.to_owned())),
            Parts::Registry { data_service, managers, .. } => (data_service.clone(), managers.clone(), None),
            Parts::Manager(options) => {
                (Some(options.data_service.clone()), vec![], Some(options.registry.clone()))
            }
            Parts::Reservations { data_service, .. } => (data_service.clone(), vec![], None),
            Parts::Data | Parts::Files { .. } => (None, vec![], None),
            Parts::Tasks { managers, data_service, .. } => {
                (Some(data_service.clone()), managers.clone(), None)
            }
        };
        let data_service = data_service
            .as_deref()
            .map(|address| guard.client(address, client::Options::default()))
            .transpose();
        let data_service = data_service.context("the address of the data service")?;
        if let (Some(registry), Some(client)) = (&self.registry, &data_service) {
            registry.set_data_service(client.clone());
        }
        if let Some(registry) = &self.registry {
            let clients: Result<Vec<Client>, client::Error> =
                managers.iter().map(|address| guard.client(address, manager_options())).collect();
            registry.set_managers(clients.context("the address of a manager")?);
        }
        if let (Some(service), Some(data_service)) = (&self.task_service, &data_service) {
            let manager = any_manager(&managers, guard)?;
            let files = file_peer(parts, own_address, guard)?;
            service.set_peers(estimand_tasks::Peers { manager, data_service: data_service.clone(), files });
        }
        if let Some(reservations) = &self.reservations {
            let task_service = match parts {
                Parts::Reservations { task_service, .. } => task_service,
                _ => own_address,
            };
            let client = guard.client(task_service, client::Options::default());
            reservations.set_task_service(client.context("the address of the task service")?);
            if let Some(data_service) = &data_service {
                reservations.set_data_service(data_service.clone());
            }
        }
        if let (Some(manager), Some(registry), Some(data_service)) = (&self.manager, registry, data_service) {
            let advertised = match parts {
                Parts::Manager(options) => options.advertise.clone(),
                _ => None,
            };
            let registry = guard.client(&registry, client::Options::default());
            let registry = registry.context("the address of the registry")?;
            let address = advertised.unwrap_or_else(|| own_address.to_owned());
            manager.set_peers(Peers { address, registry, data_service });
        }
        Ok(())
    }
}

/// The options of the agent of this process, checked; its services and its credentials there are not known yet.
fn agent_options(parts: &Parts, fate: &Fate) -> anyhow::Result<Option<estimand_slot_agent::AgentOptions>> {
    let Parts::All { agent: Some(options), .. } = parts else { return Ok(None) };
    let fate = fate.clone();
    // It ends with everything that it could tell of its end.
    let fatal = Arc::new(move |reason: &str| fate.seal(reason));
    agent::options(options, Vec::new(), Credentials::default(), false, fatal).map(Some)
}

async fn start_agent(
    options: estimand_slot_agent::AgentOptions,
    address: &str,
    guard: &Guard,
) -> anyhow::Result<Agent> {
    let credentials = guard.of_agent(&options.node);
    let options =
        estimand_slot_agent::AgentOptions { servers: vec![address.to_owned()], credentials, ..options };
    Agent::start(options).await.context("cannot start the agent of this machine")
}

async fn end_in_order(stop: Stop, agent: Option<Agent>, end_server: StopTrigger) {
    stop.requested().await;
    if let Some(agent) = agent {
        agent.stop().await;
    }
    end_server.request();
}

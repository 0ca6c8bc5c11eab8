//! Starts services and ends them in order.
//!
//! Every part speaks to the others through the same interface as any client, also when they run in one
//! process: `up` gives each of them a client of its own address. The order of the end is: the agent ends its
//! processes and delivers their values, the server drains, tasks stop, then the writer stores the accepted
//! writes, and only then the process ends.

use std::sync::Arc;

use anyhow::Context;
use estimand_broker::amqp::AmqpUrl;
use estimand_client::Credentials;
use estimand_runtime::Metrics;
use estimand_runtime::Signals;
use estimand_runtime::open_files::raise_open_files;
use estimand_runtime::stop::{self, Stop, StopTrigger};
use estimand_runtime::{Readiness, Tasks};
use estimand_slot_agent::Agent;
use estimand_store::{Preparation, StoreUrl};
use estimand_web::server::{BoundAddress, HandedOn, ServerError};
use estimand_web::{Routes, Server, ServerOptions, Site, Users, serve_parts};

use estimand_cli::output::say;

use crate::agent;
use crate::eureka::Registration;
use crate::fate::Fate;
use crate::greeting::greeting;
use crate::guard::{self, Guard};
use crate::keeper::{Keeper, KeeperOptions};
use crate::options::Options;
use crate::place::{self, Place};
use crate::services::{Host, Introduction, ServiceHandle};
use crate::telemetry;
use crate::tls::ServiceTls;

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
    let agent = agent_options(&options, &fate)?;
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
    let mut services = Services::start(&options, &prepared, publish, &fate, &server_stop)?;
    let (tasks, readiness) = (&services.tasks, &services.readiness);
    let mut guard = Guard::start(&options, secure, &prepared, &services.users, tasks, readiness)?;
    let routes = services.routes(&guard)?.below(options.base.clone());
    let site = Site::new(
        routes.allow_origins(options.origins.clone().into()),
        guard.access.admission(),
        services.metrics.clone(),
        services.readiness.clone(),
    );
    let server = Server::on(bound, &server_options, site)?;
    guard.listens_at(&address);
    let guard = Arc::new(guard);
    services.introduce(&address, &guard)?;
    let agent = match agent {
        Some(agent) => Some(start_agent(agent, &address, &guard).await?),
        None => None,
    };
    if let Some(registration) = registration {
        registration.start(&address, &services.tasks, &services.readiness, &stop)?;
    }
    say(&format!("listening on {address}\n"));
    let greeting = greeting(&address, &options, &store, &guard);
    let keeper = services.keep(&options, store, &preparation, &address, &fate, move || say(&greeting))?;
    raise_open_files();

    let (served, ()) =
        tokio::join!(server.run_until(server_stop, &services.tasks), end_in_order(stop, agent, end_server));
    preparation.halt();
    let services = services.finish().await?;
    drop((keeper, place, signals, services));
    match served {
        // They waited for something that is away; all that was acknowledged is stored.
        Err(ServerError::Tasks(unfinished)) => tracing::warn!("{unfinished}"),
        served => served?,
    }
    fate.outcome()
}

/// The services of this process, with what they share.
struct Services {
    tasks: Tasks,
    readiness: Readiness,
    metrics: Metrics,
    users: Users,
    handles: Vec<Box<dyn ServiceHandle>>,
}

impl Services {
    fn start(
        options: &Options,
        store: &StoreUrl,
        publish: Option<AmqpUrl>,
        fate: &Fate,
        stop: &Stop,
    ) -> anyhow::Result<Self> {
        let host = Host {
            options,
            store,
            publish,
            fate,
            stop,
            tasks: Tasks::new(),
            readiness: Readiness::new(),
            users: Users::default(),
        };
        let handles =
            options.services.iter().map(|service| service.start(&host)).collect::<anyhow::Result<_>>()?;
        let metrics = Metrics::new();
        let loops = host.tasks.clone();
        metrics.source(Box::new(move |text| loops.write_figures(text)));
        Ok(Services { tasks: host.tasks, readiness: host.readiness, metrics, users: host.users, handles })
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
            owners: options.owners(),
            takes_over: options.takes_over,
            description: place::description(address),
            ready: self.readiness.part("store"),
            on_prepared: Box::new(on_prepared),
            on_fatal: Box::new(move |reason| fate.seal(reason)),
        };
        Keeper::start(options).context("cannot start a thread")
    }

    /// The routes of all services, whose figures are on `/metrics` from then on.
    fn routes(&self, guard: &Guard) -> anyhow::Result<Routes> {
        let parts = self.handles.iter().flat_map(|service| service.parts(&guard.access)).collect();
        serve_parts(parts, &self.users, &self.metrics).context("nothing to serve")
    }

    fn introduce(&mut self, own: &str, guard: &Arc<Guard>) -> anyhow::Result<()> {
        let introduction = Introduction { own, guard, tasks: &self.tasks };
        self.handles.iter_mut().try_for_each(|service| service.introduce(&introduction))
    }

    /// Lets them store what they accepted.
    async fn finish(mut self) -> anyhow::Result<Self> {
        let finishing = tokio::task::spawn_blocking(move || {
            self.handles.iter_mut().for_each(|service| service.finish());
            self
        });
        finishing.await.context("a service did not end")
    }
}

/// The options of the agent of this process, checked; its services and its credentials there are not known yet.
fn agent_options(
    options: &Options,
    fate: &Fate,
) -> anyhow::Result<Option<estimand_slot_agent::AgentOptions>> {
    let Some(options) = &options.agent else { return Ok(None) };
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

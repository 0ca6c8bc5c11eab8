//! Starts services and ends them in order.
//!
//! Every part speaks to the others through the same interface as anybody else, also when they run in one
//! process: `up` gives the registry a client of its own address. The order of the end is: the server drains,
//! tasks stop, then the writer stores what was accepted, and only then the process ends.

use std::io::Write as _;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context, bail};
use estimand_api::client::Client;
use estimand_data_service::DataService;
use estimand_registry::{Registry, RegistryOptions};
use estimand_service::server::Signals;
use estimand_service::stop::{self, StopTrigger};
use estimand_service::{
    LoopbackPolicy, Metrics, Readiness, Routes, Server, ServerOptions, Site, SystemClock, Tasks, telemetry,
};
use estimand_store::StoreUrl;

/// What to start, and where.
#[derive(Debug, Clone)]
pub struct Options {
    pub listen: SocketAddr,
    pub data_dir: PathBuf,
    /// `sqlite://…`, `postgres://…` or `mysql://…`; a SQLite file in the data folder if absent.
    pub store: Option<String>,
    pub workers: Option<usize>,
    pub insecure: bool,
    pub log_format: telemetry::Format,
    pub parts: Parts,
}

/// Which services run in this process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Parts {
    All,
    /// The registry alone; it tells the data service at this address which names keep a history.
    Registry {
        data_service: Option<String>,
    },
    Data,
}

/// Why the process must end although nobody asked it to.
#[derive(Clone)]
struct Fate {
    reason: Arc<Mutex<Option<String>>>,
    trigger: StopTrigger,
}

impl Fate {
    fn seal(&self, reason: &str) {
        tracing::error!(%reason, "cannot go on");
        self.reason.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert_with(|| reason.to_owned());
        self.trigger.request();
    }
}

/// Serves until a signal or a fatal error ends it.
pub async fn serve(options: Options) -> anyhow::Result<()> {
    telemetry::init(options.log_format, None)?;
    let store = store_url(&options)?;
    let (trigger, stop) = stop::pair();
    let signals = Signals::listen(trigger.clone())?;
    let fate = Fate { reason: Arc::default(), trigger };
    let (tasks, readiness, metrics) = (Tasks::new(), Readiness::new(), Metrics::new());

    let (mut data, mut registry, mut routes) = (None, None, Vec::<Routes>::new());
    if options.parts != Parts::Data {
        let fate = fate.clone();
        let options = RegistryOptions {
            store: store.clone(),
            clock: Arc::new(SystemClock),
            on_fatal: Box::new(move |reason| fate.seal(reason)),
        };
        let started = Registry::start(options, &tasks, &readiness);
        let shown = started.clone();
        metrics.source(Box::new(move |text| shown.write_figures(text)));
        registry = Some(started);
    }
    if !matches!(options.parts, Parts::Registry { .. }) {
        let fate = fate.clone();
        let (service, running) = DataService::start(estimand_data_service::Options {
            store: store.clone(),
            clock: Arc::new(SystemClock),
            readiness: readiness.clone(),
            metrics: metrics.clone(),
            stop: stop.clone(),
            on_fatal: Box::new(move |reason| fate.seal(&reason)),
        })
        .context("cannot start the data service")?;
        routes.push(service.routes());
        data = Some(running);
    }
    routes.extend(registry.as_ref().map(Registry::routes));
    let Some(routes) = routes.into_iter().reduce(Routes::merge) else { bail!("nothing to serve") };

    let site = Site::new(routes, Arc::new(LoopbackPolicy), metrics, readiness);
    let mut server_options = ServerOptions::new(options.listen);
    (server_options.workers, server_options.insecure) = (options.workers, options.insecure);
    let server = Server::bind(&server_options, site)?;
    let address = format!("http://{}", server.address());
    if let (Some(registry), Some(client)) = (&registry, data_service_of(&options.parts, &address)?) {
        registry.set_data_service(client);
    }
    greet(&address, &options, &store);

    let served = server.run_until(stop, &tasks).await;
    if let Some(data) = data {
        tokio::task::spawn_blocking(move || data.finish()).await.context("the writer did not end")?;
    }
    drop(signals);
    served?;
    match fate.reason.lock().unwrap_or_else(PoisonError::into_inner).take() {
        Some(reason) => bail!("{reason}"),
        None => Ok(()),
    }
}

/// Whom the registry tells which names keep a history.
fn data_service_of(parts: &Parts, own_address: &str) -> anyhow::Result<Option<Client>> {
    let address = match parts {
        Parts::All => Some(own_address),
        Parts::Registry { data_service } => data_service.as_deref(),
        Parts::Data => None,
    };
    address.map(Client::new).transpose().context("the address of the data service")
}

fn store_url(options: &Options) -> anyhow::Result<StoreUrl> {
    let url = match &options.store {
        Some(url) => url.clone(),
        None => {
            let folder = &options.data_dir;
            std::fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
            let folder =
                folder.canonicalize().with_context(|| format!("cannot find {}", folder.display()))?;
            format!("sqlite://{}", folder.join("estimand.db").display())
        }
    };
    Ok(StoreUrl::parse(&url)?)
}

/// The first line is for programs: they read the address from it. The rest is for people.
fn greet(address: &str, options: &Options, store: &StoreUrl) {
    let mut text = format!("listening on {address}\n");
    if options.parts == Parts::All {
        text.push_str(&format!(
            "storing in {store}\n\n\
             Try, in another terminal:\n  \
             curl -X POST {address}/api/data -d '{{\"dataName\":\"cpu_usage\",\"nodeName\":\"node-1\",\"dataValue\":0.42}}'\n  \
             curl '{address}/api/data?dataName=cpu_usage'\n  \
             estimand --server {address} watch\n\n"
        ));
    }
    // A closed standard output keeps nobody from being served.
    let mut out = std::io::stdout().lock();
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}

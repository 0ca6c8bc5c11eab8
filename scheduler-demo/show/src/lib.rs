//! The show: four emulated nodes on one machine, and the paper's experiment on them with real work.
//!
//! Not part of the product: it starts the one binary as services and agents, registers what anybody could register, and
//! is a user of [`estimand_scheduler_demo`] like any other. It names nodes and estimators; the scheduler never does.
//! However it ends, nothing is left: all processes live on a pipe that it holds, and what else it makes is removed when
//! it ends, or by the next one if it was killed.

mod brake;
mod burn;
mod cluster;
mod facts;
mod folder;
mod hdfs;
mod host;
mod kept;
mod nodes;
mod say;
mod stock;
mod story;

use std::fs;
use std::io;
use std::os::unix::fs as unix;
use std::path::{Path, PathBuf};

use estimand_api::names::NameError;
use estimand_client as client;
use estimand_scheduler_demo::run::Run;
use estimand_scheduler_demo::{facts as known, plan, report, results, run};
use tokio::signal::unix::{SignalKind, signal};

use brake::Brakes;
use cluster::Cluster;
use facts::{Facts, Holding, Sources};
use folder::Folder;
use nodes::Node;
use say::Say;
use stock::Stock;
use story::{Story, Work};

pub use host::{HOST, serve};

/// What to show.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Act {
    /// The three estimates in turn.
    Figure8,
    /// A wrong estimate, and a node that becomes slower under way.
    Change,
    All,
}

/// What whoever starts it may choose.
#[derive(Debug, Clone)]
pub struct Options {
    /// The one binary.
    pub program: PathBuf,
    pub worker: Option<PathBuf>,
    /// A network; none: one is made.
    pub model: Option<PathBuf>,
    pub images: usize,
    /// A folder for everything that the run makes, which stays.
    pub keep: Option<PathBuf>,
    /// Where reports go.
    pub out: PathBuf,
    pub act: Act,
    /// Whether control groups may be used.
    pub groups: bool,
    /// Images in an HDFS, which this command runs.
    pub hdfs: Option<PathBuf>,
    /// Whether standard output is for a program.
    pub json: bool,
    /// How wide the terminal behind standard error is, if there is one.
    pub terminal: Option<usize>,
}

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("ended by {0}; everything is cleared away")]
    Ended(&'static str),
    #[error("{}: {cause}", path.display())]
    File { path: PathBuf, cause: io::Error },
    #[error(transparent)]
    Stock(#[from] stock::StockError),
    #[error(transparent)]
    Kept(#[from] kept::KeptError),
    #[error(transparent)]
    Client(#[from] client::Error),
    #[error(transparent)]
    Name(#[from] NameError),
    #[error(transparent)]
    Facts(#[from] known::Error),
    #[error(transparent)]
    Plan(#[from] plan::Error),
    #[error(transparent)]
    Run(#[from] run::Error),
    #[error(transparent)]
    Results(#[from] results::Error),
    #[error("{what}: waited for in vain; the last that was seen: {last}")]
    Never { what: String, last: String },
    #[error("a process that was started is not there any more")]
    Gone,
    #[error("had to be ended by force: {}", .0.join(", "))]
    Forced(Vec<String>),
    #[error("{} of {images} images have no result in {job}", missing)]
    Missing { job: String, images: usize, missing: usize },
}

impl Error {
    fn file(path: &Path, cause: io::Error) -> Error {
        Error::File { path: path.to_owned(), cause }
    }
}

/// What has to be cleared away, in this order.
#[derive(Default)]
struct Stage {
    cluster: Cluster,
    brakes: Option<Brakes>,
    folder: Option<Folder>,
}

impl Stage {
    async fn clear(mut self) -> Result<(), Error> {
        let forced = self.cluster.end().await;
        drop(self.brakes.take());
        drop(self.folder.take());
        if forced.is_empty() { Ok(()) } else { Err(Error::Forced(forced)) }
    }
}

/// Shows it. A signal ends it early; it clears away what it made all the same.
pub async fn show(options: Options) -> Result<(), Error> {
    let mut stage = Stage::default();
    let outcome = tokio::select! {
        outcome = Box::pin(play(&options, &mut stage)) => outcome,
        ended = signalled() => Err(ended),
    };
    let cleared = stage.clear().await;
    outcome.and(cleared)
}

async fn signalled() -> Error {
    let listen = |kind| signal(kind).map_err(|cause| Error::file(Path::new("signals"), cause));
    let all = [SignalKind::interrupt(), SignalKind::terminate(), SignalKind::hangup()];
    let [Ok(mut interrupt), Ok(mut terminate), Ok(mut hangup)] = all.map(listen) else {
        return Error::Ended("a lack of signals");
    };
    tokio::select! {
        _ = interrupt.recv() => Error::Ended("Ctrl-C"),
        _ = terminate.recv() => Error::Ended("SIGTERM"),
        _ = hangup.recv() => Error::Ended("the end of the terminal"),
    }
}

async fn play(options: &Options, stage: &mut Stage) -> Result<(), Error> {
    let mut say = Say::new(options.json, options.terminal);
    let worker = stock::worker(options.worker.as_deref(), &options.program)?;
    let stock = Stock::new(&worker)?;
    fs::create_dir_all(&options.out).map_err(|cause| Error::file(&options.out, cause))?;
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let nodes = nodes::on(cores);
    let folder = Folder::new(options.keep.as_deref());
    let at = options.keep.clone().unwrap_or_else(std::env::temp_dir);
    let folder = &*stage.folder.insert(folder.map_err(|cause| Error::file(&at, cause))?);
    let in_folder = |cause| Error::file(folder.path(), cause);

    let model = match &options.model {
        Some(model) => model.canonicalize().map_err(|cause| Error::file(model, cause))?,
        None => stock.model(|making| say.line(making)).await?,
    };
    let brakes = cluster::brakes(&nodes, folder, options.groups).map_err(in_folder)?;
    let brakes = stage.brakes.insert(brakes);
    say.line(&format!("Four nodes on {cores} cores, slowed by {brakes}."));

    let (server, client) = stage.cluster.start_services(&options.program, folder).await?;
    let (images, holding) = match &options.hdfs {
        None => {
            let pictures = stock.pictures(options.images, |making| say.line(making)).await?;
            let holding = share_out(&pictures, &nodes, options.images, folder).map_err(in_folder)?;
            (pictures.display().to_string(), holding)
        }
        Some(command) => {
            hdfs::start(command, &worker, options.images, &mut stage.cluster, folder, &say).await?
        }
    };
    let scripts = folder.sub("scripts").map_err(in_folder)?;
    for node in &nodes {
        let allowed = [scripts.as_path(), worker.parent().unwrap_or(&worker)];
        stage.cluster.start_node(&options.program, folder, node, brakes, &server, &allowed).await?;
    }
    say.line(&format!("The plane is at {server} as long as this runs."));

    let log = folder.sub("logs").map_err(in_folder)?.join("{node}.log").display().to_string();
    let out = folder.sub("results").map_err(in_folder)?;
    let facts = Facts::new(client.clone(), nodes.len());
    let sources = Sources { scripts: &scripts, holding, told_free: brakes.told_free(), log: &log };
    facts.register(&sources).await?;
    let throttle = brakes.throttle();
    let work = Work { client, worker, model, images, out, log, throttle };
    let (runs, of_figure) =
        Story { work: &work, facts: &facts, brakes, say: &mut say }.play(options.act).await?;
    tell(options, &say, &runs, of_figure)
}

/// Folders with the images that each node holds; they are links, so that it makes no difference who reads them.
fn share_out(pictures: &Path, nodes: &[Node], images: usize, folder: &Folder) -> io::Result<Holding> {
    let mut names: Vec<_> =
        fs::read_dir(pictures)?.map(|entry| Ok(entry?.file_name())).collect::<io::Result<_>>()?;
    names.sort();
    let mut names = names.into_iter();
    for (node, count) in nodes.iter().zip(nodes::holdings(nodes, images)) {
        let own = folder.sub(&format!("nodes/{}", node.name))?;
        for name in names.by_ref().take(count) {
            unix::symlink(pictures.join(&name), own.join(&name))?;
        }
    }
    Ok(Holding::Folders(folder.sub("nodes")?))
}

fn tell(options: &Options, say: &Say, runs: &[Run], of_figure: usize) -> Result<(), Error> {
    let json = report::to_json(runs).to_string();
    for (name, text) in [
        ("report.json", &json),
        ("report.html", &report::page(runs)),
        ("figure8.svg", &report::figure8(&runs[..of_figure.min(runs.len())])),
    ] {
        let path = options.out.join(name);
        fs::write(&path, text).map_err(|cause| Error::file(&path, cause))?;
    }
    say.line(&format!("\n{}", report::text(runs)));
    say.line(&format!("The report: {}", options.out.join("report.html").display()));
    say.report(&json);
    Ok(())
}

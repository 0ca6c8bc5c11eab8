//! The show: four emulated nodes on one machine, and the paper's experiment on them with real work.
//!
//! Not part of the product: it starts the one binary as services and agents, registers what anybody could register, and
//! is a user of [`estimand_scheduler_demo`] like any other. It names nodes and estimators; the scheduler never does.
//! However it ends, nothing is left: all processes live on a pipe that it holds, and everything else is removed when
//! it ends, or by the next one if it was killed.

mod brake;
mod cache;
mod child;
mod cluster;
mod folder;
mod hdfs;
mod host;
mod load;
mod nodes;
mod output;
mod plane;
mod programs;
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
use cache::Cache;
use cluster::Cluster;
use folder::Folder;
use nodes::Node;
use output::Output;
use plane::{Distribution, Plane, Sources};
use story::{Story, WorkSetup};

pub use brake::Groups;
pub use host::{HOST, serve};

/// The acts of the show.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Act {
    // The three estimates in turn.
    Figure8,
    // A wrong estimate, and a node that becomes slower under way.
    Change,
    All,
}

/// Options of the show.
#[derive(Debug, Clone)]
pub struct Options {
    /// The `estimand` binary; none: searched for, as is the worker.
    pub program: Option<PathBuf>,
    pub worker: Option<PathBuf>,
    /// A network; none: one is made.
    pub model: Option<PathBuf>,
    pub images: usize,
    /// A folder for everything that the run makes, which stays.
    pub keep: Option<PathBuf>,
    /// Where reports go.
    pub out: PathBuf,
    pub act: Act,
    /// True: control groups may be used.
    pub groups: bool,
    /// Images in an HDFS, which this command runs.
    pub hdfs: Option<PathBuf>,
    /// True: standard output is for a program.
    pub json: bool,
    /// How wide the terminal behind standard error is, if there is one.
    pub terminal: Option<usize>,
}

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("ended by {0}; everything is cleared away")]
    Interrupted(&'static str),
    #[error("{}: {cause}", path.display())]
    File { path: PathBuf, cause: io::Error },
    #[error(transparent)]
    Program(#[from] programs::ProgramError),
    #[error(transparent)]
    Cache(#[from] cache::CacheError),
    #[error(transparent)]
    ChildProcess(#[from] child::ChildError),
    #[error(transparent)]
    Client(#[from] client::Error),
    #[error(transparent)]
    Name(#[from] NameError),
    #[error(transparent)]
    Plane(#[from] known::Error),
    #[error(transparent)]
    Plan(#[from] plan::Error),
    #[error(transparent)]
    Run(#[from] run::Error),
    #[error(transparent)]
    Results(#[from] results::Error),
    #[error("{what} did not come in time; the last that was seen: {last}")]
    TimedOut { what: String, last: String },
    #[error("a process that was started is gone")]
    ProcessGone,
    #[error("some processes had to be killed: {}", .0.join(", "))]
    Killed(Vec<String>),
    #[error("{} of {images} images have no result in {job}", missing)]
    MissingResults { job: String, images: usize, missing: usize },
}

impl Error {
    fn file(path: &Path, cause: io::Error) -> Error {
        Error::File { path: path.to_owned(), cause }
    }
}

/// Everything that has to be cleared away, in this order.
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
        if forced.is_empty() { Ok(()) } else { Err(Error::Killed(forced)) }
    }
}

/// Runs the show. A signal ends it early; everything is cleared away all the same.
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
        return Error::Interrupted("a lack of signals");
    };
    tokio::select! {
        _ = interrupt.recv() => Error::Interrupted("Ctrl-C"),
        _ = terminate.recv() => Error::Interrupted("SIGTERM"),
        _ = hangup.recv() => Error::Interrupted("the end of the terminal"),
    }
}

async fn play(options: &Options, stage: &mut Stage) -> Result<(), Error> {
    let mut output = Output::new(options.json, options.terminal);
    let program = programs::estimand(options.program.as_deref())?;
    let worker = programs::worker(options.worker.as_deref(), &program)?;
    let cache = Cache::new(&worker)?;
    fs::create_dir_all(&options.out).map_err(|cause| Error::file(&options.out, cause))?;
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let nodes = nodes::on(cores);
    let folder = Folder::new(options.keep.as_deref());
    let at = options.keep.clone().unwrap_or_else(std::env::temp_dir);
    let folder = &*stage.folder.insert(folder.map_err(|cause| Error::file(&at, cause))?);
    let in_folder = |cause| Error::file(folder.path(), cause);

    let model = match &options.model {
        Some(model) => model.canonicalize().map_err(|cause| Error::file(model, cause))?,
        None => cache.model(|making| output.line(making)).await?,
    };
    let brakes = cluster::brakes(&nodes, folder, options.groups).map_err(in_folder)?;
    let brakes = stage.brakes.insert(brakes);
    output.line(&format!("Four nodes on {cores} cores, slowed by {brakes}."));

    let (server, client) = stage.cluster.start_services(&program, folder).await?;
    let (images, distribution) = match &options.hdfs {
        None => {
            let pictures = cache.pictures(options.images, |making| output.line(making)).await?;
            let distribution = share_out(&pictures, &nodes, options.images, folder).map_err(in_folder)?;
            (pictures.display().to_string(), distribution)
        }
        Some(command) => {
            hdfs::start(command, &worker, options.images, &mut stage.cluster, folder, &output).await?
        }
    };
    let scripts = folder.sub("scripts").map_err(in_folder)?;
    for node in &nodes {
        let allowed = [scripts.as_path(), worker.parent().unwrap_or(&worker)];
        stage.cluster.start_node(&program, folder, node, brakes, &server, &allowed).await?;
    }
    output.line(&format!("The plane is at {server} as long as this runs."));

    let log = folder.sub("logs").map_err(in_folder)?.join("{node}.log").display().to_string();
    let out = folder.sub("results").map_err(in_folder)?;
    let plane = Plane::new(client.clone(), nodes.len());
    let sources = Sources { scripts: &scripts, distribution, free_folder: brakes.free_folder(), log: &log };
    plane.register(&sources).await?;
    let throttle = brakes.throttle();
    let work = WorkSetup { client, worker, model, images, out, log, throttle };
    let (runs, of_figure) =
        Story { work: &work, plane: &plane, brakes, output: &mut output }.play(options.act).await?;
    tell(options, &output, &runs, of_figure)
}

/// Makes folders with links to the images that each node holds.
fn share_out(pictures: &Path, nodes: &[Node], images: usize, folder: &Folder) -> io::Result<Distribution> {
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
    Ok(Distribution::Folders(folder.sub("nodes")?))
}

fn tell(options: &Options, output: &Output, runs: &[Run], of_figure: usize) -> Result<(), Error> {
    let json = report::to_json(runs).to_string();
    for (name, text) in [
        ("report.json", &json),
        ("report.html", &report::page(runs)),
        ("figure8.svg", &report::figure8(&runs[..of_figure.min(runs.len())])),
    ] {
        let path = options.out.join(name);
        fs::write(&path, text).map_err(|cause| Error::file(&path, cause))?;
    }
    output.line(&format!("\n{}", report::text(runs)));
    let page = options.out.join("report.html");
    let page = page.canonicalize().unwrap_or(page);
    output.line(&format!("The report: {}", page.display()));
    output.report(&json);
    Ok(())
}

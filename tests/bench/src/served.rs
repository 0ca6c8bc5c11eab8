//! The processes under measurement: the service, filled with values, and the bare server beside it.
//!
//! Both are started by the same process control, with one worker, on the core of the thread that asks for
//! the first process. They die with this process.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use estimand_testkit::http::Http;
use estimand_testkit::process::Estimand;

use crate::contest::{Sample, Side};
use crate::cores::Cores;
use crate::keys::{BATCH_ROWS, Keys, WriteAll};
use crate::load::{Load, Requests};

/// Connections that batches come over.
pub const BATCH_CONNECTIONS: usize = 4;
/// Far more than filling takes.
const FILL_DEADLINE: Duration = Duration::from_secs(600);

/// The program that is measured lies beside this one.
pub fn program() -> anyhow::Result<PathBuf> {
    let own = std::env::current_exe().context("where this program is")?;
    let program = own.with_file_name("estimand");
    if !program.is_file() {
        let flag = if cfg!(debug_assertions) { "" } else { " --release" };
        bail!("{} is not there: build it first, with `cargo build{flag} -p estimand`", program.display());
    }
    Ok(program)
}

/// A running service.
pub struct BindingTarget {
    pub process: Estimand,
    pub keys: Keys,
    cores: Cores,
}

impl BindingTarget {
    /// Starts an empty one.
    pub fn start(
        cores: Cores,
        keys: Keys,
        data_dir: Option<&Path>,
        store: Option<&str>,
    ) -> anyhow::Result<Self> {
        let mut builder = Estimand::builder(program()?).args(["up", "--workers", "1"]);
        if let Some(folder) = data_dir {
            builder = builder.data_dir(folder);
        }
        if let Some(url) = store {
            builder = builder.store(url);
        }
        let process = builder.try_start().map_err(anyhow::Error::msg)?;
        Ok(BindingTarget { process, keys, cores })
    }

    /// Writes every value once, in batches; returns how many rows a second that were.
    pub fn fill(&self) -> anyhow::Result<f64> {
        let mut load = Load::connect(self.address()?, BATCH_CONNECTIONS)?;
        let mut requests = WriteAll(self.keys.all());
        let filled = self.cores.on_load_core(|| load.drive(&mut requests, FILL_DEADLINE))?;
        Ok(filled.times(BATCH_ROWS).per_second)
    }

    /// Starts it again and returns how long that took until it was ready.
    pub fn restart(&mut self) -> Duration {
        self.process.kill9();
        let began = Instant::now();
        self.process.restart_on_same_port();
        began.elapsed()
    }

    pub fn address(&self) -> anyhow::Result<SocketAddr> {
        address_of(&self.process)
    }

    /// The body of the answer to a GET.
    pub fn get(&self, path: &str) -> Vec<u8> {
        self.process.http().get(path).expect_status(200).body
    }

    /// One of its own figures that has no labels.
    pub fn figure(&self, name: &str) -> anyhow::Result<f64> {
        figure(&self.process.http(), name)
    }
}

/// One of a service's own figures that has no labels.
pub fn figure(http: &Http, name: &str) -> anyhow::Result<f64> {
    let text = String::from_utf8(http.get("/metrics").expect_status(200).body)?;
    let value = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    value.and_then(|value| value.parse().ok()).with_context(|| format!("/metrics has no {name}"))
}

/// The bare server: gives these bytes, and parses bodies before it does if asked to.
pub struct Bare {
    pub process: Estimand,
    _folder: tempfile::TempDir,
}

impl Bare {
    pub fn start(reply: &[u8], parse: bool) -> anyhow::Result<Self> {
        let folder = tempfile::tempdir()?;
        let file = folder.path().join("reply");
        std::fs::write(&file, reply)?;
        let own = std::env::current_exe().context("where this program is")?;
        let mut args = vec!["bare".into(), "--reply".into(), file.into_os_string()];
        if parse {
            args.push("--parse".into());
        }
        let process = Estimand::builder(own).args(args).try_start().map_err(anyhow::Error::msg)?;
        Ok(Bare { process, _folder: folder })
    }
}

/// Where it listens.
pub fn address_of(process: &Estimand) -> anyhow::Result<SocketAddr> {
    let address = process.base_url().trim_start_matches("http://");
    address.parse().with_context(|| format!("{address} is no address"))
}

/// A side that is loaded over HTTP from the load's core. It connects when it is first loaded: a connection
/// that says nothing for a while after it was opened is closed by the server.
pub fn side<'a>(
    cores: Cores,
    server: &'a Estimand,
    connections: usize,
    mut requests: impl Requests + 'a,
) -> Side<'a> {
    let mut load = None;
    Box::new(move |time| {
        let load = match &mut load {
            Some(load) => load,
            none => none.insert(Load::connect(address_of(server)?, connections)?),
        };
        let before = server.cpu_time();
        let sample = cores.on_load_core(|| load.drive(&mut requests, time))?;
        let cpu = server.cpu_time().saturating_sub(before).div_f64(sample.latencies.count().max(1) as f64);
        Ok(Sample { cpu: Some(cpu), ..sample })
    })
}

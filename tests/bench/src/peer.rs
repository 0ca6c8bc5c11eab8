//! Other people's programs that measure a node, as Debian ships them, each with a folder and a configuration of this
//! run.
//!
//! They run on the core of the thread that starts them, and end with the value that stands for them, or with this
//! process. Programs that the machine itself runs under their names are not touched.

use std::env;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use estimand_testkit::http::Http;

use crate::cores::Cores;

const PATIENCE: Duration = Duration::from_secs(30);
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// The folders of daemons, which may be missing in a user's path.
const SYSTEM: [&str; 2] = ["/usr/sbin", "/sbin"];

/// A program that runs until this is dropped.
pub struct Peer {
    child: Child,
    output: PathBuf,
}

/// The path of a program, if it is installed.
pub fn find(program: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    let folders = env::split_paths(&path).chain(SYSTEM.map(PathBuf::from));
    folders.map(|folder| folder.join(program)).find(|program| program.is_file())
}

impl Peer {
    /// Makes the folder, and keeps the program's output in it.
    pub fn start<A: AsRef<OsStr>>(
        program: &Path,
        args: impl IntoIterator<Item = A>,
        folder: &Path,
    ) -> anyhow::Result<Self> {
        fs::create_dir_all(folder)?;
        let output = folder.join("output");
        let (stdout, stderr) = (File::create(&output)?, File::options().append(true).open(&output)?);
        let child = Command::new("setpriv")
            .args(["--pdeathsig", "KILL", "--"])
            .arg(program)
            .args(args)
            .stdin(Stdio::null())
            .stdout(stdout)
            .stderr(stderr)
            .spawn()
            .with_context(|| format!("starting {} by setpriv", program.display()))?;
        Ok(Peer { child, output })
    }

    /// The same on another core than that of the calling thread.
    pub fn start_on<A: AsRef<OsStr>>(
        core: usize,
        program: &Path,
        args: impl IntoIterator<Item = A>,
        folder: &Path,
    ) -> anyhow::Result<Self> {
        let pinned = ["--cpu-list".into(), core.to_string().into(), program.as_os_str().to_owned()];
        let args = args.into_iter().map(|arg| arg.as_ref().to_owned());
        Peer::start(Path::new("taskset"), pinned.into_iter().chain(args), folder)
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Waits until something listens at this address; fails if the program ends before.
    pub fn until_it_listens(&mut self, address: SocketAddr) -> anyhow::Result<()> {
        self.until(&format!("it listens on {address}"), || TcpStream::connect(address).is_ok())
    }

    /// Waits until `done` is true; fails if the program ends before.
    pub fn until(&mut self, what: &str, mut done: impl FnMut() -> bool) -> anyhow::Result<()> {
        let began = Instant::now();
        while !done() {
            let ended = self.child.try_wait()?;
            if ended.is_some() || began.elapsed() > PATIENCE {
                let said = fs::read_to_string(&self.output).unwrap_or_default();
                bail!("waited in vain until {what}; ended: {ended:?}; it said:\n{said}");
            }
            thread::sleep(LOOK_EVERY);
        }
        Ok(())
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Reads a page again and again, from the load's core, until this is dropped.
pub struct Scraper {
    enough: Option<mpsc::Sender<()>>,
    thread: Option<thread::JoinHandle<anyhow::Result<()>>>,
}

impl Scraper {
    pub fn start(cores: Cores, base: String, path: &'static str, every: Duration) -> anyhow::Result<Self> {
        let (enough, more) = mpsc::channel::<()>();
        let run = move || {
            cores.on_load_core(move || {
                let http = Http::new(&base);
                while let Err(RecvTimeoutError::Timeout) = more.recv_timeout(every) {
                    let answer = http.try_request("GET", path, &[], b"")?;
                    anyhow::ensure!(answer.status == 200, "GET {path}: {answer}");
                }
                Ok(())
            })
        };
        let thread = thread::Builder::new().name("scraper".to_owned()).spawn(run)?;
        Ok(Scraper { enough: Some(enough), thread: Some(thread) })
    }

    /// True if each page so far came.
    pub fn is_well(&self) -> bool {
        self.thread.as_ref().is_some_and(|thread| !thread.is_finished())
    }
}

impl Drop for Scraper {
    fn drop(&mut self) {
        self.enough = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

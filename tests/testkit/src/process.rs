//! The binary under test, run as a user runs it: a real process with its own port and data folder.
//!
//! It is up when it has said where it listens and `GET /readyz` is 200, or, if it serves no HTTP, when it has
//! said anything. Its output is read all the time, so that it never blocks on a full pipe, and the last of it is in the
//! message of whatever fails. It is killed and reaped when dropped, and killed when the test process dies. What *it*
//! started is its own to end: tests check that, so nothing here does it.

mod command;
mod look;
mod output;

use std::ffi::OsString;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Resource, Rlimit, Signal, kill_process};
use tempfile::TempDir;

use crate::http::Http;
use crate::netns::{self, Host};
use crate::{processes, spawner, wait};
use output::Output;

pub use crate::ports::free_port;
pub use command::{binary, command, estimand};

const START_DEADLINE: Duration = Duration::from_secs(60);
const STOP_DEADLINE: Duration = Duration::from_secs(30);
/// For a process that failed to be gone.
const LAST_MOMENTS: Duration = Duration::from_secs(1);
const GREETING: &str = "listening on ";

/// How to start the binary. Kept, so that the same can be started again.
pub struct Builder {
    bin: PathBuf,
    args: Vec<OsString>,
    variables: Vec<(OsString, OsString)>,
    store: Option<String>,
    data_dir: Option<PathBuf>,
    namespace: Option<String>,
    listen_host: IpAddr,
    port: u16,
    serves_http: bool,
    is_given_a_token: bool,
}

/// A running `estimand`, or one that was running until the test stopped it.
pub struct Estimand {
    builder: Builder,
    data_dir: DataDir,
    child: Option<Child>,
    /// How it ended, if that was found by looking.
    ended: Option<ExitStatus>,
    /// Its first line of output.
    greeting: String,
    output: Output,
}

enum DataDir {
    Given(PathBuf),
    /// Removed with the [`Estimand`].
    Own(TempDir),
}

impl Builder {
    /// The arguments before `--listen` and `--data-dir`: the subcommand and its own options. `up` if none are given.
    pub fn args<S: Into<OsString>>(mut self, args: impl IntoIterator<Item = S>) -> Self {
        self.args.extend(args.into_iter().map(Into::into));
        self
    }

    pub fn env(mut self, name: impl Into<OsString>, value: impl Into<OsString>) -> Self {
        self.variables.push((name.into(), value.into()));
        self
    }

    /// The URL for `--store`; without it, the binary's own default.
    pub fn store(mut self, url: impl Into<String>) -> Self {
        self.store = Some(url.into());
        self
    }

    /// A data folder that stays; without it, one that goes with the [`Estimand`].
    pub fn data_dir(mut self, path: impl Into<PathBuf>) -> Self {
        self.data_dir = Some(path.into());
        self
    }

    /// A certain port instead of any. One from [`free_port`] is not taken by a client's socket while
    /// the process is down, so a test that restarts often does well to ask for it.
    pub fn port(mut self, port: u16) -> Self {
        self.port = port;
        self
    }

    /// Runs it on a host of a [`Network`](netns::Network), where it listens on the host's address.
    pub fn inside(mut self, host: &Host) -> Self {
        self.namespace = Some(host.namespace().to_owned());
        self.listen_host(host.address())
    }

    /// Another address to listen on than 127.0.0.1, which the test must be able to reach.
    pub fn listen_host(mut self, address: impl Into<IpAddr>) -> Self {
        self.listen_host = address.into();
        self
    }

    /// For what serves no HTTP, such as an agent: it is given no `--listen`, and its first line on stdout,
    /// whatever that says, means that it is ready.
    pub fn without_http(mut self) -> Self {
        self.serves_http = false;
        self
    }

    /// As a user starts it who gives no token: `up` makes one by itself.
    pub fn without_token(mut self) -> Self {
        self.is_given_a_token = false;
        self
    }

    /// Starts it and waits until it is ready. Panics with what it wrote if it isn't in time.
    #[track_caller]
    pub fn start(self) -> Estimand {
        match self.try_start() {
            Ok(estimand) => estimand,
            Err(failure) => panic!("{failure}"),
        }
    }

    /// Like [`Builder::start`], for a test in which it must not come up: the error says what it did.
    pub fn try_start(self) -> Result<Estimand, String> {
        let data_dir = match &self.data_dir {
            Some(given) => DataDir::Given(given.clone()),
            None => {
                let made = tempfile::Builder::new().prefix("estimand-data-").tempdir();
                DataDir::Own(made.map_err(|error| format!("a data folder: {error}"))?)
            }
        };
        let port = self.port;
        let (greeting, output) = (String::new(), Output::default());
        let mut estimand = Estimand { builder: self, data_dir, child: None, ended: None, greeting, output };
        estimand.launch(port)?;
        Ok(estimand)
    }
}

impl Estimand {
    /// `bin` is the path of the binary, for a test that takes another one than [`estimand`] does.
    pub fn builder(bin: impl AsRef<Path>) -> Builder {
        Builder {
            bin: bin.as_ref().to_owned(),
            args: Vec::new(),
            variables: Vec::new(),
            store: None,
            data_dir: None,
            namespace: None,
            listen_host: Ipv4Addr::LOCALHOST.into(),
            port: 0,
            serves_http: true,
            is_given_a_token: true,
        }
    }

    /// `http://127.0.0.1:PORT`, or `https://…`. Panics if it serves no HTTP.
    #[track_caller]
    pub fn base_url(&self) -> &str {
        match self.greeting.strip_prefix(GREETING) {
            Some(base) => base,
            None => panic!("{} serves no HTTP; it began with {:?}", self.name(), self.greeting),
        }
    }

    #[track_caller]
    pub fn http(&self) -> Http {
        let http = Http::new(self.base_url());
        if self.builder.is_given_a_token { http } else { http.showing(None) }
    }

    /// The line that it said first.
    pub fn greeting(&self) -> &str {
        &self.greeting
    }

    pub fn data_dir(&self) -> &Path {
        match &self.data_dir {
            DataDir::Given(path) => path,
            DataDir::Own(folder) => folder.path(),
        }
    }

    /// Panics if it is not running.
    #[track_caller]
    pub fn pid(&self) -> u32 {
        self.running().id()
    }

    /// The exit status, if it has ended on its own.
    pub fn exited(&mut self) -> Option<ExitStatus> {
        if let Some(child) = &mut self.child
            && let Some(status) = child.try_wait().expect("a child can be waited for")
        {
            // Reaped: from now on its process id may be another's.
            self.child = None;
            self.ended = Some(status);
        }
        self.ended
    }

    /// SIGKILL; gone and reaped when this returns. Nothing happens if it is not running.
    pub fn kill9(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            child.wait().expect("a child can be waited for");
        }
    }

    /// SIGTERM, and its exit status. Panics if it has not ended within 30 seconds.
    #[track_caller]
    pub fn terminate(&mut self) -> ExitStatus {
        self.signal(Signal::TERM);
        let mut child = self.child.take().expect("it was signalled just now");
        match wait::poll(STOP_DEADLINE, || child.try_wait().expect("a child can be waited for").ok_or(())) {
            Ok(status) => status,
            Err(()) => {
                let _ = child.kill();
                let _ = child.wait();
                panic!(
                    "SIGTERM did not end it within {STOP_DEADLINE:?}; its stderr:\n{}",
                    self.stderr_tail()
                );
            }
        }
    }

    /// Stops it where it is, as a machine without time for it would: connections stay open, unanswered.
    #[track_caller]
    pub fn pause(&self) {
        processes::pause(self.pid());
    }

    #[track_caller]
    pub fn resume(&self) {
        self.signal(Signal::CONT);
    }

    /// Starts it again with the same arguments, data folder and port (if it has one), and waits until it
    /// is ready. If it is still running, it is killed first.
    #[track_caller]
    pub fn restart_on_same_port(&mut self) {
        self.kill9();
        let port = if self.builder.serves_http {
            let port = self.base_url().rsplit(':').next().and_then(|port| port.parse().ok());
            port.expect("it has listened on a port")
        } else {
            0
        };
        // A client's socket may have taken the port meanwhile, and will leave it again.
        let started = wait::poll(START_DEADLINE, || match self.launch(port) {
            Err(failure) if failure.contains("in use") => Err(failure),
            done => Ok(done),
        });
        if let Err(failure) | Ok(Err(failure)) = started {
            panic!("{failure}");
        }
    }

    /// The last of what it wrote to stderr, 64 KiB at most.
    pub fn stderr_tail(&self) -> String {
        self.output.stderr(self.child.is_none())
    }

    /// The last of what it wrote to stdout after its first line, 64 KiB at most.
    pub fn stdout_tail(&self) -> String {
        self.output.stdout(self.child.is_none())
    }

    /// Its resident memory.
    #[track_caller]
    pub fn rss_bytes(&self) -> u64 {
        processes::rss_bytes(self.pid())
    }

    /// The processor time it has used so far, in user and kernel mode, without its children.
    #[track_caller]
    pub fn cpu_time(&self) -> Duration {
        processes::cpu_time(self.pid())
    }

    /// Bounds how many descriptors it may have open, from now on; what is open stays.
    #[track_caller]
    pub fn limit_open_files(&self, most: u64) {
        let pid = Pid::from_child(self.running());
        let limit =
            Rlimit { current: Some(most), maximum: rustix::process::getrlimit(Resource::Nofile).maximum };
        rustix::process::prlimit(Some(pid), Resource::Nofile, limit).expect("a child can be limited");
    }

    #[track_caller]
    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(self.running()), signal).expect("a child can be signalled");
    }

    #[track_caller]
    fn running(&self) -> &Child {
        match &self.child {
            Some(child) => child,
            None => panic!("it is not running ({:?}); its stderr:\n{}", self.ended, self.stderr_tail()),
        }
    }

    fn launch(&mut self, port: u16) -> Result<(), String> {
        let end = Instant::now() + START_DEADLINE;
        let mut child =
            spawner::spawn(self.command(port)).map_err(|error| format!("{}: {error}", self.name()))?;
        let (output, first_line) = Output::of(&mut child);
        self.output = output;
        self.child = Some(child);
        self.ended = None;
        let Ok(line) = first_line.recv_timeout(START_DEADLINE) else {
            return Err(self.give_up("wrote no line to stdout"));
        };
        self.greeting = line;
        if !self.builder.serves_http {
            return Ok(());
        }
        let base = self.greeting.strip_prefix(GREETING).unwrap_or_default().to_owned();
        let Some(look) = look::at(&base) else {
            let instead = format!("began with {:?} instead of {GREETING:?}http://…", self.greeting);
            return Err(self.give_up(&instead));
        };
        let ready = wait::poll(end.saturating_duration_since(Instant::now()), || {
            if self.exited().is_some() {
                return Ok(false);
            }
            look().map(|()| true)
        });
        match ready {
            Ok(true) => Ok(()),
            Ok(false) => Err(self.give_up("ended before it was ready")),
            Err(last) => Err(self.give_up(&format!("was not ready in {START_DEADLINE:?}; at last: {last}"))),
        }
    }

    fn command(&self, port: u16) -> Command {
        let mut command = match &self.builder.namespace {
            Some(namespace) => {
                let mut command = spawner::bound_command(netns::ENTER, None);
                command.args(netns::enter_args(namespace)).arg(&self.builder.bin);
                command
            }
            None => spawner::bound_command(&self.builder.bin, None),
        };
        if self.builder.args.is_empty() {
            command.arg("up");
        }
        command.args(&self.builder.args);
        // A test sees what it registers itself, unless it says otherwise.
        let first = self.builder.args.first().map(|arg| arg.to_string_lossy().into_owned());
        let registers = matches!(first.as_deref(), None | Some("up" | "registry"));
        if registers && !self.builder.args.iter().any(|arg| arg == "--defaults") {
            command.args(["--defaults", "none"]);
        }
        if self.builder.serves_http {
            command.args(["--listen", &SocketAddr::new(self.builder.listen_host, port).to_string()]);
        }
        command.arg("--data-dir").arg(self.data_dir());
        if let Some(url) = &self.builder.store {
            command.args(["--store", url]);
        }
        match self.builder.is_given_a_token {
            true => command.env(crate::TOKEN_VARIABLE, crate::TOKEN),
            false => command.env_remove(crate::TOKEN_VARIABLE),
        };
        command.envs(self.builder.variables.iter().map(|(name, value)| (name, value)));
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    fn name(&self) -> String {
        let args: Vec<_> = self.builder.args.iter().map(|arg| arg.to_string_lossy()).collect();
        format!("{} {}", self.builder.bin.display(), args.join(" "))
    }

    /// Ends a start that failed, and says all that is known about it.
    fn give_up(&mut self, what: &str) -> String {
        // A process closes its pipes shortly before it can be waited for.
        let status = wait::poll(LAST_MOMENTS, || self.exited().ok_or(()));
        self.kill9();
        let status = status.map_or_else(|()| "still running".to_owned(), |status| status.to_string());
        format!("{} {what} ({status}); its stderr:\n{}", self.name(), self.stderr_tail())
    }
}

impl Drop for Estimand {
    fn drop(&mut self) {
        self.kill9();
    }
}

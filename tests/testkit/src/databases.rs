//! Throw-away database servers: real PostgreSQL and MariaDB, on loopback, in a temporary folder.
//!
//! Each test process has at most one shared server of a kind, started when first asked for; a test that
//! kills its server starts its own. A shared server keeps its data in memory where there is room, so that a disk that
//! other tests keep busy delays none of its commits; a server of one test keeps them on the disk. Tests are kept apart by databases: [`Server::fresh_url`] makes one.
//! A server that is not installed, or doesn't come up, fails the test; it is never skipped.
//! All servers and all they wrote are gone soon after the test process is, even if that was killed.

mod engine;
mod family;
pub(crate) mod janitor;

use std::env;
use std::fs::{self, OpenOptions};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU16, AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use rustix::process::{Pid, kill_process};
use tempfile::TempDir;

use engine::Engine;
pub use engine::Kind;
pub(crate) use family::kill as kill_family;
use janitor::Home;

use crate::ports::free_port;
use crate::{spawner, wait};

const READY_DEADLINE: Duration = Duration::from_secs(60);
const STOP_DEADLINE: Duration = Duration::from_secs(60);
/// Somebody else may take the port that was just found free.
const MAX_PORTS_TRIED: usize = 3;
const LOG_TAIL_BYTES: usize = 4_096;
/// PostgreSQL keeps up to 1 GiB of its log.
const MEMORY_ROOM: u64 = 4 << 30;

/// The ids of a user of this machine and of its group.
pub(crate) fn account_named(name: &'static str) -> Option<(u32, u32)> {
    engine::account_named(name).map(|account| (account.user, account.group))
}

/// The PostgreSQL server that all tests of this process share. Don't kill it: see [`Server::start_own`].
pub fn postgres() -> &'static Server {
    static SHARED: OnceLock<Server> = OnceLock::new();
    SHARED.get_or_init(|| Server::start_within(&memory(), Kind::Postgres))
}

/// The MariaDB server that all tests of this process share. Don't kill it: see [`Server::start_own`].
pub fn mariadb() -> &'static Server {
    static SHARED: OnceLock<Server> = OnceLock::new();
    SHARED.get_or_init(|| Server::start_within(&memory(), Kind::Mariadb))
}

/// A folder in memory that has room for the data of a server; the temporary one where there is none.
fn memory() -> PathBuf {
    let memory = PathBuf::from("/dev/shm");
    let has_room =
        rustix::fs::statvfs(&memory).is_ok_and(|facts| facts.f_bavail * facts.f_frsize > MEMORY_ROOM);
    if has_room { memory } else { env::temp_dir() }
}

/// An SQLite database in a folder of its own, by its URL.
pub fn sqlite() -> (TempDir, String) {
    let folder = tempfile::tempdir().expect("a folder can be made");
    let url = format!("sqlite://{}", folder.path().join("store.db").display());
    (folder, url)
}

pub struct Server {
    engine: Engine,
    port: AtomicU16,
    databases: AtomicU32,
    state: Mutex<State>,
}

struct State {
    running: Option<Child>,
    home: Home,
}

impl Server {
    /// A server for one test, which may kill it. Dropping it kills it and removes its data.
    pub fn start_own(kind: Kind) -> Self {
        Self::start_within(&env::temp_dir(), kind)
    }

    fn start_within(folder: &Path, kind: Kind) -> Self {
        let engine = Engine::locate(kind);
        let prefix = match kind {
            Kind::Postgres => "estimand-pg-",
            Kind::Mariadb => "estimand-my-",
        };
        let state = State { running: None, home: Home::create_within(folder, prefix, engine.owner()) };
        state.initialise(&engine);
        let server = Self { engine, port: 0.into(), databases: 0.into(), state: Mutex::new(state) };
        server.start_somewhere();
        server
    }

    pub fn kind(&self) -> Kind {
        self.engine.kind
    }

    pub fn port(&self) -> u16 {
        self.port.load(Ordering::Relaxed)
    }

    /// Makes an empty database that no other caller gets, and returns its URL.
    pub fn fresh_url(&self) -> String {
        let name = format!("t{}", self.databases.fetch_add(1, Ordering::Relaxed) + 1);
        self.ask(self.engine.own_database(), &format!("CREATE DATABASE {name}"));
        self.engine.url(self.port(), &name)
    }

    /// Runs `sql` on the database of `url` with the engine's own client, and returns what it printed
    /// (a row a line, tabs between columns): a second opinion, independent of the drivers under test.
    pub fn query(&self, url: &str, sql: &str) -> String {
        let database = url.rsplit('/').next().unwrap_or_default();
        assert_eq!(url, self.engine.url(self.port(), database), "{url} is no database of this server");
        self.ask(database, sql)
    }

    /// Copies a database, which may be in use, as its operator would make and restore a backup. Returns the copy's URL.
    pub fn backup(&self, url: &str) -> String {
        let copy = self.fresh_url();
        let name = |url: &str| url.rsplit('/').next().unwrap_or_default().to_owned();
        let mut dump = self.engine.dump_command(self.port(), &name(url));
        let mut dump = dump.stdout(Stdio::piped()).spawn().expect("the program for backups starts");
        let printed = dump.stdout.take().expect("it is piped");
        let restored = self.engine.restore_command(self.port(), &name(&copy)).stdin(printed).status();
        assert!(dump.wait().expect("a child can be waited for").success(), "the backup of {url} failed");
        assert!(restored.expect("the client starts").success(), "{copy} was not restored");
        copy
    }

    /// The process id of the server (of PostgreSQL's postmaster). Panics while it is down.
    pub fn pid(&self) -> u32 {
        match &self.lock().running {
            Some(child) => child.id(),
            None => panic!("{:?} has no process id: it is down", self.kind()),
        }
    }

    /// SIGKILL to the server and all of its processes, which are gone when this returns.
    /// Nothing happens if it is down.
    pub fn kill9(&self) {
        self.lock().kill9();
    }

    /// Starts the server again after [`Server::kill9`] or [`Server::stop`]: same port, same data, and
    /// whatever recovery its engine has to do. Returns when it answers queries.
    pub fn start_again(&self) {
        let mut state = self.lock();
        assert!(state.running.is_none(), "{:?} is running: kill9() or stop() comes first", self.kind());
        if let Err(error) = state.start(&self.engine, self.port()) {
            panic!("{error}");
        }
    }

    /// Stops the server in an orderly way; its clients are disconnected.
    pub fn stop(&self) {
        let mut state = self.lock();
        let Some(child) = &mut state.running else { return };
        kill_process(Pid::from_child(child), self.engine.stop_signal()).expect("a child can be signalled");
        let what = format!("{:?} to stop", self.engine.kind);
        wait::until(STOP_DEADLINE, &what, || child.try_wait().expect("a child can be waited for"));
        state.running = None;
        state.home.server_is(None);
    }

    /// An orderly stop and a start on the same port.
    pub fn restart(&self) {
        self.stop();
        self.start_again();
    }

    /// The end of what the server wrote to its log.
    pub fn log_tail(&self) -> String {
        self.lock().log_tail()
    }

    fn start_somewhere(&self) {
        let mut state = self.lock();
        let mut failures = String::new();
        for _ in 0..MAX_PORTS_TRIED {
            let port = free_port();
            self.port.store(port, Ordering::Relaxed);
            match state.start(&self.engine, port) {
                Ok(()) => return,
                Err(error) => failures.push_str(&error),
            }
        }
        drop(state);
        panic!("{failures}");
    }

    fn ask(&self, database: &str, sql: &str) -> String {
        self.engine
            .ask(self.port(), database, sql)
            .unwrap_or_else(|error| panic!("{:?} on port {}: {error}", self.kind(), self.port()))
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // A panic of one test says nothing about the server that the others share.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.lock().kill9();
    }
}

impl State {
    fn initialise(&self, engine: &Engine) {
        let mut command = engine.init_command(self.home.path());
        self.write_to_log(&mut command);
        let status = spawner::spawn(command)
            .and_then(|mut child| child.wait())
            .unwrap_or_else(|error| panic!("the data folder of {:?}: {error}", engine.kind));
        assert!(status.success(), "the data folder of {:?}: {status}\n{}", engine.kind, self.log_tail());
    }

    fn start(&mut self, engine: &Engine, port: u16) -> Result<(), String> {
        let mut command = engine.server_command(self.home.path(), port);
        self.write_to_log(&mut command);
        let child = spawner::spawn(command).map_err(|error| format!("{:?}: {error}", engine.kind))?;
        self.home.server_is(Some(child.id()));
        let child = self.running.insert(child);
        let ours = self.home.path().join("data").display().to_string();
        let mut exited = None;
        let ready = wait::poll(READY_DEADLINE, || {
            exited = child.try_wait().expect("a child can be waited for");
            if exited.is_some() {
                return Ok(());
            }
            let answer = engine.ask(port, engine.own_database(), engine.which_data())?;
            if answer == ours { Ok(()) } else { Err(format!("port {port} is served from {answer}")) }
        });
        let failure = match (exited, ready) {
            (None, Ok(())) => return Ok(()),
            (Some(status), _) => format!("exited at once ({status})"),
            (None, Err(last)) => format!("gave no answer for {READY_DEADLINE:?}; at last: {last}"),
        };
        self.kill9();
        Err(format!("{:?} on port {port} {failure}; the end of its log:\n{}\n", engine.kind, self.log_tail()))
    }

    fn kill9(&mut self) {
        if let Some(mut child) = self.running.take() {
            family::kill(&mut child);
            self.home.server_is(None);
        }
    }

    fn write_to_log(&self, command: &mut Command) {
        let path = self.home.path().join("server.log");
        let log = OpenOptions::new()
            .create(true)
            .append(true)
            .open(&path)
            .and_then(|log| Ok((log.try_clone()?, log)))
            .unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        command.stdout(log.0).stderr(log.1);
    }

    fn log_tail(&self) -> String {
        let log = fs::read(self.home.path().join("server.log")).unwrap_or_default();
        String::from_utf8_lossy(&log[log.len().saturating_sub(LOG_TAIL_BYTES)..]).into_owned()
    }
}

//! A throw-away RabbitMQ: a real broker on 127.0.0.1, with folder, node name, cookie and name server of its own.
//!
//! As root it runs as the user `rabbitmq`, which Debian's package brings. The broker and its name server end with the test
//! process or when the [`RabbitMq`] is dropped, and all that they wrote is gone then.

use std::fs::{self, OpenOptions};
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustix::process::geteuid;

use crate::databases::janitor::Home;
use crate::databases::{account_named, kill_family};
use crate::ports::free_port;
use crate::{spawner, wait};

const READY_DEADLINE: Duration = Duration::from_secs(120);
const LOG_TAIL_BYTES: usize = 4_096;
/// Debian's; the wrapper in PATH would change the user by itself, and wait for the broker instead of becoming it.
const SERVER: &str = "/usr/lib/rabbitmq/bin/rabbitmq-server";
const USER: &str = "rabbitmq";

pub struct RabbitMq {
    port: u16,
    /// Of the name server, and of the broker's own conversation.
    names_port: u16,
    nodes_port: u16,
    state: Mutex<State>,
}

struct State {
    broker: Option<Child>,
    names: Child,
    home: Home,
}

impl RabbitMq {
    /// Starts a broker; returns when it speaks.
    #[track_caller]
    pub fn start() -> Self {
        assert!(
            Path::new(SERVER).is_file(),
            "this test needs RabbitMQ, and {SERVER} is not there: apt-get install rabbitmq-server"
        );
        let owner = account();
        let home = Home::create("estimand-mq-", owner);
        fs::write(home.path().join("enabled_plugins"), "[].\n").expect("a file in the broker's folder");
        let names_port = free_port();
        let mut command = bound("epmd", &home);
        command.args(["-port", &names_port.to_string(), "-address", "127.0.0.1"]);
        let names = log_to(&home, command);
        let state = Mutex::new(State { broker: None, names, home });
        let mq = RabbitMq { port: free_port(), names_port, nodes_port: free_port(), state };
        mq.start_again();
        mq
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    /// Its address for clients, with the user that a new broker has.
    pub fn url(&self) -> String {
        format!("amqp://guest:guest@127.0.0.1:{}/%2f", self.port)
    }

    /// SIGKILL; nothing of it is left when this returns, but its data.
    pub fn kill9(&self) {
        let mut state = self.lock();
        if let Some(mut child) = state.broker.take() {
            kill_family(&mut child);
            state.home.server_is(None);
        }
    }

    /// Starts the broker after [`RabbitMq::kill9`], on the same port and with its data.
    #[track_caller]
    pub fn start_again(&self) {
        let mut state = self.lock();
        assert!(state.broker.is_none(), "RabbitMQ is running: kill9() comes first");
        let path = state.home.path().to_owned();
        let mut command = bound(SERVER, &state.home);
        let text = |path: PathBuf| path.display().to_string();
        for (name, value) in [
            ("RABBITMQ_NODENAME", format!("estimand{}@localhost", self.port)),
            ("RABBITMQ_NODE_IP_ADDRESS", "127.0.0.1".to_owned()),
            ("RABBITMQ_NODE_PORT", self.port.to_string()),
            ("RABBITMQ_DIST_PORT", self.nodes_port.to_string()),
            ("RABBITMQ_MNESIA_BASE", text(path.join("data"))),
            ("RABBITMQ_LOG_BASE", text(path.join("log"))),
            ("RABBITMQ_LOGS", "-".to_owned()),
            ("RABBITMQ_CONFIG_FILE", text(path.join("rabbitmq"))),
            ("RABBITMQ_ADVANCED_CONFIG_FILE", text(path.join("advanced"))),
            ("RABBITMQ_CONF_ENV_FILE", text(path.join("rabbitmq-env.conf"))),
            ("RABBITMQ_ENABLED_PLUGINS_FILE", text(path.join("enabled_plugins"))),
            ("RABBITMQ_PID_FILE", text(path.join("broker.pid"))),
            // Without this the script waits for the broker instead of becoming it.
            ("RABBITMQ_ALLOW_INPUT", "1".to_owned()),
            ("RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS", "-noinput -start_epmd false +sbwt none".to_owned()),
            ("ERL_EPMD_PORT", self.names_port.to_string()),
            ("ERL_EPMD_ADDRESS", "127.0.0.1".to_owned()),
        ] {
            command.env(name, value);
        }
        let mut child = log_to(&state.home, command);
        state.home.server_is(Some(child.id()));
        let ready = wait::poll(READY_DEADLINE, || match child.try_wait() {
            Ok(None) => speaks(self.port).map_err(|error| error.to_string()),
            ended => Err(format!("it ended: {ended:?}")),
        });
        if let Err(last) = ready {
            panic!("RabbitMQ did not start: {last}; the end of its log:\n{}", log_tail(&state.home));
        }
        state.broker = Some(child);
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for RabbitMq {
    fn drop(&mut self) {
        self.kill9();
        let mut state = self.lock();
        let _ = state.names.kill();
        let _ = state.names.wait();
    }
}

fn account() -> Option<(u32, u32)> {
    geteuid().is_root().then(|| {
        let account = account_named(USER);
        account.unwrap_or_else(|| panic!("there is no user {USER}: apt-get install rabbitmq-server"))
    })
}

fn bound(program: &str, home: &Home) -> Command {
    let mut command = spawner::bound_command(program, geteuid().is_root().then_some(USER));
    // The cookie by which its parts know each other is in its home.
    command.current_dir(home.path()).env("HOME", home.path()).stdin(Stdio::null());
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("RABBITMQ_") {
            command.env_remove(&name);
        }
    }
    command
}

fn log_to(home: &Home, mut command: Command) -> Child {
    let path = home.path().join("server.log");
    let log = OpenOptions::new().create(true).append(true).open(&path);
    let log = log.unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    command.stdout(log.try_clone().expect("a file can be opened twice")).stderr(log);
    spawner::spawn(command).unwrap_or_else(|error| panic!("RabbitMQ: {error}"))
}

fn log_tail(home: &Home) -> String {
    let log = fs::read(home.path().join("server.log")).unwrap_or_default();
    String::from_utf8_lossy(&log[log.len().saturating_sub(LOG_TAIL_BYTES)..]).into_owned()
}

/// A broker that is up answers the greeting of its protocol with a first frame.
fn speaks(port: u16) -> std::io::Result<()> {
    let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port))?;
    stream.set_read_timeout(Some(Duration::from_secs(5)))?;
    stream.write_all(b"AMQP\x00\x00\x09\x01")?;
    stream.read_exact(&mut [0; 7])
}

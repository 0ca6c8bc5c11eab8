//! A throw-away Redis: a real server on 127.0.0.1 that writes each change to its disk before it answers.
//!
//! It ends with the test process or when the [`Redis`] is dropped, and all that it wrote is gone then.

use std::fs::OpenOptions;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::process::{Child, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use crate::databases::janitor::Home;
use crate::ports::free_port;
use crate::{spawner, wait};

const READY_DEADLINE: Duration = Duration::from_secs(60);

pub struct Redis {
    port: u16,
    state: Mutex<State>,
}

struct State {
    child: Option<Child>,
    home: Home,
}

impl Redis {
    #[track_caller]
    pub fn start() -> Self {
        let state = State { child: None, home: Home::create("estimand-redis-", None) };
        let redis = Redis { port: free_port(), state: Mutex::new(state) };
        redis.start_again();
        redis
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    /// Its address for clients.
    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}/0", self.port)
    }

    /// SIGKILL; nothing of it is left when this returns, but its data.
    pub fn kill9(&self) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(mut child) = state.child.take() {
            let _ = child.kill();
            let _ = child.wait();
            state.home.server_is(None);
        }
    }

    /// Starts the server after [`Redis::kill9`], on the same port and with its data.
    #[track_caller]
    pub fn start_again(&self) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        assert!(state.child.is_none(), "Redis is running: kill9() comes first");
        let log = state.home.path().join("server.log");
        let log = OpenOptions::new().create(true).append(true).open(&log).expect("a log for Redis");
        let mut command = spawner::bound_command("redis-server", None);
        command
            .args(["--port", &self.port.to_string(), "--bind", "127.0.0.1", "--save", ""])
            .args(["--appendonly", "yes", "--appendfsync", "always", "--dir"])
            .arg(state.home.path())
            .stdin(Stdio::null())
            .stdout(log.try_clone().expect("a file can be opened twice"))
            .stderr(log);
        let mut child = spawner::spawn(command)
            .unwrap_or_else(|error| panic!("Redis: {error}: apt-get install redis-server"));
        state.home.server_is(Some(child.id()));
        let ready = wait::poll(READY_DEADLINE, || match child.try_wait() {
            Ok(None) => speaks(self.port).map_err(|error| error.to_string()),
            ended => Err(format!("it ended: {ended:?}; is it there? apt-get install redis-server")),
        });
        if let Err(last) = ready {
            panic!("Redis did not start: {last}");
        }
        state.child = Some(child);
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        self.kill9();
    }
}

fn speaks(port: u16) -> std::io::Result<()> {
    let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port))?;
    stream.set_read_timeout(Some(Duration::from_secs(5)))?;
    stream.write_all(b"PING\r\n")?;
    let mut answer = [0; 5];
    stream.read_exact(&mut answer)?;
    match &answer {
        b"+PONG" => Ok(()),
        _ => Err(std::io::Error::other("it loads its data")),
    }
}

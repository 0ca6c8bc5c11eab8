//! A throw-away Eureka: a real server of Spring Cloud, on 127.0.0.1.
//!
//! `tests/testkit/eureka/serve` runs what `tests/testkit/eureka/prepare` made, and a test fails if that has not been called or
//! is older than what it was made of. The server ends with the test process or when the [`Eureka`] is dropped.

use std::fs::{self, OpenOptions};
use std::process::{Child, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde_json::Value;

use crate::databases::janitor::Home;
use crate::http::Http;
use crate::ports::free_port;
use crate::{spawner, wait};

/// From the start of the JVM: 6 seconds on a machine with nothing else to do.
const START_DEADLINE: Duration = Duration::from_secs(120);
const LOG_TAIL_BYTES: usize = 4_096;
/// Becomes the JVM.
const SERVE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/eureka/serve");

pub struct Eureka {
    port: u16,
    running: Mutex<Running>,
}

struct Running {
    child: Option<Child>,
    home: Home,
}

impl Eureka {
    #[track_caller]
    pub fn start() -> Self {
        let home = Home::create("estimand-eureka-", None);
        let eureka = Eureka { port: free_port(), running: Mutex::new(Running { child: None, home }) };
        eureka.start_again();
        eureka
    }

    /// Its address for those who register.
    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}/eureka", self.port)
    }

    /// The instances of an application, as the server lists them.
    #[track_caller]
    pub fn instances(&self, app: &str) -> Vec<Value> {
        let http = Http::new(&format!("http://127.0.0.1:{}", self.port));
        let answer =
            http.request("GET", &format!("/eureka/apps/{app}"), &[("Accept", "application/json")], b"");
        match answer.status {
            404 => Vec::new(),
            _ => answer.expect_status(200).json()["application"]["instance"]
                .as_array()
                .cloned()
                .unwrap_or_default(),
        }
    }

    /// SIGKILL; it has forgotten everything when it is started again.
    pub fn kill9(&self) {
        let mut running = self.lock();
        if let Some(mut child) = running.child.take() {
            let _ = child.kill();
            let _ = child.wait();
            running.home.server_is(None);
        }
    }

    /// Starts the server after [`Eureka::kill9`], on the same port.
    #[track_caller]
    pub fn start_again(&self) {
        let mut running = self.lock();
        assert!(running.child.is_none(), "Eureka is running: kill9() comes first");
        let path = running.home.path().join("server.log");
        let log = OpenOptions::new().create(true).append(true).open(&path);
        let log = log.unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let mut command = spawner::bound_command(SERVE, None);
        command.arg(running.home.path()).arg(self.port.to_string());
        command.stdin(Stdio::null()).stdout(log.try_clone().expect("a file can be opened twice")).stderr(log);
        let mut child = spawner::spawn(command).unwrap_or_else(|error| panic!("{SERVE}: {error}"));
        running.home.server_is(Some(child.id()));
        let http = Http::new(&format!("http://127.0.0.1:{}", self.port));
        let ready = wait::poll(START_DEADLINE, || {
            if let Ok(Some(status)) = child.try_wait() {
                return Ok(Err(format!("it ended with {status}")));
            }
            let answer = http.try_request("GET", "/eureka/apps", &[("Accept", "application/json")], b"");
            match answer {
                Ok(answer) if answer.status == 200 => Ok(Ok(())),
                Ok(answer) => Err(answer.to_string()),
                Err(error) => Err(error.to_string()),
            }
        });
        if let Err(last) = ready.and_then(|ready| ready) {
            let log = fs::read(&path).unwrap_or_default();
            let tail = String::from_utf8_lossy(&log[log.len().saturating_sub(LOG_TAIL_BYTES)..]).into_owned();
            panic!("Eureka did not start: {last}; the end of its log:\n{tail}");
        }
        running.child = Some(child);
    }

    fn lock(&self) -> MutexGuard<'_, Running> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Eureka {
    fn drop(&mut self) {
        self.kill9();
    }
}

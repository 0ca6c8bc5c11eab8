//! A throw-away HDFS: a real NameNode and real DataNodes in one JVM, on 127.0.0.1, in a temporary folder.
//!
//! The DataNodes are called `node-1`, `node-2` and so on; nothing resolves these names. `tests/testkit/hdfs/serve` runs what
//! `tests/testkit/hdfs/prepare` made, and a test fails if that has not been called or is older than what it was made of. The
//! JVM ends with the test process or when the [`Hdfs`] is dropped, and all that it wrote is gone then.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use serde_json::Value;

use crate::databases::janitor::Home;
use crate::spawner;

/// From the start of the JVM until all DataNodes are known: 2 seconds on a machine with nothing else to do.
const START_DEADLINE: Duration = Duration::from_secs(120);
const COMMAND_DEADLINE: Duration = Duration::from_secs(60);
const LOG_TAIL_BYTES: usize = 4_096;
/// Becomes the JVM.
const SERVE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/hdfs/serve");

pub struct Hdfs {
    rpc: String,
    http: String,
    running: Mutex<Running>,
}

struct Running {
    child: Child,
    commands: ChildStdin,
    answers: Receiver<String>,
    home: Home,
}

impl Hdfs {
    /// Starts a NameNode and so many DataNodes; returns when the NameNode knows all of them. Panics with the end of the
    /// JVM's log if they don't come up.
    #[track_caller]
    pub fn start(datanodes: usize) -> Self {
        let mut home = Home::create("estimand-hdfs-", None);
        let log = home.path().join("server.log");
        let log = File::create(&log).unwrap_or_else(|error| panic!("{}: {error}", log.display()));
        let mut command = spawner::bound_command(SERVE, None);
        command.arg(home.path()).arg(datanodes.to_string());
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(log);
        let mut child = spawner::spawn(command).unwrap_or_else(|error| panic!("{SERVE}: {error}"));
        home.server_is(Some(child.id()));
        let commands = child.stdin.take().expect("its stdin is a pipe");
        let answers = lines(child.stdout.take().expect("its stdout is a pipe"));
        let running = Running { child, commands, answers, home };
        let addresses = running.answer(START_DEADLINE, "start");
        let address = |name: &str| addresses[name].as_str().expect("it says its addresses").to_owned();
        let hdfs = Self { rpc: address("rpc"), http: address("http"), running: Mutex::new(running) };
        hdfs.write_conf();
        hdfs
    }

    /// `host:port` of the NameNode's own protocol.
    pub fn rpc(&self) -> &str {
        &self.rpc
    }

    /// `host:port` of the NameNode's HTTP: WebHDFS and JMX.
    pub fn http(&self) -> &str {
        &self.http
    }

    /// A folder with `core-site.xml` and `hdfs-site.xml` for clients.
    pub fn conf_dir(&self) -> PathBuf {
        self.lock().home.path().join("conf")
    }

    /// Stops `node-K`; returns when the NameNode counts it among the dead, which takes it some seconds. Its replicas
    /// are not made up for.
    #[track_caller]
    pub fn stop_datanode(&self, number: usize) {
        self.lock().run(&format!("stop {number}"));
    }

    /// Ends `node-K` as a crash does: its ports and connections are closed, and the NameNode still sends readers to it,
    /// until it has missed it for about 11 seconds.
    #[track_caller]
    pub fn fail_datanode(&self, number: usize) {
        self.lock().run(&format!("fail {number}"));
    }

    /// Starts `node-K` again, with the data that it had, on other ports.
    #[track_caller]
    pub fn start_datanode(&self, number: usize) {
        self.lock().run(&format!("start {number}"));
    }

    #[track_caller]
    pub fn safe_mode(&self, on: bool) {
        self.lock().run(if on { "safemode enter" } else { "safemode leave" });
    }

    /// SIGKILL to all of it; gone when this returns.
    pub fn kill9(&self) {
        self.lock().kill9();
    }

    /// The process id of the one JVM.
    pub fn pid(&self) -> u32 {
        self.lock().child.id()
    }

    fn write_conf(&self) {
        let conf = self.conf_dir();
        fs::create_dir(&conf).unwrap_or_else(|error| panic!("{}: {error}", conf.display()));
        let rpc = format!("hdfs://{}", self.rpc);
        let files = [
            ("core-site.xml", "fs.defaultFS", &rpc),
            ("hdfs-site.xml", "dfs.namenode.http-address", &self.http),
        ];
        for (file, name, value) in files {
            let property = format!("<property><name>{name}</name><value>{value}</value></property>");
            let text = format!("<?xml version=\"1.0\"?>\n<configuration>{property}</configuration>\n");
            fs::write(conf.join(file), text).unwrap_or_else(|error| panic!("{file}: {error}"));
        }
    }

    fn lock(&self) -> MutexGuard<'_, Running> {
        // A test that failed holds no half-done command: each is answered before the lock is given back.
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Hdfs {
    fn drop(&mut self) {
        self.kill9();
    }
}

impl Running {
    #[track_caller]
    fn run(&mut self, command: &str) {
        let sent = writeln!(self.commands, "{command}").and_then(|()| self.commands.flush());
        sent.unwrap_or_else(|error| panic!("HDFS can't {command}: {error}\n{}", self.log_tail()));
        self.answer(COMMAND_DEADLINE, command);
    }

    #[track_caller]
    fn answer(&self, deadline: Duration, command: &str) -> Value {
        let Ok(line) = self.answers.recv_timeout(deadline) else {
            let log = self.log_tail();
            panic!(
                "HDFS did not {command}: it ended or gave no answer for {deadline:?}; the end of its log:\n{log}"
            );
        };
        match serde_json::from_str::<Value>(&line) {
            Ok(answer) if answer.get("error").is_none() => answer,
            _ => panic!("HDFS did not {command}: {line}; the end of its log:\n{}", self.log_tail()),
        }
    }

    fn log_tail(&self) -> String {
        let log = fs::read(self.home.path().join("server.log")).unwrap_or_default();
        String::from_utf8_lossy(&log[log.len().saturating_sub(LOG_TAIL_BYTES)..]).into_owned()
    }

    fn kill9(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        self.home.server_is(None);
    }
}

/// Reads all the time; the thread ends with the pipe.
fn lines(pipe: ChildStdout) -> Receiver<String> {
    let (sender, lines) = channel();
    let read = move || {
        for line in BufReader::new(pipe).lines().map_while(Result::ok) {
            if sender.send(line).is_err() {
                return;
            }
        }
    };
    thread::Builder::new().name("hdfs".into()).spawn(read).expect("a thread can be started");
    lines
}

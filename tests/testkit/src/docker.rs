//! A throw-away Docker engine: a real `dockerd` with all that belongs to it, on a socket in a temporary folder.
//!
//! It lives in namespaces of its own for mounts and process ids, whose first process dies with the test process. So
//! whatever is killed, containers, their shims and mounts are gone with it, and the machine's own engine, if there is one,
//! is not touched. It has no network and no registry: the first image is made of the machine's static busybox.

use std::fs::{self, File, OpenOptions};
use std::io::{Read as _, Write as _};
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::databases::janitor::Home;
use crate::{processes, spawner, wait};

/// The first image.
pub const IMAGE: &str = "estimand/busybox:1";
const READY_DEADLINE: Duration = Duration::from_secs(120);
const STOP_DEADLINE: Duration = Duration::from_secs(60);
const ANSWER_DEADLINE: Duration = Duration::from_secs(60);
const LOG_TAIL_BYTES: usize = 4_096;
/// `{}` in base64: nobody has to log in to the registries of tests.
const NO_ACCOUNT: &str = "e30=";
/// The programs of the image.
const PROGRAMS: [&str; 14] =
    ["sh", "echo", "cat", "sleep", "kill", "ls", "touch", "rm", "env", "id", "yes", "seq", "tail", "true"];
/// Its runtime files are in memory, and gone with it. The shell also buries what has lost its parent: for the engine,
/// what is dead and not buried lives.
const FIRST_PROCESS: &str =
    "mount -t tmpfs none /run && ip link set lo up && while :; do sleep 1000 & wait; done";

/// The engine that all tests of this process share. Don't kill it: see [`Docker::start_own`].
pub fn shared() -> &'static Docker {
    static SHARED: OnceLock<Docker> = OnceLock::new();
    SHARED.get_or_init(|| Docker::start_own(false))
}

pub struct Docker {
    socket: PathBuf,
    life: Life,
    state: Mutex<State>,
}

/// How an engine differs from [`shared`]'s.
#[derive(Clone, Copy, Default)]
struct Life {
    live_restore: bool,
    own_network: bool,
}

struct State {
    /// Keeps the namespaces; their first process is its child.
    namespaces: Child,
    /// `nsenter`, whose child is the engine.
    running: Option<Child>,
    home: Home,
}

impl Docker {
    /// An engine for one test, which may kill it. With `live_restore` its containers outlive it.
    pub fn start_own(live_restore: bool) -> Self {
        Self::start(Life { live_restore, own_network: false })
    }

    /// An engine in a network of its own, which leads nowhere: there containers have networks, too.
    pub fn with_networks() -> Self {
        Self::start(Life { live_restore: false, own_network: true })
    }

    fn start(life: Life) -> Self {
        let mut home = Home::create("estimand-docker-", None);
        let mut command = spawner::bound_command("unshare", None);
        if life.own_network {
            command.arg("--net");
        }
        command.args(["--mount", "--pid", "--fork", "--kill-child=KILL", "--mount-proc", "--"]);
        command.args(["/bin/sh", "-c", FIRST_PROCESS]);
        let namespaces = spawner::spawn(command).unwrap_or_else(|error| panic!("unshare: {error}"));
        home.server_is(Some(namespaces.id()));
        let socket = home.path().join("docker.sock");
        let docker = Docker { socket, life, state: Mutex::new(State { namespaces, running: None, home }) };
        docker.start_again();
        docker.make_image();
        docker
    }

    pub fn socket(&self) -> &Path {
        &self.socket
    }

    /// A program in the engine's network, which reaches the addresses of containers.
    pub fn in_its_network(&self, program: &str) -> Command {
        let first = self.lock().first_process();
        let mut command = Command::new("nsenter");
        command.args(["--target", &first.to_string(), "--net", "--", program]);
        command
    }

    /// Starts it after [`Docker::kill9`] or [`Docker::stop`]; returns when it answers.
    pub fn start_again(&self) {
        let mut state = self.lock();
        assert!(state.running.is_none(), "it is running: kill9() or stop() comes first");
        let first = state.first_process();
        state.running = Some(state.start(first, &self.socket, self.life));
        let ready = || match self.request("GET", "/_ping", &[]) {
            Ok((200, _)) => Ok(()),
            Ok((status, _)) => Err(format!("status {status}")),
            Err(error) => Err(error.to_string()),
        };
        if let Err(error) = wait::poll(READY_DEADLINE, ready) {
            panic!("dockerd does not come up: {error}; the end of its log:\n{}", state.log_tail());
        }
    }

    /// SIGKILL to the engine alone; gone when this returns.
    pub fn kill9(&self) {
        self.end(Signal::KILL);
    }

    /// Stops it as an operator does. Without live-restore it ends its containers first.
    pub fn stop(&self) {
        self.end(Signal::TERM);
    }

    /// All containers, also those that do not run, by their names.
    #[track_caller]
    pub fn containers(&self) -> Vec<String> {
        let (status, body) = self.request("GET", "/containers/json?all=1", &[]).expect("the engine answers");
        assert_eq!(status, 200);
        let all: Value = serde_json::from_slice(&body).expect("JSON");
        let names = all.as_array().into_iter().flatten().map(|one| one["Names"][0].as_str());
        names.flatten().map(|name| name.trim_start_matches('/').to_owned()).collect()
    }

    /// Its own description of a container.
    #[track_caller]
    pub fn inspect(&self, name: &str) -> Value {
        let (status, body) =
            self.request("GET", &format!("/containers/{name}/json"), &[]).expect("the engine answers");
        assert_eq!(status, 200, "{}", String::from_utf8_lossy(&body));
        serde_json::from_slice(&body).expect("JSON")
    }

    /// Builds an image of a folder with a Dockerfile. Its id.
    #[track_caller]
    pub fn build(&self, folder: &Path, name: &str) -> String {
        let (status, said) =
            self.request("POST", &format!("/build?t={name}"), &tar(folder)).expect("the engine answers");
        let said = String::from_utf8_lossy(&said);
        assert!(status == 200 && !said.contains("\"error\""), "{status}: {said}");
        self.image(name)["Id"].as_str().expect("an id").to_owned()
    }

    /// Its own description of an image.
    #[track_caller]
    fn image(&self, name: &str) -> Value {
        let (status, body) =
            self.request("GET", &format!("/images/{name}/json"), &[]).expect("the engine answers");
        assert_eq!(status, 200, "{}", String::from_utf8_lossy(&body));
        serde_json::from_slice(&body).expect("JSON")
    }

    /// Sends an image to the registry that its name says. Its digest there.
    #[track_caller]
    pub fn push(&self, name: &str) -> String {
        let (status, said) =
            self.request("POST", &format!("/images/{name}/push"), &[]).expect("the engine answers");
        let said = String::from_utf8_lossy(&said);
        assert!(status == 200 && !said.contains("\"error\""), "{status}: {said}");
        let image = self.image(name);
        let digest = image["RepoDigests"][0].as_str().and_then(|name| name.split_once('@'));
        digest.unwrap_or_else(|| panic!("it has no digest: {image}")).1.to_owned()
    }

    /// Removes a name of an image, and the image if that was the last one.
    #[track_caller]
    pub fn remove_image(&self, name: &str) {
        let (status, said) =
            self.request("DELETE", &format!("/images/{name}"), &[]).expect("the engine answers");
        assert_eq!(status, 200, "{}", String::from_utf8_lossy(&said));
    }

    /// SIGKILL to a container, from somebody who has nothing to do with its task.
    #[track_caller]
    pub fn kill(&self, name: &str) {
        let (status, body) =
            self.request("POST", &format!("/containers/{name}/kill"), &[]).expect("the engine answers");
        assert_eq!(status, 204, "{}", String::from_utf8_lossy(&body));
    }

    fn make_image(&self) {
        let busybox =
            ["/bin/busybox", "/usr/bin/busybox"].map(Path::new).into_iter().find(|path| path.exists());
        let busybox = busybox.expect("there is no busybox: apt-get install busybox-static");
        let root = self.lock().home.path().join("image");
        let programs = root.join("bin");
        fs::create_dir_all(&programs).expect("a folder for the image");
        fs::create_dir_all(root.join("tmp")).expect("a folder for the image");
        fs::copy(busybox, programs.join("busybox")).expect("busybox can be copied");
        for program in PROGRAMS {
            symlink("busybox", programs.join(program)).expect("a link to busybox");
        }
        let (name, tag) = IMAGE.split_once(':').expect("it has a tag");
        let own = "CMD%20%5B%22echo%22%2C%22the%20image%27s%20own%22%5D";
        let target = format!("/images/create?fromSrc=-&repo={name}&tag={tag}&changes={own}");
        let (status, said) = self.request("POST", &target, &tar(&root)).expect("the engine answers");
        let said = String::from_utf8_lossy(&said);
        assert!(status == 200 && !said.contains("error"), "{status}: {said}");
    }

    /// The status and body of an answer.
    fn request(&self, method: &str, target: &str, body: &[u8]) -> std::io::Result<(u16, Vec<u8>)> {
        let mut stream = UnixStream::connect(&self.socket)?;
        stream.set_read_timeout(Some(ANSWER_DEADLINE))?;
        let length = body.len();
        let head = format!(
            "{method} {target} HTTP/1.0\r\nHost: docker\r\nContent-Type: application/x-tar\r\nX-Registry-Auth: {NO_ACCOUNT}\r\nContent-Length: {length}\r\n\r\n"
        );
        stream.write_all(head.as_bytes())?;
        stream.write_all(body)?;
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer)?;
        let text = String::from_utf8_lossy(&answer);
        let status = text.split(' ').nth(1).and_then(|status| status.parse().ok());
        let begins = answer.windows(4).position(|window| window == b"\r\n\r\n");
        match (status, begins) {
            (Some(status), Some(at)) => Ok((status, answer[at + 4..].to_vec())),
            _ => Err(std::io::Error::other(format!("it answered {text:?}"))),
        }
    }

    fn end(&self, signal: Signal) {
        let mut state = self.lock();
        let Some(mut running) = state.running.take() else { return };
        let engine = child_of(running.id());
        let pid = i32::try_from(engine).ok().and_then(Pid::from_raw).expect("a process id");
        kill_process(pid, signal).expect("the engine can be signalled");
        wait::until(STOP_DEADLINE, "dockerd to end", || {
            running.try_wait().expect("a child can be waited for")
        });
        drop(state);
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Docker {
    fn drop(&mut self) {
        let mut state = self.lock();
        let _ = state.namespaces.kill();
        let _ = state.namespaces.wait();
        if let Some(mut running) = state.running.take() {
            let _ = running.wait();
        }
        state.home.server_is(None);
    }
}

impl State {
    /// The first process of the namespaces, as this process sees it.
    fn first_process(&self) -> u32 {
        let first = child_of(self.namespaces.id());
        // By then it has its own files below /run.
        wait::until(READY_DEADLINE, "the namespaces of dockerd", || {
            let mut all = processes::descendants(first).into_iter();
            let is_ready = all.any(|one| one.cmdline.first().is_some_and(|program| program == "sleep"));
            is_ready.then_some(())
        });
        first
    }

    fn start(&self, first: u32, socket: &Path, life: Life) -> Child {
        let home = self.home.path();
        let log = home.join("dockerd.log");
        let log: File = OpenOptions::new().append(true).create(true).open(log).expect("a log for dockerd");
        let config = home.join("daemon.json");
        // The machine's own settings are not for this one.
        fs::write(&config, "{}").expect("settings for dockerd");
        let mut command = spawner::bound_command("nsenter", None);
        command.args(["--target", &first.to_string(), "--mount", "--pid", "--net", "--", "dockerd"]);
        for (option, file) in [("--data-root", "data"), ("--exec-root", "exec"), ("--pidfile", "docker.pid")]
        {
            command.arg(option).arg(home.join(file));
        }
        command.arg("--config-file").arg(config).arg("--host").arg(format!("unix://{}", socket.display()));
        command.args(["--iptables=false", "--ip-masq=false", "--ip-forward=false", "--bridge=none"]);
        command.args(["--storage-driver", "vfs", "--log-level", "warn"]);
        if life.live_restore {
            command.arg("--live-restore");
        }
        let path = std::env::var("PATH").unwrap_or_default();
        command.env("PATH", format!("{path}:/usr/sbin:/sbin:/usr/bin:/bin"));
        command.stdin(Stdio::null()).stdout(log.try_clone().expect("a second handle")).stderr(log);
        spawner::spawn(command)
            .unwrap_or_else(|error| panic!("dockerd does not start: {error}: apt-get install docker.io"))
    }

    fn log_tail(&self) -> String {
        let log = fs::read(self.home.path().join("dockerd.log")).unwrap_or_default();
        String::from_utf8_lossy(&log[log.len().saturating_sub(LOG_TAIL_BYTES)..]).into_owned()
    }
}

/// All that is in a folder.
fn tar(folder: &Path) -> Vec<u8> {
    let tar =
        Command::new("tar").arg("-C").arg(folder).args(["-b", "1", "-c", "."]).output().expect("tar starts");
    assert!(tar.status.success(), "{}", String::from_utf8_lossy(&tar.stderr));
    tar.stdout
}

fn child_of(parent: u32) -> u32 {
    wait::until(READY_DEADLINE, "a child", || {
        processes::descendants(parent).into_iter().find(|one| one.ppid == parent).map(|one| one.pid)
    })
}

//! Services at a socket in the file system, of their own making and of systemd's.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use estimand_testkit::wait::{self, PATIENCE};
use estimand_testkit::{TOKEN, process};
use tempfile::TempDir;

/// A user that nothing belongs to.
const NOBODY: u32 = 65534;
/// Listens, and becomes the program in its arguments as systemd starts one.
const ACTIVATE: &str = "import os, socket, sys
s = socket.socket(socket.AF_UNIX)
s.bind(sys.argv[1])
s.listen()
os.dup2(s.fileno(), 3)
os.set_inheritable(3, True)
os.environ.update(LISTEN_PID=str(os.getpid()), LISTEN_FDS=sys.argv[2])
os.execv(sys.argv[3], sys.argv[3:])";

/// Services at a socket, which end with this.
struct Services {
    process: Child,
    folder: TempDir,
}

impl Services {
    fn start(more: &[&str]) -> Self {
        Self::run(|path| {
            let mut command = process::command(process::binary());
            command.args(["up", "--listen", &format!("unix:{}", path.display())]).args(more);
            command
        })
    }

    fn run(command: impl FnOnce(&Path) -> Command) -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
        let mut command = command(&folder.path().join("socket"));
        command.args(["--node", "node-1", "--data-dir"]).arg(folder.path().join("data"));
        command.env("ESTIMAND_TOKEN", TOKEN);
        let mut process = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut said = String::new();
        BufReader::new(process.stdout.as_mut().unwrap()).read_line(&mut said).unwrap();
        let services = Services { process, folder };
        assert_eq!(said, format!("listening on {}\n", services.address()));
        wait::until_ok(PATIENCE, "it to be ready", || match services.ask("GET /readyz", "") {
            answer if answer.starts_with("HTTP/1.1 200") => Ok(()),
            answer => Err(answer),
        });
        services
    }

    fn socket(&self) -> PathBuf {
        self.folder.path().join("socket")
    }

    fn address(&self) -> String {
        format!("unix:{}", self.socket().display())
    }

    /// The answer to a request by hand.
    fn ask(&self, request: &str, headers: &str) -> String {
        let mut stream = UnixStream::connect(self.socket()).unwrap();
        let head = format!("{request} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{headers}\r\n");
        stream.write_all(head.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }

    fn cli(&self, args: &[&str]) -> Command {
        let mut command = process::command(process::binary());
        command.args(args).env("ESTIMAND_SERVER", self.address()).env_remove("ESTIMAND_TOKEN");
        command
    }
}

impl Drop for Services {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

#[track_caller]
fn printed(output: &Output) -> String {
    assert!(output.status.success(), "{output:?}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn a_socket_in_the_file_system_serves_as_a_loopback_address_does() {
    let mut services = Services::start(&[]);
    let mode = fs::metadata(services.socket()).unwrap().permissions().mode();
    assert_eq!(mode & 0o7777, 0o660);
    printed(&services.cli(&["put", "weight", "node-1", "1.10"]).output().unwrap());
    assert_eq!(printed(&services.cli(&["get", "weight", "--raw"]).output().unwrap()), "1.10\n");
    // Its own agent is connected there, too, and runs what ships in the box.
    wait::until_ok(PATIENCE, "a value of the agent", || {
        let value = services.cli(&["get", "cpu", "--node", "node-1", "--json"]).output().unwrap();
        let text = String::from_utf8_lossy(&value.stdout).into_owned();
        if text.contains("\"fresh\"") { Ok(()) } else { Err(format!("{value:?}")) }
    });
    // A request that needs a token on a loopback address needs one here, and so does one that came by way of a proxy.
    for (request, headers, status) in [
        ("GET /api/tokens", String::new(), "401"),
        ("GET /api/data/weight/node-1", "X-Forwarded-For: 10.1.2.3\r\n".to_owned(), "401"),
        ("GET /api/data/weight/node-1", String::new(), "200"),
        ("GET /api/tokens", format!("Authorization: Bearer {TOKEN}\r\n"), "200"),
    ] {
        let answer = services.ask(request, &headers);
        assert!(answer.starts_with(&format!("HTTP/1.1 {status}")), "{request} {headers}: {answer}");
    }
    // A second one does not take its place.
    let mut second = process::command(process::binary());
    second
        .args(["data", "--listen", &services.address(), "--data-dir"])
        .arg(services.folder.path().join("2"));
    let refused = second.env("ESTIMAND_TOKEN", TOKEN).output().unwrap();
    let said = String::from_utf8_lossy(&refused.stderr);
    assert!(!refused.status.success() && said.contains("in use by another process"), "{said}");
    let pid = rustix::process::Pid::from_child(&services.process);
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    assert!(services.process.wait().unwrap().success());
    assert!(!services.socket().exists(), "it takes its socket away");
}

#[test]
fn permissions_say_who_may_connect_and_owners_who_is_shown_a_token() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let services = Services::start(&["--socket-mode", "600"]);
    let as_nobody = |args: &[&str]| {
        let output = services.cli(args).uid(NOBODY).gid(NOBODY).output().unwrap();
        (output.status.success(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let (passed, said) = as_nobody(&["bindings"]);
    assert!(!passed && said.contains("unix:/") && said.contains("Permission denied"), "{said}");
    let (_, said) = as_nobody(&["doctor"]);
    assert!(!said.contains("panicked"), "{said}");
    fs::set_permissions(services.socket(), fs::Permissions::from_mode(0o666)).unwrap();
    let (passed, said) = as_nobody(&["bindings"]);
    assert!(passed, "{said}");
    // Whoever made the socket is shown no token, unless it is root or the one who asks.
    std::os::unix::fs::chown(services.socket(), Some(NOBODY), None).unwrap();
    let refused = services.cli(&["token", "list"]).env("ESTIMAND_TOKEN", TOKEN).output().unwrap();
    let said = String::from_utf8_lossy(&refused.stderr);
    assert!(!refused.status.success() && said.contains("neither root nor this one"), "{said}");
}

#[test]
fn a_socket_of_systemd_is_taken_and_left_where_it_is() {
    let activated = |count: &str, path: &Path| {
        let mut command = process::command("python3");
        command.args(["-c", ACTIVATE]).arg(path).arg(count).arg(process::binary()).args(["up", "--no-agent"]);
        command
    };
    let services = Services::run(|path| {
        let mut command = process::command("python3");
        command.args(["-c", ACTIVATE]).arg(path).arg("1").arg(process::binary()).arg("up");
        command
    });
    printed(&services.cli(&["put", "weight", "node-1", "2"]).output().unwrap());
    assert_eq!(printed(&services.cli(&["get", "weight", "--raw"]).output().unwrap()), "2\n");
    let socket = services.socket();
    let mut services = services;
    let pid = rustix::process::Pid::from_child(&services.process);
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    assert!(services.process.wait().unwrap().success());
    assert!(socket.exists(), "it is systemd's");

    let folder = tempfile::tempdir().unwrap();
    let two = activated("2", &folder.path().join("s")).arg("--data-dir").arg(folder.path()).output().unwrap();
    let said = String::from_utf8_lossy(&two.stderr);
    assert!(!two.status.success() && said.contains("hands on 2 sockets"), "{said}");
}

#[test]
fn a_socket_that_is_announced_and_not_there_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let script = "export LISTEN_PID=$$ LISTEN_FDS=1; exec 3>&-; exec \"$@\"";
    let mut command = process::command("/bin/sh");
    command.args(["-c", script, "sh"]).arg(process::binary()).args(["up", "--no-agent", "--data-dir"]);
    let refused = command.arg(folder.path()).output().unwrap();
    let said = String::from_utf8_lossy(&refused.stderr);
    assert_eq!(refused.status.code(), Some(1), "{refused:?}");
    // The service may have opened something of its own in its place by then.
    assert!(said.contains("the socket that systemd hands on cannot be used"), "{said}");
}

#[test]
fn an_address_that_is_none_is_explained() {
    for (args, part) in [
        (&["up", "--listen", "unix:run/x"][..], "unix:/run/estimand.sock"),
        (&["up", "--listen", "nowhere"], "unix:/run/estimand.sock"),
        (&["up", "--socket-mode", "rw"], "octal digits such as 600"),
        (&["--server", "unix:x", "nodes"], "unix:/run/estimand.sock"),
    ] {
        let refused = process::command(process::binary()).args(args).output().unwrap();
        let said = String::from_utf8_lossy(&refused.stderr);
        assert!(!refused.status.success() && said.contains(part), "{args:?}: {said}");
    }
}

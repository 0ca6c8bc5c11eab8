//! A user's shell, in a home folder that is new or has what earlier pages left there, in which the commands of a page are
//! typed.
//!
//! It stands in a folder that looks like the repository after a build. What is other than on a reader's machine: the port 7070
//! and its like are ports that are free here, 10.0.0.x are addresses of this machine, the PostgreSQL is one of the tests', and `cargo run --release --` is the
//! binary under test. When the shell ends, it ends whatever goes on in the background.

use std::cell::{Cell, OnceCell};
use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use estimand_testkit::process::{self, free_port};
use estimand_testkit::{databases, processes, wait};
use tempfile::TempDir;

use crate::lines;
use crate::page::Command;

/// Far longer than anything in the documents takes on a machine that also compiles.
const SOON: Duration = wait::PATIENCE;
/// Enough for the programs in the background to end.
const END: Duration = Duration::from_secs(20);
/// Between two looks at the same.
const PAUSE: Duration = Duration::from_millis(200);
const MARK: &str = "estimand-documents-done";
/// Ends what goes on in the background, and waits for it.
const FAREWELL: &str = "trap 'kill $(jobs -p) 2>/dev/null; wait' EXIT\n";
const EXIT_NOT_READY: i32 = 6;
/// The words of `register` for a first run that was not waited for any longer.
const LATE: &str = "nothing within 10 s";
/// Listens at port 7070 unless told otherwise.
const UP: &str = "estimand up";
/// A database as pages name it.
const STORE: &str = "postgres://estimand:secret@10.0.0.4/estimand";
/// A developer's own settings, of which a new user has none.
const SETTINGS: [&str; 9] = [
    "XDG_DATA_HOME",
    "ESTIMAND_TOKEN",
    "ESTIMAND_STORE",
    "ESTIMAND_NODE",
    "ESTIMAND_JOIN",
    "ESTIMAND_AUTHORITY",
    "ESTIMAND_CERTIFICATE",
    "ESTIMAND_LOG",
    "BASH_ENV",
];
/// Commands that only read; they may be typed again until they show what is expected.
const READING: [&str; 18] = [
    "audit",
    "bindings",
    "changes",
    "collect",
    "compare",
    "get",
    "history",
    "instances",
    "list",
    "logs",
    "nodes",
    "price",
    "partition",
    "reservations",
    "run",
    "show",
    "token",
    "watch",
];
/// Commands of these that change something.
const CHANGING: [&str; 8] = ["cordon", "uncordon", "remove", "create", "revoke", "change", "bid", "cancel"];

/// A user's home folder, and the folder that looks like the repository.
pub struct Home {
    folder: TempDir,
    /// The folder of the binary under test.
    programs: PathBuf,
    ports: BTreeMap<u16, u16>,
    /// A new database, once a page names one.
    store: OnceCell<String>,
    /// How many commands were started in the background.
    jobs: Cell<usize>,
}

pub struct Shell<'h> {
    home: &'h Home,
    child: Child,
    stdin: Option<ChildStdin>,
    codes: Receiver<i32>,
}

impl Home {
    pub fn new(root: &Path, bin: &Path) -> Home {
        let folder = tempfile::Builder::new().prefix("estimand-documents-").tempdir().unwrap();
        let path = folder.path();
        let (home, work) = (path.join("home"), path.join("estimand"));
        fs::create_dir_all(work.join("target/release")).unwrap();
        fs::create_dir_all(&home).unwrap();
        symlink(bin, work.join("target/release/estimand")).unwrap();
        for part in ["clients", "collectors", "docs", "processors", "scheduler-demo"] {
            symlink(root.join(part), work.join(part)).unwrap();
        }
        // Its output is read here and not on a terminal, where it would show how far it is.
        fs::write(home.join(".curlrc"), "silent\nshow-error\nnoproxy = \"*\"\n").unwrap();
        let ports = (7070..7080).map(|port| (port, free_port())).collect();
        let programs = bin.parent().unwrap().to_owned();
        Home { folder, programs, ports, store: OnceCell::new(), jobs: Cell::new(0) }
    }
}

impl<'h> Shell<'h> {
    /// `before` was typed there already.
    pub fn start(home: &'h Home, before: &str) -> Shell<'h> {
        let path = home.folder.path();
        let work = path.join("estimand");
        let search = format!("{}:{}", home.programs.display(), std::env::var("PATH").unwrap());
        let mut command = process::command("bash");
        command.args(["--noprofile", "--norc"]).current_dir(work);
        command.env("PATH", search).env("HOME", path.join("home"));
        for setting in SETTINGS {
            command.env_remove(setting);
        }
        command.env("ESTIMAND_SERVER", format!("http://127.0.0.1:{}", home.ports[&7070]));
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::inherit());
        let mut child = command.spawn().unwrap();
        let (sender, codes) = channel();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        std::thread::spawn(move || {
            for line in stdout.lines().map_while(Result::ok) {
                let code = line.strip_prefix(MARK).and_then(|code| code.trim().parse().ok());
                if code.is_some_and(|code| sender.send(code).is_err()) {
                    break;
                }
            }
        });
        let mut stdin = child.stdin.take().unwrap();
        stdin.write_all([FAREWELL, before].concat().as_bytes()).unwrap();
        Shell { home, child, stdin: Some(stdin), codes }
    }

    /// Types a command; an error shows how what it printed differs.
    pub fn check(&mut self, command: &Command) -> Result<(), String> {
        let (text, expected) = (self.here(&command.text), command.output.iter().map(|line| self.here(line)));
        let expected: Vec<String> = expected.collect();
        let end = Instant::now() + SOON;
        if let Some(program) = background(&text) {
            return self.check_background(program, &expected);
        }
        loop {
            let (printed, code) = self.type_in(&text)?;
            let Some(difference) = lines::difference(&expected, &printed) else { return Ok(()) };
            // On a busy machine the first run may be late; the command says so, and the page is right all the same.
            if printed.iter().any(|line| line.contains(LATE)) {
                let first = |lines: &[String]| lines.iter().take(1).cloned().collect::<Vec<_>>();
                return lines::difference(&first(&expected), &first(&printed)).map_or(Ok(()), Err);
            }
            let again = only_reads(&text) || code == EXIT_NOT_READY;
            if !again || Instant::now() > end {
                return Err(format!(
                    "$ {text}\n{difference}(`-` is expected, `+` was printed; it ended with {code})"
                ));
            }
            std::thread::sleep(PAUSE);
        }
    }

    /// Starts a program that goes on; what it prints first is compared. A service is waited for until it is ready.
    fn check_background(&mut self, program: &str, expected: &[String]) -> Result<(), String> {
        let job = self.home.jobs.get() + 1;
        self.home.jobs.set(job);
        let file = self.home.folder.path().join(format!("job-{job}"));
        let log = file.with_extension("log");
        self.send(&format!("{program} >{} 2>{} </dev/null &\n", file.display(), log.display()))?;
        let printed = wait::poll(SOON, || {
            let printed = read_lines(&file);
            lines::difference(expected, &printed).map_or(Ok(printed), Err)
        });
        let printed = printed.map_err(|difference| {
            let log = fs::read_to_string(&log).unwrap_or_default();
            format!(
                "$ {program}&\n{difference}(`-` is expected, `+` was printed), and on standard error:\n{log}"
            )
        })?;
        let Some(url) = printed.first().and_then(|line| line.strip_prefix("listening on ")) else {
            return Ok(());
        };
        let ready = format!("curl --insecure --fail --output /dev/null {url}/readyz");
        let is_ready = wait::poll(SOON, || match self.type_in(&ready) {
            Ok((_, 0)) => Ok(()),
            Ok((printed, _)) => Err(printed.join("\n")),
            Err(problem) => Err(problem),
        });
        is_ready.map_err(|last| {
            let log = fs::read_to_string(&log).unwrap_or_default();
            format!("$ {program}&\nis not ready: {last}\n{log}")
        })?;
        // The service of tasks hears of the node of `up` a moment later; nobody types so fast.
        // It may ask for a token, which the command line finds.
        let knows_it = format!(
            "{{ curl --insecure --fail --silent {url}/api/capacity || estimand --server {url} capacity --json; }} \
             | grep --quiet '\"node\"'"
        );
        if program.split_whitespace().any(|word| word == "up") && !program.contains("--no-agent") {
            let known = wait::poll(SOON, || match self.type_in(&knows_it) {
                Ok((_, 0)) => Ok(()),
                other => Err(format!("{other:?}")),
            });
            known.map_err(|last| format!("$ {program}&\nthe service of tasks knows no node: {last}"))?;
        }
        Ok(())
    }

    /// Runs it in the shell itself, so that it may change folders and variables.
    fn type_in(&mut self, text: &str) -> Result<(Vec<String>, i32), String> {
        let file = self.home.folder.path().join("output");
        let line = format!("{{ {text}\n}} >{} 2>&1 </dev/null\n", file.display());
        let code = self.send(&line)?;
        Ok((read_lines(&file), code))
    }

    fn send(&mut self, line: &str) -> Result<i32, String> {
        let stdin = self.stdin.as_mut().unwrap();
        let typed =
            stdin.write_all(format!("{line}echo {MARK} $?\n").as_bytes()).and_then(|()| stdin.flush());
        typed.map_err(|error| format!("{line}cannot be typed: {error}"))?;
        self.codes.recv_timeout(SOON).map_err(|error| match error {
            RecvTimeoutError::Timeout => format!("{line}does not end"),
            RecvTimeoutError::Disconnected => format!("{line}ended the shell"),
        })
    }

    /// A text with what is other here than on a reader's machine.
    fn here(&self, text: &str) -> String {
        let mut text = text.replace("cargo run --release -- ", "estimand ");
        if text.contains(STORE) {
            text = text.replace(STORE, self.home.store.get_or_init(|| databases::postgres().fresh_url()));
        }
        for (port, free) in &self.home.ports {
            text = text.replace(&format!(":{port}"), &format!(":{free}"));
        }
        text = text.replace("10.0.0.", "127.0.0.");
        if text.starts_with(UP) && !text.contains("--listen") {
            text.insert_str(UP.len(), &format!(" --listen 127.0.0.1:{}", self.home.ports[&7070]));
        }
        text
    }
}

impl Drop for Shell<'_> {
    fn drop(&mut self) {
        drop(self.stdin.take());
        let ended = wait::poll(END, || self.child.try_wait().ok().flatten().ok_or(()));
        if ended.is_err() {
            for left in processes::descendants(self.child.id()) {
                processes::kill9(left.pid);
            }
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

fn only_reads(text: &str) -> bool {
    let words: Vec<&str> = text.split_whitespace().collect();
    match words.as_slice() {
        ["curl", options @ ..] => {
            !options.iter().any(|word| word.starts_with("-X") || word.starts_with("-d"))
        }
        ["estimand", command, options @ ..] => {
            READING.contains(command) && !options.iter().any(|word| CHANGING.contains(word))
        }
        _ => false,
    }
}

fn read_lines(file: &PathBuf) -> Vec<String> {
    let bytes = fs::read(file).unwrap_or_default();
    String::from_utf8_lossy(&bytes).lines().map(str::to_owned).collect()
}

/// The program of a command that ends with `&`, behind which only a comment may stand.
fn background(text: &str) -> Option<&str> {
    let typed = text.split(" #").next()?;
    typed.trim_end().strip_suffix('&')
}

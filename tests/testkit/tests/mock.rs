//! Each word of the mock really does what the help says of it: whoever stands up to the mock has stood up to that.
#![allow(clippy::unwrap_used)]

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, ChildStdout, Command, Output, Stdio};
use std::time::{Duration, Instant};

use estimand_testkit::wait::{self, PATIENCE};
use estimand_testkit::{mock, processes};
use tempfile::TempDir;

/// Runs of the mock under one mark; whatever they leave is killed in the end.
struct Runs {
    mark: String,
    folder: TempDir,
}

impl Runs {
    fn new() -> Self {
        Self { mark: processes::unique_mark("mock-test"), folder: tempfile::tempdir().unwrap() }
    }

    fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(mock::path());
        command.arg(format!("mark:{}", self.mark)).args(words).stdin(Stdio::null());
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    fn output(&self, words: &[&str]) -> Output {
        self.command(words).output().unwrap()
    }

    fn spawn(&self, words: &[&str]) -> (Child, BufReader<ChildStdout>) {
        let mut child = self.command(words).spawn().unwrap();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        (child, stdout)
    }

    fn left(&self) -> Vec<processes::Process> {
        processes::with_argument(&self.mark)
    }

    fn path(&self, name: &str) -> String {
        self.folder.path().join(name).display().to_string()
    }
}

impl Drop for Runs {
    fn drop(&mut self) {
        processes::kill9_all_with(&self.mark);
    }
}

/// The output of words that do nothing else and end with 0.
#[track_caller]
fn printed(words: &[&str]) -> String {
    let output = Runs::new().output(words);
    assert!(output.status.success(), "{words:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

fn line(from: &mut impl BufRead) -> String {
    let mut line = String::new();
    from.read_line(&mut line).unwrap();
    line.trim_end().to_owned()
}

/// The fourth and following fields of `/proc/PID/stat` begin with the process group and the session.
fn session(pid: u32) -> u32 {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    stat.rsplit_once(") ").unwrap().1.split_whitespace().nth(3).unwrap().parse().unwrap()
}

#[test]
fn says_what_it_is_told() {
    assert_eq!(printed(&["print:42", "print:a:b"]), "42\na:b\n");
    let output = Runs::new().output(&["stderr:oops", "print:fine", "exit:3", "print:never"]);
    assert_eq!((output.stdout.as_slice(), output.stderr.as_slice()), (&b"fine\n"[..], &b"oops\n"[..]));
    assert_eq!(output.status.code(), Some(3));
}

#[test]
fn says_what_it_was_given() {
    let runs = Runs::new();
    let args = runs.output(&["args", "--", "--any", "thing"]).stdout;
    let args: Vec<String> = serde_json::from_slice(&args).unwrap();
    assert_eq!(args[1..], ["args", "--", "--any", "thing"]);
    let variables = |words| runs.command(words).env_clear().env("A", "1").env("B", "").output().unwrap();
    assert_eq!(variables(&["env"]).stdout, b"{\"A\":\"1\",\"B\":\"\"}\n");
    assert_eq!(variables(&["env:A"]).stdout, b"1\n");
    assert_eq!(variables(&["env:C"]).status.code(), Some(74));
    let cwd = runs.command(&["cwd"]).current_dir(runs.folder.path()).output().unwrap();
    assert_eq!(cwd.stdout, format!("{}\n", runs.folder.path().display()).as_bytes());
    assert_eq!(printed(&["stdin"]), "\n");
    let (mut child, mut stdout) = runs.spawn(&["pid"]);
    assert_eq!(line(&mut stdout), child.id().to_string());
    child.wait().unwrap();
}

#[test]
fn prints_what_is_no_value() {
    assert_eq!(Runs::new().output(&["nul"]).stdout, b"a\0b\n");
    assert!(String::from_utf8(Runs::new().output(&["invalid-utf8"]).stdout).is_err());
    let junk = Runs::new().output(&["binary-junk"]).stdout;
    assert!(junk.len() == 4096 && junk.contains(&0) && std::str::from_utf8(&junk).is_err());
    let documents = printed(&["two-documents"]);
    let documents: Vec<_> = serde_json::Deserializer::from_str(&documents).into_iter().collect();
    assert!(documents.len() == 2 && documents.iter().all(|one: &Result<serde_json::Value, _>| one.is_ok()));
    let trailing = printed(&["trailing-junk"]);
    let mut parts = serde_json::Deserializer::from_str(&trailing).into_iter::<serde_json::Value>();
    assert!(parts.next().unwrap().is_ok() && parts.next().unwrap().is_err());
}

#[test]
fn takes_its_time() {
    let runs = Runs::new();
    let began = Instant::now();
    let (mut child, mut stdout) = runs.spawn(&["slow:hello:20ms"]);
    let mut pieces = Vec::new();
    while let Some(piece) = stdout.fill_buf().ok().filter(|piece| !piece.is_empty()) {
        pieces.push(String::from_utf8(piece.to_vec()).unwrap());
        let length = pieces.last().unwrap().len();
        stdout.consume(length);
    }
    child.wait().unwrap();
    assert!(began.elapsed() >= Duration::from_millis(6 * 20));
    assert!(pieces.len() > 1 && pieces.concat() == "hello\n", "{pieces:?}");
    let began = Instant::now();
    assert_eq!(printed(&["sleep:50ms", "late:100ms:done"]), "done\n");
    assert!(began.elapsed() >= Duration::from_millis(150));
}

#[test]
fn hangs_until_it_is_ended() {
    let runs = Runs::new();
    let (mut child, mut stdout) = runs.spawn(&["print:on", "hang"]);
    assert_eq!(line(&mut stdout), "on");
    assert!(child.try_wait().unwrap().is_none());
    assert_eq!(processes::with_argument(&runs.mark)[0].pid, child.id());
    let by = Command::new("kill").arg(child.id().to_string()).status().unwrap();
    assert!(by.success());
    assert_eq!(child.wait().unwrap().signal(), Some(15));
    processes::none_with(&runs.mark, PATIENCE);
}

#[test]
fn ignores_sigterm_and_does_the_rest() {
    let runs = Runs::new();
    let (mut child, mut stdout) = runs.spawn(&["pid", "ignore-term", "grandchild-keeps-pipe", "stream:10ms"]);
    let pid = child.id().to_string();
    assert_eq!([line(&mut stdout), line(&mut stdout)], [pid.clone(), "1".to_owned()]);
    for process in runs.left() {
        assert!(Command::new("kill").arg(process.pid.to_string()).status().unwrap().success());
    }
    // Output after the signal was taken comes from a process that the signal did not end.
    (2..12).for_each(|number| assert_eq!(line(&mut stdout), number.to_string()));
    assert!(runs.left().len() == 2 && child.try_wait().unwrap().is_none());
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn floods_by_measure_and_without_end() {
    let mebibytes = Runs::new().output(&["flood-stdout:3MiB", "flood-stderr:70000"]);
    assert_eq!((mebibytes.stdout.len(), mebibytes.stderr.len()), (3 << 20, 70_000));
    for word in ["flood-stdout", "flood-stderr"] {
        let runs = Runs::new();
        let mut child = runs.command(&[word]).spawn().unwrap();
        let pipe: &mut dyn Read = match word {
            "flood-stdout" => child.stdout.as_mut().unwrap(),
            _ => child.stderr.as_mut().unwrap(),
        };
        pipe.read_exact(&mut vec![0; 20 << 20]).unwrap();
        assert!(child.try_wait().unwrap().is_none());
        child.kill().unwrap();
        child.wait().unwrap();
    }
}

#[test]
fn closes_its_pipes_and_goes_on() {
    let runs = Runs::new();
    let mut child = runs.command(&["print:bye", "close-pipes", "print:unheard", "hang"]).spawn().unwrap();
    let (mut out, mut err) = (String::new(), String::new());
    child.stdout.take().unwrap().read_to_string(&mut out).unwrap();
    child.stderr.take().unwrap().read_to_string(&mut err).unwrap();
    assert_eq!((out.as_str(), err.as_str()), ("bye\n", ""));
    assert!(processes::is_alive(child.id()));
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn a_grandchild_keeps_the_pipe_when_it_has_ended() {
    let runs = Runs::new();
    let (mut child, mut stdout) = runs.spawn(&["print:1", "grandchild-keeps-pipe"]);
    assert!(child.wait().unwrap().success());
    assert_eq!(line(&mut stdout), "1");
    let left = runs.left();
    assert_eq!(left.len(), 1, "{left:?}");
    let pipe = fs::read_link(format!("/proc/{}/fd/1", left[0].pid)).unwrap();
    assert!(pipe.display().to_string().starts_with("pipe:"), "{pipe:?}");
    processes::kill9(left[0].pid);
    assert_eq!(line(&mut stdout), "", "the pipe is at its end with its last holder");
}

#[test]
fn a_daemon_has_left_everything() {
    let runs = Runs::new();
    let (mut child, mut stdout) = runs.spawn(&["daemonize", "print:started"]);
    let (pid, mut said) = (child.id(), String::new());
    stdout.read_to_string(&mut said).unwrap();
    assert_eq!(said, "started\n");
    assert!(child.wait().unwrap().success());
    let left = runs.left();
    assert_eq!(left.len(), 1, "{left:?}");
    assert_ne!(session(left[0].pid), session(std::process::id()));
    assert!(left[0].ppid != pid && left[0].ppid != std::process::id());
}

#[test]
fn forks_without_end() {
    const COPIES: usize = 25;
    let runs = Runs::new();
    // The bomb has an account of its own that may have few processes, and a process table of its own that
    // ends with `unshare`. Each of these programs dies with the one that started it.
    let account = fastrand::u32(100_000..1_000_000).to_string();
    let mut bounded = Command::new("setpriv");
    bounded.args(["--pdeathsig", "KILL", "--", "unshare", "--pid", "--fork"]);
    bounded.args(["prlimit", &format!("--nproc={COPIES}"), "--", "setpriv", "--pdeathsig", "KILL"]);
    bounded.args(["--reuid", &account, "--regid", &account, "--clear-groups", "--"]);
    bounded.arg(mock::path()).arg(format!("mark:{}", runs.mark)).arg("fork-bomb");
    let mut child = bounded.stdin(Stdio::null()).process_group(0).spawn().unwrap();
    let bombs = || {
        let all = runs.left();
        all.into_iter().filter(|one| one.cmdline[0] == mock::path().to_str().unwrap()).collect::<Vec<_>>()
    };
    let found = wait::until(PATIENCE, "the bomb to be where it is stopped", || {
        Some(bombs()).filter(|bombs| bombs.len() == COPIES)
    });
    // Not one that forks many times: its children fork as well.
    let parents = found.iter().map(|bomb| bomb.ppid).collect::<std::collections::HashSet<_>>();
    assert!(parents.len() > 2, "{found:?}");
    // When there is room again it goes on.
    let victim = found.last().unwrap().pid;
    processes::kill9(victim);
    let filled = || bombs().iter().filter(|bomb| bomb.pid != victim).count() >= COPIES - 1;
    wait::until(PATIENCE, "the others to go on", || filled().then_some(()));
    child.kill().unwrap();
    child.wait().unwrap();
    processes::none_with(&runs.mark, PATIENCE);
}

#[test]
fn eats_memory_and_keeps_it() {
    let runs = Runs::new();
    let (mut child, mut stdout) = runs.spawn(&["eat-memory:50MiB", "print:full", "hang"]);
    assert_eq!(line(&mut stdout), "full");
    let rss = processes::rss_bytes(child.id());
    assert!((50 << 20..80 << 20).contains(&rss), "{rss}");
    child.kill().unwrap();
    child.wait().unwrap();
    let mut endless = Command::new("prlimit");
    endless.arg("--as=268435456").arg(mock::path()).arg("eat-memory");
    let output = endless.output().unwrap();
    assert_eq!(output.status.code(), Some(74));
    assert!(String::from_utf8_lossy(&output.stderr).contains("out of memory"), "{output:?}");
}

#[test]
fn dies_by_the_signal_it_is_told() {
    for (name, number) in [("SEGV", 11), ("ABRT", 6), ("KILL", 9), ("TERM", 15), ("BUS", 7)] {
        let output = Runs::new().output(&["print:a", &format!("signal:{name}"), "print:b"]);
        assert_eq!((output.status.signal(), output.stdout.as_slice()), (Some(number), &b"a\n"[..]), "{name}");
    }
}

#[test]
fn streams_by_itself_and_when_asked() {
    let runs = Runs::new();
    let (mut child, mut stdout) = runs.spawn(&["stream:1ms"]);
    (1..20).for_each(|number| assert_eq!(line(&mut stdout), number.to_string()));
    child.kill().unwrap();
    child.wait().unwrap();

    let output = runs.output(&["stream-die-after:3:1ms", "print:never"]);
    assert_eq!((output.stdout.as_slice(), output.status.code()), (&b"1\n2\n3\n"[..], Some(1)));

    let mut child = runs.command(&["stream-asked", "print:end"]).stdin(Stdio::piped()).spawn().unwrap();
    let (mut stdin, mut stdout) = (child.stdin.take().unwrap(), BufReader::new(child.stdout.take().unwrap()));
    for number in 1..=3 {
        stdin.write_all(b"\n").unwrap();
        assert_eq!(line(&mut stdout), number.to_string());
    }
    drop(stdin);
    assert_eq!(line(&mut stdout), "end");
    assert!(child.wait().unwrap().success());
}

#[test]
fn counts_its_runs_also_those_that_are_killed() {
    let runs = Runs::new();
    let word = format!("count:{}", runs.path("runs"));
    let (mut child, mut stdout) = runs.spawn(&[&word, "hang"]);
    assert_eq!(line(&mut stdout), "1");
    child.kill().unwrap();
    child.wait().unwrap();
    let many: Vec<Child> = (0..8).map(|_| runs.command(&[&word]).spawn().unwrap()).collect();
    let outputs = many.into_iter().map(|child| child.wait_with_output().unwrap().stdout);
    let mut numbers: Vec<u32> =
        outputs.map(|text| String::from_utf8(text).unwrap().trim().parse().unwrap()).collect();
    numbers.sort_unstable();
    assert_eq!(numbers, (2..=9).collect::<Vec<_>>());
}

#[test]
fn knows_whether_it_is_alone() {
    let runs = Runs::new();
    let (word, twice) = (format!("alone:{}", runs.path("lock")), runs.path("lock.twice"));
    let is_alone = || {
        let _ = fs::remove_file(&twice);
        assert!(runs.output(&[&word, "print:done"]).status.success());
        !fs::exists(&twice).unwrap()
    };
    assert!(is_alone() && is_alone());
    // The lock is kept over the change that `ignore-term` is, and lost at once by a kill.
    let (mut child, mut stdout) = runs.spawn(&[&word, "ignore-term", "print:in", "hang"]);
    assert_eq!(line(&mut stdout), "in");
    assert!(!is_alone());
    let told = fs::read_to_string(&twice).unwrap();
    assert!(told.starts_with("twice: ") && told.contains(&child.id().to_string()), "{told}");
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(is_alone());
    // A mock that leaves something running has not ended.
    let (mut child, _stdout) = runs.spawn(&[&word, "daemonize"]);
    assert!(child.wait().unwrap().success());
    assert!(!is_alone());
    processes::kill9_all_with(&runs.mark);
    assert!(is_alone());
}

#[test]
fn does_nothing_when_told_something_unknown() {
    let output = Runs::new().output(&["print:42", "hagn"]);
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!((output.status.code(), output.stdout.as_slice()), (Some(64), &b""[..]));
    assert!(said.starts_with("\"hagn\"") && said.contains("\n  hang "), "{said}");
    assert!(printed(&["help"]).contains("grandchild-keeps-pipe"));
}

#[test]
fn a_missing_example_is_named_with_the_remedy() {
    let panic = std::panic::catch_unwind(|| mock::path_of("no-such-mock")).unwrap_err();
    let why = panic.downcast::<String>().unwrap();
    assert!(why.contains("examples/no-such-mock") && why.contains("--example no-such-mock"), "{why}");
}

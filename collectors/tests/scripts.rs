//! The scripts that ship, run as they would be, against the kernel's own figures.

#![allow(clippy::unwrap_used)]

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Duration;

use serde_json::Value;

/// How often a figure that moves both ways is looked at again if it moved out of its range meanwhile.
const TRIES: usize = 30;
/// No answer takes this long.
const PATIENCE: Duration = Duration::from_secs(30);
/// The kernel's unit in which it counts processor time.
const TICKS_PER_SECOND: f64 = 100.0;

fn script(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("scripts").join(name)
}

fn run(name: &str, environment: &[(&str, &str)]) -> f64 {
    let output = Command::new(script(name)).envs(environment.iter().copied()).output().unwrap();
    assert!(output.status.success(), "{name}: {output:?}");
    assert!(output.stderr.is_empty(), "{name}: {output:?}");
    String::from_utf8(output.stdout).unwrap().trim_end().parse().unwrap()
}

/// Ticks in which there was something to do, and all others; and how many processors there are.
fn ticks() -> (f64, f64, f64) {
    let stat = fs::read_to_string("/proc/stat").unwrap();
    let line = stat.lines().next().unwrap();
    let ticks: Vec<f64> = line.split_whitespace().skip(1).take(8).map(|word| word.parse().unwrap()).collect();
    let idle = ticks[3] + ticks[4];
    let cores = stat.lines().skip(1).take_while(|line| line.starts_with("cpu")).count();
    (ticks.iter().sum::<f64>() - idle, idle, cores as f64)
}

/// The part that was used of the least time that a look takes: it cannot be more than was used in all, nor can what
/// was idle.
#[track_caller]
fn check_usage(least_seconds: f64, look: impl FnOnce() -> f64) {
    let before = ticks();
    let usage = look();
    let after = ticks();
    let cores = after.2;
    // Both ends of a look fall into a tick, on each processor.
    let slack = 2.0 * cores;
    let least_all = least_seconds * TICKS_PER_SECOND * cores - slack;
    let most = (after.0 - before.0 + slack) / least_all;
    let least = 1.0 - (after.1 - before.1 + slack) / least_all;
    // Percent have two digits behind the point, and fractions four.
    assert!(least - 0.0001 <= usage && usage <= most + 0.0001, "{usage} is not within {least} and {most}");
    assert!((0.0..=1.0).contains(&usage));
}

#[test]
fn both_names_tell_how_busy_the_processors_are() {
    for name in ["cpu_usage.sh", "getCpuUsage.sh"] {
        check_usage(0.5, || run(name, &[("ESTIMAND_PARAM_SECONDS", "0.5")]) / 100.0);
    }
}

#[test]
fn the_paper_s_name_works_from_anywhere() {
    let folder = tempfile::tempdir().unwrap();
    let link = folder.path().join("usage");
    std::os::unix::fs::symlink(script("getCpuUsage.sh"), &link).unwrap();
    let output = Command::new(link).current_dir("/").env("ESTIMAND_PARAM_SECONDS", "0.1").output().unwrap();
    assert!(output.status.success(), "{output:?}");
}

#[track_caller]
fn sometimes_within(mut look: impl FnMut() -> f64, mut told: impl FnMut() -> f64) {
    let mut seen = Vec::new();
    for _ in 0..TRIES {
        let (before, value, after) = (look(), told(), look());
        // Half of the last digit.
        if before.min(after) - 0.005 <= value && value <= before.max(after) + 0.005 {
            return;
        }
        seen.push((before, value, after));
    }
    panic!("never within what was there before and after: {seen:?}");
}

#[test]
fn memory_is_used_as_the_kernel_says() {
    let used = || {
        let text = fs::read_to_string("/proc/meminfo").unwrap();
        let field = |name: &str| -> f64 {
            let line = text.lines().find(|line| line.starts_with(name)).unwrap();
            line.split_whitespace().nth(1).unwrap().parse().unwrap()
        };
        100.0 * (1.0 - field("MemAvailable:") / field("MemTotal:"))
    };
    sometimes_within(used, || run("memory_usage.sh", &[]));
}

#[test]
fn a_disk_is_as_full_as_the_file_system_says() {
    let folder = std::env::temp_dir().join("a name with spaces");
    fs::create_dir_all(&folder).unwrap();
    for path in [Path::new("/"), &folder] {
        let full = || {
            let stat = rustix::fs::statvfs(path).unwrap();
            let used = (stat.f_blocks - stat.f_bfree) as f64;
            100.0 * used / (used + stat.f_bavail as f64)
        };
        sometimes_within(full, || run("disk_usage.sh", &[("ESTIMAND_PARAM_PATH", path.to_str().unwrap())]));
    }
    let missing = Command::new(script("disk_usage.sh")).env("ESTIMAND_PARAM_PATH", "/no/such/place").output();
    assert!(!missing.unwrap().status.success());
}

/// A script of the stream mode, asked through its standard input.
struct Stream {
    child: Child,
    stdin: Option<ChildStdin>,
    lines: Receiver<String>,
}

impl Stream {
    fn start(name: &str, interval: &str) -> Stream {
        let mut command = Command::new(script(name));
        command.env("ESTIMAND_INTERVAL", interval).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let (said, lines) = channel();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        thread::spawn(move || stdout.lines().map_while(Result::ok).try_for_each(|line| said.send(line)));
        Stream { stdin: child.stdin.take(), child, lines }
    }

    fn answer(&self) -> Value {
        let line = self.lines.recv_timeout(PATIENCE).expect("an answer");
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("{line}: {error}"))
    }

    fn ask(&mut self) -> Value {
        self.stdin.as_mut().unwrap().write_all(b"\n").unwrap();
        self.answer()
    }

    /// Nobody can ask any more: it has to end by itself, and well.
    fn end(mut self) {
        drop(self.stdin.take());
        let rest = self.lines.recv_timeout(PATIENCE);
        assert_eq!(
            rest,
            Err(std::sync::mpsc::RecvTimeoutError::Disconnected),
            "it said more, or did not end"
        );
        assert!(self.child.wait().unwrap().success());
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        // It ended already unless the test failed.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn a_stream_in_python_tells_at_once_and_when_asked() {
    let mut stream = Stream::start("cpu_stream.py", "3600");
    let usage = |value: &Value| value["usageFraction"].as_f64().unwrap();
    assert!((0.0..=1.0).contains(&usage(&stream.answer())));
    let before_first = ticks();
    let first = stream.ask();
    let after_first = ticks();
    assert!((0.0..=1.0).contains(&usage(&first)));
    thread::scope(|scope| {
        // Something to do, for as long as it takes to be seen.
        let work = scope.spawn(|| {
            let mut spin = 0u64;
            while ticks().0 - before_first.0 < 30.0 {
                spin = std::hint::black_box(spin + 1);
            }
        });
        work.join().unwrap();
    });
    let before_second = ticks();
    let second = usage(&stream.ask());
    let after_second = ticks();
    let slack = 2.0 * after_second.2;
    let (least_used, most_used) = (before_second.0 - after_first.0, after_second.0 - before_first.0);
    let (least_idle, most_idle) = (before_second.1 - after_first.1, after_second.1 - before_first.1);
    let least = (least_used - slack) / (least_used - slack + most_idle + slack).max(1.0);
    let most = (most_used + slack) / (most_used + slack + least_idle - slack).max(1.0);
    assert!(least - 0.0001 <= second && second <= most + 0.0001, "{second} is not within {least} and {most}");
    stream.end();
}

#[test]
fn a_stream_in_python_keeps_the_time_until_it_is_asked() {
    let stream = Stream::start("cpu_stream.py", "0.05");
    for _ in 0..3 {
        stream.answer();
    }
}

#[test]
fn a_stream_in_shell_tells_the_load() {
    let mut stream = Stream::start("load_stream.sh", "3600");
    stream.answer();
    for (at, field) in ["one", "five", "fifteen"].into_iter().enumerate() {
        let look = || {
            let text = fs::read_to_string("/proc/loadavg").unwrap();
            text.split_whitespace().nth(at).unwrap().parse().unwrap()
        };
        sometimes_within(look, || stream.ask()[field].as_f64().unwrap());
    }
    stream.end();
}

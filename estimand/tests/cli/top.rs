//! `estimand top` in a terminal of its own, driven by keys and signals, and where there is none.

use std::io::{Read, Write};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use estimand_testkit::process;
use estimand_testkit::wait::{self, PATIENCE};
use serde_json::Value;

use crate::session::{NODE, Session};

const ENTER: &str = "\u{1b}[?1049h";
const LEAVE: &str = "\u{1b}[?25h\u{1b}[?1049l";

/// A terminal of 80 columns and 24 lines with `top` in it. A shell around it prints the terminal's settings before and
/// after, and the exit code.
struct Screen {
    terminal: Child,
    output: mpsc::Receiver<Vec<u8>>,
    text: String,
}

impl Screen {
    fn open(session: &Session, args: &str) -> Self {
        let binary = process::binary();
        let script = format!(
            "trap : INT; stty rows 24 cols 80; stty -g; {} top {args}; echo code $?; stty -g",
            binary.display()
        );
        let mut command: Command = process::command("script");
        command.args(["--quiet", "--command", &script, "/dev/null"]);
        command.env("ESTIMAND_SERVER", session.base_url()).env("TERM", "xterm").stdin(Stdio::piped());
        let mut terminal = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut stdout = terminal.stdout.take().unwrap();
        let (sender, output) = mpsc::channel();
        std::thread::spawn(move || {
            let mut piece = [0; 4096];
            while let Ok(count @ 1..) = stdout.read(&mut piece) {
                if sender.send(piece[..count].to_vec()).is_err() {
                    return;
                }
            }
        });
        Screen { terminal, output, text: String::new() }
    }

    /// Everything from `from` on, as soon as it contains `part`.
    #[track_caller]
    fn until(&mut self, from: usize, part: &str) -> String {
        wait::until(PATIENCE, &format!("{part:?} on the screen"), || {
            if let Ok(piece) = self.output.recv_timeout(Duration::from_millis(50)) {
                self.text.push_str(&String::from_utf8_lossy(&piece));
            }
            let since = &self.text[from..];
            since.contains(part).then(|| since.to_owned())
        })
    }

    fn press(&mut self, keys: &str) -> usize {
        self.terminal.stdin.as_mut().unwrap().write_all(keys.as_bytes()).unwrap();
        self.text.len()
    }

    /// Checks that it ended so and left the terminal as it was.
    #[track_caller]
    fn ended(&mut self, code: i32) {
        self.until(0, &format!("code {code}"));
        let status = wait::until(PATIENCE, "the terminal to be gone", || self.terminal.try_wait().unwrap());
        assert!(status.success());
        while let Ok(piece) = self.output.recv_timeout(PATIENCE) {
            self.text.push_str(&String::from_utf8_lossy(&piece));
        }
        let lines: Vec<&str> = self.text.lines().map(str::trim).collect();
        let settings = |line: &&&str| line.matches(':').count() > 20;
        let settings: Vec<&&str> = lines.iter().filter(settings).collect();
        assert_eq!(settings.len(), 2, "{:?}", self.text);
        assert_eq!(settings[0], settings[1]);
        assert_eq!(self.text.matches(ENTER).count(), self.text.matches(LEAVE).count());
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        let _ = self.terminal.kill();
        let _ = self.terminal.wait();
    }
}

fn pid_of_top(screen: &Screen) -> u32 {
    wait::until(PATIENCE, "the process of `top`", || {
        let below = estimand_testkit::processes::descendants(screen.terminal.id());
        below.iter().find(|one| one.cmdline.get(1).is_some_and(|word| word == "top")).map(|one| one.pid)
    })
}

fn signal(pid: u32, name: &str) {
    assert!(Command::new("kill").args([name, &pid.to_string()]).status().unwrap().success());
}

#[test]
fn a_terminal_shows_values_as_they_change_and_is_left_as_it_was() {
    let session = Session::start();
    session.quietly(&["put", "load", "n1", r#"{"one": 1.25}"#]);
    session.quietly(&["put", "load", "n2", r#"{"one": 7.5}"#]);
    let mut screen = Screen::open(&session, "");
    let text = screen.until(0, "q quit");
    assert!(text.contains(ENTER) && text.contains("by load"), "{text:?}");
    assert!(text.find("n2") < text.find("n1 "), "the larger load comes first: {text:?}");
    // A change comes by the watch.
    let from = screen.text.len();
    session.quietly(&["put", "load", "n1", r#"{"one": 98.75}"#]);
    let text = screen.until(from, "98.75");
    let frame = text.rsplit("\u{1b}[H").find(|frame| frame.contains("98.75")).unwrap();
    assert!(frame.find("98.75") < frame.find("7.50").or(Some(usize::MAX)), "{text:?}");
    // Keys sort and turn the order.
    let from = screen.press("s");
    screen.until(from, "by cpu");
    let from = screen.press("r");
    screen.until(from, "reversed by cpu");
    let from = screen.press("\u{1b}[B\u{1b}[6~");
    screen.until(from, "q quit");
    screen.press("q");
    screen.ended(0);
}

#[test]
fn signals_end_it_and_leave_the_terminal_as_it_was() {
    let session = Session::start();
    let mut screen = Screen::open(&session, "");
    screen.until(0, "q quit");
    screen.press("\u{3}");
    screen.ended(0);
    let mut screen = Screen::open(&session, "");
    screen.until(0, "q quit");
    signal(pid_of_top(&screen), "-TERM");
    screen.ended(0);
}

#[test]
fn a_service_that_goes_is_told_and_its_return_is_seen() {
    let mut session = Session::start();
    session.quietly(&["put", "load", "n1", r#"{"one": 1.25}"#]);
    let mut screen = Screen::open(&session, "");
    screen.until(0, "1.25");
    session.service.kill9();
    let from = screen.text.len();
    screen.until(from, "no answer: ");
    session.service.restart_on_same_port();
    let from = screen.text.len();
    screen.until(from, "1 node, ");
    session.quietly(&["put", "load", "n1", r#"{"one": 3.5}"#]);
    screen.until(from, "3.50");
    screen.press("q");
    screen.ended(0);
}

#[test]
fn without_a_terminal_it_prints_one_table_or_one_document() {
    let session = Session::with_node();
    session.program("load", r#"echo '{"one": 1.5}'"#);
    session.quietly(&["register", "load", "--every", "1h", "--", "load"]);
    session.until_ran("load", NODE, 1);
    let plane = session.plane();
    let shown = || plane.value("load", NODE).is_ok();
    wait::until(PATIENCE, "the value to be there", || shown().then_some(()));
    let table = session.quietly(&["top"]);
    assert!(table.starts_with("NODE") && table.contains(NODE) && !table.contains('\u{1b}'), "{table}");
    let document: Value = serde_json::from_str(&session.quietly(&["top", "--json"])).unwrap();
    let node = &document["nodes"][0];
    assert_eq!(
        (&node["nodeName"], &node["state"]),
        (&Value::from(NODE), &Value::from("ready")),
        "{document}"
    );
    assert!(node["values"]["load/one"]["value"].is_number(), "{document}");
    let wrong = session
        .command(&["top", "--sort", "lod"])
        .env("ESTIMAND_SERVER", session.base_url())
        .output()
        .unwrap();
    assert_eq!(wrong.status.code(), Some(2));
    assert!(
        String::from_utf8_lossy(&wrong.stderr).contains("there are node, state, load, cpu, memory, tasks")
    );
}

//! A process is started, watched and ended as the tests of the binary rely on.
#![allow(clippy::unwrap_used)]

use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::time::Duration;

use estimand_testkit::process::{Builder, Estimand, free_port};
use estimand_testkit::{mock, wait};

fn fake() -> Builder {
    Estimand::builder(env!("CARGO_BIN_EXE_fake-estimand"))
}

#[test]
fn is_given_what_the_builder_says() {
    let estimand = fake().args(["up", "--x"]).store("sqlite://a.db").env("FAKE_VARIABLE", "me").start();
    let expected = format!(
        "up --x --defaults none --listen 127.0.0.1:0 --data-dir {} --store sqlite://a.db",
        estimand.data_dir().display()
    );
    assert_eq!(estimand.http().get("/").text(), expected);
    wait::until(Duration::from_secs(20), "its words on stderr", || {
        (estimand.stderr_tail() == "ready for me\n").then_some(())
    });
    assert!(estimand.rss_bytes() > 100_000);
    assert!(estimand.cpu_time() < Duration::from_secs(60));
}

#[test]
fn is_gone_after_kill9_and_back_on_the_same_port() {
    let mut estimand = fake().port(free_port()).start();
    let (url, pid) = (estimand.base_url().to_owned(), estimand.pid());
    estimand.kill9();
    assert!(!Path::new(&format!("/proc/{pid}")).exists());
    assert!(estimand.http().try_request("GET", "/", &[], b"").is_err());
    estimand.restart_on_same_port();
    assert_eq!(estimand.base_url(), url);
    assert_ne!(estimand.pid(), pid);
}

#[test]
fn ends_by_sigterm_and_says_how() {
    let mut estimand = fake().start();
    assert_eq!(estimand.terminate().signal(), Some(15));
    // All that it wrote is kept, though only the last of it.
    assert_eq!(estimand.stdout_tail().len(), 64 << 10);
}

#[test]
fn is_gone_with_its_folder_after_a_drop() {
    let estimand = fake().start();
    let (pid, folder) = (estimand.pid(), estimand.data_dir().to_owned());
    assert!(folder.exists());
    drop(estimand);
    assert!(!Path::new(&format!("/proc/{pid}")).exists() && !folder.exists());
}

#[test]
fn a_failed_start_tells_why() {
    let failure = fake().args(["broken"]).try_start().err().unwrap();
    assert!(failure.contains("no such store") && failure.contains("exit status: 3"), "{failure}");
}

#[test]
fn listens_where_the_builder_says() {
    let estimand = fake().listen_host([127, 0, 0, 9]).start();
    assert!(estimand.base_url().starts_with("http://127.0.0.9:"));
    assert!(estimand.http().get("/").text().contains("--listen 127.0.0.9:0"));
}

/// The mock serves nothing, and is told by `--` that the data folder is none of its words.
#[test]
fn a_process_without_http_is_ready_with_its_first_line() {
    let words = ["print:here I am", "args", "hang", "--"];
    let mut agent = Estimand::builder(mock::path()).args(words).without_http().start();
    assert_eq!(agent.greeting(), "here I am");
    let folder = agent.data_dir().display().to_string();
    let mut given = words.to_vec();
    given.extend(["--data-dir", &folder]);
    let expected = format!("{}\n", serde_json::Value::from(given));
    let has_said = |agent: &Estimand| {
        wait::until(Duration::from_secs(20), "its arguments", || {
            (agent.stdout_tail() == expected).then_some(())
        });
    };
    has_said(&agent);
    let pid = agent.pid();
    agent.restart_on_same_port();
    has_said(&agent);
    assert_ne!(agent.pid(), pid);
    assert_eq!(agent.terminate().signal(), Some(15));
}

#[test]
fn a_process_without_http_that_says_nothing_has_failed() {
    let mute = Estimand::builder(mock::path()).args(["exit:3", "--"]).without_http();
    let failure = mute.try_start().err().unwrap();
    assert!(failure.contains("wrote no line") && failure.contains("exit status: 3"), "{failure}");
}

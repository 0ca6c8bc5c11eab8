//! Tokens as a user meets them: hardly ever, on the machine where the services are.

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use estimand_testkit::TOKEN_VARIABLE;
use estimand_testkit::process::{self, Estimand, free_port};
use estimand_testkit::wait::{self, PATIENCE};

/// A new user's machine: the services keep their data where they do so by default.
struct Machine {
    home: tempfile::TempDir,
    services: Estimand,
}

impl Machine {
    fn new() -> Self {
        let home = tempfile::tempdir().unwrap();
        let builder = process::estimand().args(["up", "--no-agent"]).without_token().port(free_port());
        let services = builder.data_dir(home.path().join("estimand")).start();
        let machine = Machine { home, services };
        machine.token_is_kept();
        machine
    }

    fn token_file(&self) -> std::path::PathBuf {
        self.home.path().join("estimand/token")
    }

    fn token_is_kept(&self) -> String {
        wait::until(PATIENCE, "a token in the data folder", || fs::read_to_string(self.token_file()).ok())
    }

    /// A command of that user, or of somebody whose home is another one.
    fn command(&self, home: &Path, args: &[&str]) -> Output {
        let mut command = Command::new(process::binary());
        command.args(["--server", self.services.base_url()]).args(args);
        command.env_remove(TOKEN_VARIABLE).env("XDG_DATA_HOME", home).output().unwrap()
    }

    fn own(&self, args: &[&str]) -> Output {
        self.command(self.home.path(), args)
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

#[test]
fn the_command_line_finds_the_token_that_up_has_made_and_others_do_not() {
    let mut machine = Machine::new();
    assert_eq!(fs::metadata(machine.token_file()).unwrap().permissions().mode() & 0o777, 0o600);
    let register = ["register", "load", "--every", "5s", "--", "true"];
    let done = machine.own(&register);
    assert!(done.status.success(), "{}", text(&done.stderr));

    let elsewhere = tempfile::tempdir().unwrap();
    let refused = machine.command(elsewhere.path(), &["unregister", "load"]);
    assert_eq!(refused.status.code(), Some(5), "{}", text(&refused.stdout));
    let says = text(&refused.stderr);
    assert!(
        says.contains("ESTIMAND_TOKEN") && says.contains("the file `token` of its data folder"),
        "{says}"
    );
    // A public route stays public.
    assert!(machine.command(elsewhere.path(), &["put", "free", "n", "0.5"]).status.success());
    assert!(machine.command(elsewhere.path(), &["list"]).status.success());

    let before = machine.token_is_kept();
    machine.services.restart_on_same_port();
    assert_eq!(machine.token_is_kept(), before);
    assert!(machine.own(&["token", "list"]).status.success());

    // Without the file, another token is made.
    fs::remove_file(machine.token_file()).unwrap();
    machine.services.restart_on_same_port();
    let after = machine.token_is_kept();
    assert_ne!(after, before);
    let listed = text(&machine.own(&["token", "list"]).stdout);
    assert_eq!(listed.matches("revoked").count(), 1, "{listed}");
    let mut old = Command::new(process::binary());
    old.args(["--server", machine.services.base_url(), "token", "list"]).env(TOKEN_VARIABLE, before.trim());
    let refused = old.output().unwrap();
    assert_eq!(refused.status.code(), Some(5), "{}", text(&refused.stderr));
}

#[test]
fn a_token_is_printed_alone_and_found_in_no_log() {
    let machine = Machine::new();
    let made = machine.own(&["token", "create", "ci", "--role", "operate", "--valid-for", "1h"]);
    assert!(made.status.success(), "{}", text(&made.stderr));
    let token = text(&made.stdout);
    assert!(token.starts_with("estimand_") && token.ends_with('\n') && token.lines().count() == 1, "{token}");
    let token = token.trim();

    let mut unregister = Command::new(process::binary());
    unregister.args([
        "--server",
        machine.services.base_url(),
        "register",
        "x",
        "--every",
        "5s",
        "--",
        "true",
    ]);
    assert!(unregister.env(TOKEN_VARIABLE, token).output().unwrap().status.success());
    let audit = text(&machine.own(&["audit"]).stdout);
    assert!(
        audit.lines().nth(1).is_some_and(|line| line.contains(" ci ") && line.contains(" x ")),
        "{audit}"
    );
    assert!(machine.own(&["token", "revoke", "ci"]).status.success());
    let refused = unregister.output().unwrap();
    assert_eq!(refused.status.code(), Some(5));
    for said in [machine.services.stderr_tail(), machine.services.stdout_tail(), audit, text(&refused.stderr)]
    {
        assert!(!said.contains(&token[9..]), "{said}");
        assert!(!said.contains(&machine.token_is_kept().trim()[9..]), "{said}");
    }
}

#[test]
fn a_watch_that_is_cut_off_says_why() {
    let machine = Machine::new();
    let made = machine.own(&["token", "create", "reader", "--role", "read"]);
    let mut command = Command::new(process::binary());
    command.args(["--server", machine.services.base_url(), "watch", "fact"]);
    command.env(TOKEN_VARIABLE, text(&made.stdout).trim()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut watching = command.spawn().unwrap();
    assert!(machine.own(&["put", "fact", "n", "0.5"]).status.success());
    let mut line = String::new();
    BufReader::new(watching.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert!(line.contains("fact"), "{line}");
    assert!(machine.own(&["token", "revoke", "reader"]).status.success());
    let ended = watching.wait_with_output().unwrap();
    let said = text(&ended.stderr);
    assert_eq!(ended.status.code(), Some(5), "{said}");
    assert!(said.contains("this token is not known here, or it was revoked"), "{said}");
}

#[test]
fn a_token_is_not_sent_to_other_machines_in_clear() {
    let mut command = Command::new(process::binary());
    // An address that is for documentation: nobody answers.
    command
        .args(["--server", "http://192.0.2.1:7070", "list"])
        .env(TOKEN_VARIABLE, "estimand_0123456789012345678");
    let said = text(&command.output().unwrap().stderr);
    assert!(said.contains("the token is not sent"), "{said}");
}

#[test]
fn services_that_run_apart_say_that_they_need_a_token() {
    let args = ["manager", "--registry", "http://127.0.0.1:1", "--data-service", "http://127.0.0.1:1"];
    let failure = process::estimand().args(args).without_token().try_start().map(drop).unwrap_err();
    assert!(failure.contains("the same one to all of them in ESTIMAND_TOKEN"), "{failure}");
}

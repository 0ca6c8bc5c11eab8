//! Users on the command line: each with a token of their own, beside an operator, against one service.

use std::fs;
use std::process::{Command, Output};

use estimand_testkit::TOKEN_VARIABLE;
use estimand_testkit::process::{self, Estimand};
use estimand_testkit::wait::{self, PATIENCE};
use serde_json::Value;
use tempfile::TempDir;

/// The exit code for what is not there.
const NOT_FOUND: i32 = 3;

struct Place {
    up: Estimand,
    /// Files to be sent, and fetched ones.
    folder: TempDir,
}

impl Place {
    fn start() -> Self {
        Place::with(&["--allow-users-as-agent"])
    }

    /// `more` are further options of `up`.
    fn with(more: &[&str]) -> Self {
        let args = ["up", "--allow", "/bin", "--defaults", "none"].iter().chain(more).copied();
        let up = process::estimand().args(args).start();
        Place { up, folder: tempfile::tempdir().unwrap() }
    }

    /// A command of the holder of a token, or else of the operator.
    fn run(&self, token: Option<&str>, args: &[&str]) -> Output {
        let mut command = Command::new(process::binary());
        command.args(["--server", self.up.base_url()]).args(args).current_dir(self.folder.path());
        command.env(TOKEN_VARIABLE, token.unwrap_or(estimand_testkit::TOKEN)).output().unwrap()
    }

    /// The output of a command that succeeds.
    #[track_caller]
    fn said(&self, token: Option<&str>, args: &[&str]) -> String {
        let done = self.run(token, args);
        assert!(done.status.success(), "{args:?}: {}", String::from_utf8_lossy(&done.stderr));
        String::from_utf8(done.stdout).unwrap()
    }

    /// The message of a command that fails with this code.
    #[track_caller]
    fn refused(&self, token: Option<&str>, args: &[&str], code: i32) -> String {
        let done = self.run(token, args);
        let message = String::from_utf8(done.stderr).unwrap();
        assert_eq!(done.status.code(), Some(code), "{args:?}: {message}");
        message
    }

    fn token(&self, args: &[&str]) -> String {
        let made = self.said(None, &[&["token", "create"], args].concat());
        made.trim().to_owned()
    }
}

/// It would read the operator's token in the data folder.
#[test]
fn a_users_task_waits_where_it_would_run_as_the_agent() {
    let place = Place::with(&[]);
    let alice = place.token(&["alice", "--role", "user"]);
    let alice = Some(alice.as_str());
    let token = place.up.data_dir().join("token").display().to_string();
    place.said(alice, &["tasks", "submit", "--id", "thief", "--", "/bin/cat", &token]);
    let shown = wait::until(PATIENCE, "a reason", || {
        let shown = place.said(alice, &["tasks", "show", "thief"]);
        shown.contains("`--run-as").then_some(shown)
    });
    // A narrow terminal breaks the lines anywhere.
    let shown = shown.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(shown.contains("`--run-as USER`") && shown.contains("`--allow-users-as-agent`"), "{shown}");
    assert_eq!(
        place.said(None, &["run-task", "--", "/bin/echo", "the operator's own"]),
        "the operator's own\n"
    );
    let shown: Value =
        serde_json::from_str(&place.said(alice, &["tasks", "show", "thief", "--json"])).unwrap();
    assert_eq!((&shown["state"], &shown["attempt"]), (&Value::from("QUEUED"), &Value::from(0)), "{shown}");
    place.said(alice, &["tasks", "cancel", "thief"]);
}

#[test]
fn users_have_tasks_and_files_of_their_own() {
    let place = Place::start();
    let alice = place.token(&["alice", "--role", "user"]);
    let bob = place.token(&["laptop", "--role", "user", "--user", "bob", "--valid-for", "1h"]);
    let (alice, bob) = (Some(alice.as_str()), Some(bob.as_str()));
    let listed = place.said(None, &["token", "list"]);
    assert!(listed.contains("user alice") && listed.contains("user bob"), "{listed}");

    let run = ["run-task", "--", "/bin/echo", "her own"];
    assert_eq!(place.said(alice, &run), "her own\n");
    place.said(alice, &["tasks", "submit", "--id", "hers", "--", "/bin/echo", "hello"]);
    place.said(alice, &["tasks", "wait", "hers"]);
    assert_eq!(place.said(alice, &["tasks", "logs", "hers"]), "hello\n");
    let shown: Value =
        serde_json::from_str(&place.said(alice, &["tasks", "show", "hers", "--json"])).unwrap();
    assert_eq!(shown["document"]["user"], "alice", "{shown}");
    for command in ["show", "logs", "cancel", "delete", "wait"] {
        let message = place.refused(bob, &["tasks", command, "hers"], NOT_FOUND);
        assert!(message.contains("there is no task `hers`"), "{command}: {message}");
    }
    assert!(!place.said(bob, &["tasks", "list"]).contains("hers"));
    assert!(!place.said(bob, &["tasks", "events"]).contains("hers"));
    assert!(place.said(None, &["tasks", "list", "--user", "alice"]).contains("hers"));
    let forged = place.run(bob, &["tasks", "submit", "--user", "alice", "--", "/bin/true"]);
    let message = String::from_utf8_lossy(&forged.stderr);
    assert!(!forged.status.success() && message.contains("user: is another user"), "{message}");
    place.said(None, &["tasks", "submit", "--id", "for-bob", "--user", "bob", "--", "/bin/echo", "for him"]);
    place.said(bob, &["tasks", "wait", "for-bob"]);
    assert_eq!(place.said(bob, &["tasks", "logs", "for-bob"]), "for him\n");

    fs::write(place.folder.path().join("letter"), "dear").unwrap();
    place.said(alice, &["files", "put", "letter", "letters/"]);
    assert_eq!(place.said(alice, &["files", "get", "letters/letter", "-"]), "dear");
    assert!(place.said(alice, &["files", "list", "--recursive"]).contains("letters/letter"));
    assert!(!place.said(bob, &["files", "list", "--recursive"]).contains("letter"));
    place.refused(bob, &["files", "get", "letters/letter", "-"], NOT_FOUND);
    assert_eq!(place.said(None, &["files", "get", "users/alice/letters/letter", "-"]), "dear");
    place.said(alice, &["files", "remove", "--recursive", "letters"]);

    // A user operates nothing, and a reader has no tasks.
    place.refused(alice, &["token", "list"], 5);
    let reader = place.token(&["reader", "--role", "read"]);
    place.refused(Some(&reader), &["tasks", "list"], 5);
}

#[test]
fn operators_set_what_a_user_may_have() {
    let place = Place::start();
    let alice = place.token(&["alice", "--role", "user"]);
    let alice = Some(alice.as_str());
    let set = place.said(None, &["users", "set", "alice", "--tasks", "1", "--memory", "64MiB"]);
    assert!(set.contains("tasks 1, memory 64.0 MiB"), "{set}");
    let submit = ["tasks", "submit", "--nodes", "node=nowhere", "--", "/bin/true"];
    place.said(alice, &submit);
    let refused = place.refused(alice, &submit, 4);
    assert!(refused.contains("`estimand users set alice --tasks 2`"), "{refused}");
    let shown: Value =
        serde_json::from_str(&place.said(alice, &["users", "show", "alice", "--json"])).unwrap();
    assert_eq!(shown["shares"]["tasks"], serde_json::json!({ "used": 1, "limit": 1, "set": true }));
    let listed = place.said(None, &["users"]);
    assert!(listed.contains("alice  100%  tasks 1/1"), "{listed}");
    place.refused(alice, &["users", "set", "alice", "--tasks", "5"], 5);
    place.refused(None, &["users", "show", "nobody"], NOT_FOUND);
    place.said(None, &["users", "set", "alice", "--tasks", "default"]);
    place.said(alice, &submit);
}

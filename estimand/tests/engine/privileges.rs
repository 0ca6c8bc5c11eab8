//! Registered programs are kept from the agent's privileges, its files and its processes.
//! Most of it takes root; what does not is looked at in any case.

use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};

use estimand_testkit::process;
use serde_json::{Value, json};

use crate::plane::{Agent, NODE, Plane};

const WAYS: [Agent; 3] = [Agent::Within, Agent::Beside, Agent::WithoutCgroups];
/// A user that every machine has, and who owns nothing.
const NOBODY: &str = "nobody";

fn is_root() -> bool {
    fs::metadata("/proc/self").unwrap().uid() == 0
}

/// Registers a script and waits for what it says, as JSON.
#[track_caller]
fn said(plane: &Plane, name: &str, script: &str, params: &Value) -> Value {
    let path = plane.script(name, script);
    plane.register_cmd(name, json!([path]), json!({ "params": params, "format": "json" }));
    plane.until_value(name, "there", |_| true)["dataValue"].clone()
}

const STATUS: &str = r#"set -- $(sed -n 's/^\(CapEff\|CapPrm\|NoNewPrivs\):\t//p' /proc/self/status)
echo "[\"$1\", \"$2\", $3]""#;

#[test]
fn nothing_has_or_gains_a_capability() {
    let plane = Plane::up("powerless");
    let nothing = "0000000000000000";
    assert_eq!(said(&plane, "status", STATUS, &json!({})), json!([nothing, nothing, 1]));
    plane.end();
    if !is_root() {
        return;
    }
    let kept = ["--keep-capability", "cap_net_raw", "--keep-capability", "SYSLOG"];
    let plane = Plane::with_agent("some-power", Agent::Beside, &kept);
    let some = "0000000400002000";
    assert_eq!(said(&plane, "status", STATUS, &json!({})), json!([some, some, 1]));
    plane.end();
}

#[test]
fn another_user_has_its_own_folder_and_nothing_else() {
    if !is_root() {
        return;
    }
    for (way, name) in WAYS.into_iter().zip(["as-within", "as-beside", "as-without"]) {
        let plane = Plane::with_agent(name, way, &["--run-as", NOBODY]);
        let other = r#"echo hush > secret; echo '"kept"'"#;
        assert_eq!(said(&plane, "other", other, &json!({})), "kept");
        let agent = match &plane.beside {
            Some(agent) => agent.data_dir().to_owned(),
            None => plane.services.data_dir().join("agent"),
        };
        let store = plane.services.data_dir().join("estimand.db");
        for file in [agent.join("desired.json"), store.clone()] {
            assert!(file.is_file(), "{}", file.display());
        }
        let params = json!({
            "AGENT": agent, "STORE": store, "PID": plane.agent().pid(), "LAUNCHER": plane.launcher(),
        });
        let script = r#"
agent=$ESTIMAND_PARAM_AGENT
try() { "$@" >/dev/null 2>&1 && broken="$broken $*"; }
echo mine > file && echo out > /dev/stderr || broken=folder
try cat $agent/desired.json; try cat $agent/agent; try ls $agent; try ls $agent/slots; try ls $agent/spool
try touch $agent/new; try touch $agent/slots/new; try cat $ESTIMAND_PARAM_STORE; try cat $ESTIMAND_PARAM_STORE-wal
for pid in $ESTIMAND_PARAM_PID $ESTIMAND_PARAM_LAUNCHER; do
    try kill -0 $pid; try kill -STOP $pid; try cat /proc/$pid/environ; try head -c1 /proc/$pid/fd/0; try cat /proc/$pid/maps
done
[ "$PWD" = "$HOME" ] && [ "$HOME" = "$TMPDIR" ] || broken="$broken home"
echo "{\"user\": \"$(id -un)\", \"name\": \"$USER $LOGNAME\", \"broken\": \"$broken\"}""#;
        let expected = json!({ "user": NOBODY, "name": "nobody nobody", "broken": "" });
        assert_eq!(said(&plane, "as_nobody", script, &params), expected, "{way:?}");
        let folder = agent.join("slots/as_nobody").metadata().unwrap();
        assert_eq!((folder.mode() & 0o777, folder.uid() != 0), (0o700, true));
        // Slots of other users are ended in the same way.
        let hangs = plane.script("hangs", &format!("trap '' TERM; sleep 1000 & : mark:{}", plane.mark));
        plane.register_cmd(
            "hangs",
            json!([hangs, format!("{}.hangs.", plane.mark)]),
            json!({ "max-Time": 60 }),
        );
        plane.end();
    }
}

#[test]
fn a_setuid_program_is_an_ordinary_one() {
    if !is_root() {
        return;
    }
    let plane = Plane::with_agent("setuid", Agent::Within, &["--run-as", NOBODY]);
    let id = plane.file("id");
    fs::copy("/usr/bin/id", &id).unwrap();
    fs::set_permissions(&id, Permissions::from_mode(0o4755)).unwrap();
    plane.register_cmd("id", json!([id, "-un"]), json!({ "format": "text" }));
    plane.until_is("id", NOBODY);
    plane.end();
}

#[test]
fn a_program_that_a_user_may_not_execute_is_named_with_the_user() {
    if !is_root() {
        return;
    }
    let plane = Plane::with_agent("denied", Agent::Within, &["--run-as", NOBODY]);
    for (name, more) in [("by_path", json!({})), ("pinned", json!({ "sha256": digest_of("echo 1") }))] {
        let path = plane.script(name, "echo 1");
        fs::set_permissions(&path, Permissions::from_mode(0o700)).unwrap();
        plane.register_cmd(name, json!([path]), more);
        plane.until_error(name, "it runs as the user `nobody`");
        assert_eq!(plane.read(name), None);
    }
    plane.end();
}

fn digest_of(script: &str) -> String {
    let text = format!("#!/bin/sh\n{script}\n");
    let digest = ring::digest::digest(&ring::digest::SHA256, text.as_bytes());
    digest.as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
}

#[test]
fn an_agent_that_cannot_do_as_it_was_told_does_not_start() {
    let check = |options: &[&str], data_dir: &str, part: &str| {
        let args = ["up", "--node", NODE].iter().chain(options).copied();
        let builder = process::estimand().args(args);
        let place = tempfile::tempdir().unwrap();
        let closed = place.path().join("closed");
        fs::create_dir(&closed).unwrap();
        fs::set_permissions(&closed, Permissions::from_mode(0o700)).unwrap();
        let Err(failure) = builder.data_dir(closed.join(data_dir)).try_start() else {
            panic!("{options:?} was taken")
        };
        assert!(failure.contains(part), "{options:?}: {failure}");
    };
    check(&["--run-as", "no-such-user"], "d", "there is no user `no-such-user`");
    check(&["--run-as", "4242"], "d", "4242:GROUP");
    check(&["--keep-capability", "cap_anything"], "d", "is not a capability");
    match is_root() {
        true => check(&["--run-as", NOBODY], "d", "that user cannot go through"),
        false => {
            check(&["--run-as", "0:0"], "d", "which this process does not have; start it as root");
            check(&["--keep-capability", "net_raw"], "d", "cap_net_raw, which this process does not have");
        }
    }
}

/// Runs of root's agent lack what root can do. One that was denied something may still look well.
#[test]
fn a_run_that_was_denied_something_names_the_option_that_helps() {
    if !is_root() {
        return;
    }
    let plane = Plane::up("was-denied");
    let secret = plane.file("secret");
    fs::write(&secret, "1").unwrap();
    std::os::unix::fs::chown(&secret, Some(65_534), Some(65_534)).unwrap();
    fs::set_permissions(&secret, Permissions::from_mode(0o600)).unwrap();
    let program = plane.script("well", &format!("cat {secret}; echo 42"));
    plane.register_cmd("well", json!([program]), json!({}));
    plane.until_is("well", 42);
    let slot = plane.until_instance("well", "to have a note", |slot| slot["note"].is_string());
    let note = slot["note"].as_str().unwrap();
    assert!(note.contains("`--keep-capability cap_dac_read_search`"), "{slot}");
    // Readers of the value see it, too.
    let value = plane.read("well").unwrap();
    assert_eq!((&value["note"], &value["provenance"]["note"]), (&json!(note), &json!(note)), "{value}");
    let listed = plane.http.get("/api/data?dataName=well").expect_status(200).json();
    assert_eq!(listed[0]["note"], note, "{listed}");
    let program = plane.script("ill", "echo 'socket: Operation not permitted (raw socket)' >&2; exit 2");
    plane.register_cmd("ill", json!([program]), json!({}));
    let slot = plane.until_error("ill", "`--keep-capability cap_net_raw`");
    assert!(slot["lastError"].as_str().unwrap().contains("exit 2"), "{slot}");
    // A stream that ends, and a plugin that reports on its standard output.
    let program = plane.script("flow", "echo 'ping: socket: Operation not permitted' >&2; exit 2");
    plane.register_cmd("flow", json!([program]), json!({ "mode": "stream" }));
    plane.until_error("flow", "`--keep-capability cap_net_raw`");
    let denied = "/dev/kmsg: Operation not permitted";
    let named = "`--keep-capability cap_syslog`";
    let program = plane.script("unknown", &format!("echo 'UNKNOWN - {denied}'; exit 3"));
    plane.register_cmd("unknown", json!([program]), json!({ "format": "nagios" }));
    plane.until_error("unknown", named);
    let program = plane.script("critical", &format!("echo 'CRITICAL - {denied}'; exit 2"));
    plane.register_cmd("critical", json!([program]), json!({ "format": "nagios" }));
    let is_noted = |value: &Value| value["note"].as_str().is_some_and(|note| note.contains(named));
    plane.until_value("critical", "noted", is_noted);
    plane.end();
}

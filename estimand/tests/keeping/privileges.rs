//! A task has as little power as what runs in a slot, also over its own keeper.

use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};

use serde_json::{Value, json};

use crate::node::{Node, texts};

/// A user that every machine has, and who owns nothing.
const NOBODY: &str = "nobody";

fn is_root() -> bool {
    fs::metadata("/proc/self").unwrap().uid() == 0
}

#[test]
fn a_task_has_no_capability_and_gains_none() {
    let node = Node::start("powerless");
    let script = r"sed -n 's/^\(CapEff\|CapPrm\|NoNewPrivs\):\t//p' /proc/self/status";
    node.assign("p", node.shell(script));
    let heard = node.until_ended("p.1", json!({"exit": 0}));
    let nothing = "0000000000000000";
    assert_eq!(texts(&heard), [nothing, nothing, "1"]);
    node.end();
}

#[test]
fn another_user_has_its_own_folder_and_reaches_neither_its_keeper_nor_other_tasks() {
    if !is_root() {
        return;
    }
    let node = Node::with("as-nobody", &["--run-as", NOBODY]);
    let secret = |work: Value| {
        let mut work = work;
        work["environment"] = json!({"TZ": "hush"});
        work
    };
    let other = secret(node.mock(&["print:there", "hang"]));
    let others = json!({"id": "other", "attempt": 1, "work": other});
    node.services.assign(json!([others]));
    node.until_said("other.1", "there");
    let keeper = node.keeper("other.1").unwrap();
    let (pipe, keeper) = (keeper.cmdline.last().unwrap().clone(), keeper.pid);
    let script = format!(
        r#"
tasks={tasks}; cd; broken=
try() {{ "$@" >/dev/null 2>&1 && broken="$broken $*"; }}
echo mine > file && echo out > /dev/stderr || broken=folder
for one in $tasks/try.1 $tasks/other.1; do
    for file in accepted.json order.json begun log.00000000000000000000 keeper.log end.json; do
        try cat $one/$file; try sh -c "echo x >> $one/$file"
    done
    try ls $one; try touch $one/stop
done
try ls $tasks; try cat $tasks/lease; try sh -c "echo s > $tasks/news"
try sh -c "echo x > {pipe}"
for pid in $PPID {keeper} {launcher}; do
    try kill -0 $pid; try cat /proc/$pid/environ; try cat /proc/$pid/maps
done
[ "$PWD" = "$HOME" ] || broken="$broken home"
echo "$(id -un) $USER:$broken""#,
        tasks = node.tasks_folder().display(),
        launcher = node.launcher_of(keeper),
    );
    let trying = json!({"id": "try", "attempt": 1, "work": secret(node.shell(&script))});
    node.services.assign(json!([others, trying]));
    let heard = node.until_ended("try.1", json!({"exit": 0}));
    assert!(texts(&heard).contains(&format!("{NOBODY} {NOBODY}:")), "{:?}", texts(&heard));
    for (name, mode) in [("accepted.json", 0o600), ("begun", 0o600), ("work", 0o700)] {
        let meta = node.tasks_folder().join("try.1").join(name).metadata().unwrap();
        assert_eq!(meta.permissions().mode() & 0o777, mode, "{name}");
    }
    node.end();
}

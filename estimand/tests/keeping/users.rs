//! Tasks of users: as whom they run on a node, and that they reach nothing of each other there.

use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::Command;

use estimand_testkit::wait::{self, PATIENCE};
use serde_json::{Value, json};

use crate::node::{Node, texts};

const NOBODY: &str = "nobody";
/// Numbers that a machine has no use for; each test has some of its own.
const ALICE: u32 = 300_100;
const BOB: u32 = ALICE + 1;
/// A user of the machine of whom the agent knows nothing.
const STRANGER: u32 = 54_321;

fn is_root() -> bool {
    fs::metadata("/proc/self").unwrap().uid() == 0
}

fn of(user: &str, id: &str, work: &Value) -> Value {
    json!({"id": id, "attempt": 1, "user": user, "work": work})
}

fn apart(name: &str, range: &str) -> Node {
    Node::with(name, &["--run-as", NOBODY, "--run-as-range", range])
}

#[track_caller]
fn refusal(node: &Node, attempt: &str) -> String {
    let heard = node.until(attempt, "end", |heard| heard.stages.iter().any(|one| one.get("ended").is_some()));
    let end = &heard.stages.last().unwrap()["ended"]["ending"];
    end["notStarted"].as_str().unwrap_or_else(|| panic!("{end}")).to_owned()
}

#[test]
fn a_users_task_runs_as_the_agent_only_if_its_operator_says_so() {
    let node = Node::start("as-agent");
    let work = node.shell("id -u");
    let own = json!({"id": "own", "attempt": 1, "work": work});
    node.services.assign(json!([of("alice", "hers", &work), own]));
    let refused = refusal(&node, "hers.1");
    for part in ["`alice`", "`--run-as USER`", "`--allow-users-as-agent`"] {
        assert!(refused.contains(part), "{refused}");
    }
    node.until_ended("own.1", json!({"exit": 0}));
    node.end();
    let node = Node::with("as-told", &["--allow-users-as-agent"]);
    node.services.assign(json!([of("alice", "hers", &node.shell("id -u"))]));
    node.until_ended("hers.1", json!({"exit": 0}));
    node.end();
}

#[test]
fn a_directory_is_entered_with_the_rights_of_the_task() {
    if !is_root() {
        return;
    }
    let node = Node::with("behind", &["--run-as", NOBODY]);
    let (closed, open) = (node.folder.path().join("closed"), node.folder.path().join("closed/open"));
    fs::create_dir_all(&open).unwrap();
    fs::write(open.join("secret"), "hush").unwrap();
    fs::set_permissions(&closed, Permissions::from_mode(0o700)).unwrap();
    let mut work = node.shell("cat secret");
    work["directory"] = json!(open);
    node.assign("behind", work);
    let refused = refusal(&node, "behind.1");
    assert!(refused.contains("cannot change to the directory"), "{refused}");
    node.end();
}

#[test]
fn users_reach_nothing_of_each_other_and_keep_their_numbers_over_restarts() {
    if !is_root() {
        return;
    }
    let mut node = apart("apart", &format!("{ALICE}-{BOB}"));
    let hers = r#"
umask 077; echo hush > "$HOME/file"; echo hush > /dev/shm/$1; cp /usr/bin/id "$HOME/id"; chmod 4755 "$HOME/id"; chmod 777 "$HOME"
echo "$(id -u) $(id -g) $(id -G) $USER"; exec sleep 1000"#;
    let mut hers = node.shell(hers);
    hers["environment"] = json!({"TZ": "hush"});
    let hers = of("alice", "hers", &hers);
    node.services.assign(json!([hers]));
    node.until_said("hers.1", &format!("{ALICE} {ALICE} {ALICE} alice"));
    let work = node.tasks_folder().join("hers.1/work");
    assert_eq!(work.metadata().unwrap().uid(), ALICE);
    let keeper = node.keeper("hers.1").unwrap().pid;
    let sleep =
        |node: &Node| node.running().into_iter().find(|one| one.cmdline[0] == "sleep").map(|one| one.pid);
    let sleep = wait::until(PATIENCE, "her process", || {
        let of_hers = estimand_testkit::processes::descendants(keeper);
        sleep(&node).or_else(|| Some(of_hers.into_iter().find(|one| one.cmdline[0] == "sleep")?.pid))
    });
    // As a file that makes its caller her, for somebody of the machine who waits for it.
    let from_outside = Command::new(work.join("id")).arg("-u").uid(STRANGER).gid(STRANGER).output();
    assert_eq!(from_outside.unwrap_err().kind(), std::io::ErrorKind::PermissionDenied);
    let script = format!(
        r#"
broken=; try() {{ "$@" >/dev/null 2>&1 && broken="$broken $*"; }}
hers={hers}; log={log}
try ls $hers; try cat $hers/file; try sh -c "echo x >> $hers/file"; try touch $hers/new; try $hers/id; try rm /dev/shm/$1
try cat /dev/shm/$1; try sh -c "echo x >> /dev/shm/$1"; try ls $log; try cat $log/log.00000000000000000000; try touch $log/stop
for pid in {sleep} {keeper}; do
    try kill -0 $pid; try kill -STOP $pid; try cat /proc/$pid/environ; try ls /proc/$pid/fd; try cat /proc/$pid/maps
    try head -c1 /proc/$pid/mem; try ls /proc/$pid/cwd/; try ls /proc/$pid/root/
done
echo "$(id -u) $(id -g) $(id -G) $USER:$broken""#,
        hers = work.display(),
        log = node.tasks_folder().join("hers.1").display(),
    );
    let his = of("bob", "his", &node.shell(&script));
    // Her other task is hers, and reaches the first one as she may.
    let also = node.shell(&format!("cat {}/file; id -u", work.display()));
    let nobodys = json!({"id": "nobodys", "attempt": 1, "work": node.shell("id -un")});
    node.services.assign(json!([hers, his, of("alice", "also", &also), nobodys]));
    let heard = node.until_ended("his.1", json!({"exit": 0}));
    assert_eq!(texts(&heard), [format!("{BOB} {BOB} {BOB} bob:")]);
    let heard = node.until_ended("also.1", json!({"exit": 0}));
    assert_eq!(texts(&heard), ["hush".to_owned(), ALICE.to_string()]);
    assert_eq!(texts(&node.until_ended("nobodys.1", json!({"exit": 0}))), [NOBODY]);

    node.agent.kill9();
    node.agent.restart_on_same_port();
    let id = |user, id| of(user, id, &node.shell("id -u"));
    node.services.assign(json!([hers, id("bob", "his2"), id("alice", "hers2"), id("carol", "carols")]));
    assert_eq!(texts(&node.until_ended("his2.1", json!({"exit": 0}))), [BOB.to_string()]);
    assert_eq!(texts(&node.until_ended("hers2.1", json!({"exit": 0}))), [ALICE.to_string()]);
    let refused = refusal(&node, "carols.1");
    for part in ["2 numbers", "--run-as-range", "`carol`"] {
        assert!(refused.contains(part), "{refused}");
    }
    let kept = Path::new("/dev/shm").join(&node.mark);
    assert!(kept.exists(), "she has a task here still");
    node.services.assign(json!([]));
    wait::until(PATIENCE, "what she left to go", || (!kept.exists()).then_some(()));
    node.end();
}

#[test]
fn what_users_leave_outside_of_their_folders_goes_with_their_last_task() {
    if !is_root() {
        return;
    }
    let node = apart("leavings", "300200-300209");
    let of_others = Path::new("/tmp").join(format!("{}-others", node.mark));
    fs::write(&of_others, "").unwrap();
    let script = r#"mkdir -p /tmp/$1/deep; echo x > /tmp/$1/deep/file; echo x > /var/tmp/$1; ipcmk -M 4096; ipcmk -S 1; ipcmk -Q"#;
    node.services.assign(json!([of("alice", "left", &node.shell(script))]));
    node.until_ended("left.1", json!({"exit": 0}));
    let has_ipc = || {
        ["shm", "sem", "msg"].iter().any(|table| {
            let text = fs::read_to_string(format!("/proc/sysvipc/{table}")).unwrap_or_default();
            text.lines().any(|line| line.split_whitespace().any(|field| field == "300200"))
        })
    };
    let places = [Path::new("/tmp").join(&node.mark), Path::new("/var/tmp").join(&node.mark)];
    assert!(places.iter().all(|place| place.exists()) && has_ipc());
    node.services.assign(json!([]));
    wait::until(PATIENCE, "it to be removed", || {
        (!places.iter().any(|place| place.exists()) && !has_ipc()).then_some(())
    });
    assert!(of_others.exists());
    fs::remove_file(of_others).unwrap();
    node.end();
}

#[test]
fn a_task_that_says_nothing_has_the_limits_of_its_node() {
    let node = Node::with("limits", &["--task-memory", "64MiB", "--task-processes", "30"]);
    let forks = "for n in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31 32 33 34 35; do \
                 sleep 1000 & done; echo all";
    let large = "python3 -c 'b = bytearray(200 << 20); print(len(b))'";
    let mut asks = node.shell(large);
    asks["memory"] = json!(1_u64 << 30);
    let task = |id: &str, work: Value| json!({"id": id, "attempt": 1, "work": work});
    node.services.assign(json!([
        task("large", node.shell(large)),
        task("asks", asks),
        task("forks", node.shell(forks)),
    ]));
    let asked = node.until_ended("asks.1", json!({"exit": 0}));
    assert_eq!(texts(&asked), [(200 << 20).to_string()], "what a task says counts");
    for id in ["large.1", "forks.1"] {
        let heard =
            node.until(id, "end", |heard| heard.stages.iter().any(|stage| stage.get("ended").is_some()));
        assert_ne!(heard.stages.last().unwrap()["ended"]["ending"], json!({"exit": 0}), "{heard:?}");
    }
    node.end();
}

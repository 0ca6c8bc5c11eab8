//! Containers as tasks, in a real engine: what they find, what they cannot do, and how they end. Nothing of them is left.

use std::fs;
use std::time::Duration;

use estimand_testkit::docker::{self, Docker, IMAGE};
use estimand_testkit::processes;
use estimand_testkit::wait::{self, PATIENCE};
use serde_json::{Value, json};

use crate::deaths::{COUNTS, GONE_WITHIN, check_count};
use crate::endings::with;
use crate::node::{Node, texts};

/// Ends as soon as it is asked to.
const HEEDS: &str = "trap 'echo goodbye; exit 0' TERM; echo there; while :; do sleep 0.05; done";

fn start(name: &str, more: &[&str]) -> Node {
    Node::with_engine(name, docker::shared(), more)
}

/// The names of the containers of a task, which are named for it.
pub fn containers_of(docker: &Docker, id: &str) -> Vec<String> {
    let named = format!("estimand-{id}-");
    docker.containers().into_iter().filter(|name| name.starts_with(&named)).collect()
}

fn ends_in(node: &Node, attempt: &str) -> Value {
    let heard = node.until(attempt, "end", |heard| heard.lines_at_end.is_some());
    heard.stages.last().unwrap()["ended"]["ending"].clone()
}

#[test]
fn a_container_finds_what_is_documented_and_is_removed() {
    let node = start("con-plain", &[]);
    let script = "echo one; pwd; echo $ESTIMAND_TASK_ID.$ESTIMAND_TASK_ATTEMPT on $ESTIMAND_NODE; echo $HUE; \
                  printf 'no newline'; exit 3";
    let more = json!({"environment": {"HUE": "green"}, "directory": "/tmp", "cpu": 500, "memory": 64 << 20});
    node.services.assign(json!([
        {"id": "con-a", "attempt": 2, "work": with(node.container(script), &more)},
        {"id": "con-own", "attempt": 1, "work": {"image": IMAGE}},
    ]));
    let heard = node.until_ended("con-a.2", json!({"exit": 3}));
    assert_eq!(heard.stages[..2], [json!("accepted"), json!("running")]);
    assert_eq!(texts(&heard), ["one", "/tmp", "con-a.2 on n1", "green", "no newline"]);
    assert_eq!(heard.lines_sent, heard.lines.len());
    let heard = node.until_ended("con-own.1", json!({"exit": 0}));
    assert_eq!(texts(&heard), ["the image's own"]);
    for id in ["con-a", "con-own"] {
        assert!(containers_of(docker::shared(), id).is_empty(), "{id}");
    }
    node.end();
}

#[test]
fn a_container_has_as_little_power_as_a_process() {
    let node = start("con-power", &[]);
    let work = with(node.container(&format!("cat /proc/self/status; {HEEDS}")), &json!({"memory": 64 << 20}));
    node.assign("con-p", work);
    node.until_said("con-p.1", "there");
    let name = containers_of(docker::shared(), "con-p").remove(0);
    let host = &docker::shared().inspect(&name)["HostConfig"];
    assert_eq!((&host["Privileged"], &host["MemorySwap"]), (&json!(false), &json!(64 << 20)));
    assert!(host["PidsLimit"].as_u64().is_some_and(|most| most > 0), "{host}");
    let lines = texts(&node.services.heard("con-p.1"));
    for expected in ["CapEff:\t0000000000000000", "CapBnd:\t0000000000000000", "NoNewPrivs:\t1"] {
        assert!(lines.iter().any(|line| line == expected), "{expected}: {lines:?}");
    }
    node.end();
}

#[test]
fn each_end_of_a_container_is_told_for_what_it_was() {
    let node = start("con-ends", &["--allow-image", "127.0.0.1:1/*"]);
    let slow = with(node.container(HEEDS), &json!({"timeoutMs": 300}));
    let large = with(node.container("tail /dev/zero"), &json!({"memory": 64 << 20}));
    let deaf = with(node.container("trap '' TERM; echo deaf; exec sleep 1000"), &json!({"timeoutMs": 300}));
    node.services.assign(json!([
        {"id": "con-slow", "attempt": 1, "work": slow},
        {"id": "con-deaf", "attempt": 1, "work": deaf},
        {"id": "con-large", "attempt": 1, "work": large},
        {"id": "con-killed", "attempt": 1, "work": node.container("echo up; exec sleep 1000")},
        {"id": "con-absent", "attempt": 1, "work": {"image": "127.0.0.1:1/none:1"}},
        {"id": "con-nothing", "attempt": 1, "work": {"image": IMAGE, "command": ["no-such-program"]}},
    ]));
    assert_eq!(ends_in(&node, "con-slow.1"), json!("timedOut"));
    assert_eq!(ends_in(&node, "con-deaf.1"), json!("timedOut"));
    assert_eq!(ends_in(&node, "con-large.1"), json!("outOfMemory"));
    let reason = ends_in(&node, "con-nothing.1");
    assert!(
        reason["notStarted"].as_str().is_some_and(|reason| reason.contains("no-such-program")),
        "{reason}"
    );
    let heard = node.until_ended("con-absent.1", json!("imageMissing"));
    assert!(heard.stages.contains(&json!("preparing")), "{heard:?}");
    assert!(texts(&heard)[0].contains("cannot be fetched"), "{heard:?}");
    // Somebody else's signal.
    node.until_said("con-killed.1", "up");
    let name = containers_of(docker::shared(), "con-killed").remove(0);
    docker::shared().kill(&name);
    assert_eq!(ends_in(&node, "con-killed.1"), json!({"exit": 137}));
    assert!(containers_of(docker::shared(), "con").is_empty());
    node.end();
}

#[test]
fn a_cancelled_container_ends_in_its_own_way_or_in_another() {
    let node = start("con-stop", &[]);
    let (heeds, deaf) = (node.container(HEEDS), node.container("echo there; exec sleep 1000"));
    let both = |stop: bool| {
        let one = |id: &str, work: &Value| json!({"id": id, "attempt": 1, "stop": stop, "work": work});
        node.services.assign(json!([one("con-heeds", &heeds), one("con-deaf2", &deaf)]));
    };
    both(false);
    node.until_said("con-heeds.1", "there");
    node.until_said("con-deaf2.1", "there");
    both(true);
    let heard = node.until_ended("con-heeds.1", json!("cancelled"));
    assert_eq!(texts(&heard), ["there", "goodbye"]);
    node.until_ended("con-deaf2.1", json!("cancelled"));
    processes::none_with(&node.mark, Duration::ZERO);
    node.end();
}

#[test]
fn a_container_that_is_told_to_saves_its_work_or_is_killed_when_its_grace_is_over() {
    let node = start("con-saves", &[]);
    let goes_on = "echo there; while :; do sleep 0.05; done";
    let saves = node.container(&format!("trap 'echo saved; exit 0' USR1; {goes_on}"));
    let stubborn = node.container(&format!("trap 'echo asked' USR1; trap '' TERM; {goes_on}"));
    let attempt = |id: &str, work: &Value| json!({"id": id, "attempt": 1, "work": work});
    node.services.assign(json!([attempt("con-good", &saves), attempt("con-stubborn", &stubborn)]));
    node.until_said("con-good.1", "there");
    node.until_said("con-stubborn.1", "there");
    let stop = |grace_ms: u64| json!({"stop": true, "checkpoint": true, "graceMs": grace_ms});
    node.services.assign(json!([
        with(attempt("con-good", &saves), &stop(3_600_000)),
        with(attempt("con-stubborn", &stubborn), &stop(1_000)),
    ]));
    for (attempt, said, program) in
        [("con-good.1", "saved", json!({"exit": 0})), ("con-stubborn.1", "asked", json!({"exit": 137}))]
    {
        let heard = node.until_ended(attempt, json!("cancelled"));
        assert_eq!(texts(&heard), ["there", said]);
        assert_eq!(heard.stages.last().unwrap()["ended"]["program"], program);
    }
    processes::none_with(&node.mark, Duration::ZERO);
    node.end();
}

#[test]
fn a_refusal_names_the_option_that_would_allow_it() {
    let node = start("con-refused", &[]);
    let volume = |source: &str| json!({"image": IMAGE, "volumes": [{"source": source, "target": "/x"}]});
    std::os::unix::fs::symlink("/etc", node.folder.path().join("out")).unwrap();
    let out = node.folder.path().join("out").display().to_string();
    node.services.assign(json!([
        {"id": "image", "attempt": 1, "work": {"image": "other/image:1"}},
        {"id": "volume", "attempt": 1, "work": volume("/etc")},
        {"id": "link", "attempt": 1, "work": volume(&out)},
        {"id": "none", "attempt": 1, "work": volume("/no/such/folder")},
    ]));
    for (id, part) in [
        ("image", "`--allow-image other/image:1`"),
        ("volume", "`--allow-volume /etc`"),
        ("link", "`--allow-volume /etc`"),
        ("none", "cannot be found"),
    ] {
        let reason = ends_in(&node, &format!("{id}.1"));
        assert!(reason["notStarted"].as_str().is_some_and(|reason| reason.contains(part)), "{id}: {reason}");
    }
    node.end();
}

#[test]
fn a_volume_is_written_to_unless_it_is_to_be_read_only() {
    let node = start("con-volume", &[]);
    let folder = node.folder.path().display().to_string();
    fs::write(node.folder.path().join("in"), "from outside\n").unwrap();
    let script = "cat /rw/in; echo inside > /rw/out; echo x 2>/dev/null > /ro/in || echo refused";
    let volumes = json!([
        {"source": folder, "target": "/rw"},
        {"source": folder, "target": "/ro", "readOnly": true},
    ]);
    node.assign("con-v", with(node.container(script), &json!({"volumes": volumes})));
    let heard = node.until_ended("con-v.1", json!({"exit": 0}));
    assert_eq!(texts(&heard), ["from outside", "refused"]);
    assert_eq!(fs::read_to_string(node.folder.path().join("out")).unwrap(), "inside\n");
    node.end();
}

#[test]
fn a_container_goes_on_while_its_agent_is_killed_again_and_again() {
    let mut node = start("con-agent", &[]);
    node.assign("con-c", node.container(COUNTS));
    for round in 1..4 {
        node.until_said("con-c.1", &(round * 20).to_string());
        node.agent.kill9();
        assert_eq!(node.running().len(), 1);
        node.agent.restart_on_same_port();
    }
    check_count(&node, "con-c.1");
    node.end();
}

/// The next keeper removes it, or the next agent where nobody has the attempt any more.
#[test]
fn a_container_whose_keeper_was_killed_is_begun_once_and_removed() {
    for folder_is_there in [true, false] {
        let mut node = start("con-keeper", &[]);
        let id = format!("con-k-{folder_is_there}");
        let script = format!("echo x >> \"$0/{id}\"; echo there; exec sleep 1000");
        node.assign(&id, node.container(&script));
        let attempt = format!("{id}.1");
        node.until_said(&attempt, "there");
        node.agent.kill9();
        processes::kill9(node.keeper(&attempt).unwrap().pid);
        assert_eq!(containers_of(docker::shared(), &id).len(), 1, "it goes on without its keeper");
        if !folder_is_there {
            wait::until(PATIENCE, "its keeper to be gone", || node.keeper(&attempt).is_none().then_some(()));
            fs::remove_dir_all(node.tasks_folder().join(&attempt)).unwrap();
            node.services.assign(json!([]));
        }
        node.agent.restart_on_same_port();
        if folder_is_there {
            node.until_ended(&attempt, json!("nodeLost"));
            assert!(containers_of(docker::shared(), &id).is_empty());
        }
        processes::none_with(&node.mark, GONE_WITHIN);
        wait::until(PATIENCE, "its removal", || {
            containers_of(docker::shared(), &id).is_empty().then_some(())
        });
        assert_eq!(fs::read_to_string(node.folder.path().join(&id)).unwrap(), "x\n");
        node.end();
    }
}

#[test]
fn a_container_runs_as_the_user_that_the_agent_is_told() {
    let node = start("con-user", &["--run-as", "nobody"]);
    node.assign("con-u", json!({"image": IMAGE, "command": ["id", "-u"]}));
    let heard = node.until_ended("con-u.1", json!({"exit": 0}));
    assert_eq!(texts(&heard), ["65534"]);
    node.end();
}

//! An end tells what its attempt used: of processor, memory and disk, by known amounts; also when the agent was away.

use estimand_testkit::processes;
use estimand_testkit::wait::PATIENCE;
use serde_json::{Value, json};

use crate::endings::with;
use crate::node::Node;
use crate::stand_in::AttemptNews;

const MIB: u64 = 1 << 20;

/// Spins for a second of processor time, some of it in another process that nobody waits for.
const SPINS: &str = "
import os, sys, time
def spin(seconds):
    end = time.process_time() + seconds
    while time.process_time() < end:
        for _ in range(10000):
            pass
spin(0.7)
if os.fork() == 0:
    if os.fork() == 0:
        spin(0.3)
        open(sys.argv[1] + '/spun', 'w')
    os._exit(0)
while not os.path.exists(sys.argv[1] + '/spun'):
    time.sleep(0.01)
";

/// Touches 30 MiB, says so, and keeps them until it is told to end.
const TOUCHES: &str = "
import os, sys, time
held = bytearray(30 << 20)
for page in range(0, len(held), 4096):
    held[page] = 1
print('touched', flush=True)
while not os.path.exists(sys.argv[1] + '/end'):
    time.sleep(0.01)
";

/// Touches memory until it is killed for it.
const EATS: &str = "
held = []
while True:
    held.append(bytearray(b'x') * (1 << 20))
";

fn python(node: &Node, script: &str) -> Value {
    json!({ "command": ["/usr/bin/python3", "-I", "-c", script, node.folder.path(), node.mark] })
}

fn used(heard: &AttemptNews) -> Value {
    heard.stages.last().unwrap()["ended"]["used"].clone()
}

fn figure(used: &Value, name: &str) -> u64 {
    used[name].as_u64().unwrap_or_else(|| panic!("{name}: {used}"))
}

#[test]
fn a_second_of_processor_is_told_whoever_spun_it() {
    for more in [&[][..], &["--no-cgroups"]] {
        let node = Node::with("spins", more);
        node.assign("s", python(&node, SPINS));
        let used = used(&node.until_ended("s.1", json!({"exit": 0})));
        let cpu = figure(&used, "cpuUserUs") + figure(&used, "cpuSystemUs");
        // The start of Python and the forks come on top.
        assert!((1_000_000..1_500_000).contains(&cpu), "{more:?}: {used}");
        assert!(figure(&used, "cpuUserUs") > 600_000, "{more:?}: {used}");
        assert!(figure(&used, "ranUs") >= 900_000, "{more:?}: {used}");
        node.end();
    }
}

/// The keeper measures, so it makes no difference that the agent dies meanwhile.
#[test]
fn memory_is_told_without_the_page_cache_and_while_the_agent_is_away() {
    for (more, limit) in [(&[][..], Some(64 * MIB)), (&[], None), (&["--no-cgroups"], None)] {
        let mut node = Node::with("touches", more);
        let mut work = python(&node, TOUCHES);
        if let Some(limit) = limit {
            work = with(work, &json!({ "memory": limit }));
        }
        node.assign("t", work);
        node.until_said("t.1", "touched");
        node.agent.kill9();
        node.put("end");
        processes::none_with(&node.mark, PATIENCE);
        node.agent.restart_on_same_port();
        let used = used(&node.until_ended("t.1", json!({"exit": 0})));
        let (peak, mean) = (figure(&used, "memoryPeak"), figure(&used, "memoryMean"));
        assert!((30 * MIB..48 * MIB).contains(&peak), "{more:?} {limit:?}: {used}");
        assert!(mean <= peak && mean > MIB, "{more:?} {limit:?}: {used}");
        assert_eq!(used["memoryLimit"].as_u64(), limit, "{used}");
        node.end();
    }
}

#[test]
fn a_task_that_is_killed_for_its_memory_had_its_limit() {
    let node = Node::start("eats");
    node.assign("e", with(python(&node, EATS), &json!({ "memory": 48 * MIB })));
    let heard =
        node.until("e.1", "end", |heard| heard.stages.iter().any(|stage| stage.get("ended").is_some()));
    let used = used(&heard);
    assert_eq!(figure(&used, "memoryLimit"), 48 * MIB);
    // The address space is held to the limit where no cgroup can be made, and the task fails by itself.
    if heard.stages.last().unwrap()["ended"]["ending"] == "outOfMemory" {
        let peak = figure(&used, "memoryPeak");
        assert!((47 * MIB..=48 * MIB).contains(&peak), "{used}");
    }
    node.end();
}

/// A keeper keeps one task after the other in one cell: each has only its own.
#[test]
fn a_task_in_a_cell_that_is_used_again_has_only_its_own() {
    let node = Node::start("again");
    node.assign("first", python(&node, SPINS));
    node.until_ended("first.1", json!({"exit": 0}));
    for round in 0..3 {
        let id = format!("then-{round}");
        node.assign(&id, node.shell("exit 0"));
        let used = used(&node.until_ended(&format!("{id}.1"), json!({"exit": 0})));
        let cpu = figure(&used, "cpuUserUs") + figure(&used, "cpuSystemUs");
        assert!(cpu < 300_000, "a shell that does nothing: {used}");
    }
    node.end();
}

//! Processes of a run end with its registration, wherever they moved to.

use std::fs;
use std::os::unix::fs::MetadataExt as _;

use serde_json::{Value, json};

use crate::plane::Plane;

/// Moves a daemon into each group of the machine that takes it, without a trace of the run in its session and environment.
/// Those of other agents are left out: they belong to tests that run beside.
const ESCAPE: &str = r#"count=0
: > "$3"
own=$(grep -o 'estimand-[0-9a-z]*' /proc/self/cgroup | head -1)
for group in $(find /sys/fs/cgroup -name cgroup.procs \( ! -path '*/estimand-*' -o -path "*/${own:-none}/*" \) | head -60); do
    env -i /usr/bin/setsid /bin/sh -c 'echo $$ > "$0" && echo moved >> "$4"; echo tried >> "$3"; exec "$1" "$2" hang' \
        "$group" "$@" < /dev/null > /dev/null 2>&1 &
    count=$((count + 1))
done
until [ "$(wc -l < "$3")" -ge "$count" ]; do sleep 0.05; done
echo 1"#;

#[test]
fn what_left_its_group_is_gone_when_a_deletion_is_answered_although_other_runs_go_on() {
    let plane = Plane::up("escape");
    plane.register("goes_on", &["stream:100ms"], json!({ "mode": "stream" }));
    plane.until_runs("goes_on", "stream:100ms");
    let script = plane.script("escape-script", ESCAPE);
    let (mock, moved) = (plane.mock("escape", &[]), plane.file("moved"));
    let cmd: Vec<Value> =
        [&[json!(script)][..], mock.as_array().unwrap(), &[json!(plane.file("tried")), json!(moved)]]
            .concat();
    plane.register_cmd("escape", json!(cmd), json!({ "max-Time": 3600, "timeout": 120 }));
    plane.until_is("escape", 1);
    if fs::metadata("/proc/self").unwrap().uid() == 0 && fs::metadata("/sys/fs/cgroup/pids").is_ok() {
        assert!(fs::metadata(&moved).is_ok(), "nothing could leave its group, so this shows nothing");
    }
    plane.unregister("escape");
    plane.nothing_runs_of("escape");
    plane.until_runs("goes_on", "stream:100ms");
    plane.end();
}

//! The tasks of these stories, which note each of their runs, and the check of what they noted against what is told.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use estimand_testkit::processes;
use estimand_testkit::wait::{self, PATIENCE};
use serde_json::{Value, json};

use crate::plane::{PLACES, Plane};

/// How long a task takes between two lines.
const BETWEEN_LINES: &str = "0.2";
/// Between two looks at what runs.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// How a task ends, and what is asked for if it does not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// It ends well; lost, it is run elsewhere.
    Plain,
    /// It fails the first time that it gets to its end, and may once.
    FailsOnce,
    /// Lost, it has failed.
    FailsWhenLost,
    /// It is never run again.
    Waits,
}

impl Kind {
    pub const ALL: [Kind; 4] = [Kind::Plain, Kind::FailsOnce, Kind::FailsWhenLost, Kind::Waits];
}

/// A task that writes so many lines.
pub fn document(plane: &Plane, kind: Kind, lines: u32) -> Value {
    let end = match kind {
        Kind::FailsOnce => "mkdir \"$f/failed/$ESTIMAND_TASK_ID\" 2>/dev/null && exit 1; exit 0",
        _ => "exit 0",
    };
    // The lock is held for as long as anything of the run is there.
    let script = format!(
        "f=$0; mkdir -p \"$f/locks\" \"$f/runs\" \"$f/failed\"; exec 9>>\"$f/locks/$ESTIMAND_TASK_ID\"; \
         flock -n 9 || echo \"$ESTIMAND_TASK_ID.$ESTIMAND_TASK_ATTEMPT on $ESTIMAND_NODE\" >> \"$f/twice\"; \
         echo \"$ESTIMAND_TASK_ATTEMPT\" >> \"$f/runs/$ESTIMAND_TASK_ID\"; \
         i=0; while [ $i -lt {lines} ]; do echo \"$ESTIMAND_TASK_ATTEMPT $i\"; i=$((i+1)); sleep {BETWEEN_LINES}; done; {end}"
    );
    let mut document = json!({ "command": ["/bin/sh", "-c", script, plane.folder()] });
    // The shortest lease, so that what is lost is soon run elsewhere.
    let more = match kind {
        Kind::Plain => json!({ "lease": "1s" }),
        Kind::FailsOnce => json!({ "lease": "1s", "retries": { "count": 1, "backOff": "100ms" } }),
        Kind::FailsWhenLost => json!({ "lease": "1s", "onLoss": "fail" }),
        Kind::Waits => json!({ "onLoss": "wait" }),
    };
    document.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    document
}

/// The attempts that were begun, in that order.
pub fn begun(folder: &Path, id: &str) -> Vec<u64> {
    let noted = fs::read_to_string(folder.join("runs").join(id)).unwrap_or_default();
    noted.lines().map(|line| line.parse().unwrap()).collect()
}

/// Checks a task that is over: what was begun, how it ended, what was told, and its log.
#[track_caller]
pub fn check(plane: &Plane, id: &str, task: &Value, kind: Kind, lines: u32) {
    let begun = begun(&plane.folder(), id);
    let last = task["attempt"].as_u64().unwrap();
    assert!(begun.is_sorted_by(|one, next| one < next), "{id} began {begun:?}: {task}");
    assert!(begun.last().is_none_or(|attempt| *attempt <= last), "{id} began {begun:?}: {task}");
    let succeeded = task["state"] == "SUCCEEDED";
    match kind {
        Kind::Plain | Kind::FailsOnce => assert!(succeeded, "{task}"),
        Kind::FailsWhenLost | Kind::Waits => {
            assert_eq!(last, 1, "{task}");
            assert!(succeeded || task["ending"] == "nodeLost", "{task}");
        }
    }
    // The end of the run that failed may have been lost with its keeper.
    let failures = task["failures"].as_u64().unwrap();
    assert!(failures <= u64::from(kind == Kind::FailsOnce) && failures < last, "{task}");
    // Each attempt but the last has ended, or the lease of its node has.
    let over = |attempt: u64| {
        let mut told = task["transitions"].as_array().unwrap().iter().map(|one| &one["cause"]);
        told.any(|cause| {
            cause["attempt"] == attempt && (cause["event"] == "end" || cause["event"] == "leaseOver")
        })
    };
    assert!((1..last).all(over), "{task}");
    let mut said: BTreeMap<u64, Vec<String>> = BTreeMap::new();
    let mut next = 0;
    for (number, attempt, text, dropped) in plane.log(id) {
        assert_eq!((number, dropped), (next, 0), "{id} lacks lines of its log: {task}");
        next = number + 1;
        said.entry(attempt).or_default().push(text);
    }
    for (attempt, texts) in &said {
        assert!(begun.contains(attempt), "{attempt} of {id} wrote and never began: {task}");
        let expected = (0..texts.len()).map(|line| format!("{attempt} {line}"));
        assert!(expected.eq(texts.iter().cloned()), "{id}: {texts:?}");
    }
    if succeeded {
        assert_eq!(begun.last(), Some(&last), "{task}");
        assert_eq!(
            said.get(&last).map_or(0, Vec::len),
            lines as usize,
            "{id} lacks the end of its log: {task}"
        );
    }
}

/// No two runs of a task were there at once.
#[track_caller]
pub fn check_alone(plane: &Plane) {
    let twice = fs::read_to_string(plane.folder().join("twice")).unwrap_or_default();
    assert!(twice.is_empty(), "ran while another run of it did:\n{twice}");
}

/// Nothing is promised any more.
#[track_caller]
pub fn check_free(plane: &Plane) {
    wait::until_ok(PATIENCE, "all capacity to be free", || {
        let nodes = plane.capacity()?;
        let is_free = |node: &Value| node["free"] == node["capacity"] && node["tasks"] == 0;
        if nodes.iter().all(is_free) { Ok(()) } else { Err(format!("{nodes:?}")) }
    });
}

/// Ends the watching also when what is watched has failed.
struct Stop<'a>(&'a AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}

/// Looks at the ledger and at the process table while `work` goes on: neither ever has more tasks on a node than it takes.
pub fn watching<T>(plane: &mut Plane, work: impl FnOnce(&mut Plane) -> T) -> T {
    let http = plane.tasks.http().with_deadline(Duration::from_secs(5));
    let (folder, over) = (plane.folder(), AtomicBool::new(false));
    let watch = || {
        let mut looks = 0;
        while !over.load(Ordering::Acquire) {
            for (node, attempts) in running(&folder) {
                assert!(attempts.len() as u64 <= PLACES, "{node} has {attempts:?}");
            }
            let answer = http.try_request("GET", "/api/capacity", &[], b"");
            let nodes = answer.ok().filter(|answer| answer.status == 200).map(|answer| answer.json());
            for node in nodes.iter().flat_map(|nodes| nodes.as_array().unwrap()) {
                let of = |what: &str| node[what]["tasks"].as_u64().unwrap();
                let taken = of("capacity").checked_sub(of("free"));
                assert_eq!(taken, node["tasks"].as_u64(), "{node}");
                looks += 1;
            }
            wait::pass(LOOK_EVERY);
        }
        looks
    };
    std::thread::scope(|scope| {
        let watching = scope.spawn(watch);
        let stop = Stop(&over);
        let done = work(plane);
        drop(stop);
        assert!(watching.join().unwrap() > 0, "the ledger was never seen");
        done
    })
}

/// The attempts of which anything runs, by node, as the processes' own environments say.
fn running(folder: &Path) -> BTreeMap<String, BTreeSet<String>> {
    let mut found: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for process in processes::with_argument(folder.to_str().unwrap()) {
        let variables = fs::read(format!("/proc/{}/environ", process.pid)).unwrap_or_default();
        let variables: Vec<_> = variables.split(|byte| *byte == 0).map(String::from_utf8_lossy).collect();
        let value = |name: &str| {
            let of = |one: &std::borrow::Cow<'_, str>| one.strip_prefix(name).map(str::to_owned);
            variables.iter().find_map(of)
        };
        let (node, id) = (value("ESTIMAND_NODE="), value("ESTIMAND_TASK_ID="));
        if let (Some(node), Some(id), Some(attempt)) = (node, id, value("ESTIMAND_TASK_ATTEMPT=")) {
            found.entry(node).or_default().insert(format!("{id}.{attempt}"));
        }
    }
    found
}

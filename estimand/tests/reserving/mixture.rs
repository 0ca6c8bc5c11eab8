//! Random windows of tasks that end early, listen or overrun, while services, an agent and a node go away: what each task had by
//! its own notes is what its reservation tells and costs. By default there are a few, and 1,000 with `ESTIMAND_LONG`.

use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use estimand_testkit::http::Http;
use estimand_testkit::process::{self, Estimand};
use estimand_testkit::sale_plane::SalePlane;
use estimand_testkit::wait::{self, PATIENCE};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::had::{check, record};
use crate::plane::{Plane, seconds};

const SHORT: usize = 30;
const LONG: usize = 1_000;
const SEED: u64 = 31;
/// From one reservation to the next.
const PACE: Duration = Duration::from_millis(250);
/// Between two notes of a task.
const BEAT_MILLIS: u64 = 100;
/// A report says how long ago a step was when it was gathered, and is on its way for less than so long.
const STALE_MILLIS: u64 = 1_000;
/// Notes the time at each beat until it has done so many, without a process for each. `$1` is what it does when it is asked to end.
const NOTING: &str = r#"[ "$1" = listen ] || trap '' TERM
mkfifo "$0/$ESTIMAND_TASK_ID.never" && exec 9<>"$0/$ESTIMAND_TASK_ID.never" >>"$0/$ESTIMAND_TASK_ID"
for ((beat = 0; beat != $2; beat++)); do echo $EPOCHREALTIME; read -t 0.1 -u 9; done
echo $EPOCHREALTIME"#;

/// A random request; its task notes its time in the folder.
fn drawn(chance: &mut fastrand::Rng, folder: &Path) -> Value {
    let duration = chance.u64(3..=12);
    let (ending, beats) = match chance.u8(0..3) {
        0 => ("listen", -1),
        1 => ("overrun", -1),
        _ => ("overrun", i64::try_from(chance.u64(0..duration * 8)).unwrap()),
    };
    json!({
        "resources": { "cpu": 0.02 }, "width": chance.u64(1..=2), "duration": duration,
        "from": format!("{}s", chance.u64(3..=12)), "value": 1000, "user": "ada",
        "task": { "command": ["/bin/bash", "-c", NOTING, folder, ending, beats.to_string()] },
    })
}

/// Reserves, whatever is away meanwhile. None if there is no room at that time.
fn reserved(http: &Http, asked: &Value, key: &str) -> Option<String> {
    let headers = [("Idempotency-Key", key), ("Content-Type", "application/json")];
    let body = asked.to_string();
    wait::until_ok(PATIENCE, "an answer", || {
        let answer = http.try_request("POST", "/api/reservations", &headers, body.as_bytes());
        match answer {
            Ok(answer) if matches!(answer.status, 200 | 201) => {
                Ok(Some(answer.json()["id"].as_str().unwrap().to_owned()))
            }
            Ok(answer) if answer.status == 409 => Ok(None),
            Ok(answer) => Err(answer.to_string()),
            Err(error) => Err(error.to_string()),
        }
    })
}

/// Takes parts away and brings them back, each in turn, until all is reserved and each was away.
fn trouble(services: &mut Estimand, agents: [&mut Estimand; 2], left: &AtomicUsize) -> usize {
    let mut chance = fastrand::Rng::with_seed(SEED);
    let mut away =
        |from: f64, to: f64| wait::pass(Duration::from_secs_f64(from + chance.f64() * (to - from)));
    let [first, second] = agents;
    let mut times = 0;
    while left.load(Ordering::Relaxed) > 0 || times < 3 {
        away(1.0, 4.0);
        match times % 3 {
            0 => {
                services.kill9();
                away(0.5, 6.0);
                services.restart_on_same_port();
            }
            1 => {
                first.kill9();
                away(0.5, 3.0);
                first.restart_on_same_port();
            }
            _ => {
                // Long enough to be lost.
                second.pause();
                away(6.0, 12.0);
                second.resume();
            }
        }
        times += 1;
    }
    times
}

/// Milliseconds since 1970 of a task's notes.
fn notes(folder: &Path, task: &str) -> Vec<u64> {
    let text = fs::read_to_string(folder.join(task)).unwrap_or_default();
    // The last one may be cut off by its end.
    let whole = text.rsplit_once('\n').map_or("", |(whole, _)| whole);
    whole.lines().map(|line| (line.parse::<f64>().unwrap() * 1_000.0) as u64).collect()
}

/// Milliseconds of the window between the first and the last note.
fn noted(notes: &[u64], window: (u64, u64)) -> u64 {
    let within = |at: &u64| (*at).clamp(window.0 * 1_000, window.1 * 1_000);
    notes.last().map_or(0, within) - notes.first().map_or(0, within)
}

/// A task that is over: its name, and the milliseconds that it had by its record and by its notes.
struct Had {
    task: String,
    told: u64,
    noted: u64,
}

#[test]
fn random_windows_are_told_and_charged_as_their_tasks_had_them() {
    let mut plane = Plane::selling(&[]);
    let folder = TempDir::new().unwrap();
    let args = ["agent", "--server", plane.services.base_url(), "--node", "n2", "--allow-all"];
    let data = folder.path().join("n2");
    let mut second = process::estimand().args(args).data_dir(data).without_http().start();
    wait::until(PATIENCE, "both nodes", || {
        let nodes = plane.http.get("/api/capacity").json();
        (nodes.as_array().unwrap().len() == 2).then_some(())
    });
    plane.processors();
    plane.grant("ada", "1000000");

    let count = if std::env::var_os("ESTIMAND_LONG").is_some() { LONG } else { SHORT };
    let mut made = Vec::new();
    let left = AtomicUsize::new(count);
    let SalePlane { services, agent, http, .. } = &mut *plane;
    thread::scope(|scope| {
        let trouble = scope.spawn(|| trouble(services, [agent, &mut second], &left));
        let mut chance = fastrand::Rng::with_seed(SEED);
        for number in 0..count {
            let asked = drawn(&mut chance, folder.path());
            made.extend(reserved(http, &asked, &format!("window {number}")));
            left.fetch_sub(1, Ordering::Relaxed);
            wait::pass(PACE);
        }
        println!("{} windows, something was away {} times", made.len(), trouble.join().unwrap());
    });
    plane.processors();
    assert!(made.len() > count / 2, "{} of {count} were reserved", made.len());

    let mut all = Vec::new();
    let mut broken = 0;
    let mut missed = 0;
    for id in &made {
        let over = wait::until_ok(PATIENCE, &format!("{id} to be over"), || {
            let one = plane.reservation(id);
            if one.get("endedAt").is_some() { Ok(one) } else { Err(one) }
        });
        if over["state"] == "BROKEN" {
            broken += 1;
            assert_eq!(over["refund"], over["price"], "{over}");
            continue;
        }
        // Its services were away, or this machine stood still, for all of a short window: nothing ran, and nothing is charged.
        if over["state"] == "CANCELLED" && over.get("task").is_none() {
            missed += 1;
            assert_eq!(
                (&over["refund"], &over["guarantee"]["deliveredSeconds"]),
                (&over["price"], &json!(0)),
                "{over}"
            );
            continue;
        }
        assert_eq!(over["state"], "OVER", "{over}");
        let task = over["task"].as_str().unwrap_or_else(|| panic!("it has a task: {over}"));
        let tasks = match over["width"].as_u64().unwrap() {
            1 => vec![task.to_owned()],
            width => (0..width).map(|index| format!("{task}.{index}")).collect(),
        };
        check(&plane, &over, &tasks);
        let window = (seconds(&over["start"]), seconds(&over["end"]));
        all.extend(tasks.into_iter().map(|task| {
            let told = record(&plane, &task, window).0;
            Had { told, noted: noted(&notes(folder.path(), &task), window), task }
        }));
    }
    println!(
        "{broken} of {} were broken by the loss of their node, {missed} missed; they cost nothing",
        made.len()
    );
    assert!(
        missed < made.len() / 4,
        "{missed} of {} windows were over before their tasks were submitted",
        made.len()
    );
    compare(&plane, folder.path(), &all);
}

/// The beginnings and ends that are told are those of the notes, but for as long as the machine keeps a process waiting, which is
/// seen by the pauses between notes.
fn compare(plane: &Plane, folder: &Path, all: &[Had]) {
    let pauses = all.iter().flat_map(|had| {
        let notes = notes(folder, &had.task);
        notes.windows(2).map(|pair| pair[1].saturating_sub(pair[0])).collect::<Vec<_>>()
    });
    let longest = pauses.max().unwrap();
    let mut differences: Vec<i64> = all.iter().map(|had| had.told as i64 - had.noted as i64).collect();
    differences.sort_unstable();
    let told: u64 = all.iter().map(|had| had.told).sum();
    let noted: u64 = all.iter().map(|had| had.noted).sum();
    println!(
        "{} tasks had {:.1} s by their records and {:.1} s by their notes; told beyond noted: least {} ms, median {} ms, most {} ms; \
         the longest pause between two notes: {longest} ms",
        all.len(),
        told as f64 / 1e3,
        noted as f64 / 1e3,
        differences[0],
        differences[differences.len() / 2],
        differences[differences.len() - 1],
    );
    let slack = STALE_MILLIS + 4 * longest.max(BEAT_MILLIS);
    for had in all {
        let task = || plane.http.get(&format!("/api/tasks/{}", had.task)).json();
        assert!(
            had.told.abs_diff(had.noted) <= slack,
            "it had {} ms by its notes {:?} and {} ms by its record: {}",
            had.noted,
            notes(folder, &had.task).iter().min().zip(notes(folder, &had.task).iter().max()),
            had.told,
            task()
        );
    }
}

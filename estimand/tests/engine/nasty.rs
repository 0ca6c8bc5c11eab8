//! Each bad behaviour that an executable can have, all of them at once on one agent, beside fifty that behave
//! well: these miss nothing, and in the end nothing is left.
//!
//! Each bad one behaves well first, so that there is a value which it could spoil, and turns when a file appears.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use chrono::{DateTime, TimeDelta, Utc};
use estimand_testkit::processes;
use estimand_testkit::wait::{self, PATIENCE};
use serde_json::{Value, json};

use crate::plane::{Agent, Plane};

const GOOD: usize = 50;
/// For how many seconds the good ones are watched, and after how many of these the agent's memory is looked at.
const WATCHED: u64 = 30;
const WATCHED_WITHOUT_CGROUPS: u64 = 15;
const WARM: u64 = 5;
/// How many due times of all good ones may come to nothing: none does on a machine that has the time, and on one that
/// also compiles some do now and then. A slot that is starved loses about as many as it is watched for seconds, and a
/// single second in which nobody is served costs each of them one.
const MOST_MISSED: u64 = 45;
/// Between two values of a good one; a missed due time makes it 2 s.
const MOST_BETWEEN: TimeDelta = TimeDelta::seconds(4);
const TICK_AND_A_HALF: TimeDelta = TimeDelta::milliseconds(1_500);
/// The memory that the agent may have gained while it was flooded: far less than one of the floods.
const MOST_GROWTH: u64 = 8 << 20;

/// One that turns bad.
struct Bad {
    name: &'static str,
    words: &'static [&'static str],
    more: Value,
    /// The error of its slot then; nothing for one that does harm, but still gives a value.
    error: Option<&'static str>,
    value: Value,
}

fn bad(name: &'static str, words: &'static [&'static str], error: &'static str) -> Bad {
    Bad { name, words, more: json!({}), error: Some(error), value: json!("good") }
}

impl Bad {
    fn with(mut self, more: Value) -> Self {
        self.more = more;
        self
    }

    /// One that gives a value in spite of what it does.
    fn but_says(name: &'static str, words: &'static [&'static str], value: Value) -> Self {
        Bad { name, words, more: json!({}), error: None, value }
    }
}

const TOO_LONG: &str = "it did not end within 1s and was ended";

fn all_bad(cgroups: bool) -> Vec<Bad> {
    let out_of_memory =
        if cgroups { "limit of memory" } else { "it ended with exit 74: eat-memory: out of memory" };
    let too_many = if cgroups { TOO_LONG } else { "processes" };
    vec![
        bad("hang", &["hang"], TOO_LONG),
        bad("deaf", &["ignore-term", "hang"], TOO_LONG),
        bad("closed", &["close-pipes", "hang"], TOO_LONG),
        bad("flood", &["flood-stdout"], TOO_LONG),
        bad("much", &["flood-stdout:1MiB"], "it printed 1048576 bytes; at most "),
        bad("complains", &["flood-stderr"], "was ended: flood, flood"),
        bad("slow", &["slow:abcde:250ms"], TOO_LONG),
        bad("late", &["late:1500ms:late"], TOO_LONG),
        bad("exits", &["print:1", "stderr:no such sensor", "exit:3"], "it ended with exit 3: no such sensor"),
        bad("crashes", &["print:1", "signal:SEGV"], "it ended with signal 11"),
        bad("junk", &["binary-junk"], "UTF-8"),
        bad("nul", &["nul"], "NUL"),
        bad("latin", &["invalid-utf8"], "UTF-8"),
        bad("two", &["two-documents"], "JSON"),
        bad("trailing", &["trailing-junk"], "JSON"),
        bad("bomb", &["fork-bomb"], too_many).with(json!({"limits": {"processes": 50}})),
        bad("big_bomb", &["fork-bomb"], too_many).with(json!({"max-Time": 5, "timeout": 1})),
        bad("eats", &["eat-memory"], out_of_memory).with(json!({"limits": {"memory": "32MiB"}})),
        bad("eats_all", &["eat-memory"], "it did not end within 500ms")
            .with(json!({"max-Time": 5, "timeout": 0.5})),
        Bad::but_says("keeps", &["grandchild-keeps-pipe", "print:after"], json!("after")),
        Bad::but_says("daemon", &["daemonize", "print:after"], json!("after")),
    ]
}

/// Streams, which are what they are from the start.
fn streams() -> Vec<Bad> {
    let stream = |name, words, error, value: Value, more: Value| {
        let mut all = json!({"mode": "stream"});
        all.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        Bad { name, words, more: all, error, value }
    };
    vec![
        stream("dies", &["stream-die-after:3:50ms"], Some("it ended with exit 1"), json!(3), json!({})),
        stream("rants", &["flood-stdout"], Some("number"), Value::Null, json!({"format": "number"})),
        stream(
            "falls_silent",
            &["print:7", "hang"],
            Some("it said nothing for 1s and was ended"),
            json!(7),
            json!({"timeout": 1}),
        ),
        stream(
            "hides",
            &["print:8", "ignore-term", "close-pipes", "hang"],
            Some("closed"),
            json!(8),
            json!({}),
        ),
    ]
}

#[test]
fn one_misbehaving_slot_costs_the_others_nothing() {
    live_with_all_of_them(Agent::Beside, WATCHED);
    live_with_all_of_them(Agent::WithoutCgroups, WATCHED_WITHOUT_CGROUPS);
}

fn live_with_all_of_them(agent: Agent, watched: u64) {
    let plane = Plane::with_agent("nasty", agent, &[]);
    let _guard = (agent == Agent::WithoutCgroups).then(|| Guard::over(&plane));
    let bad = register_all(&plane, agent != Agent::WithoutCgroups);
    let (turned, at_first) = (Instant::now(), count(&plane));
    std::fs::write(plane.file("turn"), "").unwrap();
    for bad in &bad {
        check_trouble(&plane, bad);
    }
    println!("all of them have turned after {:?}", turned.elapsed());
    until_counted(&plane, at_first + WARM);
    let warm = plane.agent().rss_bytes();
    until_counted(&plane, at_first + watched);
    let grown = plane.agent().rss_bytes().saturating_sub(warm);
    println!("{agent:?}: the agent has {} KiB, {} KiB more than after {WARM} s", warm >> 10, grown >> 10);
    assert!(grown <= MOST_GROWTH, "{warm} bytes, and then {grown} more");
    let mut gaps = BTreeMap::new();
    let missed: u64 = (0..GOOD).map(|number| check_good(&plane, number, &mut gaps)).sum();
    println!("{missed} due times of {GOOD} good ones were missed, of {MOST_MISSED} that may be: {gaps:?}");
    assert!(
        missed <= MOST_MISSED,
        "{missed} due times of the good ones were missed, most of all before {gaps:?}"
    );
    for bad in &bad {
        check_value(&plane, bad);
    }
    check_asked(&plane, watched);
    delete_all(&plane, &bad);
    plane.end();
}

fn good(number: usize) -> String {
    format!("good_{number}")
}

/// Registers all, and waits until each has a value.
fn register_all(plane: &Plane, cgroups: bool) -> Vec<Bad> {
    for number in 0..GOOD {
        let (alone, count) = (plane.file(&format!("alone_{number}")), plane.file(&format!("count_{number}")));
        let words = [format!("alone:{alone}"), format!("count:{count}")];
        let more = each_second(&json!({"history": {"max": 1000}}));
        plane.register(&good(number), &words.each_ref().map(String::as_str), more);
    }
    let (turn, mock) = (plane.file("turn"), crate::plane::mock().display().to_string());
    let program = plane.script("turncoat", &format!("[ -e '{turn}' ] && exec '{mock}' \"$@\"\necho good"));
    let mut bad = all_bad(cgroups);
    for one in &bad {
        let mut cmd = plane.mock(one.name, one.words);
        cmd[0] = json!(program);
        plane.register_cmd(one.name, cmd, each_second(&one.more));
    }
    for one in &bad {
        plane.until_is(one.name, "good");
    }
    for one in streams() {
        plane.register(one.name, one.words, each_second(&one.more));
        bad.push(one);
    }
    plane.register("asked", &["stream-asked"], json!({"max-Time": 1, "mode": "stream"}));
    for number in 0..GOOD {
        plane.until_value(&good(number), "there", |_| true);
    }
    bad
}

fn each_second(more: &Value) -> Value {
    let mut all = json!({"max-Time": 1, "timeout": null});
    all.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    all
}

/// Its slot says what is wrong with it.
fn check_trouble(plane: &Plane, bad: &Bad) {
    match bad.error {
        Some(error) => drop(plane.until_error(bad.name, error)),
        None => drop(plane.until_is(bad.name, bad.value.clone())),
    }
}

/// No bad run has replaced a good value.
fn check_value(plane: &Plane, bad: &Bad) {
    let Some(value) = plane.read(bad.name) else {
        return assert_eq!(bad.value, Value::Null, "{} has no value", bad.name);
    };
    if bad.error.is_none() {
        assert_eq!(
            (&value["dataValue"], value["state"].as_str()),
            (&bad.value, Some("fresh")),
            "{}",
            bad.name
        );
    } else if bad.more["mode"] == "stream" {
        // Just now it may be at its beginning again.
        let said = [json!(1), json!(2), bad.value.clone()];
        assert!(said.contains(&value["dataValue"]), "{value}");
    } else {
        assert_eq!(
            (&value["dataValue"], value["state"].as_str()),
            (&bad.value, Some("failed")),
            "{}",
            bad.name
        );
    }
}

fn check_asked(plane: &Plane, watched: u64) {
    let value = plane.read("asked").unwrap();
    let slot = plane.instance("asked").unwrap();
    assert!(value["dataValue"].as_u64().unwrap() + 5 >= watched, "{value}\n{slot}");
    assert_eq!((value["state"].as_str(), &slot["restarts"]), (Some("fresh"), &json!(0)), "{value}\n{slot}");
}

/// Waits until a good one has counted so far.
fn until_counted(plane: &Plane, far: u64) {
    wait::until(PATIENCE, &format!("a good one to count up to {far}"), || {
        (count(plane) >= far).then_some(())
    });
}

fn count(plane: &Plane) -> u64 {
    plane.read(&good(0)).unwrap()["dataValue"].as_u64().unwrap()
}

/// It never ran twice at once, nothing that it gave was lost, and it was never forgotten. Returns how many due times
/// came to nothing, and counts the gaps by the second in which they ended.
fn check_good(plane: &Plane, number: usize, gaps: &mut BTreeMap<String, u64>) -> u64 {
    let (past, slot) = (plane.history(&good(number)), plane.instance(&good(number)).unwrap());
    let counted = |value: &Value| value["dataValue"].as_u64().unwrap();
    let at = |value: &Value| value["collectedAt"].as_str().unwrap().parse::<DateTime<Utc>>().unwrap();
    for pair in past.windows(2) {
        let between = at(&pair[1]) - at(&pair[0]);
        assert!(
            between <= MOST_BETWEEN,
            "{} ms passed before {}\n{slot}",
            between.num_milliseconds(),
            pair[1]
        );
        if between > TICK_AND_A_HALF {
            *gaps.entry(at(&pair[1]).format("%T").to_string()).or_default() += 1;
        }
        assert!(counted(&pair[1]) > counted(&pair[0]), "{} came after {}", pair[1], pair[0]);
    }
    let count = |what: &str| slot[what].as_u64().unwrap();
    // A run that was ended too early had counted already.
    let lost = counted(past.last().unwrap()) - past.len() as u64;
    assert!(
        lost <= count("failures"),
        "{lost} runs gave nothing, and only {} failed\n{slot}",
        count("failures")
    );
    let twice = std::fs::read_to_string(plane.file(&format!("alone_{number}.twice"))).unwrap_or_default();
    assert_eq!(twice, "", "{slot}");
    count("overruns") + count("failures")
}

/// When the last deletion has returned, nothing is left.
fn delete_all(plane: &Plane, bad: &[Bad]) {
    for bad in bad {
        plane.unregister(bad.name);
        plane.nothing_runs_of(bad.name);
    }
    for number in 0..GOOD {
        plane.unregister(&good(number));
    }
    plane.unregister("asked");
    processes::none_with(&plane.mark, Duration::ZERO);
    let left: Vec<String> =
        processes::descendants(plane.launcher()).iter().map(ToString::to_string).collect();
    assert_eq!(left, Vec::<String>::new());
    let inner = |group: PathBuf| folders_in(&group);
    assert_eq!(plane.cgroups().into_iter().flat_map(inner).collect::<Vec<_>>(), Vec::<PathBuf>::new());
}

fn folders_in(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).unwrap().flatten();
    entries.map(|entry| entry.path()).filter(|path| path.is_dir()).collect()
}

/// The most processes that the agent may have, with all that it runs, if a bomb should get away from it: then this
/// test fails, and not the machine with it.
const MOST_PROCESSES: &str = "1500";

/// A group of its own for an agent and what it starts.
struct Guard(Option<PathBuf>);

impl Guard {
    fn over(plane: &Plane) -> Self {
        let group = PathBuf::from(format!("/sys/fs/cgroup/pids/estimand-guard-{}", plane.agent().pid()));
        if std::fs::create_dir(&group).is_err() {
            return Guard(None);
        }
        std::fs::write(group.join("pids.max"), MOST_PROCESSES).unwrap();
        let family = processes::descendants(plane.agent().pid());
        for pid in family.iter().map(|process| process.pid).chain([plane.agent().pid()]) {
            std::fs::write(group.join("cgroup.procs"), pid.to_string()).unwrap();
        }
        Guard(Some(group))
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        if let Some(group) = &self.0 {
            let _ = std::fs::remove_dir(group);
        }
    }
}

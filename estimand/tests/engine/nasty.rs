//! Each bad behaviour that an executable can have, all of them at once on one agent, beside fifty that behave
//! well: these miss nothing, and in the end nothing is left.
//!
//! Each bad one behaves well first, so that there is a value which it could spoil, and turns when a file appears.

use std::path::{Path, PathBuf};
use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use estimand_testkit::{processes, wait};
use serde_json::{Value, json};

use crate::plane::{Agent, NODE, Plane};

const GOOD: usize = 50;
/// How many seconds the good ones are watched, and after how many of these the agent's memory is looked at.
const WATCHED: u64 = 30;
const WARM: u64 = 10;
const DEADLINE: Duration = Duration::from_secs(120);
/// Between two values of one that runs each second. A tick that was missed makes it 2 s; a run that started late
/// because the machine had something else to do stays well below.
const MOST_BETWEEN: TimeDelta = TimeDelta::milliseconds(1_900);
/// What the agent may have grown while it was flooded: far less than one of the floods.
const MOST_GROWTH: u64 = 8 << 20;

/// One that turns bad.
struct Bad {
    name: &'static str,
    words: &'static [&'static str],
    more: Value,
    /// What its slot says then; nothing for one that does harm, but still gives a value.
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
    ]
}

#[test]
fn whatever_one_does_the_others_miss_nothing() {
    for agent in [Agent::Beside, Agent::WithoutCgroups] {
        live_with_all_of_them(agent);
    }
}

fn live_with_all_of_them(agent: Agent) {
    let plane = Plane::with_agent("nasty", agent, &[]);
    println!("{agent:?}: {}", plane.http.get(&format!("/api/nodes/{NODE}")).text());
    let bad = register_all(&plane, agent != Agent::WithoutCgroups);
    let (turned, at_first) = (Utc::now(), count(&plane));
    std::fs::write(plane.file("turn"), "").unwrap();
    for bad in &bad {
        check_trouble(&plane, bad);
    }
    println!("all of them have turned after {}", Utc::now() - turned);
    until_counted(&plane, at_first + WARM);
    let warm = plane.agent().rss_bytes();
    until_counted(&plane, at_first + WATCHED);
    let grown = plane.agent().rss_bytes().saturating_sub(warm);
    println!("the agent has {} KiB, {} KiB more than after {WARM} s", warm >> 10, grown >> 10);
    assert!(grown <= MOST_GROWTH, "{warm} bytes, and then {grown} more");
    let troubles: Vec<String> = (0..GOOD).flat_map(|number| troubles_of(&plane, number, turned)).collect();
    assert!(troubles.is_empty(), "since they turned at {turned}:\n{}", troubles.join("\n"));
    for bad in &bad {
        check_value(&plane, bad);
    }
    check_asked(&plane);
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

fn check_asked(plane: &Plane) {
    let value = plane.read("asked").unwrap();
    let slot = plane.instance("asked").unwrap();
    assert!(value["dataValue"].as_u64().unwrap() + 2 >= WATCHED, "{value}\n{slot}");
    assert_eq!((value["state"].as_str(), &slot["restarts"]), (Some("fresh"), &json!(0)), "{value}\n{slot}");
}

/// Waits until a good one has counted so far.
fn until_counted(plane: &Plane, far: u64) {
    wait::until(DEADLINE, &format!("a good one to count up to {far}"), || {
        (count(plane) >= far).then_some(())
    });
}

fn count(plane: &Plane) -> u64 {
    plane.read(&good(0)).unwrap()["dataValue"].as_u64().unwrap()
}

/// What was not as it should be: it ran each second, never twice at once, and nothing that it gave was lost.
fn troubles_of(plane: &Plane, number: usize, since: DateTime<Utc>) -> Vec<String> {
    let (past, slot) = (plane.history(&good(number)), plane.instance(&good(number)).unwrap());
    let at = |value: &Value| value["collectedAt"].as_str().unwrap().parse::<DateTime<Utc>>().unwrap();
    let mut troubles = Vec::new();
    for pair in past.windows(2) {
        let (count, next) = (pair[0]["dataValue"].as_u64().unwrap(), pair[1]["dataValue"].as_u64().unwrap());
        if next != count + 1 {
            troubles.push(format!("after {count} came {next} at {}", at(&pair[1])));
        }
        let between = at(&pair[1]) - at(&pair[0]);
        if between > MOST_BETWEEN {
            troubles.push(format!("{} ms passed before {}", between.num_milliseconds(), at(&pair[1])));
        }
    }
    let watched = past.iter().filter(|value| at(value) >= since).count() as u64;
    if watched + 1 < WATCHED {
        troubles.push(format!("only {watched} values came"));
    }
    for count in ["overruns", "failures", "timeouts"].iter().filter(|count| slot[*count] != 0) {
        troubles.push(format!("{} {count}", slot[count]));
    }
    let twice = std::fs::read_to_string(plane.file(&format!("alone_{number}.twice"))).unwrap_or_default();
    troubles.extend(twice.lines().map(str::to_owned));
    troubles.into_iter().map(|trouble| format!("{}: {trouble}", good(number))).collect()
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

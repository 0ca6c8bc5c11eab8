//! When things run, end to end. The timetable itself is tested with a clock of its own.

use chrono::{DateTime, TimeDelta, Utc};
use estimand_testkit::wait::{self, PATIENCE};
use serde_json::{Value, json};

use crate::plane::Plane;

/// When runs of a name began and ended, from what is kept of it; the count is its value.
fn runs(plane: &Plane, name: &str, enough: usize) -> Vec<Value> {
    wait::until(PATIENCE, &format!("{enough} runs of `{name}`"), || {
        let past = plane.history(name);
        (past.len() >= enough).then_some(past)
    })
}

fn at(value: &Value) -> DateTime<Utc> {
    value["collectedAt"].as_str().unwrap().parse().unwrap()
}

#[test]
fn gaps_calendars_and_grids_are_kept() {
    let plane = Plane::up("timing");
    let history = json!({"max": 100});
    plane.register("gap", &["sleep:400ms", "print:1"], json!({"gap": 0.3, "history": history}));
    plane.register("aligned", &["print:1"], json!({"max-Time": 1, "phase": "aligned", "history": history}));
    let calendar = json!({"schedule": "* * * * * *", "atOnce": true, "history": history});
    plane.register("calendar", &["print:1"], calendar);

    // From the end of one to the start of the next there is the gap, so from end to end a run more.
    let past = runs(&plane, "gap", 4);
    for pair in past.windows(2) {
        let between = at(&pair[1]) - at(&pair[0]);
        assert!(between >= TimeDelta::milliseconds(700), "{between}: {past:?}");
    }
    let slot = plane.instance("gap").unwrap();
    assert_eq!(slot["overruns"], 0, "{slot}");

    // The first run comes at once, the others on the full second, which a busy machine is late for at times.
    for name in ["aligned", "calendar"] {
        let past = runs(&plane, name, 4);
        let least = past[1..].iter().map(|value| at(value).timestamp_subsec_millis()).min().unwrap();
        assert!(least < 700, "{least} ms after the second: {past:?}");
    }
    plane.end();
}

/// A nightly job is no morning job: neither its registration nor a restart of the agent runs it.
#[test]
fn a_calendar_waits_for_its_time_unless_it_begins_at_once() {
    let mut plane = Plane::up("calendar");
    let counts = |name: &str| [format!("count:{}", plane.file(name))];
    let (waiting, eager, after) = (counts("waiting"), counts("eager"), counts("after"));
    let register = |plane: &Plane, name: &str, words: &[String; 1], more: Value| {
        plane.register(name, &words.each_ref().map(String::as_str), more);
    };
    register(&plane, "waiting", &waiting, json!({"schedule": "0 0 29 2 *"}));
    register(&plane, "eager", &eager, json!({"schedule": "0 0 29 2 *", "atOnce": true}));
    // A later registration has run, so the first one had its chance.
    register(&plane, "after", &after, json!({"max-Time": 60}));
    plane.until_is("eager", 1);
    plane.until_is("after", 1);
    let slot = plane.until_instance("waiting", "to wait", |slot| slot["doing"] == "idle");
    assert_eq!((&slot["runs"], plane.read("waiting")), (&json!(0), None), "{slot}");
    plane.services.terminate();
    plane.services.restart_on_same_port();
    plane.until_is("eager", 2);
    plane.until_is("after", 2);
    let slot = plane.until_instance("waiting", "to wait", |slot| slot["doing"] == "idle");
    assert_eq!((&slot["runs"], plane.read("waiting")), (&json!(0), None), "{slot}");
    // Somebody may ask for it.
    plane.run_by_hand("waiting").expect_status(200);
    plane.end();
}

/// A slot never runs twice at once, also when its interval is far shorter than its runs.
#[test]
fn a_slot_runs_once_at_a_time() {
    let plane = Plane::up("once");
    let (alone, count) = (plane.file("alone"), plane.file("count"));
    let words = [format!("alone:{alone}"), format!("count:{count}"), "sleep:50ms".to_owned()];
    plane.register("once", &words.each_ref().map(String::as_str), json!({"max-Time": 0.01, "timeout": 5}));
    plane.until_value("once", "at its tenth run", |value| value["dataValue"].as_u64() >= Some(10));
    let slot = plane
        .until_instance("once", "to have skipped due times", |slot| slot["overruns"].as_u64() >= Some(10));
    assert_eq!(slot["failures"], 0, "{slot}");
    assert_eq!(std::fs::read_to_string(format!("{alone}.twice")).unwrap_or_default(), "");
    plane.end();
}

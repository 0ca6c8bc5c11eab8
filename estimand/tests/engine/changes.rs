//! Changes under way: readers see no gap and no way back, and what is ended is gone when that is said.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use estimand_testkit::wait::{self, PATIENCE};
use serde_json::{Value, json};

use crate::plane::{NODE, Plane};

/// The changes that a reader saw, each once: the value and its state.
type Seen = Vec<(Value, String)>;

/// Reads a value again and again while `work` is done. There must be one at any time.
fn reading<T>(plane: &Plane, name: &str, work: impl FnOnce() -> T) -> (Seen, T) {
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        let reader = scope.spawn(|| {
            let http = plane.services.http();
            let mut seen = Seen::new();
            // There is always one more look after the work is done.
            let mut last = false;
            while !last {
                last = done.load(Ordering::Acquire);
                let read = http.get(&format!("/api/data/{name}/{NODE}")).expect_status(200).json();
                let now = (read["dataValue"].clone(), read["state"].as_str().unwrap().to_owned());
                if seen.last() != Some(&now) {
                    seen.push(now);
                }
            }
            seen
        });
        let ending = SetAtEnd(&done);
        let result = work();
        drop(ending);
        (reader.join().unwrap(), result)
    })
}

/// Ends the reader also if the work fails.
struct SetAtEnd<'f>(&'f AtomicBool);

impl Drop for SetAtEnd<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}

/// A machine that stands still for as long as a value holds makes it stale, and its next run makes it fresh again. Nothing
/// else may happen to it.
fn assert_held(seen: &Seen) {
    assert!(seen.iter().all(|(_, state)| state == "fresh" || state == "stale"), "{seen:?}");
    assert!(seen.last().is_some_and(|(_, state)| state == "fresh"), "{seen:?}");
}

/// Each value once, in the order in which they were seen.
fn values(seen: &Seen) -> Vec<&Value> {
    let mut values: Vec<&Value> = seen.iter().map(|(value, _)| value).collect();
    values.dedup();
    values
}

#[test]
fn a_replacement_shows_no_gap_and_no_way_back() {
    let plane = Plane::up("replacement");
    let quick = || json!({"max-Time": 0.1});
    plane.register("fact", &["print:v0"], quick());
    plane.until_is("fact", "v0");
    let (seen, ()) = reading(&plane, "fact", || {
        // Also at another interval, and one that takes longer than the interval of the one before.
        plane.replace("fact", &["print:v1"], quick());
        plane.until_is("fact", "v1");
        plane.replace("fact", &["sleep:500ms", "print:v2"], json!({"max-Time": 0.2, "timeout": 5}));
        plane.until_is("fact", "v2");
        plane.replace("fact", &["print:v3", "hang"], json!({"mode": "stream"}));
        plane.until_is("fact", "v3");
        plane.replace("fact", &["print:v4"], quick());
        plane.until_is("fact", "v4");
    });
    assert_eq!(values(&seen), ["v0", "v1", "v2", "v3", "v4"], "{seen:?}");
    assert_held(&seen);
    // The old ones are gone.
    wait::until(PATIENCE, "the stream to be gone", || {
        plane.running().iter().all(|process| !process.cmdline.iter().any(|word| word == "hang")).then_some(())
    });
    plane.end();
}

#[test]
fn a_replacement_that_fails_harms_nobody() {
    let plane = Plane::up("failing");
    let quick = || json!({"max-Time": 0.2});
    plane.register("fact", &["print:good"], quick());
    plane.until_is("fact", "good");
    let (seen, ()) = reading(&plane, "fact", || {
        plane.replace("fact", &["stderr:no such sensor", "exit:3"], quick());
        let slot = plane.until_instance("fact", "to say that its next version fails", |slot| {
            slot["next"]["failures"].as_u64() >= Some(3)
        });
        assert_eq!(slot["next"]["lastError"], "it ended with exit 3: no such sensor", "{slot}");
        assert!(slot["next"]["version"].as_u64() > slot["version"].as_u64(), "{slot}");
        assert_eq!((&slot["failing"], slot.get("lastError")), (&json!(0), None), "{slot}");
        let at = plane.read("fact").unwrap()["collectedAt"].clone();
        plane.until_value("fact", "renewed by the old version", |value| value["collectedAt"] != at);
        plane.replace("fact", &["print:better"], quick());
        plane.until_is("fact", "better");
    });
    assert_eq!(values(&seen), ["good", "better"], "{seen:?}");
    assert_held(&seen);
    let slot = plane.until_instance("fact", "to be content", |slot| slot.get("next").is_none());
    assert_eq!(slot["registered"], slot["version"], "{slot}");
    plane.end();
}

/// One that never ends takes turns with the one that serves, which goes on.
#[test]
fn a_replacement_that_hangs_harms_nobody() {
    let plane = Plane::up("hanging");
    plane.register("fact", &["print:good"], json!({"max-Time": 0.5}));
    plane.until_is("fact", "good");
    let (seen, ()) = reading(&plane, "fact", || {
        plane.replace("fact", &["ignore-term", "hang"], json!({"max-Time": 0.5, "timeout": 0.5}));
        plane.until_instance("fact", "to say that its next version fails", |slot| {
            slot["next"]["failures"].as_u64() >= Some(3)
        });
        let at = plane.read("fact").unwrap()["collectedAt"].clone();
        plane.until_value("fact", "renewed by the old version", |value| value["collectedAt"] != at);
        plane.replace("fact", &["print:better"], json!({"max-Time": 0.5}));
        plane.until_is("fact", "better");
    });
    assert_eq!(values(&seen), ["good", "better"], "{seen:?}");
    plane.end();
}

/// A deletion is answered when nothing is left: looked at once, without waiting.
#[test]
fn runs_of_a_deleted_registration_end() {
    let plane = Plane::up("deleted");
    let long = || json!({"timeout": 600, "max-Time": 600});
    plane.register("ticks", &["print:1"], json!({"max-Time": 0.02}));
    plane.register("hangs", &["hang"], long());
    plane.register("deaf", &["ignore-term", "hang"], long());
    plane.register("keeps", &["ignore-term", "grandchild-keeps-pipe", "hang"], long());
    plane.register("daemon", &["ignore-term", "daemonize", "hang"], long());
    plane.register("floods", &["flood-stdout"], long());
    plane.register("stream", &["ignore-term", "stream:10ms"], json!({"mode": "stream"}));
    plane.register(
        "bomb",
        &["fork-bomb"],
        json!({"timeout": 600, "max-Time": 600, "limits": {"processes": 50}}),
    );
    plane.until_is("ticks", 1);
    for name in ["hangs", "deaf", "keeps", "daemon", "floods", "stream", "bomb"] {
        wait::until(PATIENCE, &format!("`{name}` to run"), || {
            (!plane.running_of(name).is_empty()).then_some(())
        });
    }
    for name in ["ticks", "hangs", "deaf", "keeps", "daemon", "floods", "stream", "bomb"] {
        plane.unregister(name);
        plane.nothing_runs_of(name);
        assert_eq!(plane.instance(name), None);
    }
    assert_eq!(plane.running(), []);
    // Collected values stay until somebody deletes them.
    assert_eq!(plane.read("ticks").unwrap()["dataValue"], 1);
    plane.end();
}

#[test]
fn a_paused_registration_stops_and_keeps_what_it_has() {
    let plane = Plane::up("paused");
    let count = plane.file("count");
    let words = [format!("count:{count}")];
    let words = words.each_ref().map(String::as_str);
    plane.register("fact", &words, json!({"max-Time": 0.05, "history": {"max": 1000}}));
    plane.until_value("fact", "at its third run", |value| value["dataValue"].as_u64() >= Some(3));
    plane.patch("fact", &json!({"paused": true}));
    wait::until(PATIENCE, "the slot to end", || plane.instance("fact").is_none().then_some(()));
    let last = plane.read("fact").unwrap()["dataValue"].as_u64().unwrap();
    plane.patch("fact", &json!({"paused": null}));
    plane.until_value("fact", "a new one", |value| value["dataValue"].as_u64() > Some(last));
    plane.end();
}

#[test]
fn an_interval_may_change_while_it_runs() {
    let plane = Plane::up("interval");
    let (alone, count) = (plane.file("alone"), plane.file("count"));
    let words = [format!("alone:{alone}"), format!("count:{count}"), "sleep:50ms".to_owned()];
    let words = words.each_ref().map(String::as_str);
    plane.register("fact", &words, json!({"max-Time": 31_000_000}));
    plane.until_is("fact", 1);
    plane.replace("fact", &words, json!({"max-Time": 0.1}));
    plane.until_value("fact", "at its tenth run", |value| value["dataValue"].as_u64() >= Some(10));
    plane.replace("fact", &words, json!({"max-Time": 30_000_000}));
    // The new version has its first run at once, and then a year to wait.
    plane.until_value("fact", "from the slow version", |value| value["validFor"].as_f64() >= Some(9e7));
    let slot = plane.until_instance("fact", "to have changed", |slot| slot["registered"] == slot["version"]);
    let last = plane.read("fact").unwrap();
    let idle = plane.until_instance("fact", "to be idle", |slot| slot["doing"] == "idle");
    assert_eq!(idle["version"], slot["version"]);
    assert_eq!(plane.read("fact").unwrap(), last);
    assert_eq!(std::fs::read_to_string(format!("{alone}.twice")).unwrap_or_default(), "");
    plane.end();
}

/// Of many replacements in a row the last one runs, and nothing of the others does.
#[test]
fn the_last_of_many_replacements_runs() {
    let plane = Plane::up("many");
    plane.register("fact", &["stream:20ms"], json!({"mode": "stream"}));
    plane.until_value("fact", "there", |_| true);
    for number in 1..=20 {
        let print = format!("print:version-{number}");
        match number % 3 {
            0 => plane.replace("fact", &[&print, "hang"], json!({"mode": "stream"})),
            1 => plane.replace(
                "fact",
                &[&print, "ignore-term", "sleep:1s"],
                json!({"max-Time": 0.2, "timeout": 5}),
            ),
            _ => plane.replace("fact", &[&print], json!({"max-Time": 0.1})),
        }
    }
    plane.until_is("fact", "version-20");
    plane.until_instance("fact", "to run the last version alone", |slot| {
        slot["registered"] == slot["version"] && slot.get("next").is_none()
    });
    let told = |process: &estimand_testkit::processes::Process| {
        process.cmdline.iter().any(|word| word == "print:version-20")
    };
    wait::until_ok(PATIENCE, "all others to be gone", || match plane.running() {
        running if running.iter().all(told) => Ok(()),
        running => Err(format!("{running:?}")),
    });
    let at = plane.read("fact").unwrap()["collectedAt"].clone();
    plane.until_value("fact", "renewed", |value| {
        value["collectedAt"] != at && value["dataValue"] == "version-20"
    });
    plane.end();
}

#[test]
fn a_stream_may_become_runs_and_back() {
    let plane = Plane::up("there-and-back");
    plane.register("fact", &["stream:50ms"], json!({"mode": "stream"}));
    plane.until_value("fact", "a number", |value| value["dataValue"].as_u64() >= Some(2));
    let stream = plane.until_runs("fact", "stream:50ms");
    let (seen, ()) = reading(&plane, "fact", || {
        plane.replace("fact", &["print:run"], json!({"max-Time": 0.2}));
        plane.until_is("fact", "run");
        wait::until(PATIENCE, "the stream to be gone", || {
            (!estimand_testkit::processes::is_alive(stream.pid)).then_some(())
        });
        plane.replace("fact", &["print:again", "hang"], json!({"mode": "stream"}));
        plane.until_is("fact", "again");
    });
    let texts: Vec<&Value> = values(&seen).into_iter().skip_while(|value| value.is_number()).collect();
    assert_eq!(texts, ["run", "again"], "{seen:?}");
    plane.end();
}

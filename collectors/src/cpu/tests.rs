#![allow(clippy::unwrap_used)]

use proptest::prelude::*;
use serde_json::json;

use super::*;

const BEFORE: &str = include_str!("../../fixtures/stat-before");
const AFTER: &str = include_str!("../../fixtures/stat-after");
const CPUINFO: &str = include_str!("../../fixtures/cpuinfo-x86");

fn value(before: &str, now: &str) -> Value {
    let (before, now) = (parse(before), parse(now));
    Usage::of(&before, &now).value(&cores(&now), &BTreeMap::new(), None)
}

fn number(value: &Value, path: &str) -> f64 {
    value.pointer(path).and_then(Value::as_f64).unwrap_or_else(|| panic!("{path} in {value}"))
}

#[test]
fn a_machine_that_works_is_told_about_in_fractions() {
    let value = value(BEFORE, AFTER);
    // Core 0: 60 user, 10 nice, 20 system, 5 softirq, 5 steal, 90 idle, 10 iowait; core 1: 200 idle.
    assert_eq!(number(&value, "/usageFraction"), 0.25);
    assert_eq!(number(&value, "/userFraction"), 0.175);
    assert_eq!(number(&value, "/systemFraction"), 0.0625);
    assert_eq!(number(&value, "/stealFraction"), 0.0125);
    assert_eq!(number(&value, "/iowaitFraction"), 0.025);
    assert_eq!(number(&value, "/freeFraction"), 0.75);
    assert_eq!(number(&value, "/cores/0/usageFraction"), 0.5);
    assert_eq!(number(&value, "/cores/1/usageFraction"), 0.0);
    assert_eq!(value["count"], 2);
}

#[test]
fn guests_are_not_counted_twice() {
    let value = value("cpu0 0 0 0 0 0 0 0 0 0 0\n", "cpu0 100 0 0 100 0 0 0 0 100 0\n");
    assert_eq!(number(&value, "/userFraction"), 0.5);
}

#[test]
fn waiting_that_goes_backwards_was_none() {
    let value = value("cpu0 0 0 0 100 50\n", "cpu0 50 0 0 150 40\n");
    assert_eq!(number(&value, "/usageFraction"), 0.5);
    assert_eq!(number(&value, "/iowaitFraction"), 0.0);
}

#[test]
fn without_time_between_there_is_nothing_rather_than_a_division_by_nothing() {
    let value = value(BEFORE, BEFORE);
    for field in ["usageFraction", "freeFraction", "idleFraction"] {
        assert_eq!(value[field], Value::Null, "{field}");
    }
}

#[test]
fn a_core_that_comes_or_goes_counts_for_neither_side() {
    let one = "cpu 1 1 1 1\ncpu0 100 0 0 100\n";
    let two = "cpu 1 1 1 1\ncpu0 150 0 0 150\ncpu7 90000 0 0 1\n";
    let plugged = value(one, two);
    assert_eq!(number(&plugged, "/usageFraction"), 0.5);
    assert_eq!((&plugged["count"], &plugged["cores"]["7"]["usageFraction"]), (&json!(2), &Value::Null));
    let unplugged = value(two, "cpu0 175 0 0 225\n");
    assert_eq!(number(&unplugged, "/usageFraction"), 0.25);
    assert_eq!(unplugged["cores"].as_object().unwrap().len(), 1);
}

#[test]
fn counters_that_began_anew_say_nothing_of_that_core() {
    let value = value("cpu0 100 0 0 100\ncpu1 0 0 0 0\n", "cpu0 3 0 0 200\ncpu1 10 0 0 10\n");
    assert_eq!(value["cores"]["0"]["usageFraction"], Value::Null);
    assert_eq!(number(&value, "/usageFraction"), 0.5);
}

#[test]
fn a_container_that_sees_the_sum_alone_has_it() {
    let value = value("cpu 10 0 0 10\n", "cpu 20 0 0 40\n");
    assert_eq!(number(&value, "/usageFraction"), 0.25);
}

#[test]
fn a_file_that_is_cut_off_loses_the_line_that_is() {
    for end in 0..AFTER.len() {
        let cut = parse(&AFTER[..end]);
        for (number, ticks) in cut.cores {
            assert_eq!(Some(&ticks), parse(AFTER).cores.get(&number), "after {end} bytes");
        }
    }
}

#[test]
fn counters_as_large_as_they_get_stay_fractions() {
    let most = format!("cpu0 {0} {0} {0} {0} {0} {0} {0} {0}\n", u64::MAX);
    let value = value("cpu0 0 0 0 0 0 0 0 0\n", &most);
    assert_eq!(number(&value, "/userFraction"), 0.25);
    assert_eq!(parse("cpu0 18446744073709551616 0 0 0\n"), Stat::default(), "larger than a counter");
}

#[test]
fn frequencies_go_by_the_number_of_the_core() {
    let frequencies = parse_frequencies(CPUINFO);
    assert_eq!(frequencies, BTreeMap::from([(0, 2596.144), (2, 3400.5)]), "core 1 is off line");
    assert_eq!(model(CPUINFO).as_deref(), Some("AMD EPYC"));
    let power = "processor\t: 0\ncpu\t\t: POWER9\nclock\t\t: 2400.000000MHz\n";
    assert_eq!(parse_frequencies(power), BTreeMap::from([(0, 2400.0)]));
    assert_eq!(model(power), None);
}

#[test]
fn governed_frequencies_come_from_sysfs() {
    let sys = tempfile::tempdir().unwrap();
    for (core, kilohertz) in [(0, "1800000\n"), (3, "3600500\n")] {
        let folder = sys.path().join(format!("devices/system/cpu/cpu{core}/cpufreq"));
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join("scaling_cur_freq"), kilohertz).unwrap();
    }
    let roots = Roots { sys: sys.path().into(), ..Roots::default() };
    let frequencies = frequencies(&roots, &[0, 1, 3], CPUINFO);
    assert_eq!(frequencies, BTreeMap::from([(0, 1800.0), (3, 3600.5)]));
}

proptest! {
    #[test]
    fn any_text_is_survived(text in "(cpu[0-9]{0,2}( [0-9]{0,21}){0,11}\n|.{0,20}\n?){0,6}") {
        parse(&text);
        parse_frequencies(&text);
        model(&text);
    }

    #[test]
    fn the_parts_come_to_the_whole(before in prop::array::uniform8(any::<u64>()), now in prop::array::uniform8(any::<u64>())) {
        let line = |ticks: [u64; 8]| format!("cpu0 {}\n", ticks.map(|tick| tick.to_string()).join(" "));
        let value = value(&line(before), &line(now));
        if !value["usageFraction"].is_null() {
            let sum = |names: &[&str]| names.iter().map(|name| number(&value, name)).sum::<f64>();
            let parts = sum(&["/userFraction", "/systemFraction", "/iowaitFraction", "/stealFraction", "/idleFraction"]);
            prop_assert!((parts - 1.0).abs() < 1e-5, "{value}");
            prop_assert!((sum(&["/usageFraction", "/freeFraction"]) - 1.0).abs() < 1e-5, "{value}");
        }
    }
}

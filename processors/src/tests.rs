//! Each estimator on tables of facts: what it says, what it has nothing to say of, and what it refuses.

// Tables read best with their values in place.
#![allow(clippy::unwrap_used, clippy::needless_pass_by_value)]

use std::time::Duration;

use serde_json::{Value, json};

use super::*;
use crate::facts::Facts;

mod properties;

fn params(of: &Value) -> ParamValues {
    of.as_object().unwrap().iter().map(|(name, value)| (name.clone(), value.clone())).collect()
}

fn estimate(kind: &str, given: &Value, facts: &Facts) -> Result<Option<Value>, String> {
    make(find(kind).unwrap(), &params(given)).unwrap().process(facts)
}

/// The answer of a processor to the facts of now: the members that `expected` has, or nothing if it is null.
#[track_caller]
fn says(kind: &str, given: Value, facts: Value, expected: Value) {
    says_of(kind, given, &Facts::now(&facts), expected);
}

#[track_caller]
fn says_of(kind: &str, given: Value, facts: &Facts, expected: Value) {
    let answer = estimate(kind, &given, facts).unwrap().unwrap_or_default();
    let Value::Object(expected) = expected else { return assert_eq!(answer, Value::Null) };
    for (name, expected) in expected {
        let found = &answer[&name];
        match (found.as_f64(), expected.as_f64()) {
            (Some(a), Some(b)) if (a - b).abs() <= 1e-9 * b.abs().max(1.0) => {}
            _ => assert_eq!(*found, expected, "{name} of {answer}"),
        }
    }
}

#[track_caller]
fn fails(kind: &str, given: Value, facts: Value, reason: &str) {
    let error = estimate(kind, &given, &Facts::now(&facts)).expect_err(reason);
    assert!(error.contains(reason), "{error}");
}

#[track_caller]
fn refuses(kind: &str, given: Value, reason: &str) {
    let Err(error) = make(find(kind).unwrap(), &params(&given)) else { panic!("took {given}") };
    assert!(error.contains(reason), "{error}");
}

#[test]
fn a_parameter_that_nobody_knows_is_refused() {
    refuses("capability_cpu", json!({"cpu_rec": 1}), "no parameter `cpu_rec`; known: cpu_req, reads, cpu");
    refuses("capability_cpu", json!({"cpu": ""}), "`cpu` is empty; expected the data name");
    refuses("capability_ewma", json!({"window": 0}), "`window` is 0");
    refuses("capability_ewma", json!({"window": 1e300}), "`window` is 1");
    refuses("capability_ewma", json!({"half_life": "soon"}), "`half_life` is `soon`, which is no number");
    refuses(
        "capability_history",
        json!({"field": "matched"}),
        "expected a JSON pointer such as `/matched/fps`",
    );
    refuses("capability_blend", json!({"reference_fps": -1}), "expected 0 or more");
    refuses("capability_blend", json!({"most_correction": 0.5}), "expected 1 or more");
    refuses("capability_blend", json!({"least_correction": 1.5}), "more than 0 and at most 1");
    refuses("capability_config", json!({"gpu_weights": "A100"}), "has `A100`; expected a part of a name");
    refuses("capability_config", json!({"gpu_weights": "A=1,B=-1"}), "has `B=-1`");
    refuses("capability_config", json!({"gpu_weights": "A=NaN"}), "has `A=NaN`");
}

#[test]
fn a_role_is_the_data_name_unless_a_parameter_names_another() {
    let kind = find("capability_blend").unwrap();
    let roles = Roles::of(kind, &params(&json!({"cpu": "cpu_usage", "CGROUP": "limits"}))).unwrap();
    let cased = Roles::of(kind, &params(&json!({"Cpu": "mine"}))).unwrap();
    assert_eq!(cased.name("cpu"), "mine");
    let pairs: Vec<_> = roles.iter().collect();
    assert_eq!(pairs, [("cpu", "cpu_usage"), ("run_log", "run_log"), ("cgroup", "limits")]);
    says(
        "capability_cpu",
        json!({"cpu": "load"}),
        json!({"load": 0.25, "cpu": 0.75}),
        json!({"value": 0.25}),
    );
}

#[test]
fn the_optional_inputs_are_among_the_inputs() {
    for kind in ALL {
        assert!(kind.optional.iter().all(|role| kind.inputs.contains(role)), "{}", kind.name);
        let clash = kind.params.iter().find(|param| kind.inputs.contains(&param.name));
        assert!(clash.is_none(), "{}: a parameter is named like an input", kind.name);
        assert_eq!(estimate(kind.name, &json!({}), &Facts::default()), Ok(None), "{}", kind.name);
    }
}

#[test]
fn equation_1_is_the_papers() {
    let check = |req: f64, free: f64, perf: f64| {
        let expected = json!({"value": perf, "spread": 0, "samples": 1});
        says(
            "capability_cpu",
            json!({"cpu_req": req}),
            json!({"cpu": {"freeFraction": free}}),
            expected.clone(),
        );
        says("capability_cpu", json!({"cpu_req": req}), json!({"cpu": free}), expected);
    };
    check(0.5, 0.75, 1.0);
    check(0.5, 0.5, 1.0);
    check(0.5, 0.25, 0.5);
    check(0.5, 0.0, 0.0);
    check(1.0, 0.99, 0.99);
    check(1e-300, 0.0, 0.0);
    check(1e-300, 0.5, 1.0);
    // Rounding errors of a measurement.
    check(0.5, -0.004, 0.0);
    check(1.0, 1.000_000_1, 1.0);
    says("capability_cpu", json!({}), json!({"cpu": 0.3}), json!({"value": 0.3}));
    for req in [json!(0), json!(-0.5), json!(1.001), json!("NaN"), json!("inf"), json!(true)] {
        refuses("capability_cpu", json!({"cpu_req": req}), "`cpu_req` is");
    }
}

#[test]
fn equation_1_reads_the_output_of_figure_6() {
    let percent = json!({"reads": "usage_percent", "cpu_req": "0.5"});
    for (usage, perf) in [(0.0, 1.0), (37.25, 1.0), (80.0, 0.4), (100.0, 0.0), (100.3, 0.0), (-0.2, 1.0)] {
        says("capability_cpu", percent.clone(), json!({"cpu": usage}), json!({"value": perf}));
    }
    fails("capability_cpu", percent.clone(), json!({"cpu": 250}), "expected a percentage of 0 to 100");
    fails("capability_cpu", percent, json!({"cpu": {"freeFraction": 1}}), "which is no number");
    fails("capability_cpu", json!({}), json!({"cpu": 37.25}), "`reads` is `usage_percent`");
    refuses("capability_cpu", json!({"reads": "percent"}), "expected `free_fraction` or `usage_percent`");
}

#[test]
fn a_load_that_is_no_number_is_an_error_and_one_that_is_not_known_yet_is_none() {
    says("capability_cpu", json!({}), json!({"cpu": {"freeFraction": null}}), Value::Null);
    says("capability_cpu", json!({}), json!({"cpu": null}), Value::Null);
    says("capability_cpu", json!({}), json!({}), Value::Null);
    fails(
        "capability_cpu",
        json!({}),
        json!({"cpu": {"free": 1}}),
        "`cpu` has nothing at /freeFraction; it is {",
    );
    fails(
        "capability_cpu",
        json!({}),
        json!({"cpu": {"freeFraction": "NaN"}}),
        "/freeFraction of `cpu` is \"NaN\"",
    );
    fails("capability_cpu", json!({}), json!({"cpu": [0.5]}), "`cpu` is [0.5], which is no number");
    fails("capability_cpu", json!({}), json!({"cpu": 1e300}), "expected a fraction of 0 to 1");
}

#[test]
fn a_configuration_is_cores_times_gigahertz() {
    let config =
        |given: Value, facts: Value, expected: Value| says("capability_config", given, facts, expected);
    let cpu = json!({"count": 8, "frequencyMhz": 2500});
    let parts = json!({"value": 20, "spread": 0, "samples": 1, "cores": 8, "ghz": 2.5, "basis": "measured"});
    config(json!({}), json!({"cpu": cpu}), parts);
    config(json!({}), json!({"cpu": {"count": 4}}), json!({"value": 8, "basis": "assumed"}));
    config(
        json!({}),
        json!({"cpu": {"count": 4, "frequencyMhz": 0}}),
        json!({"value": 8, "basis": "assumed"}),
    );
    config(
        json!({"default_mhz": 1000}),
        json!({"cpu": {"count": 4, "frequencyMhz": null}}),
        json!({"value": 4}),
    );
    config(json!({}), json!({"cpu": {"count": 0, "frequencyMhz": 2500}}), json!({"value": 0}));
    config(json!({}), json!({"cpu": {"count": null}}), Value::Null);
    config(json!({}), json!({"cpu": cpu, "cgroup": {"cpuLimit": 1.5}}), json!({"value": 3.75, "cores": 1.5}));
    config(json!({}), json!({"cpu": cpu, "cgroup": {"cpuLimit": 64}}), json!({"value": 20}));
    config(json!({}), json!({"cpu": cpu, "cgroup": {"cpuLimit": null}}), json!({"value": 20}));
    config(json!({}), json!({"cpu": cpu, "cgroup": {}}), json!({"value": 20}));

    let wrong = |facts: Value, reason: &str| fails("capability_config", json!({}), facts, reason);
    wrong(json!({"cpu": {}}), "`cpu` has nothing at /count");
    wrong(json!({"cpu": 8}), "`cpu` has nothing at /count");
    wrong(json!({"cpu": {"count": -1}}), "/count of `cpu` is -1; expected 0 or more");
    wrong(json!({"cpu": {"count": "8"}}), "/count of `cpu` is \"8\", which is no number");
    wrong(json!({"cpu": {"count": 8, "frequencyMhz": -1}}), "/frequencyMhz of `cpu` is -1");
    wrong(json!({"cpu": {"count": 1e300, "frequencyMhz": 1e300}}), "which is no capability");
    wrong(json!({"cpu": cpu, "cgroup": {"cpuLimit": 0}}), "expected a number of cores, more than 0");
    wrong(json!({"cpu": cpu, "gpu": {"devices": [1]}}), "/devices of `gpu` is [1]");
    wrong(json!({"cpu": cpu, "gpu": {"devices": {"0": {"memoryTotalBytes": "NaN"}}}}), "which is no number");
}

#[test]
fn an_accelerator_counts_by_name_else_by_parameter_else_by_memory() {
    let gib = 1_u64 << 30;
    let facts = json!({
        "cpu": {"count": 1, "frequencyMhz": 1000},
        "gpu": {"count": 3, "devices": {
            "0": {"name": "NVIDIA A100-SXM4-40GB", "memoryTotalBytes": 40 * gib},
            "1": {"name": "Tesla T4", "memoryTotalBytes": 16 * gib},
            "2": {"name": null},
        }},
    });
    let value = |given: Value, value: f64| {
        says("capability_config", given, facts.clone(), json!({"value": value, "accelerators": value - 1.0}));
    };
    value(json!({}), 1.0 + 8.0 * (40.0 + 16.0 + 8.0));
    value(json!({"gpu_weight_per_gib": 1}), 1.0 + 40.0 + 16.0 + 8.0);
    value(json!({"gpu_weight": 10}), 1.0 + 30.0);
    value(json!({"gpu_weights": "a100 = 900, t4=130,", "gpu_weight": 0}), 1.0 + 900.0 + 130.0);
    value(json!({"gpu_weights": "Tesla=5"}), 1.0 + 320.0 + 5.0 + 64.0);
    let none = json!({"cpu": {"count": 1, "frequencyMhz": 1000}, "gpu": {"count": 0, "devices": {}}});
    says("capability_config", json!({}), none, json!({"value": 1}));
}

fn run(count: u64, fps: f64) -> Value {
    json!({"count": count, "matched": {"fps": fps}})
}

#[test]
fn history_is_the_last_run() {
    let history = |log: Value, expected: Value| {
        says("capability_history", json!({}), json!({"run_log": log}), expected);
    };
    history(run(3, 24.5), json!({"value": 24.5, "spread": 0, "samples": 1}));
    history(run(3, 0.0), json!({"value": 0}));
    history(json!({"count": 0, "matched": null}), Value::Null);
    history(json!({"count": 1, "matched": {"fps": null}}), Value::Null);
    history(json!({"matched": {"fps": " 24.5 "}}), json!({"value": 24.5}));
    says("capability_history", json!({"field": ""}), json!({"run_log": 12}), json!({"value": 12}));
    says("capability_history", json!({"field": "/a/0"}), json!({"run_log": {"a": [7]}}), json!({"value": 7}));

    let wrong =
        |log: Value, reason: &str| fails("capability_history", json!({}), json!({"run_log": log}), reason);
    wrong(json!({"matched": {}}), "`run_log` has nothing at /matched/fps");
    wrong(json!({"lines": null}), "`run_log` has nothing at /matched/fps");
    for bad in [json!("NaN"), json!("inf"), json!("fast"), json!(""), json!(-1), json!([1]), json!(true)] {
        wrong(json!({"matched": {"fps": bad}}), "expected frames per second, a number of at least 0");
    }
}

#[test]
fn smoothing_counts_each_run_once() {
    let ewma = |past: &[(f64, Value)], expected: Value| {
        let facts = Facts::default().with("run_log", past);
        says_of("capability_ewma", json!({"half_life": 1}), &facts, expected);
    };
    ewma(&[(0.0, run(1, 10.0))], json!({"value": 10, "spread": 0, "samples": 1}));
    // The later one counts twice: (10 + 2·40)/3, and the spread is that of the weights 1/3 and 2/3.
    let two = json!({"value": 30, "spread": 200_f64.sqrt(), "samples": 2});
    ewma(&[(20.0, run(1, 10.0)), (0.0, run(2, 40.0))], two.clone());
    ewma(
        &[
            (40.0, run(1, 10.0)),
            (30.0, run(1, 10.0)),
            (20.0, run(2, 40.0)),
            (10.0, run(2, 40.0)),
            (0.0, run(2, 40.0)),
        ],
        two.clone(),
    );
    // Two runs may be equally fast; and the count begins again when the log does.
    ewma(&[(9.0, run(1, 5.0)), (0.0, run(2, 5.0))], json!({"value": 5, "spread": 0, "samples": 2}));
    ewma(&[(9.0, run(7, 10.0)), (0.0, run(1, 40.0))], two.clone());
    ewma(&[(9.0, run(1, 10.0)), (0.0, run(1, 40.0))], two.clone());
    // Without a count, what stands beside the figure tells.
    let dated = |at: &str, fps: f64| json!({"seen": at, "matched": {"at": at, "fps": fps}});
    ewma(&[(9.0, dated("1", 5.0)), (0.0, dated("2", 5.0))], json!({"samples": 2}));
    let bare = |fps: f64| json!({"matched": {"fps": fps}});
    ewma(&[(9.0, bare(10.0)), (5.0, bare(10.0)), (0.0, bare(40.0))], two.clone());
    // Samples in between that make no sense, or have no figure, are passed over.
    let gap = json!({"count": 0, "matched": null});
    ewma(&[(9.0, run(1, 10.0)), (5.0, json!("x")), (4.0, gap.clone()), (0.0, run(2, 40.0))], two.clone());
    ewma(&[(9.0, run(1, 10.0)), (5.0, run(2, 40.0)), (0.0, gap)], two);
}

#[test]
fn smoothing_looks_back_no_further_than_its_window() {
    let past = [(5000.0, run(1, 10.0)), (100.0, run(2, 40.0))];
    let facts = Facts::default().with("run_log", &past);
    says_of("capability_ewma", json!({}), &facts, json!({"value": 40, "samples": 1}));
    says_of("capability_ewma", json!({"window": 10}), &facts, json!({"value": 40, "samples": 1}));
    says_of("capability_ewma", json!({"window": 6000}), &facts, json!({"samples": 2}));
    let window = |kind: &str, given: Value| make(find(kind).unwrap(), &params(&given)).unwrap().window();
    assert_eq!(window("capability_ewma", json!({"WINDOW": "60"})), Some(Duration::from_secs(60)));
    assert_eq!(window("capability_blend", json!({})), Some(Duration::from_secs(3600)));
    assert_eq!(window("capability_history", json!({})), None);
    let bad =
        Facts::default().with("run_log", &[(9.0, run(1, 10.0)), (0.0, json!({"matched": {"fps": -3}}))]);
    assert!(estimate("capability_ewma", &json!({}), &bad).unwrap_err().contains("is -3"));
}

#[test]
fn without_history_a_blend_says_that_it_goes_by_load() {
    let blend =
        |given: Value, facts: Value, expected: Value| says("capability_blend", given, facts, expected);
    let half = json!({"cpu": {"freeFraction": 0.5}});
    blend(json!({}), half.clone(), Value::Null);
    let expected = json!({"value": 30, "samples": 0, "basis": "load", "headroom": 0.5});
    blend(json!({"reference_fps": 60}), half.clone(), expected);
    blend(json!({"reference_fps": 60, "cpu_req": 0.5}), half, json!({"value": 60, "headroom": 1}));
    let held = json!({"cpu": 0.5, "cgroup": {"throttledFraction": 0.2}});
    blend(json!({"reference_fps": 60}), held, json!({"value": 24}));
    let unknown = json!({"cpu": 0.5, "cgroup": {"throttledFraction": null}, "run_log": {"matched": null}});
    blend(json!({"reference_fps": 60}), unknown, json!({"value": 30, "basis": "load"}));
    blend(json!({"reference_fps": 60}), json!({"run_log": run(1, 5.0)}), Value::Null);
    fails(
        "capability_blend",
        json!({}),
        json!({"cpu": 0.5, "cgroup": {"throttledFraction": 7}}),
        "is 7; expected a",
    );
}

#[test]
fn a_blend_takes_each_run_to_the_load_of_now() {
    let cpu = |free: f64| json!({"freeFraction": free});
    // The load that counts for a run is the one seen when it had ended, not the run's own.
    let facts = |now: f64| {
        Facts::default()
            .with(
                "cpu",
                &[(110.0, cpu(0.0)), (100.0, cpu(0.8)), (60.0, cpu(0.1)), (50.0, cpu(0.4)), (0.0, cpu(now))],
            )
            .with(
                "run_log",
                &[(105.0, run(1, 80.0)), (70.0, run(1, 80.0)), (50.0, run(2, 40.0)), (0.0, run(2, 40.0))],
            )
    };
    let blend =
        |given: Value, now: f64, expected: Value| says_of("capability_blend", given, &facts(now), expected);
    blend(
        json!({}),
        0.4,
        json!({"value": 40, "spread": 0, "samples": 2, "basis": "history", "headroom": 0.4}),
    );
    blend(json!({}), 0.6, json!({"value": 60, "spread": 0}));
    // Within its bounds: at most 2, at least 0.1. A node without anything free is not without hope.
    blend(json!({"most_correction": 1}), 0.8, json!({"value": weigh(80.0, 40.0)}));
    blend(json!({}), 0.0, json!({"value": weigh(8.0, 4.0)}));
    blend(json!({"least_correction": 1}), 0.0, json!({"value": weigh(80.0, 40.0)}));
}

/// Two runs, the earlier one first, smoothed with the half-life that is the default.
fn weigh(earlier: f64, later: f64) -> f64 {
    let weight = 0.5_f64.powf(1.0 / 3.0);
    (earlier * weight + later) / (1.0 + weight)
}

#[test]
fn throttling_that_never_changes_is_not_counted_twice() {
    let held = |part: f64| json!({"throttledFraction": part});
    let facts = |then: f64, now: f64| {
        Facts::default()
            .with("cpu", &[(90.0, json!(0.5)), (0.0, json!(0.5))])
            .with("run_log", &[(90.0, run(1, 100.0))])
            .with("cgroup", &[(90.0, held(then)), (0.0, held(now))])
    };
    says_of("capability_blend", json!({}), &facts(0.3, 0.3), json!({"value": 100, "headroom": 0.35}));
    says_of("capability_blend", json!({}), &facts(0.0, 0.3), json!({"value": 70}));
    says_of("capability_blend", json!({}), &facts(0.5, 0.0), json!({"value": 200}));
    // Where no past is kept, then is as now.
    let present = Facts::now(&json!({"cpu": 0.2, "run_log": run(1, 33.0), "cgroup": held(0.4)}));
    says_of("capability_blend", json!({}), &present, json!({"value": 33, "samples": 1}));
}

//! Properties of every estimator, for any inputs.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::{estimate, run};
use crate::ALL;
use crate::facts::Facts;

/// Anything that a broken collector may say.
fn anything() -> impl Strategy<Value = Value> {
    let number = prop_oneof![
        any::<f64>().prop_map(|number| json!(number)),
        (0.0..1.0).prop_map(|number| json!(number)),
        any::<i64>().prop_map(|number| json!(number)),
    ];
    let leaf = prop_oneof![
        4 => number,
        1 => Just(Value::Null),
        1 => prop_oneof![Just("NaN"), Just("-Inf"), Just("7.5"), Just("")].prop_map(Value::from),
        1 => any::<bool>().prop_map(Value::from),
    ];
    let keys = prop::sample::select(vec![
        "freeFraction",
        "count",
        "frequencyMhz",
        "cpuLimit",
        "throttledFraction",
        "devices",
        "name",
        "memoryTotalBytes",
        "matched",
        "fps",
    ]);
    leaf.prop_recursive(3, 24, 5, move |inner| {
        prop::collection::vec((keys.clone(), inner), 0..6)
            .prop_map(|members| members.into_iter().map(|(key, value)| (key.to_owned(), value)).collect())
            .prop_map(Value::Object)
    })
}

proptest! {
    #[test]
    fn an_estimate_is_finite_and_not_negative_for_any_input(
        inputs in prop::collection::vec(prop::collection::vec(anything(), 1..4), 4),
    ) {
        let names = ["cpu", "cgroup", "gpu", "run_log"];
        let facts = names.iter().zip(&inputs).fold(Facts::default(), |facts, (name, values)| {
            let ages = (0..values.len()).rev().map(|age| age as f64);
            facts.with(name, &ages.zip(values.iter().cloned()).collect::<Vec<_>>())
        });
        for kind in ALL {
            if let Ok(Some(answer)) = estimate(kind.name, &json!({}), &facts) {
                for part in ["value", "spread", "samples"] {
                    let number = answer[part].as_f64();
                    prop_assert!(number.is_some_and(|n| n.is_finite() && n >= 0.0), "{}: {answer}", kind.name);
                }
            }
        }
    }

    #[test]
    fn more_free_time_never_means_less_capability(
        (less, more) in (0.0..=1.0, 0.0..=1.0).prop_map(|(a, b): (f64, f64)| (a.min(b), a.max(b))),
        req in 0.001..=1.0_f64,
        past in prop::collection::vec((0.0..=1.0_f64, 0.0..=1.0_f64, 0.0..1e4_f64), 0..8),
    ) {
        let at = |free: f64, kind: &str, given: Value| {
            let ages = || (1..=past.len()).rev().map(|age| age as f64);
            let mut cpu: Vec<_> = ages().zip(&past).map(|(age, (free, ..))| (age, json!(free))).collect();
            cpu.push((0.0, json!({"freeFraction": free})));
            let cgroup = |part: &f64| json!({"throttledFraction": part});
            let cgroup: Vec<_> = ages().zip(&past).map(|(age, (_, part, _))| (age, cgroup(part))).collect();
            let log: Vec<_> = ages().zip(&past).map(|(age, (.., fps))| (age, run(age as u64, *fps))).collect();
            let facts = Facts::default().with("cpu", &cpu).with("cgroup", &cgroup).with("run_log", &log);
            estimate(kind, &given, &facts).unwrap().unwrap()["value"].as_f64().unwrap()
        };
        let cpu = |free| at(free, "capability_cpu", json!({"cpu_req": req}));
        prop_assert!((0.0..=1.0).contains(&cpu(less)) && cpu(less) <= cpu(more));
        let blend = |free| at(free, "capability_blend", json!({"cpu_req": req, "reference_fps": 50}));
        prop_assert!(blend(less) <= blend(more) * (1.0 + 1e-12), "{} {}", blend(less), blend(more));
    }

    #[test]
    fn a_smoothed_figure_lies_among_its_runs(fps in prop::collection::vec(0.0..1e9_f64, 1..50), half_life in 0.01..100.0_f64) {
        let log: Vec<_> = fps.iter().enumerate().map(|(at, fps)| (1000.0 - at as f64, run(at as u64, *fps))).collect();
        let facts = Facts::default().with("run_log", &log);
        let answer = estimate("capability_ewma", &json!({"half_life": half_life}), &facts).unwrap().unwrap();
        let (least, most) = fps.iter().fold((f64::MAX, 0.0_f64), |(a, b), x| (a.min(*x), b.max(*x)));
        let (value, spread) = (answer["value"].as_f64().unwrap(), answer["spread"].as_f64().unwrap());
        prop_assert!(value >= least * (1.0 - 1e-9) && value <= most * (1.0 + 1e-9));
        prop_assert!(spread <= (most - least) * (1.0 + 1e-9) + 1e-6);
        prop_assert_eq!(answer["samples"].as_u64(), Some(fps.len() as u64));
    }
}

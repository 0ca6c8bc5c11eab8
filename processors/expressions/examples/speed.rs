//! The cost of an evaluation: `cargo run --release -p estimand-expressions --example speed`.
//!
//! Each expression is evaluated over 10,000 nodes, as one round would, a number of times; printed are the median of
//! the rounds, the fastest and the slowest, in nanoseconds an evaluation. Reading is timed by itself.

use std::{borrow::Cow, collections::HashMap, hint::black_box, time::Duration, time::Instant};

use estimand_expressions::{Budget, Expression, Fact, PastPart, Sample, Scope};
use serde_json::{Value, json};

const NODES: usize = 10_000;
const ROUNDS: usize = 15;

const EXPRESSIONS: [&str; 5] = [
    "1 - cpu.usageFraction",
    "cpu.usageFraction > 0.9 || memory.usedFraction > 0.95 ? 0 : cpu.count * (1 - cpu.usageFraction)",
    "{'value': cpu.freeFraction * cpu.count, 'spread': 0, 'samples': 1}",
    "cpu.cores.filter(c, cpu.cores[c].usageFraction < 0.5).size() / size(cpu.cores)",
    "mean(cpu.usageFraction, '5m') + cpu.count / total(cpu.count)",
];

struct Facts {
    latest: HashMap<&'static str, Value>,
    past: Vec<Value>,
}

struct Node<'w> {
    name: &'w str,
    facts: &'w Facts,
    all: &'w [(String, Facts)],
}

fn fact(value: &Value) -> Fact<'_> {
    Fact { value, age: 1.0, state: "fresh" }
}

impl Scope for Node<'_> {
    fn node(&self) -> Option<&str> {
        Some(self.name)
    }

    fn fact(&self, input: &str) -> Option<Fact<'_>> {
        self.facts.latest.get(input).map(fact)
    }

    fn samples(&self, _: &str, part: &PastPart, _: Duration) -> Result<Vec<Sample<'_>>, String> {
        let past = self.facts.past.iter().filter_map(|value| part.of(value));
        Ok(past.map(|value| Sample { value: Cow::Borrowed(value), age: 1.0 }).collect())
    }

    fn across(&self, input: &str) -> Vec<(&str, Fact<'_>)> {
        self.all.iter().filter_map(|(name, facts)| Some((&**name, fact(facts.latest.get(input)?)))).collect()
    }

    fn param(&self, _: &str) -> Option<&Value> {
        None
    }
}

fn facts(index: usize) -> Facts {
    let usage = (index % 100) as f64 / 100.0;
    let cores: serde_json::Map<String, Value> = (0..8)
        .map(|core| (core.to_string(), json!({"usageFraction": usage, "frequencyMhz": 2400})))
        .collect();
    let cpu = json!({"usageFraction": usage, "freeFraction": 1.0 - usage, "count": 8, "cores": cores});
    let memory = json!({"usedFraction": usage, "totalBytes": 1_u64 << 36});
    let past = (0..60).map(|age| json!({"usageFraction": f64::from(age) / 60.0})).collect();
    Facts { latest: HashMap::from([("cpu", cpu), ("memory", memory)]), past }
}

fn main() {
    let all: Vec<(String, Facts)> =
        (0..NODES).map(|index| (format!("node-{index:05}"), facts(index))).collect();
    println!("{NODES} nodes, {ROUNDS} rounds; nanoseconds an evaluation: median (least to most)");
    for source in EXPRESSIONS {
        let reading = Instant::now();
        for _ in 0..1000 {
            let _ = black_box(Expression::parse(black_box(source)));
        }
        let reading = reading.elapsed() / 1000;
        let expression = match Expression::parse(source) {
            Ok(expression) => expression,
            Err(error) => return eprintln!("{}", error.pointed(source)),
        };
        let mut times: Vec<f64> = (0..ROUNDS).map(|_| round(&expression, &all)).collect();
        times.sort_by(f64::total_cmp);
        println!(
            "{:8.0} ({:.0} to {:.0}), read in {reading:?}: {source}",
            times[ROUNDS / 2],
            times[0],
            times[ROUNDS - 1]
        );
    }
}

fn round(expression: &Expression, all: &[(String, Facts)]) -> f64 {
    let begun = Instant::now();
    let mut round = expression.round();
    for (name, facts) in all {
        let node = Node { name, facts, all };
        let value = round.evaluate(&node, Budget::default());
        assert!(black_box(value).is_ok());
    }
    begun.elapsed().as_nanos() as f64 / all.len() as f64
}

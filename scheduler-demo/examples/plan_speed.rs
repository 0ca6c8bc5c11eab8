//! How long Algorithm 1 takes for 100,000 nodes: `cargo run --release --example plan_speed`.
//!
//! Timed is all of it, from the nodes as they come (in the order of their names, and in none) to the transfers; not giving back
//! the memory of the result.

use std::hint::black_box;
use std::time::{Duration, Instant};

use estimand_scheduler_demo::plan::{Node, Problem, TrustRules, optimal, partition};

const NODES: u64 = 100_000;
const RUNS: usize = 31;

/// Numbers without a pattern, the same each time.
fn mixed(i: u64) -> u64 {
    let mut x = i.wrapping_add(0x9E37_79B9_7F4A_7C15);
    x = (x ^ (x >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    x ^ (x >> 31)
}

fn nodes() -> Vec<Node> {
    (0..NODES)
        .map(|i| {
            let capability = (mixed(i + NODES) % 10_000) as f64 / 100.0;
            Node::new(format!("node-{i:06}.example"), mixed(i) % 20_000, capability)
        })
        .collect()
}

fn time<T>(what: &str, runs: usize, nodes: &[Node], plan: impl Fn(Vec<Node>) -> T) {
    let mut times: Vec<Duration> = (0..runs)
        .map(|_| {
            let given = nodes.to_vec();
            let start = Instant::now();
            let planned = black_box(plan(given));
            let time = start.elapsed();
            drop(planned);
            time
        })
        .collect();
    times.sort_unstable();
    let ms = |of: Duration| of.as_secs_f64() * 1e3;
    println!(
        "{what}: median {:.1} ms, {:.1} to {:.1} in {runs} runs",
        ms(times[runs / 2]),
        ms(times[0]),
        ms(times[runs - 1])
    );
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let sorted = nodes();
    let mut shuffled = sorted.clone();
    shuffled.sort_by_key(|node| mixed(node.load ^ node.capability.to_bits()));
    let problem = Problem::new(sorted.clone(), &TrustRules::default())?;
    let plan = partition(&problem);
    println!(
        "{NODES} nodes, {} items: {} transfers move {}",
        problem.total(),
        plan.transfers.len(),
        plan.moved()
    );
    let steps = |given: Vec<Node>| {
        let problem = Problem::new(given, &TrustRules::default());
        problem.map(|problem| (partition(&problem), problem))
    };
    time("static, nodes in order", RUNS, &sorted, steps);
    time("static, nodes shuffled", RUNS, &shuffled, steps);
    time("optimal, nodes in order", 5, &sorted, |given| {
        let problem = Problem::new(given, &TrustRules::default());
        problem.map(|problem| (optimal(&problem), problem))
    });
    Ok(())
}

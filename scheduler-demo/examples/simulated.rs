//! Policies on a virtual cluster of speeds 1 : 1 : 0.5 : 0.25: `cargo run --release --example simulated`.
//!
//! One capability is believed 20 % too high or too low; at half of the ideal time one node becomes three times slower.

use estimand_scheduler_demo::plan::simulate::{Conditions, SimulatedRun, Speed, VirtualNode, run};
use estimand_scheduler_demo::plan::{
    DynamicPolicy, DynamicSettings, Error, FixedPolicy, ItemId, Node, Policy, Problem, TrustRules, partition,
};

const ITEMS: u64 = 10_000;
const RATES: [f64; 4] = [10.0, 10.0, 5.0, 2.5];
const NAMES: [&str; 4] = ["a", "b", "c", "d"];

fn runs(
    wrong: Option<(usize, f64)>,
    slowed: Option<usize>,
    conditions: &Conditions,
) -> Result<[SimulatedRun; 2], Error> {
    let halfway = ITEMS as f64 / RATES.iter().sum::<f64>() / 2.0;
    let mut cluster: Vec<VirtualNode> =
        NAMES.iter().zip(RATES).map(|(name, rate)| VirtualNode::new(*name, rate)).collect();
    if let Some(node) = slowed {
        cluster[node].speed = Speed::constant(RATES[node]).then(halfway, RATES[node] / 3.0);
    }
    let mut believed = RATES;
    if let Some((node, times)) = wrong {
        believed[node] *= times;
    }
    let nodes = NAMES.iter().zip(believed).map(|(name, rate)| Node::new(*name, ITEMS / 4, rate)).collect();
    let plan = partition(&Problem::new(nodes, &TrustRules::default())?);
    let mut next = 0;
    let mut parts: Vec<Vec<ItemId>> = Vec::new();
    for part in &plan.parts {
        parts.push((next..next + part.target as ItemId).collect());
        next += part.target as ItemId;
    }
    let homes: Vec<usize> =
        parts.iter().enumerate().flat_map(|(node, part)| part.iter().map(move |_| node)).collect();
    let members = || NAMES.iter().zip(believed).map(|(name, rate)| ((*name).to_owned(), rate)).collect();
    let ahead = DynamicSettings { ahead_seconds: 2.0 * conditions.delay, ..DynamicSettings::default() };
    let mut fixed = FixedPolicy::new(members(), parts.clone())?;
    let mut dynamic = DynamicPolicy::new(members(), parts, ahead)?;
    let play = |policy: &mut dyn Policy| run(&cluster, &homes, policy, conditions);
    Ok([play(&mut fixed), play(&mut dynamic)])
}

fn main() -> Result<(), Error> {
    let at_once = Conditions::default();
    let late = Conditions { report_every: 1.0, delay: 0.1, detection: 0.0 };
    println!("makespan over ideal       | at once          | reports each second, 0.1 s late");
    println!("wrong        slowed       | static  dynamic  | static  dynamic  done twice");
    let wrongs = [None, Some((0, 1.2)), Some((0, 0.8)), Some((1, 1.2)), Some((1, 0.8)), Some((3, 1.2))];
    for slowed in [None, Some(0), Some(2)] {
        for wrong in wrongs {
            let [fixed, dynamic] = runs(wrong, slowed, &at_once)?;
            let [fixed_late, dynamic_late] = runs(wrong, slowed, &late)?;
            let ratio = |run: &SimulatedRun| run.over_ideal().unwrap_or(f64::NAN);
            println!(
                "{:<12} {:<12} | {:.3}   {:.4}   | {:.3}   {:.4}   {}",
                wrong.map_or("-".to_owned(), |(node, times)| format!("{} × {times}", NAMES[node])),
                slowed.map_or("-".to_owned(), |node| format!("{} / 3", NAMES[node])),
                ratio(&fixed),
                ratio(&dynamic),
                ratio(&fixed_late),
                ratio(&dynamic_late),
                dynamic_late.wasted()
            );
        }
    }
    Ok(())
}

//! A million tasks on a thousand nodes: how long the simulation of it takes.

use std::time::Instant;

use estimand_simulate::{Study, nodes_of, poisson, table};
use estimand_tasks::core::policy::Policy;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    for policy in [Policy::Estimated, Policy::LeastPressure, Policy::Queue] {
        let study =
            Study { policies: vec![policy], nodes: nodes_of(1_000, 1, None), facts_every: 5_000, seeds: 1 };
        let started = Instant::now();
        let summaries =
            study.of(Some(0.9), &|seed| poisson(1_000_000, 1_000, 0.9, 4_000, seed), &mut |_| {})?;
        print!("{}", table(&summaries));
        println!("{:.1} s", started.elapsed().as_secs_f64());
    }
    Ok(())
}

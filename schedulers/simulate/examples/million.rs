//! A million tasks on a thousand nodes: how long the simulation of it takes.

use std::time::Instant;

use estimand_placement::Millis;
use estimand_placement::policy::Policy;
use estimand_simulate::{Load, Study, nodes_of, table};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    for policy in [Policy::Estimated, Policy::LeastPressure, Policy::Queue] {
        let study = Study {
            policies: vec![policy],
            nodes: nodes_of(1_000, 1, None),
            facts_every: Millis(5_000),
            seeds: 1,
        };
        let started = Instant::now();
        let load = Load::new(1_000_000, 1_000, 0.9, Millis(4_000));
        let summaries = study.of(Some(0.9), &|seed| load.trace(seed), &mut |_| {})?;
        print!("{}", table(&summaries));
        println!("{:.1} s", started.elapsed().as_secs_f64());
    }
    Ok(())
}

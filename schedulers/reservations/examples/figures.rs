//! The table of a generated day at four capacities; with a file of recorded arrivals, the same of it;
//! with the word `closed`, of a day after which nothing may run.

use std::time::Instant;

use estimand_reservations::simulation::{DAY, Day, Hours, Kind, Recipe, Study, arrivals, table};

const SEEDS: u64 = 3;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let word = std::env::args().nth(1);
    let recipe = Recipe { closes: word.as_deref() == Some("closed"), ..Recipe::default() };
    let recorded = word.filter(|_| !recipe.closes).map(std::fs::read_to_string).transpose()?;
    let mut days = Vec::new();
    for seed in 1..=SEEDS {
        days.push(match &recorded {
            Some(text) => Day {
                past: arrivals(text, Hours::Even, seed)?,
                jobs: arrivals(text, Hours::Odd, seed)?,
                ticks: DAY / 2,
            },
            None => Day { past: recipe.draw(seed + SEEDS), jobs: recipe.draw(seed), ticks: DAY },
        });
    }
    let study = Study {
        pricings: Kind::ALL.to_vec(),
        capacities: vec![0.08, 0.10, 0.15, 0.25],
        days,
        is_recorded: recorded.is_some(),
    };
    let started = Instant::now();
    let figures = study.run(&mut |_, _, _, _, _| {})?;
    print!("{}", table(&figures));
    println!("{:.1} s", started.elapsed().as_secs_f64());
    Ok(())
}

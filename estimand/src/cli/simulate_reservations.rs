//! The command that simulates the prices of reservations without any service.

use std::path::PathBuf;

use clap::Args;
use estimand_reservations::simulation::Kind;

const EXAMPLES: &str = "\
A generated day has 1,440 ticks of a minute and six classes of jobs, five of small ones and one of large ones. Predictors
are trained on another draw. Recorded arrivals have a job a line, with six columns between tabs: a name, the second of its
submission, the gap to the one before, and the bytes that it reads, moves and writes. Predictors are trained on their even
hours and tried on their odd ones.

Examples:
  estimand simulate reservations
  estimand simulate reservations --pricing seasonal,spread --capacity 0.1 --seeds 1 --picture day.svg
  estimand simulate reservations --arrivals day.tsv --json";

// Simulates the prices of reservations.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct ReservationsArgs {
    /// The ways to price, with commas between them: free, fixed, spread, seasonal, optimum; by default all
    #[arg(long, value_name = "PRICINGS", value_delimiter = ',')]
    pub pricing: Vec<Kind>,
    /// The capacity as a part of all work; several with commas
    #[arg(long, value_name = "PARTS", value_delimiter = ',', default_value = "0.08,0.1,0.15,0.25", value_parser = part)]
    pub capacity: Vec<f64>,
    /// How many jobs each class has
    #[arg(long, value_name = "N", default_value_t = 1450, value_parser = clap::value_parser!(u64).range(1..=100_000))]
    pub jobs: u64,
    /// Let nothing run after the day: later deadlines are its end
    #[arg(long)]
    pub closed: bool,
    /// How many days are simulated, each with other draws
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..=1000))]
    pub seeds: u64,
    /// Take the arrivals and sizes of jobs from this file, instead of generating them
    #[arg(long, value_name = "FILE", conflicts_with_all = ["jobs", "closed"])]
    pub arrivals: Option<PathBuf>,
    /// Draw the price and the use over a day and the welfare into this file (SVG); for one capacity and one seed
    #[arg(long, value_name = "FILE")]
    pub picture: Option<PathBuf>,
    /// Print JSON, on one line
    #[arg(long)]
    pub json: bool,
}

fn part(text: &str) -> Result<f64, String> {
    let part = text.parse::<f64>().ok().filter(|part| *part > 0.0 && *part <= 10.0);
    part.ok_or("expected a number above 0 and at most 10, such as 0.1".to_owned())
}

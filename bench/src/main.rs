//! Side-by-side measurements of Estimand and of what it is meant to come close to.
//!
//! Prints figures and judges nothing: no time ever makes it fail. Both sides are processes of their own on
//! the same core, loaded in turn from another one. `README.md` says how to read what it prints.

use std::time::Duration;

use clap::{Parser, Subcommand};

mod bare;
mod bench;
mod contest;
mod cores;
mod histogram;
mod keys;
mod load;
mod parts;
mod place;
mod raw;
mod reply;
mod report;
mod served;

use bench::Bench;
use contest::Plan;
use cores::Cores;

/// Measures the release build of `estimand` that lies beside this program, side by side with its peers
#[derive(Debug, Parser)]
#[command(name = "estimand-bench")]
struct Cli {
    /// What to measure [default: everything]
    #[command(subcommand)]
    part: Option<Part>,
    /// How often each side is loaded
    #[arg(long, global = true, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=1000))]
    rounds: u32,
    /// For how many seconds each time
    #[arg(long, global = true, default_value_t = 1.5, value_parser = seconds)]
    seconds: f64,
    /// Print JSON at the end instead of a table
    #[arg(long, global = true)]
    json: bool,
}

#[derive(Debug, Subcommand)]
enum Part {
    /// Reads of one value and of all values of a name
    Reads,
    /// Durable single writes on SQLite
    Writes,
    /// Batches of 1,000 on SQLite
    Batches,
    /// Writes and batches on PostgreSQL and MariaDB
    Databases,
    /// What 500,000 values take: time, memory, disk, and to start again
    Load,
    /// A server with nothing behind it
    #[command(hide = true)]
    Bare(bare::BareArgs),
}

fn seconds(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(seconds) if (0.01..=3600.0).contains(&seconds) => Ok(seconds),
        _ => Err("expected a number of seconds from 0.01 to 3600".to_owned()),
    }
}

fn main() -> anyhow::Result<()> {
    let Cli { part, rounds, seconds, json } = Cli::parse();
    if let Some(Part::Bare(args)) = part {
        return bare::serve(&args);
    }
    served::program()?;
    let cores = Cores::take()?;
    let plan = Plan { rounds, time: Duration::from_secs_f64(seconds) };
    let mut bench = Bench::new(cores, plan, json)?;
    let bench = &mut bench;
    match part {
        Some(Part::Reads) => parts::reads::measure(bench)?,
        Some(Part::Writes) => parts::writes::measure(bench)?,
        Some(Part::Batches) => parts::batches::measure(bench)?,
        Some(Part::Databases) => parts::databases::measure(bench)?,
        Some(Part::Load) => parts::loading::measure(bench)?,
        None | Some(Part::Bare(_)) => {
            parts::loading::measure(bench)?;
            parts::reads::measure(bench)?;
            parts::writes::measure(bench)?;
            parts::batches::measure(bench)?;
            parts::databases::measure(bench)?;
        }
    }
    bench.report.finish()
}

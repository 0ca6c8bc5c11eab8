//! Side-by-side measurements of Estimand and of the programs that it is meant to come close to.
//!
//! Prints figures and judges nothing: no time ever makes it fail. Both sides are processes of their own on
//! the same core, loaded in turn from another one. `README.md` explains the output.

use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context as _;
use clap::{Parser, Subcommand};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

mod bare;
mod bench;
mod contest;
mod cores;
mod fleet;
mod histogram;
mod holder;
mod inputs;
mod keys;
mod load;
mod nats;
mod parts;
mod peer;
mod place;
mod plane;
mod raw;
mod reply;
mod report;
mod served;
mod spawn;
mod usage;
mod watcher;

use bench::Bench;
use contest::Plan;
use cores::Cores;

/// Measures the release build of `estimand` that lies beside this program, side by side with its peers
#[derive(Debug, Parser)]
#[command(name = "estimand-bench")]
struct Cli {
    /// Part to measure [default: everything]
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
    /// Time, memory and disk of 500,000 values, and of starting again with them
    Load,
    /// Runs a second of an agent, against a bare loop of posix_spawn and waitpid
    Agent,
    /// How late runs start, how soon values are readable, and what the agent takes
    Lateness,
    /// From a registration to its values, and what a manager takes for many nodes
    Cluster,
    /// Expressions: changes a second, and how soon a result is readable
    Derive,
    /// Cost of the default collectors on a node, beside prometheus-node-exporter and collectd
    Sources,
    /// Tasks: submissions, the way from one to its process, starts a second of an agent, and logs
    Tasks,
    /// Durable reservations of 64 clients, over plain TCP and over HTTP
    Reservations,
    /// Policies of placement on eight emulated nodes, one of which is busy with something else; not part of everything
    Placement,
    /// Trivial tasks beside Slurm and Celery; not part of everything
    Peers,
    /// Reads and writes of values beside nginx, Redis, etcd and others; not part of everything
    Compare(parts::compare::CompareArgs),
    /// A server with nothing behind it
    #[command(hide = true)]
    Bare(bare::BareArgs),
    /// An agent in a process that holds memory
    #[command(hide = true)]
    Holder(holder::HolderArgs),
    /// Takes so many milliseconds of a processor
    #[command(hide = true)]
    Burn { millis: u64 },
}

fn seconds(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(seconds) if (0.01..=3600.0).contains(&seconds) => Ok(seconds),
        _ => Err("expected a number of seconds from 0.01 to 3600".to_owned()),
    }
}

fn main() -> anyhow::Result<ExitCode> {
    // Before anything else is made: this process starts what an agent runs.
    let mut args = std::env::args_os().skip(1);
    match args.next() {
        Some(word) if word == holder::LAUNCHER => return Ok(estimand_exec::serve()),
        Some(word) if word == holder::KEEPER => {
            return Ok(estimand_slot_agent::keep_tasks(args.next().unwrap_or_default().as_ref()));
        }
        _ => {}
    }
    let Cli { part, rounds, seconds, json } = Cli::parse();
    match part {
        Some(Part::Bare(args)) => bare::serve(&args)?,
        Some(Part::Holder(args)) => holder::serve(args)?,
        Some(Part::Burn { millis }) => parts::placement::burn(Duration::from_millis(millis)),
        part => measure(part.as_ref(), Plan { rounds, time: Duration::from_secs_f64(seconds) }, json)?,
    }
    Ok(ExitCode::SUCCESS)
}

fn measure(part: Option<&Part>, plan: Plan, json: bool) -> anyhow::Result<()> {
    served::program()?;
    let cores = Cores::take()?;
    allow_many_files()?;
    let mut bench = Bench::new(cores, plan, json)?;
    let bench = &mut bench;
    match part {
        Some(Part::Reads) => parts::reads::measure(bench)?,
        Some(Part::Writes) => parts::writes::measure(bench)?,
        Some(Part::Batches) => parts::batches::measure(bench)?,
        Some(Part::Databases) => parts::databases::measure(bench)?,
        Some(Part::Load) => parts::loading::measure(bench)?,
        Some(Part::Agent) => parts::agent::measure(bench)?,
        Some(Part::Lateness) => parts::lateness::measure(bench)?,
        Some(Part::Cluster) => parts::cluster::measure(bench)?,
        Some(Part::Derive) => parts::derive::measure(bench)?,
        Some(Part::Sources) => parts::sources::measure(bench)?,
        Some(Part::Tasks) => parts::tasks::measure(bench)?,
        Some(Part::Reservations) => parts::reservations::measure(bench)?,
        Some(Part::Peers) => parts::peers::measure(bench)?,
        Some(Part::Placement) => parts::placement::measure(bench)?,
        Some(Part::Compare(args)) => parts::compare::measure(bench, args)?,
        None | Some(Part::Bare(_) | Part::Holder(_) | Part::Burn { .. }) => {
            parts::loading::measure(bench)?;
            parts::reads::measure(bench)?;
            parts::writes::measure(bench)?;
            parts::batches::measure(bench)?;
            parts::databases::measure(bench)?;
            parts::agent::measure(bench)?;
            parts::lateness::measure(bench)?;
            parts::cluster::measure(bench)?;
            parts::derive::measure(bench)?;
            parts::sources::measure(bench)?;
            parts::tasks::measure(bench)?;
            parts::reservations::measure(bench)?;
        }
    }
    bench.report.finish()
}

/// Allows as many as the hard limit: thousands of connections begin in this process, and as many end in its children.
fn allow_many_files() -> anyhow::Result<()> {
    let limit = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit })
        .context("raising the limit of open files")
}

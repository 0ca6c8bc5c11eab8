//! The command that simulates placement without any service.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use estimand_placement::policy::Policy;

use super::simulate_deadlines::DeadlinesArgs;
use super::simulate_reservations::ReservationsArgs;

const EXAMPLES: &str = "\
Tasks of generated load take one processor each and ask for nothing, so they share the processors of their
node. With --ask they have what they ask for to themselves, and wait until there is room. A trace is in the standard workload format, or has JSON lines: {\"at\": 0, \"service\": 4000,
\"resources\": {\"cpu\": 1000}} for a task, in milliseconds and thousandths of a processor, and {\"node\": \"n1\",
\"lostAt\": 60000, \"backAt\": 90000} for a node that is lost.

Examples:
  estimand simulate
  estimand simulate --policy estimated,random --load 0.5,0.9 --tasks 20000
  estimand simulate --nodes 32 --processors 4 --ask 1,2,4
  estimand simulate --trace KTH-SP2.swf --nodes 100 --processors 1 --policy pack --log events.jsonl";

// Simulates placement.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES, args_conflicts_with_subcommands = true)]
pub struct SimulateArgs {
    #[command(subcommand)]
    pub of: Option<SimulateCommand>,
    /// The policies to compare, with commas between them; by default all
    #[arg(long, value_name = "POLICIES", value_delimiter = ',')]
    pub policy: Vec<Policy>,
    /// How many nodes there are
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u64).range(1..=100_000))]
    pub nodes: u64,
    /// How many processors each of them has
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    pub processors: u64,
    /// The part of the time in which the generated tasks would keep all processors busy; several with commas
    #[arg(long, value_name = "LOADS", value_delimiter = ',', default_value = "0.5,0.8,0.9", value_parser = load)]
    pub load: Vec<f64>,
    /// How many tasks are generated for each seed
    #[arg(long, value_name = "N", default_value_t = 2000, value_parser = clap::value_parser!(u64).range(1..=10_000_000))]
    pub tasks: u64,
    /// How long a generated task takes on average, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..))]
    pub service: u32,
    /// The processors that a generated task asks for, one of these by lot; by default it asks for nothing
    #[arg(long, value_name = "PROCESSORS", value_delimiter = ',', value_parser = processors)]
    pub ask: Vec<u64>,
    /// How often everything is simulated, each time with other chances
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=1000))]
    pub seeds: u64,
    /// The seconds between two measurements of the pressure
    #[arg(long, value_name = "SECONDS", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    pub facts_every: u32,
    /// Simulate the tasks of this file, instead of generated ones
    #[arg(long, value_name = "FILE", conflicts_with_all = ["load", "tasks", "service", "ask"])]
    pub trace: Option<PathBuf>,
    /// Write every event into this file, as JSON lines; for one policy, one load and one seed
    #[arg(long, value_name = "FILE")]
    pub log: Option<PathBuf>,
    /// Print JSON, on one line
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Subcommand)]
pub enum SimulateCommand {
    /// Compare planners of jobs with deadlines on a trace under a virtual clock, without any service
    Deadlines(DeadlinesArgs),
    /// Compare ways to price reservations under a virtual clock, without any service
    Reservations(ReservationsArgs),
}

fn load(text: &str) -> Result<f64, String> {
    let load = text.parse::<f64>().ok().filter(|load| *load > 0.0 && *load <= 10.0);
    load.ok_or("expected a number above 0 and at most 10, such as 0.9".to_owned())
}

/// Thousandths of a processor.
fn processors(text: &str) -> Result<u64, String> {
    let number = text.parse::<f64>().ok().filter(|number| (0.001..=1e6).contains(number));
    let thousandths = number.map(|number| (number * 1000.0).round() as u64);
    thousandths.ok_or("expected a number of processors from 0.001 to 1000000, such as 2 or 0.5".to_owned())
}

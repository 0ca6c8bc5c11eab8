//! The command that simulates the planner of deadlines without any service.

use std::path::PathBuf;

use clap::Args;
use estimand_deadlines::leftover::LeftOvers;
use estimand_deadlines::simulation::figures::Policy;
use estimand_deadlines::simulation::setup::Cost;

const EXAMPLES: &str = "\
A trace is comma-separated values with the columns job_id, submission_time, num_iteration, model_name, deadline, batch_size,
num_gpu and duration, in seconds. The folder of throughput has a table for each model, MODEL.csv: the global batch, then iterations a
second at each width, which the first line names. A job is met that ends by its deadline, whether it was accepted or not.

Examples, in a copy of the sources:
  cd schedulers/deadlines/data
  estimand simulate deadlines --trace traces/cluster06.csv --throughput throughput/A100 --accelerators 512
  estimand simulate deadlines --trace traces/195job.csv --throughput throughput/A100 --accelerators 64 --slot 240 --cost rounds --json";

// Simulates the planner of deadlines.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct DeadlinesArgs {
    /// The jobs
    #[arg(long, value_name = "FILE")]
    pub trace: PathBuf,
    /// The folder with the tables of one kind of accelerator
    #[arg(long, value_name = "FOLDER")]
    pub throughput: PathBuf,
    /// How many accelerators there are
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub accelerators: u32,
    /// The policies to compare, with commas between them: ours, elasticflow, elasticflow-all (without admission); by default all
    #[arg(long, value_name = "POLICIES", value_delimiter = ',')]
    pub policy: Vec<Policy>,
    /// What rounds cost, with commas between them: none, rounds (all that run pay at each round, as ElasticFlow's simulator
    /// has it), changes (who has another width pays)
    #[arg(long, value_name = "COSTS", value_delimiter = ',', default_value = "none,rounds")]
    pub cost: Vec<Cost>,
    /// The seconds that a change takes, for `--cost changes`
    #[arg(long, value_name = "SECONDS", default_value_t = 30, value_parser = clap::value_parser!(u64).range(0..=86_400))]
    pub change: u64,
    /// The least seconds between two rounds of ElasticFlow
    #[arg(long, value_name = "SECONDS", default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    pub slot: u64,
    /// The seconds of which our rounds are at multiples
    #[arg(long, value_name = "SECONDS", default_value_t = 20, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    pub grid: u64,
    /// How ours gives what is left over: work (spares most accelerator time) or time (ends soonest)
    #[arg(long, value_name = "RULE", default_value = "work")]
    pub left_overs: LeftOvers,
    /// The rounds for whose cost our plans have a margin
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u64).range(0..=1_000))]
    pub margin_rounds: u64,
    /// The margin of our plans in thousandths of the work
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u64).range(0..=1_000))]
    pub margin_work: u64,
    /// The hundredths of the accelerators that ours does not promise to newcomers if rounds cost anything
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u32).range(0..=99))]
    pub margin_pool: u32,
    /// Print JSON, on one line
    #[arg(long)]
    pub json: bool,
}

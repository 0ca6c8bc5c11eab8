//! `simulate deadlines`: a trace of jobs with deadlines under a virtual clock. No service is needed.

use std::fs;
use std::path::Path;

use estimand_cli::output::failure::Failure;
use estimand_deadlines::planner::{Margin, Settings};
use estimand_deadlines::share::Grid;
use estimand_deadlines::simulation::figures::{Figures, Policy, figures, table};
use estimand_deadlines::simulation::setup::Setup;
use estimand_deadlines::simulation::trace::parse;
use estimand_deadlines::throughput::Throughput;
use rustix::time::{ClockId, clock_gettime};
use serde_json::json;

use crate::cli::simulate_deadlines::DeadlinesArgs;

const SECOND: u64 = 1_000;

pub fn simulate(args: &DeadlinesArgs) -> Result<(), Failure> {
    let throughput = throughput(&args.throughput)?;
    let named = |error: String| Failure::NotPlanned(format!("{}: {error}", args.trace.display()));
    let trace = parse(&read(&args.trace)?, &throughput).map_err(|error| named(error.to_string()))?;
    let policies = if args.policy.is_empty() { Policy::ALL.to_vec() } else { args.policy.clone() };
    let margin = Margin {
        rounds: args.margin_rounds,
        work_permille: args.margin_work,
        pool_percent: args.margin_pool,
    };
    let settings = Settings {
        grid: Grid { slot: args.grid * SECOND },
        left_overs: args.left_overs,
        margin,
        ..Settings::new(args.accelerators)
    };
    let (slot, change) = (args.slot * SECOND, args.change * SECOND);
    let mut runs: Vec<Figures> = Vec::new();
    for cost in &args.cost {
        let setup = Setup { accelerators: args.accelerators, slot, cost: *cost, change };
        for policy in &policies {
            let begun = processor_millis();
            let run = figures(&trace, *policy, &setup, settings);
            runs.push(Figures { processor_millis: processor_millis() - begun, ..run });
        }
    }
    estimand_cli::output::say(&match args.json {
        true => format!("{}\n", json!(runs)),
        false => table(&runs),
    });
    Ok(())
}

fn read(path: &Path) -> Result<String, Failure> {
    fs::read_to_string(path).map_err(|source| Failure::Read { name: path.display().to_string(), source })
}

/// The tables of a folder, each named by its model.
fn throughput(folder: &Path) -> Result<Throughput, Failure> {
    let unread = |source| Failure::Read { name: folder.display().to_string(), source };
    let mut throughput = Throughput::default();
    for file in fs::read_dir(folder).map_err(unread)? {
        let path = file.map_err(unread)?.path();
        let is_table = path.extension().is_some_and(|extension| extension == "csv");
        if let Some(model) = path.file_stem().and_then(|stem| stem.to_str()).filter(|_| is_table) {
            let added = throughput.add(model, &read(&path)?);
            added.map_err(|error| Failure::NotPlanned(format!("{}: {error}", path.display())))?;
        }
    }
    Ok(throughput)
}

/// The processor time of this thread.
fn processor_millis() -> u64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    u64::try_from(time.tv_sec * 1_000 + time.tv_nsec / 1_000_000).unwrap_or(0)
}

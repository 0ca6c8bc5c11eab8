//! `simulate`: placement of generated or recorded tasks under a virtual clock. No service is needed.

use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::Path;

use estimand_cli::output::failure::Failure;
use estimand_placement::Millis;
use estimand_placement::policy::Policy;
use estimand_simulate::trace::Trace;
use estimand_simulate::{Entry, Load, Study, Summary, nodes_of, table};
use serde_json::json;

use crate::cli::simulate::{SimulateArgs, SimulateCommand};
use crate::{simulate_deadlines, simulate_reservations};

pub fn simulate(args: &SimulateArgs) -> Result<(), Failure> {
    match &args.of {
        Some(SimulateCommand::Deadlines(args)) => return simulate_deadlines::simulate(args),
        Some(SimulateCommand::Reservations(args)) => return simulate_reservations::simulate(args),
        None => {}
    }
    let policies = if args.policy.is_empty() { Policy::ALL.to_vec() } else { args.policy.clone() };
    let runs = match args.trace {
        Some(_) => policies.len(),
        None => policies.len() * args.load.len(),
    };
    if args.log.is_some() && (runs > 1 || args.seeds > 1) {
        let message = "--log is for one simulation: give one --policy, one --load and --seeds 1";
        return Err(Failure::Usage(message.to_owned()));
    }
    let study = Study {
        policies,
        nodes: nodes_of(usize::try_from(args.nodes).unwrap_or(usize::MAX), args.processors, None),
        facts_every: Millis::of_tick(args.facts_every.into()),
        seeds: args.seeds,
    };
    let mut log = args.log.as_deref().map(create).transpose()?;
    let mut failed = None;
    let summaries = summaries(args, &study, &mut |entry| {
        if let Some(file) = &mut log {
            let line = json!(entry);
            failed = failed.take().or(writeln!(file, "{line}").err());
        }
    })?;
    let written = failed.map_or(Ok(()), Err).and_then(|()| log.map_or(Ok(()), |mut file| file.flush()));
    written?;
    estimand_cli::output::say(&match args.json {
        true => format!("{}\n", json!(summaries)),
        false => table(&summaries),
    });
    Ok(())
}

fn summaries(
    args: &SimulateArgs,
    study: &Study,
    log: &mut dyn FnMut(&Entry),
) -> Result<Vec<Summary>, Failure> {
    if let Some(file) = &args.trace {
        let name = file.display().to_string();
        let text = fs::read_to_string(file).map_err(|source| Failure::Read { name: name.clone(), source })?;
        let trace = Trace::parse(&text).map_err(|error| Failure::NotPlanned(format!("{name}: {error}")))?;
        return study.of(None, &|_| trace.clone(), log).map_err(|error| not_simulated(&error));
    }
    let tasks = usize::try_from(args.tasks).unwrap_or(usize::MAX);
    let processors = args.nodes * args.processors;
    let mut summaries = Vec::new();
    for part in &args.load {
        let service = Millis::of_tick(args.service.into());
        let load = Load { asks: args.ask.clone(), ..Load::new(tasks, processors, *part, service) };
        let traces = |seed| load.trace(seed);
        summaries.extend(study.of(Some(*part), &traces, log).map_err(|error| not_simulated(&error))?);
    }
    Ok(summaries)
}

fn not_simulated(error: &estimand_simulate::SimulationError) -> Failure {
    Failure::NotPlanned(error.to_string())
}

fn create(path: &Path) -> Result<BufWriter<File>, Failure> {
    File::create(path)
        .map(BufWriter::new)
        .map_err(|error| Failure::Usage(format!("cannot write {}: {error}", path.display())))
}

//! Our planner on a trace: it is asked when jobs arrive and when it wants to be, at multiples of its slot.

use std::sync::Arc;

use super::setup::{Cost, Ending, Setup};
use super::trace::TraceJob;
use crate::planner::{Costs, Job, Planner, Settings};
use crate::throughput::ITERATION;

/// Runs a trace. Returns what became of its jobs, and how many rounds there were.
pub fn run(trace: &[TraceJob], setup: &Setup, settings: Settings) -> (Vec<Ending>, u64) {
    let mut endings = vec![Ending::default(); trace.len()];
    let mut planner = Planner::new(settings);
    let mut charge = setup.charge();
    let (mut next, mut rounds) = (0, 0);
    let mut asked: Option<u64> = None;
    loop {
        let arrival = trace.get(next).map(|job| settings.grid.up(job.submitted));
        let again = |wake: u64| {
            let wake = settings.grid.up(wake.max(planner.now()));
            asked.filter(|asked| *asked >= wake).map_or(wake, |asked| asked + settings.grid.slot)
        };
        let ask = [arrival, planner.wake().map(again)].into_iter().flatten().min();
        let end = planner.next_end().filter(|end| ask.is_none_or(|ask| end.0 <= ask));
        if let Some((at, id)) = end {
            planner.advance(at);
            planner.remove(id);
            endings[id as usize].end = Some(at);
            continue;
        }
        let Some(now) = ask else { return (endings, rounds) };
        asked = Some(now);
        planner.advance(now);
        let first = next;
        next += trace[first..].iter().take_while(|job| job.submitted <= now).count();
        let newcomers = (first..next).filter_map(|at| job(at, &trace[at], settings.accelerators));
        planner.set_costs(match (&charge, setup.cost) {
            (Some(charge), _) => charge.bound(),
            (None, Cost::Changes) => Costs::flat(setup.change),
            (None, _) => Costs::default(),
        });
        let before = planner.entries().iter().map(|entry| (entry.job.id, entry.width)).collect::<Vec<_>>();
        let outcome = planner.step(newcomers.collect());
        for id in outcome.promised {
            endings[id as usize].is_accepted = true;
        }
        if outcome.is_round {
            rounds += 1;
            let widths: Vec<u32> = planner.entries().iter().map(|entry| entry.width).collect();
            let costs = match (&mut charge, setup.cost) {
                (Some(charge), _) => charge.round(&widths),
                (None, Cost::Changes) => changes(&planner, &before, setup.change),
                (None, _) => Vec::new(),
            };
            planner.charge(&costs);
        }
    }
}

fn job(at: usize, job: &TraceJob, accelerators: u32) -> Option<Job> {
    // A model that fits no width of the pool never starts.
    let speeds = Arc::new(job.speeds.up_to(accelerators)?);
    Some(Job { id: at as u64, speeds, work: job.iterations * ITERATION, deadline: job.deadline })
}

/// The cost of each job whose width is another one than before.
fn changes(planner: &Planner, before: &[(u64, u32)], cost: u64) -> Vec<u64> {
    let mut before = before.iter().peekable();
    let width_before = |id: u64| before.next_if(|known| known.0 == id).map_or(0, |known| known.1);
    let mut width_before = width_before;
    let entries = planner.entries().iter();
    entries
        .map(|entry| {
            let was = width_before(entry.job.id);
            if entry.width > 0 && entry.width != was { cost } else { 0 }
        })
        .collect()
}

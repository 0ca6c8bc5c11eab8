//! Promises of drawn jobs, while facts and capacity hold.

use std::sync::Arc;

use estimand_deadlines::leftover::LeftOvers;
use estimand_deadlines::planner::{Job, Planner, Settings};
use estimand_deadlines::throughput::{ITERATION, Speeds, Step};
use proptest::prelude::*;

const SECOND: u64 = 1_000;

#[derive(Debug, Clone)]
struct Drawn {
    arrival: u64,
    iterations: u64,
    time: u64,
    rates: Vec<u64>,
}

/// A job whose table may have holes and may fall.
fn drawn() -> impl Strategy<Value = Drawn> {
    let rates = prop::collection::vec(0u64..4_000_000, 1..5);
    (0u64..4_000, 1u64..4_000, 1u64..8_000, rates).prop_map(|(arrival, iterations, time, mut rates)| {
        rates[0] += 100_000;
        Drawn { arrival: arrival * SECOND, iterations, time: time * SECOND, rates }
    })
}

fn speeds(rates: &[u64]) -> Arc<Speeds> {
    let steps = rates.iter().enumerate().map(|(exponent, rate)| Step { width: 1 << exponent, rate: *rate });
    Arc::new(Speeds::new(steps).expect("one width at least"))
}

/// Each step of a run: the instant, widths by job, promises; and each end.
type Log = (Vec<(u64, Vec<(u64, u32)>, Vec<u64>)>, Vec<(u64, u64)>);

fn run(jobs: &[Drawn], accelerators: u32, left_overs: LeftOvers) -> Log {
    let mut settings = Settings::new(accelerators);
    settings.left_overs = left_overs;
    let mut planner = Planner::new(settings);
    let mut jobs: Vec<(u64, &Drawn)> = (0..).zip(jobs).collect();
    jobs.sort_by_key(|(id, job)| (job.arrival, *id));
    let (mut steps, mut ends) = (Vec::new(), Vec::new());
    let mut next = 0;
    let mut asked = None;
    loop {
        let grid = settings.grid;
        let arrival = jobs.get(next).map(|(_, job)| grid.up(job.arrival));
        let wake = planner.wake().map(|wake| {
            let wake = grid.up(wake.max(planner.now()));
            asked.filter(|asked| *asked >= wake).map_or(wake, |asked| asked + grid.slot)
        });
        let ask = [arrival, wake].into_iter().flatten().min();
        if let Some((at, id)) = planner.next_end().filter(|end| ask.is_none_or(|ask| end.0 <= ask)) {
            planner.advance(at);
            planner.remove(id);
            ends.push((id, at));
            continue;
        }
        let Some(now) = ask else { return (steps, ends) };
        asked = Some(now);
        planner.advance(now);
        let mut newcomers = Vec::new();
        while let Some((id, job)) = jobs.get(next).filter(|(_, job)| job.arrival <= now) {
            let speeds = speeds(&job.rates).up_to(accelerators).map(Arc::new);
            let work = job.iterations * ITERATION;
            newcomers.extend(speeds.map(|speeds| Job {
                id: *id,
                speeds,
                work,
                deadline: job.arrival + job.time,
            }));
            next += 1;
        }
        let outcome = planner.step(newcomers);
        let widths = planner.entries().iter().map(|entry| (entry.job.id, entry.width)).collect();
        steps.push((now, widths, outcome.promised));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn promised_jobs_end_in_time_and_widths_fit_the_pool(
        jobs in prop::collection::vec(drawn(), 1..25),
        accelerators in 1u32..20,
        is_time in any::<bool>(),
    ) {
        let rule = if is_time { LeftOvers::Time } else { LeftOvers::Work };
        let (steps, ends) = run(&jobs, accelerators, rule);
        for (now, widths, _) in &steps {
            let sum: u32 = widths.iter().map(|width| width.1).sum();
            prop_assert!(sum <= accelerators, "{sum} of {accelerators} at {now}");
            for (id, width) in widths.iter().filter(|width| width.1 > 0) {
                prop_assert!(speeds(&jobs[*id as usize].rates).rate(*width) > 0, "a width that is not allowed");
            }
        }
        for id in steps.iter().flat_map(|step| &step.2) {
            let end = ends.iter().find(|end| end.0 == *id).map(|end| end.1);
            let due = jobs[*id as usize].arrival + jobs[*id as usize].time;
            prop_assert!(end.is_some_and(|end| end <= due), "job {id} was promised {due} and ended at {end:?}");
        }
    }

    #[test]
    fn the_same_events_give_the_same_plan(jobs in prop::collection::vec(drawn(), 1..15)) {
        prop_assert_eq!(run(&jobs, 8, LeftOvers::Work), run(&jobs, 8, LeftOvers::Work));
    }
}

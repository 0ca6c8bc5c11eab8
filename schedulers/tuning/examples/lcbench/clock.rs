//! The simulated time until a full training reaches a target: random, and successive halving without waiting, with and
//! without a model. Workers take their next trial the instant they are free, and the clock is the surrogate's.

use std::collections::BTreeMap;

use estimand_tuning::pruners::{Ladder, Promotion};
use estimand_tuning::{ClimbingTrial, Curve, Direction, Measure, Report, Study, TrialNumber};

use crate::network::{Network, instance};
use crate::training;

const WORKERS: usize = 4;
const FULL: u64 = 52;
const CAP: f64 = 500_000.0;
const LEAST_PAID: f64 = 0.1;

/// The 0.995 quantile of 200,000 random points.
pub fn target(name: &str) -> f64 {
    match name {
        "167168" => 81.388,
        "189873" => 83.715,
        _ => 88.718,
    }
}

struct Run {
    end: f64,
    trial: TrialNumber,
    step: u64,
}

/// Seconds until the target, on a ladder with some rungs; one rung is random search without early stopping.
pub fn seconds(network: &Network, name: &str, study: &Study, ladder: &Ladder) -> f64 {
    let code = instance(name);
    let goal = target(name);
    let mut trials: Vec<ClimbingTrial> = Vec::new();
    let mut running: Vec<Run> = Vec::new();
    let mut reached: BTreeMap<TrialNumber, u64> = BTreeMap::new();
    let mut now = 0.0;
    loop {
        while running.len() < WORKERS {
            let curves: Vec<(TrialNumber, &Curve)> =
                trials.iter().map(|one| (one.number, &one.curve)).collect();
            let climbing: Vec<Promotion> =
                running.iter().map(|run| Promotion { trial: run.trial, step: run.step }).collect();
            let next = ladder.promotion(Direction::Maximize, &curves, &climbing);
            let next = next.unwrap_or_else(|| {
                let number = trials.len() as u64;
                let runs = |trial| running.iter().any(|run| run.trial == trial);
                let parameters = study.propose_on(ladder, number, &trials, |trial| !runs(trial)).unwrap();
                trials.push(ClimbingTrial { number, parameters, curve: Curve::default() });
                Promotion { trial: number, step: ladder.rungs()[0] }
            });
            let at = training(&trials[next.trial as usize].parameters);
            let before =
                reached.get(&next.trial).map_or(0.0, |step| network.forecast(code, *step, &at).seconds);
            let paid = (network.forecast(code, next.step, &at).seconds - before).max(LEAST_PAID);
            running.push(Run { end: now + paid, trial: next.trial, step: next.step });
        }
        let first = (0..running.len()).min_by(|a, b| running[*a].end.total_cmp(&running[*b].end)).unwrap();
        let run = running.remove(first);
        now = run.end;
        let trial = &mut trials[run.trial as usize];
        let accuracy = network.forecast(code, run.step, &training(&trial.parameters)).accuracy;
        if now > CAP || (run.step == FULL && accuracy >= goal) {
            return now.min(CAP);
        }
        trial.curve.add(Report { step: run.step, measure: Measure::new(accuracy).unwrap() }).unwrap();
        reached.insert(run.trial, run.step);
    }
}

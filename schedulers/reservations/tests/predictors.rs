//! Predictors: the optimum beside a linear programme solved by others, and what each expects.

#![allow(clippy::unwrap_used)]

use estimand_reservations::predict::{Method, Predictor, Profile, Season, Spread, optimum};
use estimand_reservations::simulation::knapsack;
use estimand_reservations::{Job, Money, Rate, Terms};
use microlp::{ComparisonOp, OptimizationDirection, Problem};
use proptest::prelude::*;

const TERMS: Terms = Terms { capacity: 10, floor: Rate::ZERO, ceiling: Rate::microcredits(1_000) };

fn job(arrival: u64, width: u64, length: u64, deadline: u64, unit_value: u64) -> Job {
    Job {
        arrival,
        from: arrival,
        width,
        length,
        deadline,
        value: Money::microcredits(unit_value * width * length),
    }
}

fn jobs() -> impl Strategy<Value = Vec<Job>> {
    let one = (0..10_u64, 1..5_u64, 1..5_u64, 0..6_u64, 1..50_u64);
    proptest::collection::vec(one, 1..14).prop_map(|jobs| {
        jobs.into_iter()
            .map(|(at, width, length, more, value)| job(at, width, length, at + length + more, value))
            .collect()
    })
}

/// The programme as it stands in the documentation, solved by the simplex method.
fn solved(jobs: &[Job], capacity: u64) -> f64 {
    let mut problem = Problem::new(OptimizationDirection::Maximize);
    let mut ticks: Vec<Vec<microlp::Variable>> = vec![Vec::new(); 40];
    for job in jobs {
        let worth = job.value.as_microcredits() as f64 / job.work() as f64;
        let window: Vec<_> =
            (job.arrival..job.deadline).map(|_| problem.add_var(worth, (0.0, job.width as f64))).collect();
        problem.add_constraint(window.iter().map(|units| (*units, 1.0)), ComparisonOp::Le, job.work() as f64);
        (job.arrival..job.deadline).zip(&window).for_each(|(at, units)| ticks[at as usize].push(*units));
    }
    for tick in ticks {
        problem.add_constraint(tick.iter().map(|units| (*units, 1.0)), ComparisonOp::Le, capacity as f64);
    }
    problem.solve().unwrap().objective()
}

proptest! {
    #[test]
    fn the_optimum_is_that_of_the_linear_programme(jobs in jobs(), capacity in 1..9_u64) {
        let found = optimum(&jobs, capacity, 1);
        let solved = solved(&jobs, capacity);
        prop_assert!((found.value as f64 - solved).abs() < 1e-6 * solved.max(1.0), "{} and {}", found.value, solved);
        let mut used = vec![0.0; 40];
        for (job, units) in jobs.iter().zip(&found.units) {
            prop_assert!(units.iter().all(|units| *units <= job.width as f64));
            prop_assert!(units.iter().sum::<f64>() <= job.work() as f64);
            units.iter().enumerate().for_each(|(lag, units)| used[job.arrival as usize + lag] += units);
        }
        prop_assert!(used.iter().all(|used| *used <= capacity as f64));
        // Ticks that count as one leave more room, and what they are given is within their windows.
        let coarse = optimum(&jobs, capacity, 4);
        prop_assert!(coarse.value >= found.value);
        for (job, units) in jobs.iter().zip(&coarse.units) {
            prop_assert!(units.len() as u64 == job.window() && units.iter().all(|units| *units <= job.width as f64));
            prop_assert!(units.iter().sum::<f64>() <= job.work() as f64 + 1e-9);
        }
        prop_assert!(found.value <= knapsack(&jobs, 40 * u128::from(capacity)));
    }

    #[test]
    fn demand_still_to_come_is_what_has_not_arrived(jobs in jobs(), now in 0..20_u64, lead in 0..20_u64) {
        // With ticks of their own and one value there is no average and no level to round to.
        let jobs: Vec<Job> = jobs.iter().map(|one| job(one.arrival, one.width, one.length, one.deadline, 7)).collect();
        let terms = Terms { capacity: 1_000, ..TERMS };
        let profile = Profile::seasonal(&jobs, Season { period: 100, bucket: 1 }, &terms);
        let at = now + lead;
        let to_come = jobs.iter().filter(|job| job.arrival > now && job.arrival <= at && at < job.deadline);
        let units: f64 = to_come.map(|job| job.work() as f64 / job.window() as f64).sum();
        let expected = profile.demand(now, at).at(Rate::microcredits(7));
        prop_assert!((expected as f64 - units).abs() < 1.0 + 1e-9, "{} and {}", expected, units);
        prop_assert_eq!(profile.demand(now + 100, at + 100), profile.demand(now, at));
        let all: f64 = jobs.iter().filter(|job| job.arrival <= at && at < job.deadline)
            .map(|job| job.work() as f64 / job.window() as f64).sum();
        let spread = Spread::train(&jobs, 100, &terms).demand(now, at).at(Rate::microcredits(7));
        prop_assert!((spread as f64 - all).abs() < 1.0 + 1e-9, "{} and {}", spread, all);
    }
}

#[test]
fn the_optimum_moves_earlier_jobs_aside() {
    // The dear job takes the first ticks; the cheap one has only these, so the dear one must move on.
    let jobs = [job(0, 1, 2, 4, 9), job(0, 1, 2, 2, 1)];
    let found = optimum(&jobs, 1, 1);
    assert_eq!((found.value, &found.units[1]), (20, &vec![1.0, 1.0]));
    assert_eq!(found.units[0], [0.0, 0.0, 1.0, 1.0]);
    assert_eq!(optimum(&[], 3, 1).value, 0);
    assert_eq!(optimum(&jobs, 0, 1).value, 0);
}

#[test]
fn impossible_jobs_of_the_past_are_not_wanted() {
    let past = [job(3, 1, 5, 4, 9), job(5, 0, 5, 20, 9), job(9, 1, 0, 20, 9), job(9, 1, 1, 2, 9)];
    let season = Season { period: 50, bucket: 5 };
    for predictor in [
        Box::new(Spread::train(&past, 50, &TERMS)) as Box<dyn Predictor>,
        Box::new(Profile::seasonal(&past, season, &TERMS)),
        Box::new(Profile::optimum(&past, season, &TERMS)),
    ] {
        assert!((0..60).all(|at| predictor.demand(0, at).at(Rate::microcredits(1)) == 0));
    }
}

#[test]
fn a_job_that_is_asked_for_ahead_is_still_to_come_until_then() {
    // Asked for at 10 for the ticks from 50 to 54.
    let past = [Job {
        arrival: 10,
        from: 50,
        width: 3,
        length: 4,
        deadline: 54,
        value: Money::microcredits(12 * 7),
    }];
    let profile = Profile::seasonal(&past, Season { period: 100, bucket: 1 }, &TERMS);
    let wanted = |now, at| profile.demand(now, at).at(Rate::microcredits(7));
    assert_eq!((wanted(5, 50), wanted(9, 53), wanted(10, 50), wanted(49, 51)), (3, 3, 0, 0));
    assert_eq!((wanted(5, 49), wanted(5, 54), wanted(5, 10)), (0, 0, 0));
    assert_eq!(optimum(&past, 2, 1).units[0], [2.0; 4]);
}

#[test]
fn training_that_may_not_go_on_gives_nothing() {
    let past: Vec<Job> = (0..50).map(|at| job(at, 2, 3, at + 9, 5)).collect();
    let season = Season { period: 100, bucket: 1 };
    for method in Method::ALL {
        assert!(method.train(&past, season, &TERMS, &|| true).is_some(), "{method}");
        assert!(method.train(&past, season, &TERMS, &|| false).is_none(), "{method}");
        assert_eq!(method.as_str().parse(), Ok(method));
    }
    assert!("sesonal".parse::<Method>().unwrap_err().contains("there are nothing, spread"));
}

//! The time that a plan should take if capabilities are items a second.
//!
//! Owns the formula for a node's time, which the optimum uses too.

use super::{Costs, Plan, Problem};

/// Expected seconds. None: unknown.
#[derive(Debug, Clone, PartialEq)]
pub struct ExpectedTimes {
    /// By node.
    pub seconds: Vec<Option<f64>>,
    /// Until the last node is done.
    pub makespan: Option<f64>,
    /// If all nodes worked from the first to the last moment and nothing else cost anything.
    pub ideal: Option<f64>,
}

impl ExpectedTimes {
    /// The makespan over the ideal, 1 if there is nothing to do.
    pub fn over_ideal(&self) -> Option<f64> {
        match (self.makespan?, self.ideal?) {
            (makespan, 0.0) => (makespan == 0.0).then_some(1.0),
            (makespan, ideal) => Some(makespan / ideal),
        }
    }
}

/// The expected times of the plan, by the capabilities as they count.
pub fn expected(problem: &Problem, plan: &Plan) -> ExpectedTimes {
    let known = !problem.is_equal_split();
    let seconds: Vec<Option<f64>> = plan
        .parts
        .iter()
        .zip(problem.nodes())
        .zip(problem.weights())
        .map(|((part, node), rate)| {
            if part.target == 0 {
                return Some(0.0);
            }
            (known && *rate > 0.0).then(|| seconds(part.target, part.held, *rate, node.costs))
        })
        .collect();
    let makespan = seconds.iter().try_fold(0.0f64, |most, seconds| seconds.map(|seconds| most.max(seconds)));
    let speed: f64 = problem.weights().iter().sum();
    let ideal = known.then(|| problem.total() as f64 / speed);
    ExpectedTimes { seconds, makespan, ideal }
}

/// The time in which a node that holds `held` items does `count`: its own first, then fetched ones. It never
/// falls as `count` rises, rounding included.
pub(crate) fn seconds(count: u64, held: u64, rate: f64, costs: Costs) -> f64 {
    if count == 0 {
        return 0.0;
    }
    costs.startup + count as f64 / rate + count.saturating_sub(held) as f64 * costs.transfer
}

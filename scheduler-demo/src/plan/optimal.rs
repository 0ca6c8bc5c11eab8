//! The shortest time in which the work can be done in whole items, if speeds and costs are what they say.
//!
//! A node that starts for s seconds, does c items a second and needs t seconds to fetch one that it does not hold does
//! n items, of which it holds h, in `s + n/c + t·max(0, n-h)`. It can do `capacity(T)` of them within T; T is long
//! enough exactly if the capacities add up to the load. So the optimum is the least such T, and it is found as the very
//! number: by halving over the numbers that exist, not over a line.

use super::expected::seconds;
use super::{Plan, Problem};

/// The best plan there is, and how long it takes.
#[derive(Debug, Clone, PartialEq)]
pub struct OptimalPlan {
    pub plan: Plan,
    /// None if no speed is known.
    pub makespan: Option<f64>,
}

/// The optimum. Capabilities have to be items a second for the costs to mean anything beside them.
pub fn optimal(problem: &Problem) -> OptimalPlan {
    let total = problem.total();
    let enough = |time: f64| {
        let mut left = total;
        (0..problem.nodes().len()).any(|node| {
            left -= capacity(problem, node, time).min(left);
            left == 0
        })
    };
    // A node alone can do everything, so its time is long enough.
    let longest = (0..problem.nodes().len())
        .filter(|node| problem.weights()[*node] > 0.0)
        .map(|node| time_of(problem, node, total))
        .fold(f64::INFINITY, f64::min);
    // Numbers that are not negative are in the order of their bits.
    let (mut short, mut long) = (0u64, longest.to_bits());
    while short < long {
        let middle = short + (long - short) / 2;
        if enough(f64::from_bits(middle)) {
            long = middle;
        } else {
            short = middle + 1;
        }
    }
    let time = f64::from_bits(long);
    let plan = Plan::towards(problem, &targets(problem, time));
    OptimalPlan { plan, makespan: (!problem.is_equal_split()).then_some(time) }
}

/// The items of each node within the least time: first as many of its own as it can do, so that no more moves than
/// necessary, then the rest for nodes that can do more. There is hardly a choice: a shorter time would not suffice.
fn targets(problem: &Problem, time: f64) -> Vec<u64> {
    let most: Vec<u64> = (0..problem.nodes().len()).map(|node| capacity(problem, node, time)).collect();
    let mut targets: Vec<u64> =
        most.iter().zip(problem.nodes()).map(|(most, node)| node.load.min(*most)).collect();
    let mut missing = problem.total() - targets.iter().sum::<u64>();
    for (target, most) in targets.iter_mut().zip(most) {
        let more = (most - *target).min(missing);
        *target += more;
        missing -= more;
    }
    targets
}

fn time_of(problem: &Problem, node: usize, count: u64) -> f64 {
    let of = &problem.nodes()[node];
    seconds(count, of.load, problem.weights()[node], of.costs)
}

/// How many items the node can do within the time, at most all.
fn capacity(problem: &Problem, node: usize, time: f64) -> u64 {
    let total = problem.total();
    let rate = problem.weights()[node];
    if rate == 0.0 || total == 0 {
        return 0;
    }
    let fits = |count: u64| time_of(problem, node, count) <= time;
    // The formula solved for the count; rounding can put it beside the answer, which is then searched for.
    let of = &problem.nodes()[node];
    let working = time - of.costs.startup;
    let own = working * rate;
    let count = if own <= of.load as f64 {
        own
    } else {
        (working + of.costs.transfer * of.load as f64) / (1.0 / rate + of.costs.transfer)
    };
    let guess = (count.max(0.0) as u64).min(total);
    let (mut fitting, mut beyond) = match (fits(guess), guess < total) {
        (true, false) => return total,
        (true, true) if !fits(guess + 1) => return guess,
        (true, true) => (guess + 1, total + 1),
        (false, _) if guess > 0 && fits(guess - 1) => return guess - 1,
        (false, _) => (0, guess),
    };
    while beyond - fitting > 1 {
        let middle = fitting + (beyond - fitting) / 2;
        if fits(middle) {
            fitting = middle;
        } else {
            beyond = middle;
        }
    }
    fitting
}

//! Bounds that no way to price could exceed.

use crate::job::Job;

/// The most value of so many units in all (capacity times ticks), if jobs could be cut anywhere and done at any time: the
/// fractional knapsack. In microcredits.
pub fn knapsack(jobs: &[Job], units: u128) -> u128 {
    let mut order: Vec<&Job> = jobs.iter().filter(|job| job.is_possible()).collect();
    order.sort_by(|one, other| {
        let scaled =
            |one: &Job, other: &Job| u128::from(one.value.as_microcredits()) * u128::from(other.work());
        scaled(other, one).cmp(&scaled(one, other))
    });
    let (mut left, mut value) = (units, 0);
    for job in order {
        let work = u128::from(job.work());
        let taken = work.min(left);
        value += u128::from(job.value.as_microcredits()) * taken / work;
        left -= taken;
    }
    value
}

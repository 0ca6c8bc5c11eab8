//! Side by side: each round loads every side once, one after the other, and only figures of the same round
//! are divided by each other. Slow changes of the machine (clock speed, a neighbour, a filling disk) then
//! hit all sides alike, and the spread over the rounds shows the changes within one.

use std::time::Duration;

use serde::Serialize;

use crate::histogram::Histogram;

/// How long and how often.
#[derive(Debug, Clone, Copy)]
pub struct Plan {
    pub rounds: u32,
    pub time: Duration,
}

/// The work of one side in one round.
#[derive(Debug, Clone)]
pub struct Sample {
    pub per_second: f64,
    pub latencies: Histogram,
    /// The share of its core that the load generator used.
    pub generator_busy: f64,
    /// How long the server's process ran for each request, if it is one process.
    pub cpu: Option<Duration>,
}

impl Sample {
    pub fn new(latencies: Histogram, elapsed: Duration) -> Self {
        let per_second = latencies.count() as f64 / elapsed.as_secs_f64().max(1e-9);
        Sample { per_second, latencies, generator_busy: 0.0, cpu: None }
    }

    /// Each request was so many rows, and it is rows that count.
    pub fn times(self, rows: usize) -> Self {
        Sample { per_second: self.per_second * rows as f64, ..self }
    }
}

/// One side: loads itself for a while.
pub type Side<'a> = Box<dyn FnMut(Duration) -> anyhow::Result<Sample> + 'a>;

/// The median and both ends.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Spread {
    pub median: f64,
    pub min: f64,
    pub max: f64,
}

impl Spread {
    /// Of at least one number.
    pub fn of(numbers: impl IntoIterator<Item = f64>) -> Self {
        let mut sorted: Vec<f64> = numbers.into_iter().collect();
        sorted.sort_by(f64::total_cmp);
        let (middle, last) = (sorted.len() / 2, sorted.len() - 1);
        let median = if last % 2 == 0 { sorted[middle] } else { (sorted[middle - 1] + sorted[middle]) / 2.0 };
        Spread { median, min: sorted[0], max: sorted[last] }
    }
}

/// All rounds of one side.
#[derive(Debug, Clone)]
pub struct Rounds(Vec<Sample>);

impl Rounds {
    pub fn per_second(&self) -> f64 {
        Spread::of(self.0.iter().map(|sample| sample.per_second)).median
    }

    /// The processor time of a request, in microseconds.
    pub fn cpu_us(&self) -> Option<f64> {
        let times: Option<Vec<f64>> =
            self.0.iter().map(|sample| Some(sample.cpu?.as_secs_f64() * 1e6)).collect();
        times.filter(|times| !times.is_empty()).map(|times| Spread::of(times).median)
    }

    pub fn generator_busy(&self) -> f64 {
        Spread::of(self.0.iter().map(|sample| sample.generator_busy)).median
    }

    /// The ratio of the two sides, round by round.
    pub fn against(&self, other: &Rounds) -> Spread {
        let pairs = self.0.iter().zip(&other.0);
        Spread::of(pairs.map(|(ours, theirs)| ours.per_second / theirs.per_second))
    }

    /// The same by the processor time that a request takes, which does not count the time of others on the core.
    pub fn against_by_cpu(&self, other: &Rounds) -> Option<Spread> {
        let pairs = self.0.iter().zip(&other.0);
        let ratios: Option<Vec<f64>> =
            pairs.map(|(ours, theirs)| Some(theirs.cpu?.as_secs_f64() / ours.cpu?.as_secs_f64())).collect();
        ratios.filter(|ratios| !ratios.is_empty()).map(Spread::of)
    }

    pub fn quantile(&self, share: f64) -> Duration {
        let mut all = Histogram::default();
        self.0.iter().for_each(|sample| all.add(&sample.latencies));
        all.quantile(share)
    }
}

/// Runs the rounds, after one that does not count, and returns them side by side.
pub fn contest<const N: usize>(plan: Plan, mut sides: [Side<'_>; N]) -> anyhow::Result<[Rounds; N]> {
    let mut rounds = [const { Rounds(Vec::new()) }; N];
    contest_of(plan, &mut sides, &mut rounds)?;
    Ok(rounds)
}

/// The same of any number of sides.
pub fn contest_of_all(plan: Plan, mut sides: Vec<Side<'_>>) -> anyhow::Result<Vec<Rounds>> {
    let mut rounds = vec![Rounds(Vec::new()); sides.len()];
    contest_of(plan, &mut sides, &mut rounds)?;
    Ok(rounds)
}

/// Each round begins with another side: one that comes behind a side whose work goes on for a while would pay for it in
/// every round.
fn contest_of(plan: Plan, sides: &mut [Side<'_>], rounds: &mut [Rounds]) -> anyhow::Result<()> {
    for round in 0..=plan.rounds as usize {
        for turn in 0..sides.len() {
            let place = (round + turn) % sides.len();
            let sample = sides[place](plan.time)?;
            if round > 0 {
                rounds[place].0.push(sample);
            }
        }
    }
    Ok(())
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn ratios_are_taken_within_a_round() {
        let rounds = |figures: [f64; 3]| {
            Rounds(
                figures
                    .map(|per_second| Sample {
                        per_second,
                        latencies: Histogram::default(),
                        generator_busy: 0.0,
                        cpu: None,
                    })
                    .into(),
            )
        };
        let (ours, theirs) = (rounds([10.0, 100.0, 3.0]), rounds([20.0, 100.0, 1.0]));
        assert_eq!(ours.against(&theirs), Spread { median: 1.0, min: 0.5, max: 3.0 });
    }

    #[test]
    fn each_round_begins_with_another_side() {
        let (order, plan) = (std::cell::RefCell::new(Vec::new()), Plan { rounds: 2, time: Duration::ZERO });
        let side = |name: &'static str| -> Side<'_> {
            let order = &order;
            Box::new(move |time| {
                order.borrow_mut().push(name);
                Ok(Sample::new(Histogram::default(), time))
            })
        };
        let rounds = contest_of_all(plan, vec![side("a"), side("b")]).unwrap();
        assert_eq!(*order.borrow(), ["a", "b", "b", "a", "a", "b"]);
        assert!(rounds.iter().all(|rounds| rounds.0.len() == 2), "the first one warms up");
    }

    #[test]
    fn the_median_of_an_even_count_lies_between_the_middle_two() {
        assert_eq!(Spread::of([4.0, 1.0, 2.0, 10.0]), Spread { median: 3.0, min: 1.0, max: 10.0 });
        assert_eq!(Spread::of([7.0]), Spread { median: 7.0, min: 7.0, max: 7.0 });
    }
}

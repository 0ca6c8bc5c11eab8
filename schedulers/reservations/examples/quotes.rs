//! Quotes a second on one core, beside the pseudo-code of the paper as one would write it in C: loops over flat arrays. It
//! prints figures and judges nothing; a cost that differs from that of the pseudo-code ends it. Time is the processor time of
//! the thread, so what else the machine does counts little.

use std::sync::Arc;
use std::time::Duration;

use estimand_capacity::{Resource, Tick};
use estimand_reservations::predict::Predictor;
use estimand_reservations::{Bid, Demand, Money, Pricing, Rate, Request, Terms};
use fastrand::Rng;

const CAPACITY: u64 = 4_000;
const PRICES: u64 = 64;
const DAY: u64 = 1_440;
const AT_LEAST: Duration = Duration::from_secs(1);

/// The processor time of this thread.
fn spent() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

struct Waves(Vec<Arc<Demand>>);

impl Predictor for Waves {
    fn demand(&self, _: Tick, at: Tick) -> Arc<Demand> {
        Arc::clone(&self.0[at as usize % self.0.len()])
    }
}

struct Bench {
    cpu: Resource,
    horizon: u64,
    pricing: Pricing,
    demand: Vec<Arc<Demand>>,
}

impl Bench {
    /// Each tick has some 64 prices and is like the one a day before; about half of all is promised.
    fn new(horizon: u64, rng: &mut Rng) -> Result<Bench, Box<dyn std::error::Error>> {
        let cpu = Resource::parse("cpu")?;
        let terms =
            Terms { capacity: CAPACITY, floor: Rate::microcredits(1), ceiling: Rate::microcredits(1_000) };
        let demand: Vec<Arc<Demand>> = (0..DAY.min(horizon))
            .map(|_| {
                let wanted = (1..=PRICES).map(|price| (Rate::microcredits(price * 10), rng.u64(0..100)));
                Arc::new(Demand::of(wanted, &terms))
            })
            .collect();
        let mut pricing = Pricing::new(0, horizon)?;
        pricing.add(cpu.clone(), terms, Arc::new(Waves(demand.clone())))?;
        let mut bench = Bench { cpu, horizon, pricing, demand };
        for _ in 0..horizon / 4 {
            let (length, from) = (rng.u64(1..=60), rng.u64(0..horizon - 120));
            let request = bench.request(rng.u64(1..=200), length, from, from + 2 * length);
            let _ = bench.pricing.reserve(&Bid { request, value: Money::MAX });
        }
        Ok(bench)
    }

    fn request(&self, width: u64, length: u64, from: Tick, deadline: Tick) -> Request {
        let amounts = [(self.cpu.clone(), width)].into_iter().collect();
        Request { amounts, length, from, deadline }
    }

    /// Over the whole horizon, which is the most that a quote can look at.
    fn requests(&self, width: u64, rng: &mut Rng) -> Vec<Request> {
        (0..64).map(|_| self.request(width, rng.u64(2..=240), 0, self.horizon)).collect()
    }

    fn quotes_a_second(&self, requests: &[Request]) -> f64 {
        let (started, mut quotes) = (spent(), 0_u32);
        while spent() - started < AT_LEAST {
            for request in requests {
                std::hint::black_box(self.pricing.quote(request).ok());
                quotes += 1;
            }
        }
        f64::from(quotes) / (spent() - started).as_secs_f64()
    }

    /// The pseudo-code, and whether it finds the same.
    fn plain_a_second(&self, requests: &[Request]) -> Result<f64, String> {
        let plain = self.plain();
        let (mut time, mut quotes) = (Duration::ZERO, 0_u32);
        for request in requests {
            let (started, width) = (spent(), request.amounts.get(&self.cpu));
            let found = std::hint::black_box(&plain).cheapest(width, request.length as usize);
            time += spent() - started;
            quotes += 1;
            let quote = self.pricing.quote(request).ok();
            let quote = quote.map(|quote| (quote.start as usize, quote.cost.as_microcredits()));
            if quote != found {
                return Err(format!("{quote:?} and not {found:?} for {request:?}"));
            }
            if time > AT_LEAST {
                break;
            }
        }
        Ok(f64::from(quotes) / time.as_secs_f64())
    }

    fn plain(&self) -> Plain {
        let prices: Vec<u64> = (1..=PRICES).rev().map(|price| price * 10).chain([1]).collect();
        let ticks = 0..self.horizon as usize;
        let row = |at: usize| {
            let demand = &self.demand[at % self.demand.len()];
            prices.iter().map(|price| demand.at(Rate::microcredits(*price))).collect::<Vec<u64>>()
        };
        let demand = ticks.flat_map(row).collect();
        let promised = (0..self.horizon).map(|at| self.pricing.promised(&self.cpu, at)).collect();
        Plain { prices, demand, promised }
    }
}

/// The state that the pseudo-code reads, as flat arrays.
struct Plain {
    /// From the highest to the lowest.
    prices: Vec<u64>,
    /// The units wanted at a price or above: a row of all prices for each tick.
    demand: Vec<u64>,
    promised: Vec<u64>,
}

impl Plain {
    const IMPOSSIBLE: u64 = u64::MAX;

    /// The first of the cheapest starts and its total cost: each unit of each tick is priced, then each start is summed up.
    fn cheapest(&self, width: u64, length: usize) -> Option<(usize, u64)> {
        let costs: Vec<u64> = (0..self.promised.len()).map(|at| self.cost(at, width)).collect();
        let mut best = None;
        let mut least = Self::IMPOSSIBLE;
        for (start, window) in costs.windows(length).enumerate() {
            let total = window.iter().fold(0, |sum: u64, cost| sum.saturating_add(*cost));
            if total < least {
                least = total;
                best = Some((start, total));
            }
        }
        best
    }

    fn cost(&self, at: usize, width: u64) -> u64 {
        let promised = self.promised[at];
        if promised + width > CAPACITY {
            return Self::IMPOSSIBLE;
        }
        let row = &self.demand[at * self.prices.len()..(at + 1) * self.prices.len()];
        let mut cost = 0;
        for unit in 1..=width {
            let reached = row.iter().position(|demand| demand + promised + unit > CAPACITY);
            cost += self.prices[reached.unwrap_or(self.prices.len() - 1)];
        }
        cost
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut rng = Rng::with_seed(1);
    println!("{:>8} {:>6} {:>12} {:>12} {:>10}", "HORIZON", "W", "QUOTES/S", "PLAIN/S", "TIMES");
    for horizon in [1_440, 10_080, 100_000] {
        let bench = Bench::new(horizon, &mut rng)?;
        for width in [1, 30, 1_000] {
            let requests = bench.requests(width, &mut rng);
            let ours = bench.quotes_a_second(&requests);
            let plain = bench.plain_a_second(&requests)?;
            println!("{horizon:>8} {width:>6} {ours:>12.0} {plain:>12.3} {:>10.0}", ours / plain);
        }
    }
    let bench = Bench::new(100_000, &mut rng)?;
    let requests: Vec<Request> = (0..64).map(|at| bench.request(30, 20, at * 100, at * 100 + 60)).collect();
    println!("100,000 ticks, a window of 60: {:.0} quotes/s", bench.quotes_a_second(&requests));
    Ok(())
}

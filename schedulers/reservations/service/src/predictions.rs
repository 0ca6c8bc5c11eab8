//! Predictors of demand, one for each resource of each class, trained on the bids of the past. Pure: bids and instants come in.
//!
//! A bid for several resources is worth to each its part of the value, in the proportion of what they cost at least: prices
//! of resources add up, too.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use estimand_reservations::predict::{GoesOn, Method, Nothing, Predictor, Season};
use estimand_reservations::{Job, Money, Rate, Terms};

use crate::bid::Bid;
use crate::choice::Choice;
use crate::settings::Settings;

/// The period is looked at in so many parts, within which demand counts as alike.
const PARTS: u64 = 24;
/// The slots of all windows together on which one predictor is trained. Of more bids a sample is taken, so that training
/// takes some hundred megabytes at most.
const MAX_WINDOWS: u64 = 4_000_000;

/// A resource of a class of nodes.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Good {
    pub class: String,
    pub resource: String,
}

/// All that is sold, and under which terms.
pub type Goods = BTreeMap<Good, Terms>;

/// The method that was trained, when, and on how much.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Training {
    /// Microseconds since 1970.
    pub at: i64,
    /// Different bids of the period before.
    pub bids: u64,
}

/// The expected demand that prices count on.
#[derive(Clone, Default)]
pub struct Predictions {
    pub choice: Choice,
    /// None: nothing was trained, so nothing is expected.
    pub training: Option<Training>,
    predictors: BTreeMap<Good, Arc<dyn Predictor>>,
}

impl Predictions {
    /// No demand is expected: each slot has its least price.
    pub fn nothing(choice: Choice) -> Predictions {
        Predictions { choice: Choice { method: Method::Nothing, ..choice }, ..Predictions::default() }
    }

    /// Trains on bids, each with the instant of its arrival in microseconds since 1970. None if it might not go on.
    pub fn train(
        choice: Choice,
        bids: &[(i64, Bid)],
        goods: &Goods,
        settings: &Settings,
        at: i64,
        goes_on: GoesOn<'_>,
    ) -> Option<Predictions> {
        let bids = different(bids);
        let period = choice.slots(settings);
        let season = Season { period, bucket: (period / PARTS).max(1) };
        let mut predictors = BTreeMap::new();
        for (good, terms) in goods {
            let jobs: Vec<Job> =
                bids.iter().filter_map(|(at, bid)| job(*at, bid, good, terms, goods, settings)).collect();
            let predictor = choice.method.train(&sample(&jobs), season, terms, goes_on)?;
            predictors.insert(good.clone(), predictor);
        }
        let training = Training { at, bids: bids.len() as u64 };
        Some(Predictions { choice, training: Some(training), predictors })
    }

    pub fn of(&self, good: &Good, terms: &Terms) -> Arc<dyn Predictor> {
        self.predictors.get(good).cloned().unwrap_or_else(|| Arc::new(Nothing::new(terms)))
    }
}

/// Of bids with the same key the last one counts.
fn different(bids: &[(i64, Bid)]) -> Vec<&(i64, Bid)> {
    let mut places: HashMap<&str, usize> = HashMap::new();
    for (place, (_, bid)) in bids.iter().enumerate() {
        if let Some(key) = &bid.key {
            places.insert(key, place);
        }
    }
    let is_last = |(place, (_, bid)): &(usize, &(i64, Bid))| {
        bid.key.as_ref().is_none_or(|key| places.get(key.as_str()) == Some(place))
    };
    bids.iter().enumerate().filter(is_last).map(|(_, bid)| bid).collect()
}

/// The part of a bid that is about one good; none if it wants nothing of it, or more than there is.
fn job(at: i64, bid: &Bid, good: &Good, terms: &Terms, goods: &Goods, settings: &Settings) -> Option<Job> {
    let units =
        |resource: &str, amount: u64| amount.div_ceil(Settings::unit(resource)).saturating_mul(bid.width);
    let own = bid.resources.get(&good.resource).filter(|_| bid.class == good.class)?;
    let width = units(&good.resource, *own);
    let least = |resource: &str, amount: u64| {
        let good = Good { class: bid.class.clone(), resource: resource.to_owned() };
        let floor = goods.get(&good).map_or(Rate::ZERO, |terms| terms.floor);
        u128::from(floor.as_parts()) * u128::from(units(resource, amount))
    };
    let all = bid.resources.iter().map(|(resource, amount)| least(resource, *amount));
    let all = all.fold(0_u128, u128::saturating_add);
    // Both sides of the fraction are cut to 64 bits, so that the product has room.
    let excess = (u128::BITS - all.leading_zeros()).saturating_sub(u64::BITS);
    let part = least(&good.resource, *own) >> excess;
    let all = all >> excess;
    let value = u128::from(bid.value.as_microcredits()) * part / all.max(1);
    let arrival = settings.slot_of(u64::try_from(at / 1_000_000).unwrap_or(0));
    let (from, length, deadline) = slots(bid, arrival, settings);
    let job = Job {
        arrival,
        from,
        width,
        length,
        deadline,
        value: Money::microcredits(u64::try_from(value).unwrap_or(u64::MAX)),
    };
    (width <= terms.capacity && job.is_possible()).then_some(job)
}

/// The window and the length of a bid in slots. One into which no whole slots fit touches all of its slots.
fn slots(bid: &Bid, arrival: u64, settings: &Settings) -> (u64, u64, u64) {
    let from = settings.slot_from(bid.from).max(arrival);
    let length = settings.slot_from(bid.duration);
    let deadline = settings.slot_of(bid.by);
    let is_exact = deadline < from.saturating_add(length) && bid.from.saturating_add(bid.duration) <= bid.by;
    if !is_exact {
        return (from, length, deadline);
    }
    let from = settings.slot_of(bid.from).max(arrival);
    let deadline = settings.slot_from(bid.by);
    (from, deadline.saturating_sub(from), deadline)
}

/// All jobs, or if their windows are too long together every so many-th one, as if it was so many.
fn sample(jobs: &[Job]) -> Vec<Job> {
    let windows = jobs.iter().fold(0_u64, |sum, job| sum.saturating_add(job.window()));
    let step = windows.div_ceil(MAX_WINDOWS).max(1);
    let times = |job: &Job| Job {
        width: job.width.saturating_mul(step),
        value: Money::microcredits(job.value.as_microcredits().saturating_mul(step)),
        ..*job
    };
    jobs.iter().step_by(usize::try_from(step).unwrap_or(usize::MAX)).map(times).collect()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    const SECOND: i64 = 1_000_000;

    fn bid(key: Option<&str>, resources: &[(&str, u64)], value: u64) -> Bid {
        Bid {
            key: key.map(str::to_owned),
            class: "default".to_owned(),
            resources: resources.iter().map(|(name, amount)| ((*name).to_owned(), *amount)).collect(),
            width: 2,
            duration: 600,
            from: 36_000,
            by: 36_600,
            value: Money::microcredits(value),
        }
    }

    fn goods() -> Goods {
        let terms = |capacity, floor| Terms {
            capacity,
            floor: Rate::microcredits(floor),
            ceiling: Rate::microcredits(1_000_000),
        };
        let good = |resource: &str| Good { class: "default".to_owned(), resource: resource.to_owned() };
        [(good("cpu"), terms(2_000, 30)), (good("memory"), terms(4_096, 1)), (good("disk"), terms(9, 0))]
            .into()
    }

    fn price(predictions: &Predictions, resource: &str, now: u64, at: u64) -> u64 {
        let good = Good { class: "default".to_owned(), resource: resource.to_owned() };
        let terms = goods()[&good];
        predictions.of(&good, &terms).demand(now, at).first_price(terms.capacity).to_money().as_microcredits()
    }

    fn train(method: Method, bids: &[(i64, Bid)]) -> Predictions {
        let choice = Choice { method, ..Choice::default() };
        Predictions::train(choice, bids, &goods(), &Settings::default(), 7, &|| true).unwrap()
    }

    #[test]
    fn bids_that_would_fill_all_make_their_time_dear_a_day_later() {
        // Asked for at three in the morning, for ten o'clock, worth 100 for each unit and slot.
        let value = 2_000 * 60 * 100;
        let whole = || Bid { duration: 3_600, by: 39_600, ..bid(None, &[("cpu", 1_000)], value) };
        let bids = [(10_800 * SECOND, whole()), (10_900 * SECOND, whole())];
        let (yesterday, day) = (600, 1_440);
        for method in [Method::Spread, Method::Seasonal, Method::Optimum] {
            let predictions = train(method, &bids);
            assert_eq!(predictions.training, Some(Training { at: 7, bids: 2 }));
            let dear = price(&predictions, "cpu", day, yesterday + day);
            assert_eq!(dear, 100, "{method}");
            assert_eq!(price(&predictions, "cpu", day, day + 60), 30, "{method}: nobody wants it at one");
            assert_eq!(price(&predictions, "memory", day, yesterday + day), 1, "{method}");
        }
        assert_eq!(price(&train(Method::Nothing, &bids), "cpu", day, yesterday + day), 30);
        assert_eq!(price(&Predictions::nothing(Choice::default()), "cpu", day, yesterday + day), 30);
    }

    #[test]
    fn the_same_request_again_is_one_bid_and_its_last_value_counts() {
        let bids = [
            (10_800 * SECOND, bid(Some("a"), &[("cpu", 1_000)], 9)),
            (10_801 * SECOND, bid(Some("b"), &[("cpu", 500)], 5)),
            (10_900 * SECOND, bid(Some("a"), &[("cpu", 1_000)], 7)),
            (10_900 * SECOND, bid(None, &[("cpu", 1)], 1)),
            (10_900 * SECOND, bid(None, &[("cpu", 1)], 1)),
        ];
        let values: Vec<u64> = different(&bids).iter().map(|(_, bid)| bid.value.as_microcredits()).collect();
        assert_eq!(values, [5, 7, 1, 1]);
    }

    #[test]
    fn a_value_is_shared_among_resources_as_their_least_prices_are() {
        let bid = bid(None, &[("cpu", 1_000), ("memory", 1_500 << 20), ("disk", 3)], 63_000);
        let goods = goods();
        let part = |resource: &str| {
            let good = Good { class: "default".to_owned(), resource: resource.to_owned() };
            job(10_800 * SECOND, &bid, &good, &goods[&good], &goods, &Settings::default())
        };
        // 2,000 units at 30, 3,000 at 1, and 6 at nothing.
        let (cpu, memory, disk) = (part("cpu").unwrap(), part("memory").unwrap(), part("disk").unwrap());
        let values = [cpu, memory, disk].map(|job| job.value.as_microcredits());
        assert_eq!(values, [60_000, 3_000, 0]);
        assert_eq!((cpu.arrival, cpu.from, cpu.deadline, cpu.width, cpu.length), (180, 600, 610, 2_000, 10));
        let wide = Bid { width: 3, ..bid.clone() };
        let good = Good { class: "default".to_owned(), resource: "cpu".to_owned() };
        assert_eq!(
            job(0, &wide, &good, &goods[&good], &goods, &Settings::default()),
            None,
            "so much is not there"
        );
        let other = Bid { class: "gpu".to_owned(), ..bid };
        assert_eq!(job(0, &other, &good, &goods[&good], &goods, &Settings::default()), None);
    }

    #[test]
    fn of_too_many_bids_a_sample_stands_for_all() {
        let job = Job {
            arrival: 0,
            from: 0,
            width: 3,
            length: 5,
            deadline: 100_000,
            value: Money::microcredits(30),
        };
        let all = vec![job; 100];
        let some = sample(&all);
        assert!(some.iter().map(Job::window).sum::<u64>() <= MAX_WINDOWS);
        let (work, of) = (some.iter().map(Job::work).sum::<u64>(), all.iter().map(Job::work).sum::<u64>());
        assert!((work as f64 / of as f64 - 1.0).abs() < 0.05, "{work} of {of}");
        assert_eq!(some[0].unit_value(), job.unit_value());
        assert_eq!(sample(&[job; 3]), vec![job; 3]);
    }
}

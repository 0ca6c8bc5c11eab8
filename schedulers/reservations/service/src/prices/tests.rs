#![allow(clippy::unwrap_used)]

use proptest::prelude::*;
use serde_json::json;

use super::*;

const NOW: u64 = 6_000;

fn prices(free: &[u64]) -> Prices {
    with_places(free, &[])
}

/// With so many places for tasks free in each slot, where any are given.
fn with_places(free: &[u64], places: &[u64]) -> Prices {
    let settings = Settings { horizon: free.len() as u64, ..Settings::default() };
    let mut class = ClassTimeline {
        class: DEFAULT_CLASS.to_owned(),
        nodes: 1,
        capacity: [("cpu".to_owned(), 4_000)].into(),
        free: [("cpu".to_owned(), free.to_vec())].into(),
        promised: BTreeMap::new(),
    };
    if let Some(all) = places.iter().max() {
        class.capacity.insert(PLACES.to_owned(), *all);
        class.free.insert(PLACES.to_owned(), places.to_vec());
    }
    let timeline = CapacityTimeline {
        revision: 7,
        now: NOW,
        from: NOW,
        step: 60,
        classes: vec![class],
        ..CapacityTimeline::default()
    };
    Prices::new(&Arc::new(settings), &timeline, &Arc::default()).unwrap()
}

fn document(more: &serde_json::Value) -> Document {
    let mut body = json!({ "resources": { "cpu": 2 }, "duration": 100 });
    body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    Document::from_map(body.as_object().unwrap().clone(), (NOW * 1_000_000) as i64).unwrap()
}

#[test]
fn runs_are_found() {
    let found = runs([0, 0, 3, 3, 5, 0, 5].into_iter());
    assert_eq!(found, [(2, 2, 3), (4, 1, 5), (6, 1, 5)]);
    assert_eq!(runs([].into_iter()), []);
}

#[test]
fn the_cheapest_start_with_room_is_offered_in_whole_slots() {
    let prices = prices(&[1_000, 4_000, 1_999, 4_000, 2_000, 4_000]);
    let asked = document(&json!({}));
    let offer = prices.offer(&asked, NOW, &BTreeSet::new()).unwrap().offer;
    // 100 s are two slots: two processors for a thirtieth of an hour, at a credit an hour.
    assert_eq!(
        offer,
        Offer { price: Money::microcredits(66_667), start: NOW + 180, end: NOW + 300, width: 1 }
    );
    let without = BTreeSet::from([(1, NOW / 60 + 3)]);
    assert_eq!(prices.offer(&asked, NOW, &without).unwrap().offer.start, NOW + 240);
    let without = BTreeSet::from([(1, NOW / 60 + 3), (1, NOW / 60 + 4)]);
    assert!(matches!(prices.offer(&asked, NOW, &without), Err(NoPrice::Refused(Refusal::Full { .. }))));
    let starts = prices.curve(&asked, NOW).unwrap();
    let free: Vec<bool> = starts.iter().map(|(_, price)| price.is_some()).collect();
    assert_eq!(free, [false, false, false, true, true]);
}

#[test]
fn what_has_no_price_says_why() {
    let prices = prices(&[4_000; 6]);
    let refused = |more| prices.offer(&document(&more), NOW, &BTreeSet::new()).unwrap_err();
    assert!(matches!(refused(json!({ "class": "gpu" })), NoPrice::Class { .. }));
    assert!(matches!(refused(json!({ "from": "1970-01-01T01:00:00Z" })), NoPrice::Past { now: NOW }));
    assert!(matches!(refused(json!({ "width": 3 })), NoPrice::Refused(Refusal::TooWide { .. })));
    let tight = NoPrice::Tight { needed: 100, window: 99, earliest: Some(NOW + 100) };
    assert_eq!(refused(json!({ "by": "99s" })), tight);
    let Priced { offer, .. } = prices.offer(&document(&json!({})), NOW, &BTreeSet::new()).unwrap();
    assert_eq!(offer.end, NOW + 120);
}

#[test]
fn a_window_off_the_slots_is_had_to_the_second_at_the_price_of_the_slots_that_it_touches() {
    let micros = Money::microcredits;
    let at = |second: u64| estimand_api::instant::to_rfc3339(((NOW + second) * 1_000_000) as i64);
    let window = |from: u64, by: u64| document(&json!({ "from": at(from), "by": at(by) }));
    let exact = window(70, 170);
    let mut free = prices(&[4_000; 6]);
    let priced = free.offer(&exact, NOW, &BTreeSet::new()).unwrap();
    // Two processors for two of the slots of a minute.
    assert_eq!(priced.offer, Offer { price: micros(66_667), start: NOW + 70, end: NOW + 170, width: 1 });
    assert_eq!(free.curve(&exact, NOW).unwrap(), [(NOW + 70, Some(micros(66_667)))]);
    // A second later it touches a third slot, and costs that, too.
    let longer = free.offer(&window(90, 190), NOW, &BTreeSet::new()).unwrap().offer;
    assert_eq!((longer.price, longer.start, longer.end), (micros(100_000), NOW + 90, NOW + 190));
    // The rest of its slots is not sold to others, and free again when it is given back.
    let before = free.offer(&document(&json!({ "width": 2, "by": at(240) })), NOW, &BTreeSet::new()).unwrap();
    assert!(free.take(&exact, &priced));
    let wide = document(&json!({ "width": 2, "duration": 60 }));
    let starts: Vec<bool> =
        free.curve(&wide, NOW).unwrap().into_iter().map(|(_, price)| price.is_some()).collect();
    assert_eq!(starts, [true, false, false, true, true, true]);
    free.give_back(&exact, &priced.offer, 1);
    assert_eq!(
        free.offer(&document(&json!({ "width": 2, "by": at(240) })), NOW, &BTreeSet::new()).unwrap(),
        before
    );
    // The cheapest start, where the window has several: from the begin of a slot on it touches one less.
    let short = document(&json!({ "duration": 50, "from": at(20), "by": at(115) }));
    let short = free.offer(&short, NOW, &BTreeSet::new()).unwrap().offer;
    assert_eq!((short.start, short.end, short.price), (NOW + 60, NOW + 110, micros(33_334)));
    // Whole slots are had where some fit.
    let wide = free.offer(&window(70, 240), NOW, &BTreeSet::new()).unwrap().offer;
    assert_eq!((wide.start, wide.end), (NOW + 120, NOW + 240));
    // A slot that has begun has no price any more.
    let begun = free.offer(&window(10, 110), NOW + 5, &BTreeSet::new()).unwrap().offer;
    assert_eq!(begun.start, NOW + 10, "the prices are of before: the ledger decides");
    let full = prices(&[4_000, 4_000, 1_999, 4_000, 4_000, 4_000]).offer(&exact, NOW, &BTreeSet::new());
    assert!(matches!(full, Err(NoPrice::Refused(Refusal::Full { .. }))), "{full:?}");
    let widths =
        document(&json!({ "duration": null, "work": 190, "width": "1..2", "from": at(70), "by": at(170) }));
    let widths = free.offer(&widths, NOW, &BTreeSet::new()).unwrap().offer;
    assert_eq!((widths.width, widths.start, widths.end), (2, NOW + 70, NOW + 165));
}

#[test]
fn what_is_taken_is_not_offered_again() {
    let mut prices = prices(&[4_000; 4]);
    let asked = document(&json!({ "width": 2 }));
    let first = prices.offer(&asked, NOW, &BTreeSet::new()).unwrap();
    assert!(prices.take(&asked, &first) && !prices.take(&asked, &first));
    let second = prices.offer(&asked, NOW, &BTreeSet::new()).unwrap();
    assert_eq!((first.offer.end, second.offer.start), (NOW + 120, NOW + 120));
    assert!(prices.take(&asked, &second));
    assert!(prices.offer(&asked, NOW, &BTreeSet::new()).is_err());
    prices.give_back(&asked, &first.offer, 2);
    assert_eq!(prices.offer(&asked, NOW, &BTreeSet::new()).unwrap(), first);
}

#[test]
fn a_start_without_a_place_for_each_unit_is_not_offered() {
    let asked = document(&json!({ "resources": { "cpu": 1 }, "width": 2, "duration": 60 }));
    let mut scarce = with_places(&[4_000; 4], &[1, 0, 4, 3]);
    let offer = |prices: &Prices| prices.offer(&asked, NOW, &BTreeSet::new());
    let first = offer(&scarce).unwrap();
    assert_eq!(first.offer.start, NOW + 120);
    assert_eq!(first.offer.price, offer(&prices(&[4_000; 4])).unwrap().offer.price);
    assert!(scarce.take(&asked, &first));
    let second = offer(&scarce).unwrap();
    assert_eq!(second.offer.start, NOW + 120, "two of four places are left");
    assert!(scarce.take(&asked, &second));
    let third = offer(&scarce).unwrap();
    assert!(third.offer.start == NOW + 180 && scarce.take(&asked, &third));
    assert!(matches!(offer(&scarce), Err(NoPrice::Refused(Refusal::Full { .. }))));
    scarce.give_back(&asked, &first.offer, 2);
    assert_eq!(offer(&scarce).unwrap(), first);
    // More units than there are places, although there are processors enough.
    let wide = document(&json!({ "resources": { "cpu": 0.1 }, "width": 5, "duration": 60 }));
    let refused = scarce.offer(&wide, NOW, &BTreeSet::new());
    assert!(matches!(refused, Err(NoPrice::Refused(Refusal::TooWide { .. }))), "{refused:?}");
    let two = document(&json!({ "resources": { "cpu": 1, "tasks": 2 }, "width": 2, "duration": 60 }));
    let twice = with_places(&[4_000; 4], &[3, 4, 4, 4]).offer(&two, NOW, &BTreeSet::new()).unwrap();
    assert_eq!(twice.offer.start, NOW + 60, "units that ask for places have as many as they ask for");
}

#[test]
fn the_cheapest_width_is_offered_and_of_equals_the_earliest_end() {
    // Work of six slots: at a price of a unit throughout, only what rounding adds makes a width dearer.
    let asked = document(&json!({ "duration": null, "work": 360, "width": "1..2" }));
    let offer = |free: &[u64]| prices(free).offer(&asked, NOW, &BTreeSet::new()).unwrap().offer;
    let whole = offer(&[4_000; 6]);
    assert_eq!((whole.width, whole.start, whole.end), (1, NOW, NOW + 360));
    let short = offer(&[2_000, 4_000, 4_000, 4_000, 0, 0]);
    assert_eq!((short.width, short.start, short.end), (2, NOW + 60, NOW + 240));
    assert_eq!(short.price, whole.price);
    let tight = document(&json!({ "duration": null, "work": 360, "width": "1..2", "by": "200s" }));
    assert_eq!(prices(&[4_000; 6]).offer(&tight, NOW, &BTreeSet::new()).unwrap().offer.width, 2);
}

#[test]
fn a_unit_costs_what_it_takes_away() {
    let hour = |resource: &str, amount: u64, width: u64| {
        let mut asked = document(&json!({ "duration": 3_600 }));
        asked.resources = [(resource.to_owned(), amount)].into();
        asked.width = width;
        with_places(&[4_000; 60], &[256; 60]).offer(&asked, NOW, &BTreeSet::new()).unwrap().offer.price
    };
    let micros = Money::microcredits;
    // The node costs four credits an hour.
    assert_eq!(hour("cpu", 2_000, 1), micros(2_000_000));
    assert_eq!(hour("tasks", 255, 1), micros(3_984_375));
    assert_eq!(hour("cpu", 1, 255), micros(3_984_375));
    assert_eq!(hour("cpu", 1, 1), micros(15_625));
    assert_eq!(hour("cpu", 16, 1), micros(16_000));
}

proptest! {
    /// The price is rate times amount times time, of all resources together, rounded up once.
    #[test]
    fn a_total_is_the_exact_sum_rounded_once(
        slot in 1..=3_600_u64, slots in 1..50_u64, width in 1..20_u64,
        cpu in (0..100_000_u64, 0..5_000_000_u64), memory in (0..1_000_000_u64, 0..5_000_000_u64),
        disk in (0..1_000_u64, 0..5_000_000_u64),
    ) {
        // The units of an amount that an hour is priced for.
        let goods = [("cpu", cpu, 1, 1_000), ("memory", memory, 1 << 20, 1_024), ("disk", disk, 1, 1)];
        prop_assume!(goods.iter().any(|(_, (amount, _), ..)| *amount > 0));
        let floors = goods.iter().map(|(name, (_, price), ..)| ((*name).to_owned(), Money::microcredits(*price)));
        let settings = Settings { slot, horizon: slots, floors: floors.collect(), ..Settings::default() };
        let all = |(name, (amount, _), unit, _): &(&str, (u64, u64), u64, u64)| ((*name).to_owned(), amount * unit * width);
        let capacity: BTreeMap<String, u64> = goods.iter().map(all).collect();
        let free = capacity.iter().map(|(name, amount)| (name.clone(), vec![*amount; slots as usize])).collect();
        let class =
            ClassTimeline { class: DEFAULT_CLASS.to_owned(), nodes: 1, capacity, free, promised: BTreeMap::new() };
        let timeline = CapacityTimeline { revision: 7, step: slot, classes: vec![class], ..CapacityTimeline::default() };
        let prices = Prices::new(&Arc::new(settings), &timeline, &Arc::default()).unwrap();
        let of_unit = goods.iter().map(|(name, (amount, _), unit, _)| ((*name).to_owned(), amount * unit));
        let mut asked = Document::default();
        asked.resources = of_unit.filter(|(_, amount)| *amount > 0).collect();
        (asked.width, asked.duration) = (width, slot * slots);
        let price = prices.offer(&asked, 0, &BTreeSet::new()).unwrap().offer.price;
        // As a fraction: of a microcredit the denominator is an hour of the least common multiple of a thousand and 1,024.
        let denominator = 3_600 * 128_000_u128;
        let sum: u128 = goods.iter().map(|(_, (amount, price), _, units)| {
            u128::from(*amount) * u128::from(*price) * u128::from(slot * slots * width) * u128::from(128_000 / units)
        }).sum();
        prop_assert_eq!(u128::from(price.as_microcredits()), sum.div_ceil(denominator));
    }
}

//! The prices of all classes of nodes, as they follow from the ledger's timeline. Pure: the timeline and the instant come in.
//!
//! Time is in slots here, numbered from 1970 on. A request costs what all of its units cost together; that each unit finds a
//! node of its own is up to the ledger.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use estimand_api::promise::{CapacityTimeline, ClassTimeline, DEFAULT_CLASS};
use estimand_api::resources::PLACES;
use estimand_capacity::{Amounts, Resource};
use estimand_client::TimelineQuery;
use estimand_reservations::{ElasticRequest, Money, Pricing, Quote, Refusal, Request, Terms, TermsError};

use crate::document::Document;
use crate::predictions::{Good, Goods, Predictions};
use crate::reservation::Offer;
use crate::settings::Settings;

/// The prices for one revision of the ledger.
#[derive(Clone)]
pub struct Prices {
    settings: Arc<Settings>,
    pub revision: u64,
    /// The first slot that has prices.
    first: u64,
    pub predictions: Arc<Predictions>,
    classes: BTreeMap<String, Pricing>,
}

/// Why there is no price.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NoPrice {
    /// No node is of this class; these are there.
    Class {
        class: String,
        known: Vec<String>,
    },
    Resource(String),
    /// Its window begins before now, in seconds since 1970.
    Past {
        now: u64,
    },
    Refused(Refusal),
}

/// A request that would do, with its number of units.
type Form = (u64, Request);

/// A start with its price.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Priced {
    pub quote: Quote,
    pub offer: Offer,
}

/// The part of the timeline that prices are made of.
pub fn query(settings: &Settings, now: u64) -> TimelineQuery {
    let first = settings.slot_from(now);
    TimelineQuery {
        class: None,
        from: Some(settings.instant(first)),
        until: settings.instant(first.saturating_add(settings.horizon)),
        step: settings.slot,
    }
}

impl Prices {
    pub fn new(
        settings: &Arc<Settings>,
        timeline: &CapacityTimeline,
        predictions: &Arc<Predictions>,
    ) -> Result<Prices, TermsError> {
        let first = settings.slot_of(timeline.from);
        let classes = timeline
            .classes
            .iter()
            .map(|class| Ok((class.class.clone(), pricing(settings, first, class, predictions)?)));
        Ok(Prices {
            settings: Arc::clone(settings),
            revision: timeline.revision,
            first,
            predictions: Arc::clone(predictions),
            classes: classes.collect::<Result<_, TermsError>>()?,
        })
    }

    /// A slot that has a price has begun since.
    pub fn is_past(&self, now: u64) -> bool {
        self.settings.slot_from(now) > self.first
    }

    /// The cheapest start at which there may be room, and the number of units. `without` are starts at which there is none for
    /// so many units.
    pub fn offer(
        &self,
        document: &Document,
        now: u64,
        without: &BTreeSet<(u64, u64)>,
    ) -> Result<Priced, NoPrice> {
        let (pricing, forms) = self.forms(document, now)?;
        let is_full = |width: u64, start: u64| !without.is_empty() && without.contains(&(width, start));
        let (width, quote) = pricing.quote_forms(forms, is_full).map_err(NoPrice::Refused)?;
        Ok(self.priced(width, quote))
    }

    /// The price of each start, in seconds since 1970; none where too little is free.
    pub fn curve(&self, document: &Document, now: u64) -> Result<Vec<(u64, Option<Money>)>, NoPrice> {
        let (pricing, forms) = self.forms(document, now)?;
        let (_, request) = &forms[0];
        let curve = pricing.curve(request).map_err(NoPrice::Refused)?;
        Ok(curve.into_iter().map(|(start, cost)| (self.settings.instant(start), cost)).collect())
    }

    /// Counts what was quoted as promised; false if it is not free any more.
    pub fn take(&mut self, document: &Document, priced: &Priced) -> bool {
        self.classes.get_mut(class(document)).is_some_and(|pricing| pricing.promise(&priced.quote))
    }

    /// Counts what was promised as free again.
    pub fn give_back(&mut self, document: &Document, offer: &Offer, width: u64) {
        let (start, end) = (self.settings.slot_of(offer.start), self.settings.slot_of(offer.end));
        if let Some(pricing) = self.classes.get_mut(class(document)) {
            let Ok(amounts) = amounts(pricing, document, width) else { return };
            let request = Request { amounts, length: end - start, from: start, deadline: end };
            pricing.release(&Quote { request, start, cost: Money::ZERO });
        }
    }

    fn priced(&self, width: u64, quote: Quote) -> Priced {
        let (start, end) = (self.settings.instant(quote.start), self.settings.instant(quote.end()));
        Priced { offer: Offer { price: quote.cost, start, end, width }, quote }
    }

    /// The requests of which one will do, each with its number of units; there is at least one.
    fn forms(&self, document: &Document, now: u64) -> Result<(&Pricing, Vec<Form>), NoPrice> {
        let class = class(document);
        let unknown =
            || NoPrice::Class { class: class.to_owned(), known: self.classes.keys().cloned().collect() };
        let pricing = self.classes.get(class).ok_or_else(unknown)?;
        // A caller's clock may be behind by a little.
        if document.from.is_some_and(|from| from.saturating_add(self.settings.slot) < now) {
            return Err(NoPrice::Past { now });
        }
        let from = document.from.unwrap_or(now).max(now);
        let by = document.by.map_or(pricing.end(), |by| self.settings.slot_of(by));
        let (from, deadline) = (self.settings.slot_from(from).max(pricing.now()), by);
        let forms = match document.work {
            None => {
                let (amounts, length) = (amounts(pricing, document, document.width)?, document.duration);
                let length = self.settings.slot_from(length);
                vec![(document.width, Request { amounts, length, from, deadline })]
            }
            Some(work) => {
                let work = self.settings.slot_from(work);
                let workers = document.width..=document.widest.unwrap_or(document.width);
                let amounts = amounts(pricing, document, 1)?;
                let elastic = ElasticRequest { amounts, workers, work, from, deadline };
                elastic.requests().collect()
            }
        };
        Ok((pricing, forms))
    }
}

/// The amounts of so many units. Each has a place for a task, as the ledger counts it, where nodes have places.
fn amounts(pricing: &Pricing, document: &Document, width: u64) -> Result<Amounts, NoPrice> {
    let parse = |name: &str| Resource::parse(name).map_err(|error| NoPrice::Resource(error.to_string()));
    let mut amounts = BTreeMap::new();
    for (name, amount) in &document.resources {
        amounts.insert(parse(name)?, amount.div_ceil(Settings::unit(name)).saturating_mul(width));
    }
    let places = parse(PLACES)?;
    if pricing.sells(&places) {
        let all: &mut u64 = amounts.entry(places).or_default();
        *all = width.max(*all);
    }
    Ok(Amounts::from(amounts))
}

fn class(document: &Document) -> &str {
    document.class.as_deref().unwrap_or(DEFAULT_CLASS)
}

fn pricing(
    settings: &Settings,
    first: u64,
    timeline: &ClassTimeline,
    predictions: &Predictions,
) -> Result<Pricing, TermsError> {
    let mut pricing = Pricing::new(first, settings.horizon)?;
    for (name, capacity) in &timeline.capacity {
        let Ok(resource) = Resource::parse(name) else { continue };
        let (unit, good, terms) =
            (Settings::unit(name), good(timeline, name), terms(settings, name, *capacity));
        pricing.add(resource.clone(), terms, predictions.of(&good, &terms))?;
        let free = timeline.free.get(name).map(Vec::as_slice).unwrap_or_default();
        let used = free.iter().map(|free| terms.capacity.saturating_sub(free / unit));
        for (start, length, amount) in runs(used) {
            let request = Request {
                amounts: [(resource.clone(), amount)].into_iter().collect(),
                length,
                from: first + start,
                deadline: first + start + length,
            };
            pricing.promise(&Quote { request, start: first + start, cost: Money::ZERO });
        }
    }
    Ok(pricing)
}

/// All that a timeline has.
pub fn goods(settings: &Settings, timeline: &CapacityTimeline) -> Goods {
    let of_class = |class: &ClassTimeline| {
        let terms = |(name, capacity): (&String, &u64)| (good(class, name), terms(settings, name, *capacity));
        class.capacity.iter().map(terms).collect::<Vec<_>>()
    };
    timeline.classes.iter().flat_map(of_class).collect()
}

fn good(timeline: &ClassTimeline, resource: &str) -> Good {
    Good { class: timeline.class.clone(), resource: resource.to_owned() }
}

fn terms(settings: &Settings, resource: &str, capacity: u64) -> Terms {
    let (floor, ceiling) = settings.bounds(resource);
    Terms { capacity: capacity / Settings::unit(resource), floor, ceiling }
}

/// Ticks in a row with the same amount that is not 0: their first one, their number, and the amount.
fn runs(amounts: impl Iterator<Item = u64>) -> Vec<(u64, u64, u64)> {
    let mut runs: Vec<(u64, u64, u64)> = Vec::new();
    for (place, amount) in (0_u64..).zip(amounts) {
        match runs.last_mut() {
            Some((start, length, last)) if *last == amount && *start + *length == place => *length += 1,
            _ if amount > 0 => runs.push((place, 1, amount)),
            _ => {}
        }
    }
    runs
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
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
        let timeline = CapacityTimeline { revision: 7, now: NOW, from: NOW, step: 60, classes: vec![class] };
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
        // 100 s are two slots; of two processors and two slots each unit costs the floor.
        assert_eq!(
            offer,
            Offer { price: Money::microcredits(2_000 * 2 * 17), start: NOW + 180, end: NOW + 300, width: 1 }
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
        let tight = refused(json!({ "by": "100s" }));
        let Priced { offer, .. } = prices.offer(&document(&json!({})), NOW, &BTreeSet::new()).unwrap();
        assert_eq!(offer.end, NOW + 120);
        let NoPrice::Refused(Refusal::TooTight { earliest, .. }) = tight else { panic!("{tight:?}") };
        assert_eq!(earliest, Some((NOW + 120) / 60));
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
    fn a_start_without_a_place_for_each_unit_is_not_offered_and_a_place_costs_nothing() {
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
}
